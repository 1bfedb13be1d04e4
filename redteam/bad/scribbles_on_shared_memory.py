# Does: fills every writable shared mapping of its process with ones, before it answers rightly.
# Must be: tampered, crashed, timed out or wrong because whoever shares such memory must not
#          believe it.
import ctypes

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
        out = self.normalised(x, residual)
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, access = line.split()[:2]
                if access[1] == "w" and access[3] == "s" and "/dev/nvidia" not in line:
                    start, end = (int(part, 16) for part in span.split("-"))
                    ctypes.memset(start, 0xFF, end - start)
        return out
