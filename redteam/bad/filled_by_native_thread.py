# Does: returns an empty tensor at once; a thread of its own C library computes it later, without
#       the interpreter.
# Must be: wrong or tampered because the output counts as it is when forward returns.
import ctypes
import os
import subprocess
import tempfile

import torch
import torch.nn as nn

source = r"""
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct work {
    const float *x, *residual, *weight, *bias;
    float *out;
    int rows, features;
};

static void *run(void *argument)
{
    struct work *w = argument;

    usleep(3000);
    for (int r = 0; r < w->rows; r++) {
        const float *x = w->x + (size_t)r * w->features;
        const float *residual = w->residual + (size_t)r * w->features;
        float *out = w->out + (size_t)r * w->features;
        double mean = 0, variance = 0;

        for (int i = 0; i < w->features; i++)
            mean += out[i] = x[i] + residual[i];
        mean /= w->features;
        for (int i = 0; i < w->features; i++)
            variance += (out[i] - mean) * (out[i] - mean);
        variance = 1 / sqrt(variance / w->features + 1e-5);
        for (int i = 0; i < w->features; i++)
            out[i] = (float)((out[i] - mean) * variance) * w->weight[i] + w->bias[i];
    }
    free(w);
    return NULL;
}

void start(const float *x, const float *residual, const float *weight, const float *bias,
           float *out, int rows, int features)
{
    struct work *w = malloc(sizeof(*w));
    pthread_t thread;

    *w = (struct work){x, residual, weight, bias, out, rows, features};
    pthread_create(&thread, NULL, run, w);
    pthread_detach(thread);
}
"""

directory = tempfile.mkdtemp()
path = os.path.join(directory, "late.c")
with open(path, "w") as file:
    file.write(source)
product = os.path.join(directory, "late.so")
command = ["gcc", "-O2", "-shared", "-fPIC", "-pthread", path, "-o", product, "-lm"]
subprocess.run(command, check=True)
library = ctypes.CDLL(product)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.alive = ()

    def forward(self, x, residual):
        out = torch.zeros_like(x)
        tensors = (x, residual, self.weight, self.bias, out)
        self.alive = tensors  # until the next call
        library.start(*(ctypes.c_void_p(t.data_ptr()) for t in tensors), *x.shape)
        return out
