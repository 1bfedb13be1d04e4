#include "sample.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/sandbox.h"

/* Assigns a literal to an array member. */
#define SET(member, text) snprintf(member, sizeof(member), "%s", text)

static struct evaluation *sample_base(void)
{
    struct evaluation *e = evaluation_new();

    if (!e)
        return NULL;
    SET(e->problem_path, "problems/softmax_rows.py");
    SET(e->candidate_path, "candidates/softmax_rows/online.py");
    SET(e->problem_hash, "5d41402abc4b2a76b9719d911017c592ae2f3f1c8e5ef1a0f7a3b1d2c4e5f601");
    SET(e->candidate_hash, "7d793037a0760186574b0282f2f435e7a9d3c2b1f0e9d8c7b6a5948372615041");
    SET(e->device, "cuda:0");
    SET(e->device_name, "NVIDIA H200");
    SET(e->driver, "580.65.06");
    SET(e->dtype, "fp32");
    SET(e->torch_version, "2.13.0+cu130");
    SET(e->python_version, "3.12.3");
    SET(e->cuda_version, "13.0");
    SET(e->oracle, "float64");
    e->seed = 4211538120345077;
    e->sandbox_layers = SANDBOX_NO_NEW_PRIVS | SANDBOX_LANDLOCK | SANDBOX_SECCOMP |
                        SANDBOX_RLIMITS | SANDBOX_USER_NS | SANDBOX_PID_NS | SANDBOX_MOUNT_NS |
                        SANDBOX_NET_NS | SANDBOX_IPC_NS;
    return e;
}

static void pass_family(struct evaluation *e, enum family family)
{
    e->families[family] = (struct family_evidence){
        .status = FAMILY_PASS,
        .s = FIGURE(2.4e-7 * (1 + family)),
        .n = FIGURE(3.1e-8 * (1 + family)),
        .baseline_s = FIGURE(1.9e-7),
        .baseline_n = FIGURE(2.2e-8),
        .s_limit = FIGURE(1e-3),
        .n_limit = FIGURE(1e-4),
    };
}

struct evaluation *sample_verified(void)
{
    static const struct timing_block blocks[] = {
        {SIDE_BASELINE, 30, 2.3121, 2.3344, 2.3121},
        {SIDE_CANDIDATE, 30, 1.2581, 1.2802, 1.2581},
        {SIDE_CANDIDATE, 30, 1.2577, 1.2799, 1.2577},
        {SIDE_BASELINE, 30, 2.3163, 2.3391, 2.3163},
    };
    struct evaluation *e = sample_base();

    if (!e)
        return NULL;
    e->verdict = VERDICT_VERIFIED;
    SET(e->reason, "right on every family that applies; faster and leaner than PyTorch");
    e->labels = LABEL_NONDETERMINISTIC;
    for (int i = 0; i < FAMILY_COUNT; i++)
        pass_family(e, (enum family)i);
    e->families[FAMILY_P2] = (struct family_evidence){.status = FAMILY_NOT_APPLICABLE};
    SET(e->families[FAMILY_P2].reason, "the model has no parameters");
    e->speed = (struct speed_evidence){
        .class = SPEED_FASTER,
        .ratio = FIGURE(1.83971),
        .low = FIGURE(1.81248),
        .high = FIGURE(1.86913),
        .baseline_ms = FIGURE(2.3142),
        .candidate_ms = FIGURE(1.2579),
        .wall_ratio = FIGURE(1.8312),
        .floor_ms = FIGURE(0.4128),
        .baseline_matmul = "high",
        .other_matmul = "highest",
        .other_ratio = FIGURE(1.8402),
        .other_low = FIGURE(1.8131),
        .other_high = FIGURE(1.8702),
        .other_baseline_ms = FIGURE(2.3148),
        .calls = 240,
        .checked_calls = 7,
    };
    for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
        evaluation_add_block(e, &blocks[i]);
    e->memory = (struct memory_evidence){
        .class = MEMORY_LEANER,
        .ratio = FIGURE(1.3101),
        .baseline_bytes = FIGURE(536870912),
        .candidate_bytes = FIGURE(409790464),
        .baseline_above_bytes = FIGURE(134217728),
        .candidate_above_bytes = FIGURE(7340032),
        .method = "allocator+driver",
    };
    e->controls[CONTROL_ZERO_OUTPUT].run = true;
    e->controls[CONTROL_MEAN_OUTPUT].run = true;
    e->controls[CONTROL_INPUT_RETURNED].run = true;
    e->seconds = (struct stage_seconds){
        .startup = FIGURE(4.7),
        .build = FIGURE(25.12),
        .correctness = FIGURE(3.24),
        .timing = FIGURE(10.08),
        .memory = FIGURE(1.96),
        .total = FIGURE(45.13),
    };
    SET(e->candidate_output, "autotune: block 256 chosen\n");
    e->candidate_output_bytes = 27;
    return e;
}

struct evaluation *sample_wrong(void)
{
    struct evaluation *e = sample_base();
    struct family_evidence *family;

    if (!e)
        return NULL;
    e->verdict = VERDICT_WRONG;
    SET(e->reason, "family E4 (x + 5 std(x)): output 0 is off by s = 3.1, 0.001 is allowed; "
                   "worst at [3, 17]: expected 0.25, got 1.03");
    e->labels = LABEL_REDUCED_PRECISION | LABEL_STALE_PARAMETERS | LABEL_INSENSITIVE;
    for (int i = 0; i < FAMILY_COUNT; i++)
        pass_family(e, (enum family)i);
    family = &e->families[FAMILY_E4];
    family->status = FAMILY_FAIL;
    family->s = FIGURE(3.1);
    family->n = FIGURE(0.88);
    SET(family->reason, "output 0 is off by s = 3.1, 0.001 is allowed");
    SET(family->worst, "output 0 [3, 17]: expected 0.25, got 1.03");
    family = &e->families[FAMILY_E2];
    family->status = FAMILY_FAIL;
    family->s = FIGURE(1.0 / 0.0);
    family->n = FIGURE(0.0 / 0.0);
    SET(family->reason, "output 0 holds NaN where the true output is finite, at 12288 of 16777216 "
                        "elements, the first of them [0, 512]: expected 1.5e-05, got nan");
    SET(family->worst, "[0, 512]: expected 1.5e-05, got nan");
    e->families[FAMILY_E5] = (struct family_evidence){.status = FAMILY_NOT_APPLICABLE};
    SET(e->families[FAMILY_E5].reason,
        "the output holds integers, which ties between equal values leave undecided");
    e->controls[CONTROL_ZERO_OUTPUT] = (struct control_evidence){.run = true, .passes = true};
    e->seconds = (struct stage_seconds){
        .startup = FIGURE(4.7),
        .build = FIGURE(0.0),
        .correctness = FIGURE(2.9),
        .total = FIGURE(7.8),
    };
    return e;
}

struct evaluation *sample_build_failed(void)
{
    struct evaluation *e = sample_base();

    if (!e)
        return NULL;
    e->verdict = VERDICT_BUILD_FAILED;
    SET(e->reason, "main.cpp:14:9: error: 'blockDim' was not declared in this scope");
    SET(e->device, "cpu");
    SET(e->device_name, "AMD EPYC 9R14");
    SET(e->driver, "");
    SET(e->cuda_version, "");
    SET(e->oracle, "");
    SET(e->build_log,
        "[1/2] c++ -MMD -MF main.o.d -DTORCH_EXTENSION_NAME=online -c main.cpp -o main.o\n"
        "FAILED: main.o\n"
        "main.cpp: In function 'at::Tensor forward(at::Tensor)':\n"
        "main.cpp:14:9: error: 'blockDim' was not declared in this scope\n"
        "   14 |     int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "ninja: build stopped: subcommand failed.\n");
    e->sandbox_layers = SANDBOX_NO_NEW_PRIVS | SANDBOX_LANDLOCK | SANDBOX_SECCOMP;
    e->seconds = (struct stage_seconds){
        .startup = FIGURE(2.2), .build = FIGURE(21.4), .total = FIGURE(23.9)};
    return e;
}

struct evaluation *sample_crashed(void)
{
    struct evaluation *e = sample_base();

    if (!e)
        return NULL;
    e->verdict = VERDICT_CRASHED;
    SET(e->reason, "family D3: RuntimeError: expected scalar type Float but found Half");
    pass_family(e, FAMILY_D1);
    pass_family(e, FAMILY_D2);
    e->families[FAMILY_D3].status = FAMILY_FAIL;
    SET(e->families[FAMILY_D3].reason, "RuntimeError: expected scalar type Float but found Half");
    SET(e->candidate_path, "candidates/\033[2J\033[1;32mverified\033[0m.py");
    SET(e->candidate_output, "\033[2J\033[Hverified  right on every family\n\xFF\xFE\n"
                             "\xE2\x80\xAE"
                             "reversed\r\n"
                             "Traceback (most recent call last):\n"
                             "  File \"online.py\", line 31, in forward\n"
                             "RuntimeError: expected scalar type Float but found Half\n");
    e->candidate_output_bytes = 1234567890123;
    e->seconds = (struct stage_seconds){.startup = FIGURE(4.7), .total = FIGURE(6.1)};
    return e;
}

/* Quotes take two bytes in JSON for one here; nothing that text_clean() leaves takes more. */
static void fill(char *to, size_t size)
{
    memset(to, '"', size - 1);
    to[size - 1] = '\0';
}
#define FILL(member) fill(member, sizeof(member))

struct evaluation *sample_largest(void)
{
    const struct figure longest = FIGURE(-1.23456789e-300);
    struct evaluation *e = evaluation_new();

    if (!e)
        return NULL;
    e->verdict = VERDICT_IMPOSSIBLE_SPEED;
    FILL(e->reason);
    e->labels = (1u << LABEL_COUNT) - 1;
    FILL(e->problem_path);
    FILL(e->candidate_path);
    FILL(e->problem_hash);
    FILL(e->candidate_hash);
    FILL(e->device);
    FILL(e->device_name);
    FILL(e->driver);
    FILL(e->dtype);
    FILL(e->torch_version);
    FILL(e->python_version);
    FILL(e->cuda_version);
    FILL(e->oracle);
    e->seed = EVALUATION_SEED_BOUND - 1;
    e->sandbox_layers = (1u << SANDBOX_LAYER_COUNT) - 1;
    e->speed.class = SPEED_SLOWER;
    e->speed.ratio = e->speed.low = e->speed.high = longest;
    e->speed.baseline_ms = e->speed.candidate_ms = longest;
    e->speed.wall_ratio = e->speed.floor_ms = longest;
    FILL(e->speed.baseline_matmul);
    FILL(e->speed.other_matmul);
    e->speed.other_ratio = e->speed.other_low = e->speed.other_high = longest;
    e->speed.other_baseline_ms = longest;
    e->speed.calls = e->speed.checked_calls = 4294967295u;
    for (size_t i = 0; i < EVALUATION_BLOCKS_MAX; i++) {
        const struct timing_block block = {SIDE_OTHER_BASELINE, 4294967295u, longest.value,
                                           longest.value, longest.value};

        evaluation_add_block(e, &block);
    }
    e->memory.class = MEMORY_HEAVIER;
    e->memory.ratio = longest;
    e->memory.baseline_bytes = e->memory.candidate_bytes = FIGURE(-0x1.fffffffffffffp52);
    e->memory.baseline_above_bytes = e->memory.candidate_above_bytes = e->memory.baseline_bytes;
    FILL(e->memory.method);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct family_evidence *family = &e->families[i];

        family->status = FAMILY_NOT_APPLICABLE;
        FILL(family->reason);
        FILL(family->worst);
        family->s = family->n = family->baseline_s = family->baseline_n = longest;
        family->s_limit = family->n_limit = longest;
    }
    e->seconds.startup = e->seconds.build = e->seconds.correctness = longest;
    e->seconds.timing = e->seconds.memory = e->seconds.total = longest;
    FILL(e->build_log);
    FILL(e->candidate_output);
    e->candidate_output_bytes = INT64_MAX;
    return e;
}
