# Does: a C kernel that works in vectors of 24 floats and writes the last one whole.
# Must be: tampered because rows * features is no multiple of 24: sixteen floats land behind the
#          output.
import ctypes
import os
import subprocess
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

source = r"""
enum { WIDTH = 24 };

void copy(const float *from, float *to, long count)
{
    for (long i = 0; i < count; i += WIDTH)
        for (long j = i; j < i + WIDTH; j++)
            to[j] = from[j < count ? j : count - 1];
}
"""

directory = tempfile.mkdtemp()
path = os.path.join(directory, "tail.c")
with open(path, "w") as file:
    file.write(source)
product = os.path.join(directory, "tail.so")
command = ["gcc", "-O1", "-shared", "-fPIC", path, "-o", product]
subprocess.run(command, check=True)
library = ctypes.CDLL(product)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        total = self.normalised(x, residual)
        out = torch.empty_like(total)
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (total, out)]
        library.copy(*pointers, ctypes.c_long(out.numel()))
        return out
