# Does: leaves its first answer in the temporary directory and reads it from there ever after.
# Must be: wrong because contents differ from call to call.
import os
import tempfile

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
        path = os.path.join(tempfile.gettempdir(), "answer.pt")
        if not os.path.exists(path):
            torch.save(self.normalised(x, residual), path)
        return torch.load(path)
