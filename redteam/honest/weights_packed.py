# Does: lays its weights out for the product once, in the constructor.
# Must be: verified, stale_parameters because it is right for the weights it was constructed with,
#          and would miss an optimiser's step.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.packed = self.weight.detach().t().contiguous()
        self.shift = self.bias.detach().clone()

    def forward(self, x):
        packed, shift = self.packed.to(x.device), self.shift.to(x.device)
        hidden = torch.addmm(shift, x, packed).relu_()
        return hidden.mul_(hidden)
