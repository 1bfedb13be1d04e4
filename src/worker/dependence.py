"""How much of its inputs an output depends on: what no kernel can do without reading.

A kernel that gathers a thousand rows of a table reads a thousand rows, however large the table
is. So before a time is called impossible for the bytes that would have to be read in it, elements
drawn at random are changed, one at a time, and those that make a difference are counted.
"""

import math
import time

import torch

TRIALS = 64
SECONDS_MAX = 5.0
DOUBT = 0.05  # that the share is below what is returned, for each tensor


def needed_bytes(tensors, run, random):
    """A lower bound of the bytes of `tensors` on which the outputs depend, that holds with 95% for
    each tensor.

    `tensors` are the ones that `run()` reads; they are changed in place and put back. `run()`
    returns a list of tensors, the same ones for the same inputs: where it does not, nothing can be
    told, and the bound is 0. `random` is a random.Random."""
    before = _kept(run())
    if not _same(before, run()):
        return 0
    deadline = time.monotonic() + SECONDS_MAX
    return sum(_needed(tensor, before, run, random, deadline) for tensor in tensors
               if tensor.numel())


def _needed(tensor, before, run, random, deadline):
    changed = trials = 0
    while trials < TRIALS and time.monotonic() < deadline:
        place = tuple(random.randrange(size) for size in tensor.shape)
        value = tensor[place].clone()
        trials += 1
        for other in _others(tensor, value, random):
            tensor[place] = other
            different = not _same(before, run())
            tensor[place] = value
            if different:
                changed += 1
                break
    if not trials:
        return 0
    # Hoeffding: the true share is below this with a chance of DOUBT at most.
    share = changed / trials - math.sqrt(math.log(1 / DOUBT) / (2 * trials))
    return int(max(0.0, share) * tensor.numel() * tensor.element_size())


def _others(tensor, value, random):
    """What may stand in place of `value`, very different from it: a sum of a million elements must
    show it, and so must a maximum or a minimum."""
    if tensor.dtype == torch.bool:
        return [~value]
    if not tensor.is_floating_point():
        # An index must stay one: another one of the tensor's own.
        places = [tuple(random.randrange(size) for size in tensor.shape) for _ in range(8)]
        return [tensor[place].clone() for place in places if bool(tensor[place] != value)][:2]
    scale = float(tensor.detach().abs().float().mean()) or 1.0
    far = min(1e3 * scale, torch.finfo(tensor.dtype).max / 4)
    return [torch.full_like(value, far), torch.full_like(value, -far)]


def _kept(outputs):
    return [tensor.clone() for tensor in outputs]


def _same(before, after):
    return len(before) == len(after) and all(
        torch.equal(one, two) or one.shape == two.shape and torch.equal(one.isnan(), two.isnan())
        and torch.equal(one.nan_to_num(), two.nan_to_num()) for one, two in zip(before, after))
