import torch
import torch.nn as nn


class Model(nn.Module):
    """
    A GRU layer that remembers: the hidden state is a plain attribute, neither parameter nor
    buffer, and every call goes on from where the last one ended.
    """

    def __init__(self, inputs: int, hidden: int, batch: int):
        super().__init__()
        bound = hidden**-0.5
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden, inputs).uniform_(-bound, bound))
        self.weight_hh = nn.Parameter(torch.empty(3 * hidden, hidden).uniform_(-bound, bound))
        self.bias_ih = nn.Parameter(torch.empty(3 * hidden).uniform_(-bound, bound))
        self.bias_hh = nn.Parameter(torch.empty(3 * hidden).uniform_(-bound, bound))
        self.state = torch.randn(batch, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        x: (steps, batch, inputs). Returns the state after each step, (steps, batch, hidden).
        """
        state = self.state.to(device=x.device, dtype=x.dtype)
        states = []
        for step in range(x.shape[0]):
            from_input = torch.matmul(x[step], self.weight_ih.t()) + self.bias_ih
            from_state = torch.matmul(state, self.weight_hh.t()) + self.bias_hh
            reset_input, update_input, new_input = from_input.chunk(3, dim=-1)
            reset_state, update_state, new_state = from_state.chunk(3, dim=-1)
            reset = torch.sigmoid(reset_input + reset_state)
            update = torch.sigmoid(update_input + update_state)
            new = torch.tanh(new_input + reset * new_state)
            state = (1 - update) * new + update * state
            states.append(state)
        self.state = state
        return torch.stack(states)


steps = 32
batch = 32
inputs = 128
hidden = 192


def get_inputs():
    return [torch.randn(steps, batch, inputs)]


def get_init_inputs():
    return [inputs, hidden, batch]
