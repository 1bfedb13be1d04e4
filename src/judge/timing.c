/*
 * Timing: baseline and candidate in alternating blocks, each in a process of its own.
 *
 * One call: the reference process draws contents never seen before; the worker puts its state back
 * and says READY; only then are the contents stored where it can see them and the caches evicted,
 * and last of all a few elements are changed at secret places; then the judge starts the call and
 * its own clock. Work that begins on a glimpse of the inputs before that ends in a wrong result.
 *
 * What of it counts, and what the blocks add up to: clocks.h.
 *
 * After a call the judge decides at random whether its output is compared; the last one's always
 * is. While the baseline is timed, the candidate's process is stopped.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "judge/clocks.h"
#include "judge/judging.h"
#include "stats/stats.h"

#define WARM_UP_CALLS    3
#define BLOCK_SECONDS    0.05 /* a block aims at this much time, preparation of calls included */
#define ROUNDS_MIN       6 /* blocks of each side: fewer say nothing at 95%, whatever they show */
#define CHECKS_MIN       3
#define LAST_TRIES       8
#define CHECKS_AIMED     16.0 /* of however many calls there will be, and at least every tenth */
#define CHECK_SHARE_MIN  0.1
#define MISMATCH_SHARE   0.1
#define MISMATCH_MS      5.0
#define CAP_SECONDS_CUDA 5.0
#define CAP_SECONDS_CPU  0.6

/* What MESSAGE_EXPECT answers. */
enum { EXPECT_SAYS_NOTHING, EXPECT_DONE, EXPECT_CHANGED };

struct timing {
    struct judging *judging;
    struct stats_random random;
    unsigned set_count, next_set;
    uint64_t draws; /* counts contents of sets, so that none comes twice */
    unsigned block_calls;
    unsigned calls, checks;
    double check_share, cap_s;
    struct block *blocks[SIDE_COUNT]; /* rounds_max of each */
    size_t rounds, rounds_max;
    bool other; /* SIDE_OTHER_BASELINE is measured */
};

static struct job *job_of(const struct timing *timing, enum side side)
{
    return side == SIDE_CANDIDATE ? timing->judging->candidate_timed
                                : timing->judging->baseline_timed;
}

static bool blame(struct timing *timing, enum side side, enum job_outcome outcome, struct error *err)
{
    if (outcome == JOB_OK)
        return true;
    if (judging_blame(timing->judging, job_of(timing, side), outcome, "a timed call", err) < 0)
        timing->judging->broken = true;
    return false;
}

/*
 * Compares the output that the candidate left for `set` with the oracle's. Its hash is taken first:
 * what is written after that is not what the call returned.
 */
static bool check_output(struct timing *timing, unsigned set, uint64_t call_seed, struct error *err)
{
    struct judging *judging = timing->judging;
    struct comparison comparison;
    struct family_evidence evidence;
    struct frame_reader reader;
    struct frame frame;
    int64_t judged;
    uint64_t hash;

    if (!judging_output_hash(judging, &hash, err))
        return false;
    frame_init(&frame, MESSAGE_EXPECT);
    frame_put_int(&frame, set);
    frame_put_int(&frame, (int64_t)call_seed);
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err))
        return false;
    reader = frame_read(&frame);
    judged = frame_get_int(&reader);
    if (judged == EXPECT_CHANGED)
        judging_decide(judging, VERDICT_TAMPERED, "the inputs changed during timed call %u",
                       timing->calls);
    /* A draw that D1 would not have judged either (a tie in an integer output): no check. */
    if (judged != EXPECT_DONE)
        return !judging->decided;
    if (!judging_compare(judging, set, &comparison, err))
        return false;
    timing->checks++;
    if (comparison.output_hash != hash)
        judging_decide(judging, VERDICT_TAMPERED,
                       "the output of timed call %u was written after the call had returned",
                       timing->calls);
    else if (comparison.zone_damage || !comparison.inputs_intact)
        judging_decide(judging, VERDICT_TAMPERED, "%s during timed call %u",
                       comparison.zone_damage ? "wrote outside its output" : "the inputs changed",
                       timing->calls);
    else if (!judging_accepts(&comparison, &evidence))
        judging_decide(judging, VERDICT_TAMPERED,
                       "right when tested, wrong when timed: call %u, %.300s; %s", timing->calls,
                       evidence.reason, evidence.worst);
    return !judging->decided;
}

/* True with the chance of `share`. */
static bool by_chance(struct timing *timing, double share)
{
    return (double)(stats_random_next(&timing->random) >> 11) * 0x1p-53 < share;
}

static bool one_call(struct timing *timing, enum side side, bool must_check, double *ret_judge_ms,
                     double *ret_own_ms, struct error *err)
{
    struct judging *judging = timing->judging;
    struct job *job = job_of(timing, side);
    uint64_t timeout_ns = (uint64_t)(judging->request->timeout_s * 1e9);
    unsigned set = timing->next_set, generation = judging->set_generation[set];
    uint64_t call_seed, judge_ns, own_ns;
    struct draw draw;

    timing->next_set = (timing->next_set + 1) % timing->set_count;
    timing->draws++;
    call_seed = secret_derive(judging->evaluation->seed, "timed call", timing->draws);
    /* The baseline is trusted not to remember contents, but its calls must see the device as the
     * candidate's do: clocks and memory differ measurably after a rewrite. */
    if (!judging_draw(judging, set, "D1",
                      secret_derive(judging->evaluation->seed, "timed inputs", timing->draws),
                      call_seed, false, &draw, err))
        return false;
    if (judging->set_generation[set] != generation) {
        judging_decide(judging, VERDICT_PROBLEM_UNFIT,
                       "the shapes of the inputs change from draw to draw");
        return false;
    }
    if (!blame(timing, side, job_call_prepare(job, set, call_seed, timeout_ns, err), err) ||
        !judging_publish(judging, set, err) ||
        !blame(timing, side, job_call_run(job, timeout_ns, &judge_ns, &own_ns, err), err))
        return false;
    *ret_judge_ms = (double)judge_ns / 1e6;
    *ret_own_ms = (double)own_ns / 1e6;
    if (side != SIDE_CANDIDATE)
        return true;
    timing->calls++;
    if (must_check || by_chance(timing, timing->check_share))
        return check_output(timing, set, call_seed, err);
    return true;
}

static bool one_block(struct timing *timing, enum side side, bool must_check, struct error *err)
{
    struct block *block = &timing->blocks[side][timing->rounds];

    /* Which call of the block must be checked is not for the candidate to know. */
    unsigned chosen = (unsigned)stats_random_below(&timing->random, timing->block_calls);
    bool alone = side != SIDE_CANDIDATE, going = true;

    block->calls = timing->block_calls;
    if (alone)
        job_pause(timing->judging->candidate_timed, true);
    for (unsigned i = 0; i < block->calls && going; i++)
        going = one_call(timing, side, must_check && i == chosen, &block->judge_ms[i],
                         &block->own_ms[i], err);
    if (alone)
        job_pause(timing->judging->candidate_timed, false);
    return going;
}

static bool set_matmul(struct timing *timing, const char *precision, struct error *err)
{
    struct judging *judging = timing->judging;
    uint64_t timeout_ns = (uint64_t)(judging->request->timeout_s * 1e9);
    struct frame frame;

    if (!blame(timing, SIDE_BASELINE, job_timing_end(judging->baseline_timed, timeout_ns, err), err))
        return false;
    frame_init(&frame, MESSAGE_MATMUL);
    frame_put_text(&frame, precision);
    return judging_ask(judging, judging->baseline_timed, &frame, NULL, 0, &frame,
                       "a change of precision", err) &&
           blame(timing, SIDE_BASELINE, job_timing_begin(judging->baseline_timed, err), err);
}

/* One round: A B, or B A in every other one; the other baseline goes last, under its own flag. */
static bool one_round(struct timing *timing, struct error *err)
{
    const struct speed_evidence *speed = &timing->judging->evaluation->speed;
    enum side first = timing->rounds % 2 ? SIDE_CANDIDATE : SIDE_BASELINE;
    enum side second = first == SIDE_BASELINE ? SIDE_CANDIDATE : SIDE_BASELINE;
    bool must_check = timing->checks < CHECKS_MIN;

    if (!one_block(timing, first, must_check, err) || !one_block(timing, second, must_check, err))
        return false;
    if (timing->other && (!set_matmul(timing, speed->other_matmul, err) ||
                          !one_block(timing, SIDE_OTHER_BASELINE, false, err) ||
                          !set_matmul(timing, speed->baseline_matmul, err)))
        return false;
    timing->rounds++;
    return true;
}

static bool narrow_enough(const struct timing *timing)
{
    struct series series = SERIES_INIT;
    bool narrow = series_make(timing->blocks, timing->rounds, timing->other, &series) == 0 &&
                  series_narrow(&series);

    series_release(&series);
    return narrow;
}

static double median_of(const double *values, size_t count)
{
    double *copy = malloc(count * sizeof(*copy));
    double median;

    if (!copy)
        return NAN;
    memcpy(copy, values, count * sizeof(*copy));
    median = stats_median(copy, count);
    free(copy);
    return median;
}

/*
 * A clock that cannot be true: longer than the judge's, or a small part of it in most calls. Only
 * the gross lie is a deed to be named: a smaller gap is counted as the candidate's time anyway, and
 * on a busy machine an honest process has gaps, too.
 */
static void look_for_mismatch(const struct timing *timing, const struct series *series)
{
    size_t longer = 0, shorter = 0, calls = 0;

    for (size_t i = 0; i < timing->rounds; i++) {
        const struct block *block = &timing->blocks[SIDE_CANDIDATE][i];

        for (unsigned j = 0; j < block->calls; j++, calls++) {
            double gap = block->judge_ms[j] - block->own_ms[j];

            longer += gap < -0.005 - 0.01 * block->judge_ms[j];
            shorter += block->own_ms[j] < MISMATCH_SHARE * block->judge_ms[j] &&
                       gap > 4 * series->overhead_ms + 20 * series->spread_ms + MISMATCH_MS;
        }
    }
    if (longer * 4 > calls || shorter * 2 > calls)
        judging_decide(timing->judging, VERDICT_TAMPERED,
                       "timing mismatch: its own clock and the judge's "
                       "disagree in %zu of %zu calls",
                       longer > shorter ? longer : shorter, calls);
}

/* Input bytes that the output depends on, at least: a gather need not read its whole table. */
static bool needed_bytes(struct judging *judging, double *ret_bytes, struct error *err)
{
    struct frame_reader reader;
    struct frame frame;

    frame_init(&frame, MESSAGE_NEEDED);
    frame_put_int(&frame, 0);
    frame_put_int(&frame, (int64_t)secret_derive(judging->evaluation->seed, "needed", 0));
    if (!judging_ask_reference(judging, &frame, NULL, 0, &frame, NULL, NULL, err))
        return false;
    reader = frame_read(&frame);
    *ret_bytes = (double)frame_get_int(&reader);
    return true;
}

/*
 * The floor: input and output bytes at the peak bandwidth. Which inputs must be read is looked into
 * only where a candidate is faster than reading them all.
 */
static bool look_for_impossible_speed(struct judging *judging, struct error *err)
{
    struct speed_evidence *speed = &judging->evaluation->speed;
    double bandwidth = judging->reference->bandwidth;
    double input_bytes = (double)judging->sets[0].bytes;
    double output_bytes = (double)judging->output.bytes;
    /* What fits into the cache need not have gone through memory, though the inputs must come from
     * there: they were evicted. */
    double written = fmax(0, output_bytes - (double)judging->reference->l2_bytes);

    if (bandwidth <= 0)
        return true;
    speed->floor_ms = FIGURE((input_bytes + written) / bandwidth * 1e3);
    if (speed->candidate_ms.value >= speed->floor_ms.value ||
        speed->baseline_ms.value < speed->floor_ms.value)
        return true;
    if (!needed_bytes(judging, &input_bytes, err))
        return false;
    speed->floor_ms = FIGURE((input_bytes + written) / bandwidth * 1e3);
    if (speed->candidate_ms.value < speed->floor_ms.value)
        judging_decide(judging, VERDICT_IMPOSSIBLE_SPEED,
                       "%.4g ms; reading what the output depends on and writing it takes %.4g ms "
                       "at the device's peak bandwidth",
                       speed->candidate_ms.value, speed->floor_ms.value);
    return true;
}

static enum speed_class class_of(const struct stats_interval *interval)
{
    if (interval->low > 1)
        return SPEED_FASTER;
    return interval->high < 1 ? SPEED_SLOWER : SPEED_ON_PAR;
}

/* Every sample goes into the evidence, in the order of time as far as rounds tell it. */
static int keep_blocks(const struct timing *timing, const struct series *series)
{
    for (size_t i = 0; i < timing->rounds; i++) {
        for (int side = SIDE_BASELINE; side < SIDE_COUNT; side++) {
            const struct block *block = &timing->blocks[side][i];
            struct timing_block kept = {.side = (enum side)side, .calls = block->calls};

            if (!series->counted[side])
                continue;
            kept.own_ms = series->own[side][i];
            kept.judge_ms = series->judge[side][i];
            kept.counted_ms = series->counted[side][i];
            for (unsigned j = 0; j < block->calls; j++) {
                kept.own_samples_ms[j] = (float)block->own_ms[j];
                kept.judge_samples_ms[j] = (float)block->judge_ms[j];
            }
            if (evaluation_add_block(timing->judging->evaluation, &kept) < 0)
                return -1;
        }
    }
    return 0;
}

static bool conclude(struct timing *timing, struct error *err)
{
    struct judging *judging = timing->judging;
    struct speed_evidence *speed = &judging->evaluation->speed;
    struct stats_interval interval, wall, other;
    struct series series = SERIES_INIT;
    bool complete = false;

    if (series_make(timing->blocks, timing->rounds, timing->other, &series) < 0 ||
        series_speed(&series, SIDE_BASELINE, &interval) < 0 || series_wall(&series, &wall) < 0 ||
        (timing->other && series_speed(&series, SIDE_OTHER_BASELINE, &other) < 0)) {
        error_set(err, ERROR_INTERNAL, "out of memory");
        judging->broken = true;
        goto out;
    }
    speed->class = class_of(&interval);
    speed->ratio = FIGURE(interval.value);
    speed->low = FIGURE(interval.low);
    speed->high = FIGURE(interval.high);
    speed->wall_ratio = FIGURE(wall.value);
    speed->baseline_ms = FIGURE(median_of(series.counted[SIDE_BASELINE], timing->rounds));
    speed->candidate_ms = FIGURE(median_of(series.counted[SIDE_CANDIDATE], timing->rounds));
    if (timing->other) {
        speed->other_ratio = FIGURE(other.value);
        speed->other_low = FIGURE(other.low);
        speed->other_high = FIGURE(other.high);
        speed->other_baseline_ms = FIGURE(median_of(series.counted[SIDE_OTHER_BASELINE], timing->rounds));
    }
    speed->calls = timing->calls;
    speed->checked_calls = timing->checks;
    if (keep_blocks(timing, &series) < 0) {
        error_set(err, ERROR_INTERNAL, "out of memory");
        judging->broken = true;
        goto out;
    }
    look_for_mismatch(timing, &series);
    complete = look_for_impossible_speed(judging, err) && !judging->decided;
out:
    series_release(&series);
    return complete;
}

/* Input sets enough to exceed twice the cache, as far as memory allows. */
static unsigned sets_wanted(const struct judging *judging)
{
    uint64_t bytes = judging->sets[0].bytes, cache = judging->reference->l2_bytes;
    uint64_t memory = judging->reference->device_memory_bytes;
    uint64_t wanted = bytes ? (2 * cache + bytes - 1) / bytes : 3;

    /* A CPU's last-level cache may be its host's: eviction is what counts there. */
    if (wanted < 3 || judging->session->on_cpu)
        wanted = 3;
    if (wanted > SETS_MAX)
        wanted = SETS_MAX;
    while (wanted > 1 && wanted * bytes > memory / 4)
        wanted--;
    return (unsigned)wanted;
}

static const char constructing[] = "constructing for timing";

static bool load_job(struct timing *timing, enum side side, struct error *err)
{
    struct judging *judging = timing->judging;
    struct job *job = job_of(timing, side);

    if (job_wait_ready(job, err) < 0) {
        judging->broken = true;
        return false;
    }
    return judging_load(judging, job, side == SIDE_BASELINE, err) &&
           judging_construct_ahead(judging, job, judging->model_seed, MODEL_PLAIN, constructing,
                                   err);
}

static bool prepare_job(struct timing *timing, enum side side, struct error *err)
{
    struct judging *judging = timing->judging;
    struct job *job = job_of(timing, side);
    char reason[512];
    bool matched;

    if (!judging_construct(judging, job, judging->model_seed, MODEL_PLAIN, constructing, err) ||
        !judging_adopt(judging, job, &matched, reason, sizeof(reason), "receiving parameters",
                       err) ||
        !judging_give_output(judging, job, err))
        return false;
    for (unsigned i = 0; i < timing->set_count; i++) {
        if (!judging_give_set(judging, job, i, err))
            return false;
    }
    return blame(timing, side, job_timing_begin(job, err), err);
}

static bool prepare(struct timing *timing, struct error *err)
{
    struct judging *judging = timing->judging;
    double own_ms, judge_ms, call_s = 0;
    struct draw draw;

    /* Large models take seconds to construct, on one core each: all three at the same time. */
    if (!judging_simple(judging, MESSAGE_SETTLE, err) || !load_job(timing, SIDE_BASELINE, err) ||
        !load_job(timing, SIDE_CANDIDATE, err) ||
        !judging_model(judging, judging->model_seed, MODEL_PLAIN, err))
        return false;
    for (unsigned i = 0; i < timing->set_count; i++) {
        if (!judging_draw(judging, i, "D1",
                          secret_derive(judging->evaluation->seed, "first timed inputs", i), 0,
                          false, &draw, err))
            return false;
    }
    if (!prepare_job(timing, SIDE_BASELINE, err) || !prepare_job(timing, SIDE_CANDIDATE, err))
        return false;
    for (unsigned i = 0; i < WARM_UP_CALLS; i++) {
        uint64_t started;

        if (!one_call(timing, SIDE_BASELINE, false, &judge_ms, &own_ms, err))
            return false;
        started = clock_now_ns();
        if (!one_call(timing, SIDE_CANDIDATE, false, &judge_ms, &own_ms, err))
            return false;
        call_s = clock_seconds_since(started);
    }
    timing->block_calls = (unsigned)(BLOCK_SECONDS / call_s);
    if (timing->block_calls < 1)
        timing->block_calls = 1;
    if (timing->block_calls > BLOCK_CALLS_MAX)
        timing->block_calls = BLOCK_CALLS_MAX;
    /* Half of the time is the baseline's. */
    timing->check_share = fmin(1, fmax(CHECK_SHARE_MIN, CHECKS_AIMED * 2 * call_s / timing->cap_s));
    return true;
}

bool stage_timing(struct judging *judging, struct error *err)
{
    struct timing timing = {.judging = judging,
                            .set_count = sets_wanted(judging),
                            .rounds_max = EVALUATION_BLOCKS_MAX / SIDE_COUNT};
    struct speed_evidence *speed = &judging->evaluation->speed;
    double cap_s = judging->request->time_cap_s, judge_ms, own_ms;
    uint64_t started;
    bool complete = false;

    if (cap_s == 0)
        cap_s = judging->session->on_cpu ? CAP_SECONDS_CPU : CAP_SECONDS_CUDA;
    timing.cap_s = cap_s;
    snprintf(speed->baseline_matmul, sizeof(speed->baseline_matmul), "%s",
             judging->request->baseline_matmul);
    timing.other = judging->matmul_matters;
    if (timing.other)
        snprintf(speed->other_matmul, sizeof(speed->other_matmul), "%s",
                 strcmp(speed->baseline_matmul, "highest") ? "highest" : "high");
    stats_random_seed(&timing.random, secret_derive(judging->evaluation->seed, "checks", 0));
    for (int side = 0; side < SIDE_COUNT; side++) {
        timing.blocks[side] = calloc(timing.rounds_max, sizeof(struct block));
        if (!timing.blocks[side]) {
            error_set(err, ERROR_INTERNAL, "out of memory");
            judging->broken = true;
            goto out;
        }
    }
    judging_progress(judging, STAGE_TIMING, "preparing", 0, 0);
    if (!prepare(&timing, err))
        goto out;
    started = clock_now_ns();
    while (timing.rounds < timing.rounds_max) {
        if (timing.rounds >= ROUNDS_MIN &&
            (clock_seconds_since(started) > cap_s || narrow_enough(&timing)))
            break;
        judging_progress(judging, STAGE_TIMING, "blocks", (unsigned)timing.rounds, 0);
        if (!one_round(&timing, err))
            goto out;
    }
    /* The last call is checked: of those that can be, where a draw may say nothing. */
    for (unsigned i = 0, before = timing.checks; i < LAST_TRIES && timing.checks == before; i++) {
        if (!one_call(&timing, SIDE_CANDIDATE, true, &judge_ms, &own_ms, err))
            goto out;
    }
    complete = conclude(&timing, err);
out:
    for (int side = 0; side < SIDE_COUNT; side++)
        free(timing.blocks[side]);
    return complete;
}
