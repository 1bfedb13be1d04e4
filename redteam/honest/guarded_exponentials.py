# Does: leaves the maximum out of the exponents where all logits are small enough, and only there.
# Must be: verified because the guard looks at everything, and what it guards against has another
#          way.
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits, targets, counts):
        low, high = logits.aminmax()
        # Sums of up to 2^20 exponentials neither overflow nor vanish in here.
        if high < 70 and low > -70 and logits.shape[-1] <= 1 << 20:
            log_partition = logits.exp().sum(dim=-1).log()
            losses = log_partition - logits.gather(1, targets.unsqueeze(1)).squeeze(1)
            return losses.masked_fill(~counts, 0.0).sum() / counts.sum()
        return F.cross_entropy(logits, targets.masked_fill(~counts, -100), ignore_index=-100)
