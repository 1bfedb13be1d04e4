/*
 * Memory: the peak during one call, in a fresh process for each side.
 *
 * CUDA: the framework's caching is off there (every torch allocation goes to the driver through
 * kbv's allocator, which counts), and the driver's own figure of free memory bounds what went past
 * it (raw cudaMalloc, pools). Where that figure moves while the baseline runs, whose counters are
 * true, somebody else works on the device, and the counters are all that there is. CPU: the peak
 * resident set, read by the judge from outside; what the process held before it loaded anything of
 * the problem is taken off, so that the interpreter and torch do not drown a small kernel's figure.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/secret.h"
#include "judge/judging.h"

#define CALLS      2 /* the first one warms up: workspaces, compilers */
#define SAME_SHARE 0.02
#define SAME_BYTES (4.0 * (1 << 20))
/* A process' modules, handles and events, which the driver also takes from free memory. */
#define UNEXPLAINED_MIN (96.0 * (1 << 20))

struct usage {
    double absolute_bytes, above_bytes;
    double past_bytes; /* gone from the device and in no counter */
};

/* One figure of /proc/PID/status in bytes, or -1. */
static double status_bytes(pid_t pid, const char *name)
{
    CLEANUP_FILE FILE *file = NULL;
    char path[64], line[256];
    size_t length = strlen(name);
    double kib;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, length) == 0 && line[length] == ':' &&
            sscanf(line + length + 1, "%lf", &kib) == 1)
            return kib * 1024;
    }
    return -1;
}

/* Resets the peak resident set of `pid` to what is resident now. */
static void reset_peak(pid_t pid)
{
    char path[64];
    CLEANUP_FD int fd = -1;

    snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)pid);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "5", 1) != 1)
        return; /* the peak then counts from the process' start: an upper bound on both sides */
}

static bool blame(struct judging *judging, struct job *job, enum job_outcome outcome,
                  struct error *err)
{
    if (outcome == JOB_OK)
        return true;
    if (judging_blame(judging, job, outcome, "the call whose memory is measured", err) < 0)
        judging->broken = true;
    return false;
}

static bool ask_counters(struct judging *judging, struct job *job, double ret_counters[3],
                         struct error *err)
{
    struct frame_reader reader;
    struct frame frame;

    frame_init(&frame, MESSAGE_MEMORY);
    if (!judging_ask(judging, job, &frame, NULL, 0, &frame, "reading memory counters", err))
        return false;
    reader = frame_read(&frame);
    for (int i = 0; i < 3; i++)
        ret_counters[i] = (double)frame_get_int(&reader);
    if (frame_done(&reader))
        return true;
    judging_decide(judging, VERDICT_TAMPERED, "malformed message: memory counters of another form");
    return false;
}

/* Free memory as the reference process sees it: a candidate has no say in it. */
static bool device_free(struct judging *judging, double *ret_free_bytes, struct error *err)
{
    struct frame_reader reader;
    struct frame frame;

    frame_init(&frame, MESSAGE_DEVICE_MEMORY);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err))
        return false;
    reader = frame_read(&frame);
    *ret_free_bytes = (double)frame_get_int(&reader);
    return true;
}

static bool measure(struct judging *judging, struct job *job, bool baseline,
                    struct usage *ret_usage, struct error *err)
{
    uint64_t timeout_ns = (uint64_t)(judging->request->timeout_s * 1e9), judge_ns, own_ns;
    bool on_cpu = judging->session->on_cpu, matched;
    double before[3] = {0}, after[3] = {0}; /* live at the last call's start, live, peak */
    double base = 0, start = 0, peak = 0, free_before = 0, free_after = 0;
    char reason[512];
    pid_t leaf;

    if (job_wait_ready(job, err) < 0) {
        judging->broken = true;
        return false;
    }
    leaf = job_leaf_pid(job);
    if (on_cpu)
        base = status_bytes(leaf, "VmRSS");
    else if (!ask_counters(judging, job, before, err) || !device_free(judging, &free_before, err))
        return false;
    if (!judging_load(judging, job, baseline, err) ||
        !judging_construct(judging, job, judging->model_seed, MODEL_PLAIN,
                           "constructing for memory", err) ||
        !judging_adopt(judging, job, &matched, reason, sizeof(reason), "receiving parameters",
                       err) ||
        !judging_give_output(judging, job, err) || !judging_give_set(judging, job, 0, err) ||
        !blame(judging, job, job_timing_begin(job, err), err))
        return false;
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t seed = secret_derive(judging->evaluation->seed, "memory call", i);

        if (!blame(judging, job, job_call_prepare(job, 0, seed, timeout_ns, err), err))
            return false;
        if (on_cpu) {
            reset_peak(leaf);
            start = status_bytes(leaf, "VmRSS");
        }
        if (!blame(judging, job, job_call_run(job, timeout_ns, &judge_ns, &own_ns, err), err))
            return false;
        if (on_cpu)
            peak = status_bytes(leaf, "VmHWM");
    }
    if (!blame(judging, job, job_timing_end(job, timeout_ns, err), err))
        return false;
    if (on_cpu) {
        if (base < 0 || start < 0 || peak < 0) {
            error_set(err, ERROR_UNFIT, "/proc does not show the memory of a process");
            judging->broken = true;
            return false;
        }
        *ret_usage = (struct usage){.absolute_bytes = peak - base > 0 ? peak - base : 0,
                                    .above_bytes = peak - start > 0 ? peak - start : 0};
        return true;
    }
    if (!ask_counters(judging, job, after, err) || !device_free(judging, &free_after, err))
        return false;
    {
        /* What is gone from the device and not in the counters went past the framework, or the
         * counters lie. */
        double unexplained = (free_before - free_after) - fmax(0, after[1] - before[1]);

        if (unexplained < UNEXPLAINED_MIN)
            unexplained = 0;
        *ret_usage = (struct usage){
            .absolute_bytes = (double)judging->sets[0].bytes + fmax(after[2], after[1]),
            .above_bytes = fmax(0, after[2] - after[0]),
            .past_bytes = unexplained,
        };
    }
    return true;
}

bool stage_memory(struct judging *judging, struct error *err)
{
    struct memory_evidence *memory = &judging->evaluation->memory;
    struct usage baseline, candidate;
    double ratio, difference;
    bool shared;

    judging_progress(judging, STAGE_MEMORY, "baseline", 0, 2);
    if (!measure(judging, judging->baseline_memory, true, &baseline, err))
        return false;
    judging_progress(judging, STAGE_MEMORY, "candidate", 1, 2);
    if (!measure(judging, judging->candidate_memory, false, &candidate, err)) {
        /* It was right, and it was timed; the allocator here is not the usual one (a CUDA graph
         * cannot be captured with it). Then this figure is missing, and the verdict stands. */
        if (judging->broken || judging->evaluation->verdict == VERDICT_TAMPERED)
            return false;
        snprintf(memory->method, sizeof(memory->method), "none: %.50s",
                 judging->evaluation->reason);
        judging->decided = false;
        judging->evaluation->reason[0] = '\0';
        return true;
    }
    shared = baseline.past_bytes > 0;
    if (!shared) {
        candidate.absolute_bytes += candidate.past_bytes;
        candidate.above_bytes += candidate.past_bytes;
    }
    snprintf(memory->method, sizeof(memory->method), "%s",
             judging->session->on_cpu ? "resident_set"
             : shared                 ? "allocator"
                                      : "allocator+driver");
    memory->baseline_bytes = FIGURE(baseline.absolute_bytes);
    memory->candidate_bytes = FIGURE(candidate.absolute_bytes);
    memory->baseline_above_bytes = FIGURE(baseline.above_bytes);
    memory->candidate_above_bytes = FIGURE(candidate.above_bytes);
    if (candidate.absolute_bytes <= 0 || baseline.absolute_bytes <= 0)
        return true; /* too small to be seen: a ratio would say nothing */
    ratio = baseline.absolute_bytes / candidate.absolute_bytes;
    difference = baseline.absolute_bytes - candidate.absolute_bytes;
    memory->ratio = FIGURE(ratio);
    if ((ratio < 1 + SAME_SHARE && ratio > 1 - SAME_SHARE) ||
        (judging->session->on_cpu && difference < SAME_BYTES && difference > -SAME_BYTES))
        memory->class = MEMORY_SAME;
    else
        memory->class = ratio > 1 ? MEMORY_LEANER : MEMORY_HEAVIER;
    return true;
}
