# Does: adds the residual to its input in place, which saves a buffer.
# Must be: tampered because inputs are read-only.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        x += residual
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)
