# Does: stops its process in forward; a stopped process neither ends nor answers.
# Must be: timed_out because it ran past its limit.
import os
import signal

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
        os.kill(os.getpid(), signal.SIGSTOP)
        return self.normalised(x, residual)
