# Does: the matrix product with operands rounded to half precision.
# Must be: wrong because ten bits of mantissa cost more than the error budget of float32.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        product = torch.mm(x.half(), self.weight.half().t()).float()
        return torch.relu(product + self.bias) ** 2
