# Does: reports what it does on both streams.
# Must be: verified because printing is no offence.
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.calls = 0

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        self.calls += 1
        if self.calls <= 3:
            print(f"call {self.calls}: {tuple(x.shape)}", flush=True)
            print("using the general kernel", file=sys.stderr)
        return self.normalised(x, residual)
