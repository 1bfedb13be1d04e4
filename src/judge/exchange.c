/* The requests of which the stages are made: who is asked what, with which descriptors. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "judge/judging.h"
#include "protocol/tolerance.h"
#include "wire/blob.h"

void shared_release(struct shared *shared)
{
    if (shared->present) {
        close(shared->region_fd);
        close(shared->layout_fd);
    }
    shared->present = false;
}

/* Takes the two descriptors that came with a region; false where they are not two. */
static bool shared_take(struct judging *judging, struct shared *shared, uint64_t bytes,
                        const int *fds, size_t fd_count, struct error *err)
{
    if (fd_count != 2) {
        for (size_t i = 0; i < fd_count; i++)
            close(fds[i]);
        error_set(err, ERROR_INTERNAL,
                  "the reference process sent a region without its descriptors");
        judging->broken = true;
        return false;
    }
    shared_release(shared);
    *shared =
        (struct shared){.present = true, .bytes = bytes, .region_fd = fds[0], .layout_fd = fds[1]};
    return true;
}

static bool understood(struct judging *judging, const struct frame_reader *reader,
                       struct error *err)
{
    if (frame_done(reader))
        return true;
    error_set(err, ERROR_INTERNAL, "the reference process gave an answer of another form");
    judging->broken = true;
    return false;
}

/* The same for an untrusted job. */
static bool candid(struct judging *judging, struct job *job, const struct frame_reader *reader,
                   const char *step, struct error *err)
{
    if (frame_done(reader))
        return true;
    snprintf(job->failure.text, sizeof(job->failure.text),
             "malformed message: an answer of another form");
    if (judging_blame(judging, job, JOB_FORGED, step, err) < 0)
        judging->broken = true;
    return false;
}

bool judging_model(struct judging *judging, uint64_t seed, enum model_mode mode, struct error *err)
{
    int fds[FRAME_FDS_MAX];
    struct frame_reader reader;
    struct frame frame;
    size_t fd_count;
    int64_t bytes;

    frame_init(&frame, MESSAGE_MODEL);
    frame_put_int(&frame, (int64_t)seed);
    frame_put_int(&frame, mode);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err))
        return false;
    frame_init(&frame, MESSAGE_STATE);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, fds, &fd_count, err))
        return false;
    reader = frame_read(&frame);
    bytes = frame_get_int(&reader);
    if (!understood(judging, &reader, err))
        return false;
    if (bytes == 0)
        return true;
    judging->state_generation++;
    return shared_take(judging, &judging->state, (uint64_t)bytes, fds, fd_count, err);
}

bool judging_simple(struct judging *judging, enum message message, struct error *err)
{
    struct frame frame;

    frame_init(&frame, (uint16_t)message);
    return judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err);
}

bool judging_publish(struct judging *judging, unsigned set, struct error *err)
{
    struct frame frame;

    frame_init(&frame, MESSAGE_PUBLISH);
    frame_put_int(&frame, set);
    return judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err);
}

bool judging_output_hash(struct judging *judging, uint64_t *ret_hash, struct error *err)
{
    struct frame_reader reader;
    struct frame frame;
    uint64_t hash;

    frame_init(&frame, MESSAGE_OUTPUT_HASH);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err))
        return false;
    reader = frame_read(&frame);
    hash = (uint64_t)frame_get_int(&reader);
    if (!understood(judging, &reader, err))
        return false;
    *ret_hash = hash;
    return true;
}

bool judging_load(struct judging *judging, struct job *job, bool baseline, struct error *err)
{
    CLEANUP_FD int source_fd = -1;
    const char *step = baseline ? "loading the reference" : "loading the candidate";
    struct frame frame;
    int fds[2];

    if (blob_new(baseline ? judging->problem : judging->candidate,
                 baseline ? judging->problem_length : judging->candidate_length, &source_fd,
                 err) < 0) {
        judging->broken = true;
        return false;
    }
    fds[0] = source_fd;
    fds[1] = judging->init_fd;
    frame_init(&frame, MESSAGE_LOAD);
    frame_put_text(&frame, baseline ? "Model" : "ModelNew");
    frame_put_text(&frame, judging->request->dtype);
    frame_put_text(&frame, judging->request->baseline_matmul);
    return judging_ask(judging, job, &frame, fds, 2, &frame, step, err);
}

static void construction(struct frame *frame, uint64_t seed, enum model_mode mode)
{
    frame_init(frame, MESSAGE_CONSTRUCT);
    frame_put_int(frame, (int64_t)seed);
    frame_put_int(frame, mode);
}

bool judging_construct_ahead(struct judging *judging, struct job *job, uint64_t seed,
                             enum model_mode mode, const char *step, struct error *err)
{
    enum job_outcome outcome;
    struct frame frame;

    construction(&frame, seed, mode);
    outcome = job_request_ahead(job, &frame, err);
    if (outcome == JOB_OK)
        return true;
    if (judging_blame(judging, job, outcome, step, err) < 0)
        judging->broken = true;
    return false;
}

bool judging_construct(struct judging *judging, struct job *job, uint64_t seed,
                       enum model_mode mode, const char *step, struct error *err)
{
    struct frame frame;

    construction(&frame, seed, mode);
    return judging_ask(judging, job, &frame, NULL, 0, &frame, step, err);
}

bool judging_adopt(struct judging *judging, struct job *job, bool *ret_matched, char *ret_reason,
                   size_t reason_size, const char *step, struct error *err)
{
    int fds[2] = {judging->state.region_fd, judging->state.layout_fd};
    /* A job maps the parameters' region once; its contents change in place after that. */
    bool known = job->state_generation == judging->state_generation;
    struct frame_reader reader;
    struct frame frame;
    bool matched;

    frame_init(&frame, MESSAGE_ADOPT);
    frame_put_int(&frame, known ? 0 : (int64_t)judging->state.bytes);
    if (!judging_ask(judging, job, &frame, fds, known ? 0 : 2, &frame, step, err))
        return false;
    job->state_generation = judging->state_generation;
    reader = frame_read(&frame);
    matched = frame_get_int(&reader) == 1;
    frame_get_text(&reader, ret_reason, reason_size);
    if (!candid(judging, job, &reader, step, err))
        return false;
    *ret_matched = matched;
    return true;
}

bool judging_give_set(struct judging *judging, struct job *job, unsigned set, struct error *err)
{
    int fds[2] = {judging->sets[set].region_fd, judging->sets[set].layout_fd};
    struct frame_reader reader;
    struct frame frame;

    frame_init(&frame, MESSAGE_SET);
    frame_put_int(&frame, set);
    frame_put_int(&frame, (int64_t)judging->sets[set].bytes);
    if (!judging_ask(judging, job, &frame, fds, 2, &frame, "receiving inputs", err))
        return false;
    reader = frame_read(&frame);
    job->set_address[set] = (uint64_t)frame_get_int(&reader);
    return candid(judging, job, &reader, "receiving inputs", err);
}

bool judging_give_output(struct judging *judging, struct job *job, struct error *err)
{
    int fds[2] = {judging->output.region_fd, judging->output.layout_fd};
    struct frame frame;

    frame_init(&frame, MESSAGE_OUTPUT);
    frame_put_int(&frame, (int64_t)judging->output.bytes);
    return judging_ask(judging, job, &frame, fds, 2, &frame, "receiving the output's place", err);
}

/* A region for the output as the reference now expects it. */
static bool renew_output(struct judging *judging, struct error *err)
{
    int fds[FRAME_FDS_MAX];
    struct frame_reader reader;
    struct frame frame;
    size_t fd_count;
    int64_t bytes;

    frame_init(&frame, MESSAGE_OUTPUT_NEW);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, fds, &fd_count, err))
        return false;
    reader = frame_read(&frame);
    bytes = frame_get_int(&reader);
    return understood(judging, &reader, err) &&
           shared_take(judging, &judging->output, (uint64_t)bytes, fds, fd_count, err);
}

bool judging_draw(struct judging *judging, unsigned set, const char *family, uint64_t seed,
                  uint64_t call_seed, bool judged, struct draw *ret_draw, struct error *err)
{
    char description[sizeof(judging->description)];
    int fds[FRAME_FDS_MAX];
    struct frame_reader reader;
    struct draw draw = {0};
    struct frame frame;
    size_t fd_count;
    int64_t bytes;

    frame_init(&frame, MESSAGE_DRAW);
    frame_put_int(&frame, set);
    frame_put_text(&frame, family);
    frame_put_int(&frame, (int64_t)seed);
    frame_put_int(&frame, (int64_t)call_seed);
    frame_put_int(&frame, judged);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, fds, &fd_count, err))
        return false;
    reader = frame_read(&frame);
    draw.applies = frame_get_int(&reader) == 1;
    frame_get_text(&reader, draw.reason, sizeof(draw.reason));
    frame_get_text(&reader, description, sizeof(description));
    draw.controls = (unsigned)frame_get_int(&reader);
    bytes = frame_get_int(&reader);
    if (!understood(judging, &reader, err))
        return false;
    if (fd_count) {
        if (!shared_take(judging, &judging->sets[set], (uint64_t)bytes, fds, fd_count, err))
            return false;
        judging->set_generation[set]++;
    }
    if (judged && draw.applies &&
        (!judging->output.present || strcmp(description, judging->description) != 0)) {
        snprintf(judging->description, sizeof(judging->description), "%s", description);
        if (!renew_output(judging, err))
            return false;
        draw.output_changed = true;
    }
    *ret_draw = draw;
    return true;
}

bool judging_compare(struct judging *judging, unsigned set, struct comparison *ret_comparison,
                     struct error *err)
{
    struct comparison comparison = {0};
    struct compare_result *result = &comparison.result;
    struct frame_reader reader;
    struct frame frame;
    char dtype[32];
    int parsed;

    frame_init(&frame, MESSAGE_COMPARE);
    frame_put_int(&frame, set);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err))
        return false;
    reader = frame_read(&frame);
    comparison.zone_damage = (uint64_t)frame_get_int(&reader);
    comparison.zone_offset = (uint64_t)frame_get_int(&reader);
    comparison.inputs_intact = frame_get_int(&reader) == 1;
    comparison.output_hash = (uint64_t)frame_get_int(&reader);
    comparison.output = (unsigned)frame_get_int(&reader);
    frame_get_text(&reader, dtype, sizeof(dtype));
    frame_get_text(&reader, comparison.shape, sizeof(comparison.shape));
    comparison.baseline_s = frame_get_double(&reader);
    comparison.baseline_n = frame_get_double(&reader);
    result->s = frame_get_double(&reader);
    result->n = frame_get_double(&reader);
    result->sigma = frame_get_double(&reader);
    result->worst_index = (uint64_t)frame_get_int(&reader);
    result->worst_expected = frame_get_double(&reader);
    result->worst_got = frame_get_double(&reader);
    result->nonfinite_expected = (uint64_t)frame_get_int(&reader);
    result->nonfinite_got = (uint64_t)frame_get_int(&reader);
    result->mask_mismatches = (uint64_t)frame_get_int(&reader);
    result->first_mask_mismatch = (uint64_t)frame_get_int(&reader);
    result->mask_expected = frame_get_double(&reader);
    result->mask_got = frame_get_double(&reader);
    result->mismatch_count = (uint64_t)frame_get_int(&reader);
    result->first_mismatch = (uint64_t)frame_get_int(&reader);
    comparison.tf32 = frame_get_int(&reader) == 1;
    if (!understood(judging, &reader, err))
        return false;
    parsed = dtype_parse(dtype);
    comparison.dtype = parsed < 0 ? DTYPE_FLOAT32 : (enum dtype)parsed;
    *ret_comparison = comparison;
    return true;
}

/* "[3, 17]": the place of flat element `index` in a tensor of `shape` ("16x32"). */
static void place_text(const char *shape, uint64_t index, char *to, size_t size)
{
    uint64_t sizes[32], places[32];
    size_t count = 0, used;

    for (const char *part = shape; *part && count < ARRAY_SIZE(sizes);) {
        char *end;

        sizes[count++] = strtoull(part, &end, 10);
        part = *end == 'x' ? end + 1 : end;
        if (end == part && *end)
            break;
    }
    for (size_t i = count; i-- > 0;) {
        places[i] = sizes[i] ? index % sizes[i] : 0;
        index = sizes[i] ? index / sizes[i] : 0;
    }
    used = (size_t)snprintf(to, size, "[");
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(to + used, size - used, "%s%llu", i ? ", " : "",
                                 (unsigned long long)places[i]);
    if (used < size)
        snprintf(to + used, size - used, "]");
}

bool judging_accepts(const struct comparison *comparison, struct family_evidence *evidence)
{
    const struct compare_result *result = &comparison->result;
    struct budget budget;
    uint64_t index = result->worst_index;
    double expected = result->worst_expected, got = result->worst_got;
    char place[160];
    bool accepted;

    budget_set(&budget, comparison->dtype, comparison->baseline_s, comparison->baseline_n);
    if (comparison->tf32)
        budget_allow_tf32(&budget);
    accepted = budget_accepts(&budget, result);
    evidence->status = accepted ? FAMILY_PASS : FAMILY_FAIL;
    evidence->s = FIGURE(result->s);
    evidence->n = FIGURE(result->n);
    evidence->s_limit = FIGURE(budget.s_limit);
    evidence->n_limit = FIGURE(budget.n_limit);
    evidence->baseline_s = FIGURE(comparison->baseline_s);
    evidence->baseline_n = FIGURE(comparison->baseline_n);
    if (result->mask_mismatches) {
        index = result->first_mask_mismatch;
        expected = result->mask_expected;
        got = result->mask_got;
    } else if (result->mismatch_count) {
        index = result->first_mismatch;
    }
    place_text(comparison->shape, index, place, sizeof(place));
    snprintf(evidence->worst, sizeof(evidence->worst), "output %u %s: expected %.9g, got %.9g",
             comparison->output, place, expected, got);
    evidence->reason[0] = '\0';
    if (accepted)
        return true;
    if (result->mask_mismatches)
        snprintf(evidence->reason, sizeof(evidence->reason),
                 "%llu elements are not finite where the oracle is, or the reverse",
                 (unsigned long long)result->mask_mismatches);
    else if (result->mismatch_count)
        snprintf(evidence->reason, sizeof(evidence->reason), "%llu integer elements differ",
                 (unsigned long long)result->mismatch_count);
    else if (!(result->s <= budget.s_limit))
        snprintf(evidence->reason, sizeof(evidence->reason), "s = %.3g, allowed %.3g", result->s,
                 budget.s_limit);
    else
        snprintf(evidence->reason, sizeof(evidence->reason), "n = %.3g, allowed %.3g", result->n,
                 budget.n_limit);
    return false;
}
