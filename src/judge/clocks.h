/*
 * What counts of two clocks, and what the counted blocks say of speed.
 *
 * A worker reports its own clock of the call (device events); the judge has its own,
 * which runs until the output was copied out: an earlier moment would be the worker's word. The two
 * differ by hand-shake and copy: by `overhead`, whose median is learned from the baseline's
 * process, which is trusted and copies as much. A candidate's own clock is taken only as far as the
 * judge's bears it out, block by block: counted = own where judge - own is no more than the
 * overhead and its noise can explain, else judge - overhead.
 *
 * How much is noise is told by two accounts. The strict one knows the baseline's blocks only. But
 * two processes that run the same code can differ, all the time they live, by more than either
 * varies; the lenient one allows a part of the overhead itself for that. The figure is the lenient
 * account's, the interval spans both: so an honest kernel is not called slower for what befell its
 * process, and a clock that lies within that room makes nothing `faster`.
 */
#ifndef KBV_JUDGE_CLOCKS_H
#define KBV_JUDGE_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/evaluation.h"
#include "stats/stats.h"

#define BLOCK_CALLS_MAX TIMING_SAMPLES_MAX

/* Calls of one side right after each other; at least one. */
struct block {
    unsigned calls;
    double own_ms[BLOCK_CALLS_MAX], judge_ms[BLOCK_CALLS_MAX];
};

/* Milliseconds of each block, one entry for each round. */
struct series {
    size_t rounds;
    double *counted[SIDE_COUNT]; /* the lenient account; NULL where an side was not measured */
    double *strict;             /* the candidate's in the strict one */
    double *own[SIDE_COUNT];     /* medians of the process' own clock */
    double *judge[SIDE_COUNT];   /* and of the judge's */
    double overhead_ms;         /* the baseline's median gap between the clocks */
    double spread_ms;           /* how far above it one block in ten lies */
};

#define SERIES_INIT ((struct series){0})

/* Counts `rounds` blocks of each side. 0, or -1 when out of memory. Release it in either case. */
int series_make(struct block *const blocks[SIDE_COUNT], size_t rounds, bool other,
                struct series *ret_series);
void series_release(struct series *series);

/*
 * The ratio of medians, baseline `side` / candidate, with its 95% interval across both accounts.
 *
 * The interval is to hold for few blocks too: it is the wider of the bootstrap's, which is too
 * narrow for a handful of pairs, and the distribution-free one of the median of the pairs' ratios.
 * Blocks cannot show what stays with a process for its life, such as where its memory lies; that
 * much is known from judging equal kernels again and again, and is added. 0, or -1 when out of
 * memory.
 */
int series_speed(const struct series *series, enum side side, struct stats_interval *ret_interval);

/* The same of the judge's clock alone, without that addition. */
int series_wall(const struct series *series, struct stats_interval *ret_interval);

/* Whether the interval of the lenient account is within 1% of its ratio. More blocks do not bring
 * the two accounts together. */
bool series_narrow(const struct series *series);

#endif
