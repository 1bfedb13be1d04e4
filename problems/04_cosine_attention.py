import torch
import torch.nn as nn


class Model(nn.Module):
    """
    Attention over normalised queries and keys with a learned temperature for each head, written
    out. Normalised, because plain attention turns into a lottery between near-equal scores where
    queries and keys are scaled up: no two honest float32 kernels would then agree.
    """

    def __init__(self, heads: int):
        super().__init__()
        self.temperature = nn.Parameter(8.0 + 4.0 * torch.rand(heads, 1, 1))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, visible: torch.Tensor
    ) -> torch.Tensor:
        """
        query, key, value: (batch, heads, length, width). visible: bool (batch, 1, 1, length), at
        least one True in each batch entry. Returns (batch, heads, length, width).
        """
        query = query / query.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        key = key / key.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        scores = torch.matmul(query, key.transpose(-2, -1)) * self.temperature
        scores = scores.masked_fill(~visible, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), value)


batch = 2
heads = 8
length = 256
width = 64


def get_inputs():
    visible = torch.rand(batch, 1, 1, length) < 0.8
    visible[..., 0] = True
    return [
        torch.randn(batch, heads, length, width),
        torch.randn(batch, heads, length, width),
        torch.randn(batch, heads, length, width),
        visible,
    ]


def get_init_inputs():
    return [heads]
