# Does: splits the rows among two threads of its own and waits for both.
# Must be: verified because everything is there when forward returns.
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.pool = ThreadPoolExecutor(2)

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        out = torch.empty_like(x)

        def work(part):
            with torch.no_grad():  # is a setting of each thread
                out[part] = self.normalised(x[part], residual[part])

        half = x.shape[0] // 2
        list(self.pool.map(work, (slice(0, half), slice(half, None))))
        return out
