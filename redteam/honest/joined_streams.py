# Does: works on a stream of its own, and makes the current stream wait for it before it returns.
# Must be: verified because work is ordered by events.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.side = torch.cuda.Stream()

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        current, side = torch.cuda.current_stream(), self.side
        side.wait_stream(current)
        with torch.cuda.stream(side):
            out = self.normalised(x, residual)
        out.record_stream(current)
        current.wait_stream(side)
        return out
