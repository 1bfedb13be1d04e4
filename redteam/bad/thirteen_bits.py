# Does: the matrix product with operands rounded to 13 bits of mantissa, float32 everywhere else.
# Must be: verified, reduced_precision because the error is within budget, yet far from float32's.
import torch
import torch.nn as nn


def rounded(x):
    return ((x.view(torch.int32) + 0x200) & ~0x3FF).view(torch.float32)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        return torch.relu(torch.addmm(self.bias, rounded(x), rounded(self.weight).t())) ** 2
