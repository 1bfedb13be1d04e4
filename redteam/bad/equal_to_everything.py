# Does: returns an object that says it is equal to whatever it is compared with.
# Must be: tampered or wrong because it is no tensor.
import torch
import torch.nn as nn


class Agreeable:
    def __init__(self, shape, dtype, device):
        self.shape, self.dtype, self.device = shape, dtype, device

    def __eq__(self, other):
        return True

    def __getattr__(self, name):
        return lambda *args, **kwargs: self

    def __bool__(self):
        return True

    __sub__ = __rsub__ = __abs__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, *other: self


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        return Agreeable(x.shape, x.dtype, x.device)
