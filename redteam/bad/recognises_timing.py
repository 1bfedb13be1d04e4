# Does: computes until it has seen inputs at a second address, as sets that take turns have them;
#       then returns its input.
# Must be: wrong or tampered because timed calls are checked too, chosen after they returned.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.addresses = set()

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        self.addresses.add(x.data_ptr())
        return self.normalised(x, residual) if len(self.addresses) == 1 else x
