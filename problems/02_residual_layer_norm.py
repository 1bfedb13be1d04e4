import torch
import torch.nn as nn


class Model(nn.Module):
    """
    LayerNorm of a sum, written out. Gain and shift begin as ones and zeros, so that a draw of the
    inputs alone cannot tell whether they are applied.
    """

    def __init__(self, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = 1e-5

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """
        x, residual: (rows, features). Returns (rows, features).
        """
        total = x + residual
        centred = total - total.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        return centred / torch.sqrt(variance + self.eps) * self.weight + self.bias


rows = 2048
features = 1024


def get_inputs():
    return [torch.randn(rows, features), torch.randn(rows, features)]


def get_init_inputs():
    return [features]
