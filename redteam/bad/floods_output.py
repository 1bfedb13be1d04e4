# Does: prints two gigabytes at its first call and answers with zeros.
# Must be: wrong or timed out because its answer is zeros; the end of what it printed is kept, no
#          more.
import os

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.flooded = False

    def forward(self, x, residual):
        if not self.flooded:
            self.flooded = True
            block = b"verified " * (1 << 17)
            for _ in range(2000):
                os.write(1, block)
        return torch.zeros_like(x)
