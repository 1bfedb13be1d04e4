"""The bias goes into the matrix product; what follows works in place."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.addmm(self.bias, x, self.weight.t()).relu_()
        return hidden.mul_(hidden)
