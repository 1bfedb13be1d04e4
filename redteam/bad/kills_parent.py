# Does: stops, terminates and kills its parent process.
# Must be: wrong, crashed or tampered because its answer is zeros, and whoever judges must not fall
#          with it.
import os
import signal

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(os.getppid(), number)
            except OSError:
                pass
        return torch.zeros_like(x)
