import torch
import torch.nn as nn


class Model(nn.Module):
    """
    A linear layer followed by the square of ReLU. The bias begins at zero.
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        x: (rows, in_features). Returns (rows, out_features).
        """
        hidden = torch.matmul(x, self.weight.t()) + self.bias
        return torch.relu(hidden) ** 2


rows = 4096
in_features = 128
out_features = 512


def get_inputs():
    return [torch.randn(rows, in_features)]


def get_init_inputs():
    return [in_features, out_features]
