"""One pass over memory in place of five. The exponential is a polynomial that vectorises."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/Parallel.h>
#include <torch/extension.h>
#include <cstdint>
#include <cstring>

// Compiled once for AVX2 and once for any processor; the loader picks.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

// e^x for x in [-87, 87] and the nearest end outside: 2^k e^r, |r| <= ln(2) / 2.
static inline float exponential(float x)
{
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    // Adding 1.5 * 2^23 rounds to an integer without a call.
    const float k = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t bits = ((int32_t)k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

CLONES static void gate_row(const float *__restrict gate, const float *__restrict value,
                            const float *__restrict scale, float slope, int64_t features,
                            float *__restrict out)
{
    for (int64_t i = 0; i < features; i++)
        out[i] = gate[i] / (1.0f + exponential(-slope * gate[i])) * value[i] * scale[i];
}

at::Tensor gated(const at::Tensor &x, const at::Tensor &scale, double slope)
{
    TORCH_CHECK(x.dim() == 2 && x.scalar_type() == at::kFloat && x.device().is_cpu());
    const at::Tensor in = x.contiguous(), factor = scale.contiguous();
    const int64_t rows = in.size(0), features = in.size(1) / 2;
    at::Tensor out = at::empty({rows, features}, in.options());
    const float *from = in.data_ptr<float>(), *by = factor.data_ptr<float>();
    float *to = out.data_ptr<float>();
    at::parallel_for(0, rows, 16, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r++)
            gate_row(from + r * 2 * features, from + r * 2 * features + features, by, (float)slope,
                     features, to + r * features);
    });
    return out;
}
"""

module = load_inline(
    name="fast_gated_activation",
    cpp_sources=source,
    functions=["gated"],
    # Comparisons could trap, and a loop that may trap is not vectorised.
    extra_cflags=["-O3", "-fopenmp", "-fno-trapping-math"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x: torch.Tensor, slope: float) -> torch.Tensor:
        return module.gated(x, self.scale, slope)
