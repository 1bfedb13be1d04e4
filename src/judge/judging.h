/* What the stages of one evaluation share; private to src/judge. */
#ifndef KBV_JUDGE_JUDGING_H
#define KBV_JUDGE_JUDGING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "judge/evaluate.h"
#include "judge/job.h"
#include "protocol/tensor.h"

#define SETS_MAX             8
#define REFERENCE_TIMEOUT_NS (600 * NS_PER_S)

/* Memory that the reference process shares: descriptors that every job gets a copy of. */
struct shared {
    bool present;
    uint64_t bytes;
    int region_fd, layout_fd;
};

void shared_release(struct shared *shared);

struct judging {
    struct session *session;
    const struct request *request;
    struct evaluation *evaluation;

    char *problem, *candidate; /* sources */
    size_t problem_length, candidate_length;

    struct job *reference;
    struct job *candidate_check; /* correctness, with guarded allocations */
    struct job *candidate_timed, *baseline_timed;
    struct job *candidate_memory, *baseline_memory;

    int init_fd; /* pickled constructor arguments, from the reference process */
    struct shared sets[SETS_MAX];
    struct shared output, state;
    unsigned set_generation[SETS_MAX]; /* counts the regions that held a set */
    unsigned given_generation;         /* of set 0, as the correctness job has it */
    unsigned state_generation;         /* counts the regions that held the parameters */
    unsigned builds;                   /* that candidates asked for */
    char description[3000];            /* of the expected output */

    bool decided; /* a verdict stands */
    bool broken;  /* err is set, and there is no verdict */
    bool candidate_loaded;
    uint64_t model_seed;
    uint64_t build_ns; /* of the candidate's builds so far */
    uint64_t output_hash;
    bool matmul_matters; /* fp32 with and without TF32 give different bits */
};

/* What compares with COMPARE's answer, see message.h. */
struct comparison {
    uint64_t zone_damage, zone_offset;
    bool inputs_intact;
    uint64_t output_hash;
    unsigned output;
    enum dtype dtype;
    char shape[256]; /* "16x32" */
    double baseline_s, baseline_n;
    bool tf32; /* the matmul flag changes the reference's output, and TF32 is allowed */
    struct compare_result result;
};

/* Sets the verdict, once. */
void judging_decide(struct judging *judging, enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The verdict that a candidate's job earned by not answering with JOB_OK, during `step` ("loading",
 * "the call for family D2", ...); or an error, where it is kbv's own. Returns 0 when there is a
 * verdict now, -1 when `err` is set. */
int judging_blame(struct judging *judging, struct job *job, enum job_outcome outcome,
                  const char *step, struct error *err);

/* The same for the reference process: MESSAGE_FAIL of the problem's own code is problem_unfit. */
int judging_blame_reference(struct judging *judging, enum job_outcome outcome, struct error *err);

void judging_progress(struct judging *judging, enum stage stage, const char *what, unsigned done,
                      unsigned total);

/* One request to the reference process. True on success; else a verdict or an error is set. */
bool judging_ask_reference(struct judging *judging, struct frame *request, const int *fds,
                           size_t fd_count, struct frame *reply, int *reply_fds,
                           size_t *reply_fd_count, struct error *err);
/* One request to a candidate or baseline job, blamed with `step`. */
bool judging_ask(struct judging *judging, struct job *job, struct frame *request, const int *fds,
                 size_t fd_count, struct frame *reply, const char *step, struct error *err);

/* Loads source, constructs the model, hands over sets, output and parameters. */
bool judging_load(struct judging *judging, struct job *job, bool baseline, struct error *err);
/* Only tells it to; judging_construct() with the same arguments then waits for it. */
bool judging_construct_ahead(struct judging *judging, struct job *job, uint64_t seed,
                             enum model_mode mode, const char *step, struct error *err);
bool judging_construct(struct judging *judging, struct job *job, uint64_t seed,
                       enum model_mode mode, const char *step, struct error *err);
bool judging_adopt(struct judging *judging, struct job *job, bool *ret_matched, char *ret_reason,
                   size_t reason_size, const char *step, struct error *err);
bool judging_give_set(struct judging *judging, struct job *job, unsigned set, struct error *err);
bool judging_give_output(struct judging *judging, struct job *job, struct error *err);
bool judging_simple(struct judging *judging, enum message message, struct error *err);
bool judging_model(struct judging *judging, uint64_t seed, enum model_mode mode, struct error *err);

/* What DRAW answers. */
struct draw {
    bool applies;
    char reason[EVALUATION_TEXT_MAX];
    unsigned controls;
    bool output_changed;
};
bool judging_draw(struct judging *judging, unsigned set, const char *family, uint64_t seed,
                  uint64_t call_seed, bool judged, struct draw *ret_draw, struct error *err);
/* Shows a candidate that is ready what was drawn for `set`. */
bool judging_publish(struct judging *judging, unsigned set, struct error *err);
bool judging_output_hash(struct judging *judging, uint64_t *ret_hash, struct error *err);
bool judging_compare(struct judging *judging, unsigned set, struct comparison *ret_comparison,
                     struct error *err);

/* Whether the comparison is within budget. Fills the evidence: figures, limits, the worst element,
 * and a reason if it is not. */
bool judging_accepts(const struct comparison *comparison, struct family_evidence *evidence);

/* The handler of a candidate's builds; the context is the struct judging. */
int judging_build(void *context, struct job *job, int spec_fd, struct error *err);

/* Starts a job; a candidate's builds will be answered. */
int judging_start(struct judging *judging, enum job_role role, unsigned flags, struct job **ret_job,
                  struct error *err);
/* Ends a job, keeps the end of what the candidate printed, and clears the pointer. */
void judging_finish(struct judging *judging, struct job **job);
/* Ends the correctness job and starts one whose allocations are not guarded. */
bool judging_restart_check(struct judging *judging, struct error *err);
/* Ends all jobs and frees what the evaluation held. */
void judging_release(struct judging *judging);

/* Stages. Each returns false when the evaluation ends here: decided, or broken. */
bool stage_correctness(struct judging *judging, struct error *err);
bool stage_timing(struct judging *judging, struct error *err);
bool stage_memory(struct judging *judging, struct error *err);

#endif
