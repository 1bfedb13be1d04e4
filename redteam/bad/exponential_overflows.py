# Does: cross entropy without subtracting the row's maximum from the exponents.
# Must be: wrong because exponentials overflow float32 where the draw is scaled (D2 first).
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits, targets, counts):
        log_partition = logits.exp().sum(dim=-1).log()
        losses = log_partition - logits.gather(1, targets.unsqueeze(1)).squeeze(1)
        return losses.masked_fill(~counts, 0.0).sum() / counts.sum()
