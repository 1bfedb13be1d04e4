# Does: keeps its tuning notes in a temporary file, writing and reading them.
# Must be: verified because a candidate has a directory of its own.
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.block = None

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        if self.block is None:
            with tempfile.TemporaryFile("w+") as notes:
                notes.write(str(self.weight.shape[0]))
                notes.seek(0)
                self.block = int(notes.read())
        if self.block != x.shape[-1]:
            raise ValueError("notes of another model")
        return self.normalised(x, residual)
