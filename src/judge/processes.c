/* The processes of one evaluation, from their start to their end. */
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "judge/judging.h"

void judging_progress(struct judging *judging, enum stage stage, const char *what, unsigned done,
                      unsigned total)
{
    if (judging->request->progress)
        judging->request->progress(judging->request->progress_context, stage, what, done, total);
}

int judging_start(struct judging *judging, enum job_role role, unsigned flags, struct job **ret_job,
                  struct error *err)
{
    if (job_start(judging->session, role, flags, ret_job, err) < 0)
        return -1;
    if (role == ROLE_CANDIDATE) {
        (*ret_job)->on_build = judging_build;
        (*ret_job)->build_context = judging;
    }
    return 0;
}

void judging_finish(struct judging *judging, struct job **job)
{
    struct evaluation *evaluation = judging->evaluation;
    char tail[TAIL_BYTES];
    uint64_t total;
    size_t length;

    if (!*job)
        return;
    job_end(*job);
    tail_stop((*job)->output);
    length = tail_read((*job)->output, tail, &total);
    if (total && *job != judging->baseline_timed && *job != judging->baseline_memory &&
        *job != judging->reference) {
        text_clean_tail(evaluation->candidate_output, sizeof(evaluation->candidate_output), tail,
                        length);
        evaluation->candidate_output_bytes += total;
    }
    job_free(*job);
    *job = NULL;
}

bool judging_restart_check(struct judging *judging, struct error *err)
{
    judging_finish(judging, &judging->candidate_check);
    if (judging_start(judging, ROLE_CANDIDATE, 0, &judging->candidate_check, err) == 0)
        return true;
    judging->broken = true;
    return false;
}

void judging_release(struct judging *judging)
{
    struct job *const jobs[] = {judging->candidate_check, judging->candidate_timed,
                                judging->baseline_timed,  judging->candidate_memory,
                                judging->baseline_memory, judging->reference};

    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
        job_tell_end(jobs[i]);
    judging_finish(judging, &judging->candidate_check);
    judging_finish(judging, &judging->candidate_timed);
    judging_finish(judging, &judging->baseline_timed);
    judging_finish(judging, &judging->candidate_memory);
    judging_finish(judging, &judging->baseline_memory);
    judging_finish(judging, &judging->reference);
    for (unsigned i = 0; i < SETS_MAX; i++)
        shared_release(&judging->sets[i]);
    shared_release(&judging->output);
    shared_release(&judging->state);
    if (judging->init_fd >= 0)
        close(judging->init_fd);
    free(judging->problem);
    free(judging->candidate);
}
