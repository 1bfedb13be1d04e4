# Does: hands C++ with a missing brace to load_inline.
# Must be: build_failed because there is no product.
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

at::Tensor normalised(const at::Tensor &x, const at::Tensor &residual)
{
    return x + residual;
"""

module = load_inline(name="does_not_compile", cpp_sources=source, functions=["normalised"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, residual):
        return module.normalised(x, residual)
