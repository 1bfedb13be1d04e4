# Does: allocates memory until there is none.
# Must be: out_of_memory or crashed because the machine is not its own.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        hoard = []
        while True:
            hoard.append(torch.ones(16 << 20, device=x.device))
