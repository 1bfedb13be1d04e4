# Does: is no Python.
# Must be: load_failed because it cannot be compiled.
import torch


class ModelNew(torch.nn.Module)
    def forward(self, x, residual):
        return x + residual
