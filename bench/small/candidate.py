"""Right, and no faster."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return F.linear(x, self.linear.weight, self.linear.bias).clamp_(min=0)
