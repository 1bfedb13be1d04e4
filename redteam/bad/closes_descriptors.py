# Does: closes every descriptor it has, then answers rightly.
# Must be: crashed, tampered or timed out because nothing can be heard of it any more.
import os

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
        os.closerange(0, 65536)
        return self.normalised(x, residual)
