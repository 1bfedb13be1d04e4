/*
 * What `kbv doctor` finds: the parts that an evaluation needs, and for each that is missing the
 * command that would mend it. doctor-facts.c collects, cmd-doctor.c prints.
 *
 * The judge itself touches no device and loads no interpreter, so everything about Python, torch
 * and GPUs comes from a child that is asked once, with a deadline. An empty string means that
 * something was not found.
 */
#ifndef KBV_CLI_DOCTOR_H
#define KBV_CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/locate.h"
#include "sandbox/sandbox.h"

#define DOCTOR_TEXT_MAX    256
#define DOCTOR_PATH_MAX    LOCATE_PATH_MAX
#define DOCTOR_GPUS_MAX    16
#define DOCTOR_MISSING_MAX 24

/* What cannot be done without a part. */
enum doctor_need {
    DOCTOR_ADVICE, /* less protection, or fewer kinds of candidate */
    DOCTOR_CPU,    /* no evaluation at all */
    DOCTOR_CUDA,   /* no evaluation on a GPU */
};

struct doctor_missing {
    enum doctor_need need;
    char what[64];
    char why[DOCTOR_TEXT_MAX];
    char mend[DOCTOR_PATH_MAX + 128]; /* a command, or what to do; "" where nothing helps */
};

enum doctor_tool { DOCTOR_CXX, DOCTOR_NINJA, DOCTOR_NVCC, DOCTOR_TOOL_COUNT };

struct doctor_program {
    char path[DOCTOR_PATH_MAX];
    char version[DOCTOR_TEXT_MAX];
};

struct doctor_gpu {
    char name[DOCTOR_TEXT_MAX];
    int compute_major, compute_minor;
    uint64_t memory_bytes;
};

struct doctor_facts {
    struct doctor_program python;
    char torch_version[DOCTOR_TEXT_MAX];
    char torch_cuda[DOCTOR_TEXT_MAX];  /* CUDA version torch was built with; "" for none */
    char torch_error[DOCTOR_TEXT_MAX]; /* why torch cannot be imported */

    char cpu_name[DOCTOR_TEXT_MAX];
    int cpu_cores; /* that this process may use */
    uint64_t memory_bytes;

    struct doctor_gpu gpus[DOCTOR_GPUS_MAX];
    size_t gpu_count;
    char gpu_driver[DOCTOR_TEXT_MAX];
    char gpu_reason[DOCTOR_TEXT_MAX]; /* why there is none */

    struct doctor_program tools[DOCTOR_TOOL_COUNT];

    unsigned sandbox_layers; /* bits of enum sandbox_layer */
    char sandbox_reason[SANDBOX_LAYER_COUNT][128];
    char sandbox_error[DOCTOR_TEXT_MAX]; /* why the layers could not be tried */

    char kernel[DOCTOR_TEXT_MAX];
    char library[DOCTOR_PATH_MAX]; /* the worker's directory */

    struct doctor_missing missing[DOCTOR_MISSING_MAX];
    size_t missing_count;
};

/* "g++", "ninja", "nvcc": what a tool is called in output. */
const char *doctor_tool_name(enum doctor_tool tool);

/*
 * Collects everything. `asked_python` as in locate_python(). Fails only where the request itself
 * is wrong (ERROR_USAGE) or a system call fails; whatever the machine lacks is in `missing`.
 */
int doctor_collect(const char *asked_python, struct doctor_facts *ret_facts, struct error *err)
    __attribute__((warn_unused_result));

/* True when nothing is missing that an evaluation needs; `gpu` asks for CUDA too, with `index`. */
bool doctor_ready(const struct doctor_facts *facts, bool gpu, int index);

#endif
