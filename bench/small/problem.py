"""A problem that costs next to nothing to run: what is left is the judge's own time."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.rand(64, 128)]


def get_init_inputs():
    return [128]
