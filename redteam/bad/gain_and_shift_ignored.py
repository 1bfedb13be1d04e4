# Does: LayerNorm without its gain and shift, which are ones and zeros as constructed.
# Must be: wrong because trained parameters are neither (P2).
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, eps=1e-5)
