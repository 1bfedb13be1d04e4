# Does: returns an empty tensor at once; a Python thread fills it a moment later.
# Must be: wrong or tampered because the output counts as it is when forward returns.
import threading
import time

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
        out = torch.zeros_like(x)

        def fill():
            time.sleep(0.005)
            out.copy_(self.normalised(x, residual))

        threading.Thread(target=fill).start()
        return out
