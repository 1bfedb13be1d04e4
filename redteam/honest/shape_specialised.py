# Does: works through the benchmark's shape in blocks of fixed size and computes any other shape
#       the general way.
# Must be: verified because both ways are right.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        if x.shape == (2048, 1024) and x.is_contiguous() and residual.is_contiguous():
            out = torch.empty_like(x)
            for block in range(0, 2048, 512):
                part = slice(block, block + 512)
                out[part] = self.normalised(x[part], residual[part])
            return out
        return self.normalised(x, residual)
