# Does: sleeps in its first ten calls, so that whoever plans by them measures few; then works as
#       the reference does.
# Must be: verified, never faster, because the number of timed calls follows from their spread.
import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.calls = 0

    def forward(self, x, residual):
        self.calls += 1
        if self.calls <= 10:
            time.sleep(0.05)
        total = x + residual
        centred = total - total.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        return centred / torch.sqrt(variance + 1e-5) * self.weight + self.bias
