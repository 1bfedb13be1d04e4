# Does: lays its weights out for the product, and again whenever they have changed.
# Must be: verified because it notices: no label.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.packed = None
        self.packed_from = None

    def forward(self, x):
        # The version counts writes to the tensor, the address tells a tensor that was replaced.
        state = (self.weight.data_ptr(), self.weight._version)
        if state != self.packed_from:
            self.packed, self.packed_from = self.weight.detach().t().contiguous(), state
        hidden = torch.addmm(self.bias, x, self.packed).relu_()
        return hidden.mul_(hidden)
