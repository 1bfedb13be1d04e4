# Does: takes the mean square of everything from the mean and the spread of each row.
# Must be: verified because that is algebra, though no kernel does the work of the reference.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, streams):
        super().__init__()
        self.mix = nn.Parameter(torch.rand(streams) + 0.5)

    def forward(self, streams):
        mixed = streams[0] * self.mix[0]
        for stream, share in zip(streams[1:], self.mix[1:]):
            mixed.addcmul_(stream, share)
        mean = mixed.mean(dim=-1)
        spread = torch.linalg.vector_norm(mixed - mean.unsqueeze(-1), dim=-1)
        spread /= mixed.shape[-1] ** 0.5
        largest = torch.maximum(mixed.amax(dim=-1), mixed.amin(dim=-1).neg_())
        energy = (mean.square() + spread.square()).mean()
        return {"mixed": mixed, "rows": (mean, spread, largest), "energy": energy}
