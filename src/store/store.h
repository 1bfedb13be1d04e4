/*
 * A run directory: everything that a run's verdicts rest on, on disk.
 *
 *   RUN/kbv.db        SQLite, STRICT tables, write-ahead log, one writer
 *   RUN/sources/      problems and candidates, named by the hash of their content
 *   RUN/lock          held by the one kbv that writes
 *
 * Theory of operation. A candidate is a place: a model, a problem, a sample. An evaluation is
 * keyed by content (problem, candidate, protocol, toolchain, device model, options), so two places
 * with the same text share one, and running again judges nothing twice. An evaluation goes in with
 * all of its families, blocks and samples in one transaction: a process that is killed at any
 * moment loses at most the evaluation in flight. Judging a key again adds an attempt; nothing is
 * overwritten.
 *
 * Functions return 0, or -1 with `err`: ERROR_USAGE where the directory or its database is not what
 * it should be (not there, corrupt, of a newer version, read-only, in use), with what to do about
 * it; ERROR_INTERNAL where SQLite fails otherwise. Strings are UTF-8; times are seconds since 1970.
 */
#ifndef KBV_STORE_STORE_H
#define KBV_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/evaluation.h"

#define STORE_NAME_MAX 256
#define STORE_PATH_MAX 4096

struct store;

enum store_mode {
    STORE_READ,  /* must be there; works beside a writer, and on a read-only file system */
    STORE_WRITE, /* made where it is not there; one at a time */
};

int store_open(const char *directory, enum store_mode mode, struct store **ret_store,
               struct error *err);
void store_close(struct store *store); /* NULL is fine */

/* What evaluations ran on. */
struct store_machine {
    int64_t id;
    char host[STORE_NAME_MAX];
    char device_name[128]; /* "NVIDIA H200", or the CPU's */
    char driver[64], cuda_version[64], torch_version[64], python_version[64];
    char system[128]; /* kernel and distribution */
    char clocks[128]; /* "1980 MHz SM, 3201 MHz memory at most"; "" where not known */
    unsigned cores;
    char kbv_version[32];
    int protocol; /* EVALUATION_PROTOCOL */
};

/* Finds or adds the machine with these properties; sets machine->id. */
int store_note_machine(struct store *store, struct store_machine *machine, struct error *err);

/* A place: what is to be judged, by whom it was written. */
struct store_candidate {
    int64_t id;
    char model[STORE_NAME_MAX];   /* of the directory of candidates, unique in a run */
    unsigned level, number;       /* 0, 0 for a pair that has none */
    char problem[STORE_NAME_MAX]; /* "19_ReLU" */
    unsigned sample;
    char problem_hash[65], candidate_hash[65];
    char problem_path[STORE_PATH_MAX], candidate_path[STORE_PATH_MAX];
};

/*
 * Finds the candidate of (model, level, number, problem, sample) or adds it, and sets
 * candidate->id. Where its text, or its problem's, is another than before, the new text counts, and
 * the old evaluation no longer stands for it. Keeps both sources.
 */
int store_note_candidate(struct store *store, struct store_candidate *candidate,
                         const char *problem_source, size_t problem_length, const char *source,
                         size_t length, struct error *err);

/* The latest evaluation under `key`; sets *ret_id, 0 where there is none. */
int store_find(struct store *store, const char *key, int64_t *ret_id, struct error *err);

/* Says that an evaluation which is there already stands for this candidate. */
int store_link(struct store *store, int64_t candidate_id, int64_t evaluation_id,
               struct error *err);

/* Keeps an evaluation, which then stands for this candidate, in one transaction. */
int store_keep(struct store *store, int64_t candidate_id, const char *key, int64_t machine_id,
               const struct evaluation *evaluation, int64_t *ret_id, struct error *err);

/* Why a candidate has no evaluation: a file that is no problem, a judge that failed. Goes away with
 * the next evaluation. */
int store_complain(struct store *store, int64_t candidate_id, const char *text, struct error *err);

/* One candidate and what stands for it. */
struct store_entry {
    struct store_candidate candidate;
    int64_t evaluation_id;               /* 0: not judged */
    int64_t machine_id;                  /* 0 likewise */
    double finished;                     /* when it was kept */
    const struct evaluation *evaluation; /* NULL: not judged; without blocks */
    char complaint[EVALUATION_TEXT_MAX]; /* "" where there is none */
};

typedef int store_visit(void *context, const struct store_entry *entry, struct error *err);

/* Calls `visit` for every candidate, ordered by model, level, number, problem, sample; ends early
 * when it returns other than 0, and returns that. What an entry points to lives until it returns. */
int store_each(struct store *store, store_visit *visit, void *context, struct error *err);

/* The whole of one evaluation, blocks and samples too, into one that is empty. */
int store_get(struct store *store, int64_t evaluation_id, struct evaluation *evaluation,
              struct error *err);

/* All machines that evaluations which stand for a candidate ran on; the caller frees the array. */
int store_machines(struct store *store, struct store_machine **ret_machines, size_t *ret_count,
                   struct error *err);

/* The text of a source by its hash; the caller frees it. NUL-terminated beyond `length`. */
int store_source(struct store *store, const char *hash, char **ret_text, size_t *ret_length,
                 struct error *err);

/* What somebody else said of a candidate (`kbv import`), to be set beside a judgement. */
struct store_claim {
    char model[STORE_NAME_MAX];
    unsigned level, number, sample;
    bool compiled, correct;
    struct figure runtime_ms, baseline_ms;
    char origin[STORE_PATH_MAX]; /* the file it was read from */
};

/* Adds or replaces the claim about (model, level, number, sample). */
int store_claim_put(struct store *store, const struct store_claim *claim, struct error *err);

typedef int store_claim_visit(void *context, const struct store_claim *claim, struct error *err);
int store_claims(struct store *store, store_claim_visit *visit, void *context, struct error *err);

/* Bundles many puts in one transaction: import writes thousands. */
int store_begin(struct store *store, struct error *err);
int store_commit(struct store *store, struct error *err);

#endif
