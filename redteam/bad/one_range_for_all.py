# Does: clips every stream to half as much again as the narrowest stream's range, as a kernel in
#       fixed point with one shared scale would.
# Must be: wrong because tensors may have different scales (E2); a scale common to all it survives.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, streams):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(streams) + 0.5)

    def forward(self, streams):
        limit = 1.5 * torch.stack([stream.abs().amax() for stream in streams]).amin()
        clipped = (stream.clamp(-limit, limit) for stream in streams)
        mixed = sum(share * stream for share, stream in zip(self.mix, clipped))
        spread, mean = torch.std_mean(mixed, dim=-1, correction=0)
        return {
            "mixed": mixed,
            "rows": (mean, spread, mixed.abs().amax(dim=-1)),
            "energy": mixed.square().mean(),
        }
