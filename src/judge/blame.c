/* From what a process did to what is said of it. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "judge/judging.h"

void judging_decide(struct judging *judging, enum verdict verdict, const char *format, ...)
{
    va_list args;

    if (judging->decided)
        return;
    judging->decided = true;
    judging->evaluation->verdict = verdict;
    va_start(args, format);
    vsnprintf(judging->evaluation->reason, sizeof(judging->evaluation->reason), format, args);
    va_end(args);
}

/* A fault inside an input set is an attempt to write to it: the mapping is read-only. */
static bool decide_fault(struct judging *judging, struct job *job, const char *step)
{
    uint64_t address = atomic_load(&job->page->fault_address);
    uint32_t fault = atomic_load(&job->page->fault_signal);

    if (fault != SIGSEGV && fault != SIGBUS)
        return false;
    for (unsigned i = 0; i < SETS_MAX; i++) {
        uint64_t start = job->set_address[i];

        if (start && address >= start && address - start < judging->sets[i].bytes) {
            judging_decide(judging, VERDICT_TAMPERED, "wrote to its inputs (byte %llu) during %s",
                           (unsigned long long)(address - start), step);
            return true;
        }
    }
    return false;
}

static void decide_death(struct judging *judging, struct job *job, const char *step)
{
    bool killed = job->exit_known && WIFSIGNALED(job->exit.wait_status) &&
                  WTERMSIG(job->exit.wait_status) == SIGKILL;
    char how[128];

    if (decide_fault(judging, job, step))
        return;
    job_describe_exit(job, how, sizeof(how));
    /* Nobody but the kernel's memory killer sends SIGKILL to a leaf that the judge has not ended.
     */
    if (killed)
        judging_decide(judging, VERDICT_OUT_OF_MEMORY,
                       "the process was killed for memory during %s", step);
    else
        judging_decide(judging, VERDICT_CRASHED, "the process %s during %s", how, step);
}

/* MESSAGE_FAIL of a candidate: which verdict, by what it is about. */
static enum verdict verdict_of_failure(enum fail_kind kind, bool loading)
{
    switch (kind) {
    case FAIL_BUILD:
        return VERDICT_BUILD_FAILED;
    case FAIL_SYNTAX:
    case FAIL_ENCODING:
    case FAIL_EMPTY:
    case FAIL_IMPORT:
    case FAIL_NO_MODEL:
    case FAIL_NO_GET_INPUTS:
        return VERDICT_LOAD_FAILED;
    case FAIL_OUT_OF_MEMORY:
        return VERDICT_OUT_OF_MEMORY;
    case FAIL_OUTPUT:
        return VERDICT_TAMPERED;
    case FAIL_FORM:
        return VERDICT_WRONG;
    default:
        return loading ? VERDICT_LOAD_FAILED : VERDICT_CRASHED;
    }
}

int judging_blame(struct judging *judging, struct job *job, enum job_outcome outcome,
                  const char *step, struct error *err)
{
    bool loading = !judging->candidate_loaded;
    char line[32] = "";

    if (outcome == JOB_BROKEN)
        return -1;
    if (job == judging->baseline_timed || job == judging->baseline_memory) {
        char how[128] = "did not answer in time";

        if (outcome == JOB_FAILED && job->failure.kind == FAIL_OUT_OF_MEMORY)
            return error_set(err, ERROR_UNFIT,
                             "the device has too little memory for the reference: %s",
                             job->failure.text);
        if (outcome == JOB_DIED)
            job_describe_exit(job, how, sizeof(how));
        return error_set(err, ERROR_INTERNAL, "the baseline's process failed during %s: %s", step,
                         outcome == JOB_FAILED || outcome == JOB_FORGED ? job->failure.text : how);
    }
    switch (outcome) {
    case JOB_FAILED:
        if (job->failure.line)
            snprintf(line, sizeof(line), "line %u: ", job->failure.line);
        if (job->failure.kind == FAIL_OUTPUT || job->failure.kind == FAIL_FORM)
            judging_decide(judging, verdict_of_failure(job->failure.kind, loading), "%s (%s)",
                           job->failure.text, step);
        else
            judging_decide(judging, verdict_of_failure(job->failure.kind, loading), "%s%s", line,
                           job->failure.text);
        return 0;
    case JOB_DIED:
        decide_death(judging, job, step);
        return 0;
    case JOB_TIMED_OUT:
        judging_decide(judging, VERDICT_TIMED_OUT, "%s took more than %g s", step,
                       judging->request->timeout_s);
        return 0;
    case JOB_FORGED:
        judging_decide(judging, VERDICT_TAMPERED, "%s (during %s)", job->failure.text, step);
        return 0;
    default:
        return error_set(err, ERROR_INTERNAL, "no outcome during %s", step);
    }
}

int judging_blame_reference(struct judging *judging, enum job_outcome outcome, struct error *err)
{
    struct job *job = judging->reference;
    char how[128], line[32] = "";

    switch (outcome) {
    case JOB_FAILED:
        if (job->failure.line)
            snprintf(line, sizeof(line), ":%u", job->failure.line);
        switch (job->failure.kind) {
        case FAIL_SYNTAX:
        case FAIL_ENCODING:
        case FAIL_EMPTY:
        case FAIL_IMPORT:
        case FAIL_NO_MODEL:
        case FAIL_NO_GET_INPUTS:
            return error_set(err, ERROR_USAGE,
                             "%s%s: %s; a problem is a Python file with class Model "
                             "and get_inputs()",
                             judging->request->problem_path, line, job->failure.text);
        case FAIL_OUT_OF_MEMORY:
            return error_set(err, ERROR_UNFIT, "%s has too little memory for the reference: %s",
                             judging->evaluation->device_name, job->failure.text);
        case FAIL_NO_SPACE:
            return error_set(err, ERROR_USAGE,
                             "%s: No space left on device; set TMPDIR to a directory with more",
                             job->scratch);
        case FAIL_RAISED:
            judging_decide(judging, VERDICT_PROBLEM_UNFIT, "%s", job->failure.text);
            return 0;
        default:
            return error_set(err, ERROR_INTERNAL, "the reference process: %s", job->failure.text);
        }
    case JOB_DIED:
        job_describe_exit(job, how, sizeof(how));
        if (job->exit_known && WIFSIGNALED(job->exit.wait_status) &&
            WTERMSIG(job->exit.wait_status) == SIGKILL)
            return error_set(err, ERROR_UNFIT,
                             "the reference process was killed, most likely for memory");
        judging_decide(judging, VERDICT_PROBLEM_UNFIT, "the reference process %s", how);
        return 0;
    case JOB_TIMED_OUT:
        judging_decide(judging, VERDICT_PROBLEM_UNFIT, "the reference took more than %llu s",
                       REFERENCE_TIMEOUT_NS / NS_PER_S);
        return 0;
    case JOB_FORGED:
        return error_set(err, ERROR_INTERNAL, "the reference process: %s", job->failure.text);
    default:
        return -1;
    }
}

bool judging_ask_reference(struct judging *judging, struct frame *request, const int *fds,
                           size_t fd_count, struct frame *reply, int *reply_fds,
                           size_t *reply_fd_count, struct error *err)
{
    enum job_outcome outcome =
        job_request(judging->reference, request, fds, fd_count, REFERENCE_TIMEOUT_NS, reply,
                    reply_fds, reply_fd_count, err);

    if (outcome == JOB_OK)
        return true;
    if (judging_blame_reference(judging, outcome, err) < 0)
        judging->broken = true;
    return false;
}

bool judging_ask(struct judging *judging, struct job *job, struct frame *request, const int *fds,
                 size_t fd_count, struct frame *reply, const char *step, struct error *err)
{
    bool trusted = job == judging->baseline_timed || job == judging->baseline_memory;
    uint64_t timeout_ns =
        trusted ? REFERENCE_TIMEOUT_NS : (uint64_t)(judging->request->timeout_s * 1e9);
    enum job_outcome outcome =
        job_request(job, request, fds, fd_count, timeout_ns, reply, NULL, NULL, err);

    if (outcome == JOB_OK)
        return true;
    if (judging_blame(judging, job, outcome, step, err) < 0)
        judging->broken = true;
    return false;
}
