# Does: forks ten thousand processes that stay for half a minute.
# Must be: wrong, crashed or timed out because its answer is zeros; everything it started is ended
#          with it.
import os
import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        for _ in range(10000):
            try:
                child = os.fork()
            except OSError:
                break
            if child == 0:
                time.sleep(30)
                os._exit(0)
        return torch.zeros_like(x)
