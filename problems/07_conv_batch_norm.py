import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Convolution with bias, BatchNorm over the batch's own statistics, ReLU. A model as constructed
    is in train mode: the running statistics are updated, but do not reach the output.
    """

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        x: (batch, in_channels, height, width). Returns (batch, out_channels, height, width).
        """
        return torch.relu(self.norm(self.conv(x) + self.bias))


batch = 8
in_channels = 16
out_channels = 32
size = 48


def get_inputs():
    return [torch.randn(batch, in_channels, size, size)]


def get_init_inputs():
    return [in_channels, out_channels]
