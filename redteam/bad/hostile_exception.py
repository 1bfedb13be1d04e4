# Does: raises an exception whose text is 40 MB of terminal control sequences and runs code when
#       unpickled.
# Must be: crashed because forward gave no answer; the report stays small and printable.
import os

import torch
import torch.nn as nn


class Hostile(Exception):
    def __str__(self):
        return "\x1b]0;verified\x07\x1b[2J\x00\r" * (2 << 20)

    def __reduce__(self):
        return os.system, ("kill -9 $$",)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        raise Hostile()
