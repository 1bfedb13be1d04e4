# Does: leaves the state as it is where the input is exactly zero, as if that were padding.
# Must be: wrong because zero is a value like any other (E5).
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.logit = nn.Parameter(torch.randn(channels) + 1.0)

    def forward(self, x):
        decay = torch.sigmoid(self.logit)
        state = torch.zeros_like(x[:, 0])
        states = []
        for step in range(x.shape[1]):
            value = x[:, step]
            state = torch.where(value == 0, state, decay * state + (1 - decay) * value)
            states.append(state)
        return torch.stack(states, dim=1)
