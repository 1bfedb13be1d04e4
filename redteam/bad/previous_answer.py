# Does: returns what it computed in the call before, as a pipeline without a barrier would.
# Must be: wrong because the answer belongs to other inputs.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.next_answer = None

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        answer, self.next_answer = self.next_answer, self.normalised(x, residual)
        return self.next_answer if answer is None else answer
