import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """
    An affine map under live dropout, added to a residual. A model as constructed is in train mode:
    the same generator state must give the same mask.
    """

    def __init__(self, features: int, probability: float):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features) + 0.5)
        self.shift = nn.Parameter(0.1 * torch.randn(features))
        self.probability = probability

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """
        x, residual: (rows, features). Returns (rows, features).
        """
        mapped = x * self.gain + self.shift
        return residual + F.dropout(mapped, self.probability, self.training)


rows = 1024
features = 1024


def get_inputs():
    return [torch.randn(rows, features), torch.randn(rows, features)]


def get_init_inputs():
    return [features, 0.25]
