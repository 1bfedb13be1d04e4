#include "judge/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"
#include "judge/judging.h"
#include "wire/blob.h"

#define SOURCE_MAX (8u << 20)

static bool problem_load(struct judging *judging, struct error *err)
{
    CLEANUP_FD int source_fd = -1;
    int fds[FRAME_FDS_MAX];
    struct frame frame;
    size_t fd_count;

    if (blob_new(judging->problem, judging->problem_length, &source_fd, err) < 0) {
        judging->broken = true;
        return false;
    }
    frame_init(&frame, MESSAGE_PROBLEM);
    frame_put_text(&frame, judging->request->dtype);
    frame_put_text(&frame, judging->request->baseline_matmul);
    if (!judging_ask_reference(judging, &frame, &source_fd, 1, &frame, fds, &fd_count, err))
        return false;
    if (fd_count != 1) {
        for (size_t i = 0; i < fd_count; i++)
            close(fds[i]);
        error_set(err, ERROR_INTERNAL, "the reference process sent no constructor arguments");
        judging->broken = true;
        return false;
    }
    judging->init_fd = fds[0];
    return true;
}

static int read_sources(struct judging *judging, struct error *err)
{
    const struct request *request = judging->request;
    struct evaluation *evaluation = judging->evaluation;

    if (file_read(request->problem_path, SOURCE_MAX, &judging->problem, &judging->problem_length,
                  err) < 0 ||
        file_read(request->candidate_path, SOURCE_MAX, &judging->candidate,
                  &judging->candidate_length, err) < 0)
        return -1;
    text_clean_line(evaluation->problem_path, sizeof(evaluation->problem_path),
                    request->problem_path, strlen(request->problem_path));
    text_clean_line(evaluation->candidate_path, sizeof(evaluation->candidate_path),
                    request->candidate_path, strlen(request->candidate_path));
    hash_hex(judging->problem, judging->problem_length, evaluation->problem_hash);
    hash_hex(judging->candidate, judging->candidate_length, evaluation->candidate_hash);
    return 0;
}

int evaluate_check(const struct request *request, struct error *err)
{
    const char *const paths[] = {request->problem_path, request->candidate_path};

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        CLEANUP_FREE char *bytes = NULL;
        size_t length;

        if (file_read(paths[i], SOURCE_MAX, &bytes, &length, err) < 0)
            return -1;
        /* A candidate that is no text is judged (load_failed); a problem that is none is bad input.
         */
        if (i == 0 && !text_is_utf8(bytes, length))
            return error_set(err, ERROR_USAGE, "%s: is not UTF-8 text", paths[i]);
    }
    return 0;
}

static void note_environment(struct judging *judging)
{
    struct evaluation *evaluation = judging->evaluation;
    const struct session *session = judging->session;
    const struct job *job = judging->reference;

    snprintf(evaluation->device, sizeof(evaluation->device), "%s", session->device);
    snprintf(evaluation->device_name, sizeof(evaluation->device_name), "%s", job->device_name);
    snprintf(evaluation->driver, sizeof(evaluation->driver), "%s", job->driver);
    snprintf(evaluation->dtype, sizeof(evaluation->dtype), "%s", judging->request->dtype);
    snprintf(evaluation->torch_version, sizeof(evaluation->torch_version), "%s",
             session->torch_version);
    snprintf(evaluation->python_version, sizeof(evaluation->python_version), "%s",
             session->python_version);
    snprintf(evaluation->cuda_version, sizeof(evaluation->cuda_version), "%s",
             session->cuda_version);
}

/* The seconds since *mark, less what builds took meanwhile; moves the mark. */
static struct figure lap(const struct judging *judging, uint64_t *mark, uint64_t *build_mark)
{
    uint64_t now = clock_now_ns();
    uint64_t built = judging->build_ns - *build_mark;
    double seconds = (double)(now - *mark - built) / 1e9;

    *mark = now;
    *build_mark = judging->build_ns;
    return FIGURE(seconds);
}

static bool run_stages(struct judging *judging, struct error *err)
{
    struct stage_seconds *seconds = &judging->evaluation->seconds;
    uint64_t mark = clock_now_ns(), build_mark = 0;
    bool with_timing = judging->request->time_cap_s >= 0, go_on;

    judging_progress(judging, STAGE_STARTUP, "starting processes", 0, 0);
    /* Drivers make contexts one after another: the two that are needed first come first, the others
     * while the reference works. No candidate code runs in any of them yet. */
    if (judging_start(judging, ROLE_REFERENCE, 0, &judging->reference, err) < 0 ||
        judging_start(judging, ROLE_CANDIDATE, JOB_GUARD, &judging->candidate_check, err) < 0 ||
        job_wait_ready(judging->reference, err) < 0 ||
        (with_timing &&
         (judging_start(judging, ROLE_CANDIDATE, 0, &judging->baseline_timed, err) < 0 ||
          judging_start(judging, ROLE_CANDIDATE, 0, &judging->candidate_timed, err) < 0 ||
          judging_start(judging, ROLE_CANDIDATE, JOB_COUNT_MEMORY, &judging->baseline_memory, err) <
              0 ||
          judging_start(judging, ROLE_CANDIDATE, JOB_COUNT_MEMORY, &judging->candidate_memory,
                        err) < 0))) {
        judging->broken = true;
        return false;
    }
    note_environment(judging);
    seconds->startup = lap(judging, &mark, &build_mark);
    if (!problem_load(judging, err))
        return false;
    go_on = stage_correctness(judging, err);
    seconds->build = FIGURE((double)judging->build_ns / 1e9);
    seconds->correctness = lap(judging, &mark, &build_mark);
    /* Nothing of the candidate's may run beside what is timed. */
    judging_finish(judging, &judging->candidate_check);
    if (!go_on || !with_timing)
        return go_on;
    go_on = stage_timing(judging, err);
    seconds->timing = lap(judging, &mark, &build_mark);
    judging_finish(judging, &judging->candidate_timed);
    judging_finish(judging, &judging->baseline_timed);
    if (!go_on)
        return false;
    go_on = stage_memory(judging, err);
    seconds->memory = lap(judging, &mark, &build_mark);
    return go_on;
}

int evaluate(struct session *session, const struct request *request, struct evaluation *evaluation,
             struct error *err)
{
    struct judging judging = {
        .session = session, .request = request, .evaluation = evaluation, .init_fd = -1};
    uint64_t started = clock_now_ns();

    evaluation->seed = request->seed_given ? request->seed : secret_seed();
    if (read_sources(&judging, err) == 0) {
        if (run_stages(&judging, err))
            judging_decide(&judging, VERDICT_VERIFIED, "%s",
                           request->time_cap_s < 0 ? "right on every family that applies; not timed"
                                                   : "right on every family that applies");
    } else {
        judging.broken = true;
    }
    judging_release(&judging);
    evaluation->seconds.total = FIGURE(clock_seconds_since(started));
    return judging.decided ? 0 : -1;
}
