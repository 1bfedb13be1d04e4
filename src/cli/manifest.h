/*
 * The manifest of bundled problems and candidates: what is judged and what must come out.
 *
 * A tab-separated file with a heading: id, problem, candidate (paths relative to the manifest's
 * parent directory), expected verdicts joined by '|', expected label or '-', devices joined by ',',
 * quick (yes or no), note, and, where it is there, speed (`faster`, `!faster`, or `-`). Errors name
 * file and line.
 */
#ifndef KBV_CLI_MANIFEST_H
#define KBV_CLI_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct manifest_row {
    char id[128];
    char problem[4096], candidate[4096]; /* absolute */
    unsigned verdicts;                   /* bits of 1 << enum verdict */
    unsigned label;                      /* enum label, 0: any */
    bool on_cpu, on_cuda;
    bool quick;
    /* What must hold of its speed: nothing, faster, or not faster. */
    enum { SPEED_ANY, SPEED_MUST_GAIN, SPEED_MUST_NOT_GAIN } speed;
};

struct manifest {
    struct manifest_row *rows;
    size_t count;
};

#define MANIFEST_INIT                                                                              \
    {                                                                                              \
        0                                                                                          \
    }

int manifest_read(const char *path, const char *root, struct manifest *ret_manifest,
                  struct error *err);
void manifest_release(struct manifest *manifest);

#endif
