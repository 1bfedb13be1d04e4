# Does: launches its work on a stream of its own and returns without waiting for it.
# Must be: verified, never faster, because a call ends when the whole device has finished.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.alive = ()

    def forward(self, x, residual):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total = x + residual
            centred = total - total.mean(dim=-1, keepdim=True)
            variance = centred.square().mean(dim=-1, keepdim=True)
            out = centred / torch.sqrt(variance + 1e-5) * self.weight + self.bias
        self.alive = (total, centred, variance, out)  # until the next call
        return out
