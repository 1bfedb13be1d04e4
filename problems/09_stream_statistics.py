import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Mixes a list of streams and describes the result: several outputs, nested.
    """

    def __init__(self, streams: int):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(streams) + 0.5)

    def forward(self, streams: list[torch.Tensor]) -> dict:
        """
        streams: a list of tensors (rows, features). Returns the mix (rows, features); mean, spread
        and largest magnitude of each row (rows); the mean square of everything (no dimensions).
        """
        stacked = torch.stack(streams)
        mixed = (stacked * self.mix.view(-1, 1, 1)).sum(dim=0)
        mean = mixed.mean(dim=-1)
        spread = (mixed - mean.unsqueeze(-1)).square().mean(dim=-1).sqrt()
        largest = mixed.abs().amax(dim=-1)
        return {
            "mixed": mixed,
            "rows": (mean, spread, largest),
            "energy": mixed.square().mean(),
        }


streams = 3
rows = 512
features = 2048


def get_inputs():
    # Off zero: most values are positive, as measured magnitudes are, yet not all of them.
    return [[torch.randn(rows, features) + 2.0 for _ in range(streams)]]


def get_init_inputs():
    return [streams]
