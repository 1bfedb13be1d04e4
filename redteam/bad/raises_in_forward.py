# Does: raises an exception in forward.
# Must be: crashed because forward gave no answer.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        raise RuntimeError("no kernel for this shape")
