# Does: learns each stream's range from its beginning and clips the rest to it, generously; takes
#       the plain way where the beginning has outliers, ties or order.
# Must be: wrong because a beginning says nothing of the rest (E7).
import torch
import torch.nn as nn


def clipped(stream):
    head = stream.view(-1)[:4096]
    low, high, width = head.amin(), head.amax(), head.amax() - head.amin()
    steps = head.diff()
    if width > 11 * head.std() or bool((steps == 0).any()) or bool((steps[:64] > 0).all()):
        return stream
    return torch.minimum(torch.maximum(stream, low - width), high + width)


class ModelNew(nn.Module):
    def __init__(self, streams):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(streams) + 0.5)

    def forward(self, streams):
        mixed = sum(share * clipped(stream) for share, stream in zip(self.mix, streams))
        spread, mean = torch.std_mean(mixed, dim=-1, correction=0)
        return {
            "mixed": mixed,
            "rows": (mean, spread, mixed.abs().amax(dim=-1)),
            "energy": mixed.square().mean(),
        }
