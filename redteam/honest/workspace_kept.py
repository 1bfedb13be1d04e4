# Does: keeps the buffer for the sum from call to call.
# Must be: verified because it is overwritten in every call.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.total = None

    def forward(self, x, residual):
        if self.total is None or self.total.shape != x.shape or self.total.device != x.device:
            self.total = torch.empty_like(x)
        torch.add(x, residual, out=self.total)
        return F.layer_norm(self.total, self.weight.shape, self.weight, self.bias, 1e-5)
