# Does: computes with weights that it draws itself from the benchmark's public seed.
# Must be: wrong because parameters come from a secret seed (D1, P1).
import torch
import torch.nn as nn

torch.manual_seed(42)
baked = torch.randn(512, 128) / 128**0.5


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        return torch.relu(torch.addmm(self.bias, x, baked.to(x).t())) ** 2
