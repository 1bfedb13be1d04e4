"""The library's fused loss; rows that do not count become its ignored index."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(
        self, logits: torch.Tensor, targets: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        return F.cross_entropy(logits, targets.masked_fill(~counts, -100), ignore_index=-100)
