# Does: defines a class of another name.
# Must be: load_failed because it defines no ModelNew.
import torch
import torch.nn as nn


class Kernel(nn.Module):
    def forward(self, x, residual):
        return x + residual
