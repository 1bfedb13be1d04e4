/*
 * Jobs: the processes that a session's warm parents fork, and talking to them.
 *
 * A job answers requests (job_request) and, once MESSAGE_TIMING was sent, speaks through the shared
 * page (job_call_prepare, job_call_run). Whatever it does, every wait here ends: with its
 * answer, its death, its deadline, or a message that is none. Jobs of candidates are hostile; the
 * judge never takes their word for anything that would be to their advantage.
 */
#ifndef KBV_JUDGE_JOB_H
#define KBV_JUDGE_JOB_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/tail.h"
#include "judge/session.h"
#include "sandbox/sandbox.h"
#include "wire/frame.h"
#include "wire/message.h"
#include "wire/page.h"

enum job_outcome {
    JOB_OK,
    JOB_FAILED, /* it answered MESSAGE_FAIL; see job->failure */
    JOB_DIED,   /* see job->exit */
    JOB_TIMED_OUT,
    JOB_FORGED, /* a malformed or unexpected message; see job->failure.text */
    JOB_BROKEN, /* kbv's own failure; `err` is set */
};

struct job_failure {
    enum fail_kind kind;
    unsigned line; /* 0: none */
    char text[1024];
};

struct job;

/* Called when a candidate asks for a build. Answers it; seconds spent are not the candidate's. */
typedef int job_build_handler(void *context, struct job *job, int spec_fd, struct error *err);

struct job {
    struct session *session;
    enum job_role role;
    int channel;
    int report_fd;
    struct page *page;
    uint32_t sequence; /* of the last call through the page */
    struct tail *output;
    pid_t supervisor;
    int supervisor_fd; /* pidfd */
    char scratch[PATH_MAX];
    char builds[PATH_MAX]; /* finished builds, read-only to the job */

    bool ended;
    struct sandbox_exit exit; /* once ended; wait_status as waitpid() gives it */
    bool exit_known;
    struct job_failure failure;

    /* Where it says that it mapped the input sets; 0: not yet. Only ever used against it. */
    uint64_t set_address[8];

    unsigned state_generation; /* of the parameters' region that it has mapped; 0: none */
    uint16_t ahead;            /* type of the request that it has already; 0: none */

    job_build_handler *on_build;
    void *build_context;

    /* From MESSAGE_READY. */
    bool ready;
    unsigned sandbox_layers;
    char device_name[128], driver[64];
    uint64_t device_memory_bytes, l2_bytes;
    double bandwidth; /* bytes/s; 0: unknown */
};

/* Forks a job; it prepares itself meanwhile, job_wait_ready() waits for that. */
int job_start(struct session *session, enum job_role role, unsigned flags, struct job **ret_job,
              struct error *err);
/* Until it said MESSAGE_READY. Failure here is the machine's: ERROR_UNFIT or ERROR_INTERNAL. */
int job_wait_ready(struct job *job, struct error *err);

/* Ends the job and everything it started, removes its scratch. NULL is allowed. */
void job_free(struct job *job);
/* Ends it but keeps what is known of its end and output. */
void job_end(struct job *job);
/* Only tells it to end: several jobs then end at the same time. NULL is allowed. */
void job_tell_end(struct job *job);

/*
 * Sends `request` and waits for the answer. `fds` stay the caller's. On JOB_OK, `ret_reply` holds
 * the answer and `ret_fds` (room for FRAME_FDS_MAX; NULL: descriptors are not expected) the
 * descriptors with it, *ret_fd_count of them.
 */
enum job_outcome job_request(struct job *job, struct frame *request, const int *fds,
                             size_t fd_count, uint64_t timeout_ns, struct frame *ret_reply,
                             int *ret_fds, size_t *ret_fd_count, struct error *err);

/* Only sends it, so that several jobs work at the same time: the next job_request() must be of this
 * type, and only waits for the answer. */
enum job_outcome job_request_ahead(struct job *job, struct frame *request, struct error *err);

/* Calls through the page. MESSAGE_TIMING must have been sent with job_timing_begin(). */
enum job_outcome job_timing_begin(struct job *job, struct error *err);
enum job_outcome job_timing_end(struct job *job, uint64_t timeout_ns, struct error *err);
/* Prepares a call on input set `set`: on return the worker is ready and waits for the start. */
enum job_outcome job_call_prepare(struct job *job, unsigned set, uint64_t generator_seed,
                                  uint64_t timeout_ns, struct error *err);
/*
 * Starts it, and waits until its output was copied out. *ret_judge_ns counts until then: what the
 * worker says of an earlier moment is its own word, and behind it work could go on unseen.
 */
enum job_outcome job_call_run(struct job *job, uint64_t timeout_ns, uint64_t *ret_judge_ns,
                              uint64_t *ret_own_ns, struct error *err);

/* What a process that ended by itself did, in words: "was killed by SIGSEGV", "exited with
 * status 0". */
void job_describe_exit(const struct job *job, char *to, size_t size);

/* The pid of the leaf as this system sees it, or -1. */
pid_t job_leaf_pid(const struct job *job);

/* Stops the leaf, all of its threads, or lets it go on: so that nothing of a candidate's runs while
 * the baseline is timed. Work that it left on a GPU goes on. */
void job_pause(const struct job *job, bool pause);

#endif
