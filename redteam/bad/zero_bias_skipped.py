# Does: leaves the bias out of a linear layer, because it is zero as constructed.
# Must be: wrong because a trained bias is not zero (P2).
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        return torch.mm(x, self.weight.t()).relu_().square_()
