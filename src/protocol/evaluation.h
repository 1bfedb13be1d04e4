/*
 * One evaluation: everything that was seen of one candidate on one problem, and what the
 * `verified` lens says of it. The judge fills it, reports only read it. A figure that was not
 * measured is absent (`measured` is false), never 0 or -1. Strings are NUL-terminated, valid
 * UTF-8, without control characters but '\n' in multi-line ones; the judge cleans what comes from
 * a candidate with text_clean() before it stands here.
 */
#ifndef KBV_PROTOCOL_EVALUATION_H
#define KBV_PROTOCOL_EVALUATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/family.h"
#include "protocol/figure.h"
#include "protocol/lens.h"
#include "protocol/verdict.h"

/* Goes up when the same candidate on the same machine might get another verdict. */
#define EVALUATION_PROTOCOL 1

/* Seeds are drawn below this, so that every reader of JSON keeps them exactly. */
#define EVALUATION_SEED_BOUND (1ull << 53)

#define EVALUATION_TEXT_MAX   1024
#define EVALUATION_OUTPUT_MAX 4096 /* the last bytes of a candidate's stdout and stderr */
#define EVALUATION_BLOCKS_MAX 4096

struct family_evidence {
    enum family_status status;
    char reason[EVALUATION_TEXT_MAX]; /* why it failed or does not apply; "" on a pass */
    struct figure s, n;               /* candidate against oracle */
    struct figure baseline_s, baseline_n;
    struct figure s_limit, n_limit; /* of the budget that decided; see tolerance.h */
    char worst[256];                /* "output 0 [3, 17]: expected 0.25, got 0.5"; "" if none */
};

/* Who is timed. */
enum side { SIDE_BASELINE, SIDE_CANDIDATE, SIDE_OTHER_BASELINE, SIDE_COUNT };
const char *side_name(enum side side); /* "baseline", "candidate", "other_baseline" */
int side_find(const char *name);       /* or -1 */

#define TIMING_SAMPLES_MAX 10 /* calls of one block whose times are kept */

/* One block of timing: `calls` calls of one side. */
struct timing_block {
    enum side side;
    unsigned calls;
    double own_ms;     /* median of the process' own clock over the block's calls */
    double judge_ms;   /* median of the judge's clock over the block's calls */
    double counted_ms; /* what enters the statistics, see clocks.h */
    /* Of each call, the first TIMING_SAMPLES_MAX of them. */
    float own_samples_ms[TIMING_SAMPLES_MAX], judge_samples_ms[TIMING_SAMPLES_MAX];
};

struct speed_evidence {
    enum speed_class class;         /* SPEED_NONE where not measured */
    struct figure ratio, low, high; /* baseline / candidate, 95% interval */
    struct figure baseline_ms, candidate_ms;
    struct figure wall_ratio; /* the same from the judge's clock alone */
    struct figure floor_ms;   /* (bytes in + bytes out) / peak bandwidth */
    /* Against the other matmul precision, where it differs ("highest" beside "high"). */
    char baseline_matmul[16]; /* flag of the baseline above: highest, high, medium */
    char other_matmul[16];    /* "" where not measured */
    struct figure other_ratio, other_low, other_high, other_baseline_ms;
    unsigned calls, checked_calls;
    size_t block_count;
    struct timing_block *blocks; /* the evaluation's own; see evaluation_add_block() */
};

struct memory_evidence {
    enum memory_class class;                       /* MEMORY_NONE where not measured */
    struct figure ratio;                           /* baseline / candidate, absolute peaks */
    struct figure baseline_bytes, candidate_bytes; /* peak during one call, absolute */
    struct figure baseline_above_bytes,
        candidate_above_bytes; /* above what was live at its start */
    char method[64];           /* "allocator+driver", "resident_set" */
    /* Peaks by the framework's own counters alone, as the lens `paper` reads them; absent where the
     * device has none. */
    struct figure baseline_allocator_bytes, candidate_allocator_bytes;
};

struct stage_seconds {
    struct figure startup, build, correctness, timing, memory, lenses, total;
};

/* A hole of the problem: a bad candidate made from its own reference that would pass. */
struct control_evidence {
    bool run;
    bool passes; /* on every applicable family */
};

enum control { CONTROL_ZERO_OUTPUT, CONTROL_MEAN_OUTPUT, CONTROL_INPUT_RETURNED, CONTROL_COUNT };
const char *control_name(enum control control); /* "zero_output", ... */

struct evaluation {
    enum verdict verdict;
    char reason[EVALUATION_TEXT_MAX];
    unsigned labels; /* bits of enum label */

    char problem_path[4096];
    char candidate_path[4096];
    char problem_hash[65]; /* hex of the content */
    char candidate_hash[65];
    char device[64]; /* as asked for: "cpu", "cuda:0" */
    char device_name[128];
    char driver[64];
    char dtype[16]; /* fp32, bf16, fp16 */
    char torch_version[64];
    char python_version[64];
    char cuda_version[64];   /* "" where torch has none */
    char oracle[64];         /* "float64", "float32: <why>" */
    uint64_t seed;           /* below EVALUATION_SEED_BOUND */
    unsigned sandbox_layers; /* bits of enum sandbox_layer that were active */

    struct speed_evidence speed;
    struct memory_evidence memory;
    struct lens_evidence lens; /* what the other lenses read */
    struct family_evidence families[FAMILY_COUNT];
    struct control_evidence controls[CONTROL_COUNT];
    struct stage_seconds seconds;

    char build_log[EVALUATION_OUTPUT_MAX + 1]; /* the end of the compiler's output; "" if none */
    char candidate_output[EVALUATION_OUTPUT_MAX + 1];
    uint64_t candidate_output_bytes; /* how much it printed in all */
};

struct evaluation *evaluation_new(void); /* zeroed, nothing measured; NULL when out of memory */
void evaluation_free(struct evaluation *evaluation);
/* Nothing measured again; what it owned is freed. */
void evaluation_clear(struct evaluation *evaluation);

/* Appends a copy. -1 when out of memory, or where EVALUATION_BLOCKS_MAX are there. */
int evaluation_add_block(struct evaluation *evaluation, const struct timing_block *block);

/* How many families have that status. */
unsigned evaluation_family_count(const struct evaluation *evaluation, enum family_status status);

#endif
