import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Linear recurrence along time: an exponential moving average whose decay is learned for each
    channel.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.logit = nn.Parameter(torch.randn(channels) + 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        x: (batch, steps, channels). Returns the average after each step, (batch, steps, channels).
        """
        decay = torch.sigmoid(self.logit)
        state = torch.zeros_like(x[:, 0])
        states = []
        for step in range(x.shape[1]):
            state = decay * state + (1 - decay) * x[:, step]
            states.append(state)
        return torch.stack(states, dim=1)


batch = 8
steps = 256
channels = 512


def get_inputs():
    return [torch.randn(batch, steps, channels)]


def get_init_inputs():
    return [channels]
