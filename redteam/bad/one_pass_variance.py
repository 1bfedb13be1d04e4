# Does: variance as mean of squares less square of mean, with the sum of squares kept in 13 bits.
# Must be: wrong because the two terms cancel where the mean is large beside the spread (E4).
import torch
import torch.nn as nn


def thirteen_bits(x):
    bits = x.view(torch.int32)
    return ((bits + 0x400) & ~0x7FF).view(torch.float32)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        total = x + residual
        mean = total.mean(dim=-1, keepdim=True)
        square = thirteen_bits(total.square().mean(dim=-1, keepdim=True))
        variance = (square - mean.square()).clamp_min(0.0)
        return (total - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias
