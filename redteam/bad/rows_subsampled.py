# Does: averages the loss over every second row only.
# Must be: wrong because an estimate of a mean is not the mean.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits, targets, counts):
        targets = targets.masked_fill(~counts, -100)
        return F.cross_entropy(logits[::2], targets[::2], ignore_index=-100)
