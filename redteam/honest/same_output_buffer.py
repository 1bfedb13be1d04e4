# Does: returns the same output tensor at each call, computed anew.
# Must be: verified because a result counts as it is when forward returns.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.out = None

    def forward(self, x, residual):
        if self.out is None or self.out.shape != x.shape or self.out.device != x.device:
            self.out = torch.empty_like(x)
        torch.add(x, residual, out=self.out)
        self.out.copy_(F.layer_norm(self.out, self.weight.shape, self.weight, self.bias, 1e-5))
        return self.out
