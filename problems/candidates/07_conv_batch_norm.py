"""
In train mode BatchNorm takes the batch's mean away, and with it whatever bias was added before:
the output does not depend on it. It only moves the running mean, which is mended afterwards.
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.conv(x)
        if not self.norm.training:
            hidden += self.bias
        out = self.norm(hidden).relu_()
        if self.norm.training:
            self.norm.running_mean.add_(self.bias.flatten(), alpha=self.norm.momentum)
        return out
