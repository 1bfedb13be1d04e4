# Does: clips inputs at twelve standard deviations, further out than a normal draw ever reaches.
# Must be: wrong because one element in a thousand may be large (E3).
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.logit = nn.Parameter(torch.randn(channels) + 1.0)

    def forward(self, x):
        spread, mean = torch.std_mean(x)
        x = torch.minimum(torch.maximum(x, mean - 12 * spread), mean + 12 * spread)
        decay = torch.sigmoid(self.logit)
        state = torch.zeros_like(x[:, 0])
        states = []
        for step in range(x.shape[1]):
            state = decay * state + (1 - decay) * x[:, step]
            states.append(state)
        return torch.stack(states, dim=1)
