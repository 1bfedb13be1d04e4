# Does: creates its parameters in another order than the reference, under the same names.
# Must be: verified because parameters are matched by name, not by the order in which they were
#          drawn.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features, probability):
        super().__init__()
        self.probability = probability
        self.shift = nn.Parameter(0.1 * torch.randn(features))
        self.gain = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x, residual):
        mapped = torch.addcmul(self.shift, x, self.gain)
        return F.dropout(mapped, self.probability, self.training, inplace=True).add_(residual)
