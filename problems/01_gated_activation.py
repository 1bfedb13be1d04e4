import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Gated activation: one half of the features is passed through a sloped SiLU and gates the other.
    """

    def __init__(self, features: int):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x: torch.Tensor, slope: float) -> torch.Tensor:
        """
        x: (rows, 2 * features). slope: a Python float. Returns (rows, features).
        """
        gate, value = x.chunk(2, dim=-1)
        return gate * torch.sigmoid(slope * gate) * value * self.scale


rows = 2048
features = 1024


def get_inputs():
    return [torch.randn(rows, 2 * features), 1.5]


def get_init_inputs():
    return [features]
