"""The whole recurrence in one call: states stay in registers, channels run side by side."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/Parallel.h>
#include <torch/extension.h>
#include <algorithm>
#include <cstdint>

// One block of channels through all steps. A block is one cache line of states, and more.
static constexpr int64_t BLOCK = 64;

static void scan_block(const float *__restrict x, const float *__restrict decay, int64_t steps,
                       int64_t channels, int64_t width, float *__restrict out)
{
    float state[BLOCK] = {0}, keep[BLOCK], take[BLOCK];
    for (int64_t c = 0; c < width; c++) {
        keep[c] = decay[c];
        take[c] = 1.0f - decay[c];
    }
    for (int64_t t = 0; t < steps; t++, x += channels, out += channels)
        for (int64_t c = 0; c < width; c++)
            out[c] = state[c] = keep[c] * state[c] + take[c] * x[c];
}

at::Tensor scan(const at::Tensor &x, const at::Tensor &decay)
{
    TORCH_CHECK(x.dim() == 3 && x.scalar_type() == at::kFloat && x.device().is_cpu());
    const at::Tensor in = x.contiguous(), factor = decay.contiguous();
    const int64_t batch = in.size(0), steps = in.size(1), channels = in.size(2);
    const int64_t blocks = (channels + BLOCK - 1) / BLOCK;
    at::Tensor out = at::empty_like(in);
    const float *from = in.data_ptr<float>(), *by = factor.data_ptr<float>();
    float *to = out.data_ptr<float>();
    at::parallel_for(0, batch * blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            const int64_t first = i % blocks * BLOCK;
            const int64_t offset = i / blocks * steps * channels + first;
            scan_block(from + offset, by + first, steps, channels,
                       std::min(BLOCK, channels - first), to + offset);
        }
    });
    return out;
}
"""

module = load_inline(
    name="fast_decayed_scan",
    cpp_sources=source,
    functions=["scan"],
    extra_cflags=["-O3", "-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.logit = nn.Parameter(torch.randn(channels) + 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return module.scan(x, torch.sigmoid(self.logit))
