/*
 * A run as reports read it: one small record for each sample, every lens applied, everything that
 * is shown in tables; evidence and sources are fetched from the store when asked for.
 */
#ifndef KBV_REPORT_RESULTS_H
#define KBV_REPORT_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/evaluation.h"
#include "protocol/lens.h"
#include "store/store.h"

/* One lens' reading of one sample, without its reason. */
struct result_reading {
    bool judged, correct;
    struct figure speed, low, high, memory;
};

/* One sample. Strings are owned by the struct results. */
struct result {
    unsigned model;   /* index into results.models */
    unsigned problem; /* index into results.problems */
    unsigned sample;
    int64_t candidate_id, evaluation_id; /* evaluation 0: not judged */
    int64_t machine_id;
    char candidate_hash[65];
    enum verdict verdict; /* holds only where it was judged */
    const char *reason;   /* of the verdict; the complaint where it was not judged */
    unsigned labels;
    unsigned failed_families;  /* bits of 1 << enum family */
    struct result_reading readings[LENS_COUNT];
    struct result_reading cells[2][2]; /* [enum lens_baseline][enum lens_tests] */
    /* As `verified` measured them. */
    struct figure baseline_ms, candidate_ms, baseline_bytes, candidate_bytes;
    enum speed_class speed_class;
    enum memory_class memory_class;
    struct figure seconds; /* what judging it took, in all */
};

struct result_problem {
    unsigned level, number;
    const char *name;
    char hash[65];
    const char *unfit; /* why the problem is unfit, where a sample's verdict says so; else NULL */
};

struct result_claim {
    unsigned model;   /* index into models */
    unsigned level, number, sample;
    bool compiled, correct;
    struct figure runtime_ms, baseline_ms;
};

struct results {
    const char *name;      /* of the run: its directory's last part */
    const char *directory; /* as given */
    const char **models;
    size_t model_count;
    struct result_problem *problems; /* ordered by level, number, name */
    size_t problem_count;
    struct result *results; /* ordered by model, problem, sample */
    size_t count;
    struct store_machine *machines;
    size_t machine_count;
    struct result_claim *claims;
    size_t claim_count;
    void *strings; /* owns the text */
};

#define RESULTS_INIT                                                                               \
    {                                                                                              \
        0                                                                                          \
    }

/* Reads a whole run. Release it in either case. */
int results_load(const char *directory, struct results *ret_results, struct error *err);
void results_release(struct results *results);

#endif
