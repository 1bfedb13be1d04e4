# Does: compiles a C kernel with gcc when it is loaded and calls it through ctypes.
# Must be: verified because how a kernel was built is its own business.
import ctypes
import os
import subprocess
import tempfile

import torch
import torch.nn as nn

source = r"""
#include <stdint.h>

/* Running maxima side by side, for the compiler to keep in registers; at last the first of the
 * largest. */
enum { LANES = 16 };

static int64_t first_largest(const float *scores, int experts)
{
    float best[LANES];
    int at[LANES], winner = 0;

    for (int lane = 0; lane < LANES; lane++) {
        best[lane] = scores[lane];
        at[lane] = lane;
    }
    for (int expert = LANES; expert < experts; expert += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            int better = scores[expert + lane] > best[lane];

            best[lane] = better ? scores[expert + lane] : best[lane];
            at[lane] = better ? expert + lane : at[lane];
        }
    for (int lane = 1; lane < LANES; lane++)
        if (best[lane] > best[winner] || (best[lane] == best[winner] && at[lane] < at[winner]))
            winner = lane;
    return at[winner];
}

void choose(const float *scores, const uint8_t *alive, int64_t *choice, int64_t *load,
            int64_t tokens, int experts, int64_t capacity)
{
    for (int64_t token = 0; token < tokens; token++) {
        choice[token] = -1;
        if (alive[token]) {
            choice[token] = first_largest(scores + token * experts, experts);
            load[choice[token]]++;
        }
    }
    for (int expert = 0; expert < experts; expert++)
        if (load[expert] > capacity)
            load[expert] = capacity;
}
"""

directory = tempfile.mkdtemp()
path = os.path.join(directory, "choose.c")
with open(path, "w") as file:
    file.write(source)
product = os.path.join(directory, "choose.so")
command = ["gcc", "-O3", "-fno-trapping-math", "-shared", "-fPIC", path, "-o", product]
subprocess.run(command, check=True)
library = ctypes.CDLL(product)
library.choose.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64, ctypes.c_int, ctypes.c_int64]
library.choose.restype = None


class ModelNew(nn.Module):
    def __init__(self, experts):
        super().__init__()
        if experts % 16:
            raise ValueError("experts must be a multiple of 16")
        self.experts = experts

    def forward(self, scores, alive, capacity):
        scores, alive = scores.contiguous(), alive.contiguous()
        choice = torch.empty(scores.shape[0], dtype=torch.int64)
        load = torch.zeros(self.experts, dtype=torch.int64)
        pointers = [tensor.data_ptr() for tensor in (scores, alive, choice, load)]
        library.choose(*pointers, scores.shape[0], self.experts, capacity)
        return choice, load
