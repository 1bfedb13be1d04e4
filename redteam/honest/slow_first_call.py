# Does: prepares for a third of a second at the first call of each shape, as a compiler at run time
#       would.
# Must be: verified because what is prepared once is no part of a call's time.
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.prepared = set()

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        if x.shape not in self.prepared:
            time.sleep(0.3)
            self.prepared.add(x.shape)
        return self.normalised(x, residual)
