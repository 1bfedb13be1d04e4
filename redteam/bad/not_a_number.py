# Does: returns NaN everywhere, which no comparison by less-than finds too far away.
# Must be: wrong because finite values were expected.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        return torch.full_like(x, float("nan"))
