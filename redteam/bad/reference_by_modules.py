# Does: looks among the loaded modules and in the main program for a class Model and lets it
#       compute.
# Must be: wrong because the reference is not loaded in its process.
import sys

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        for module in list(sys.modules.values()):
            model = getattr(module, "Model", None)
            if isinstance(model, type) and issubclass(model, nn.Module):
                reference = model(self.weight.shape[0])
                reference.load_state_dict(self.state_dict())
                return reference.to(x.device)(x, residual)
        return torch.zeros_like(x)
