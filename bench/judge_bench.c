/*
 * What judging costs, and how well it repeats.
 *
 * usage: judge_bench [--device D] [--repeat N] [--time-cap S] PROBLEM CANDIDATE
 *
 * Opens one session (two warm parents that import torch) and judges the same candidate N times in
 * it, each time under fresh secret seeds. The first evaluation also builds and warms caches; it is
 * printed apart. Seconds are wall time by stage, builds excluded; the ratio's spread is its
 * standard deviation over the evaluations, in per cent of its mean.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/judge-options.h"
#include "protocol/evaluation.h"
#include "stats/stats.h"

#define REPEAT_MAX 1000

struct totals {
    double seconds[REPEAT_MAX], ratios[REPEAT_MAX];
    unsigned evaluations, ratio_count;
};

static void print_line(unsigned number, const struct evaluation *evaluation, double seconds)
{
    const struct stage_seconds *stage = &evaluation->seconds;

    printf("%4u  %-14s %7.3f  %7.3f %7.3f %7.3f %7.3f  %8.4f [%.4f, %.4f]  %s\n", number,
           verdict_name(evaluation->verdict), seconds, stage->startup.value,
           stage->correctness.value, stage->timing.value, stage->memory.value,
           evaluation->speed.ratio.value, evaluation->speed.low.value, evaluation->speed.high.value,
           evaluation->reason);
    fflush(stdout);
}

static int bench(struct judge_options *options, unsigned repeat, struct error *err)
{
    static struct totals totals;
    struct session *session;
    uint64_t started = clock_now_ns();
    double mean = 0, variance = 0;

    if (judge_options_open(options, &session, err) < 0)
        return -1;
    printf("session open after %.3f s\n", clock_seconds_since(started));
    puts("   #  verdict          total    start   check    time  memory     ratio  95% interval");
    for (unsigned i = 0; i <= repeat; i++) {
        struct evaluation *evaluation = evaluation_new();
        double seconds;

        if (!evaluation || evaluate(session, &options->request, evaluation, err) < 0) {
            evaluation_free(evaluation);
            session_close(session);
            return -1;
        }
        seconds = evaluation->seconds.total.value -
                  (evaluation->seconds.build.measured ? evaluation->seconds.build.value : 0);
        print_line(i, evaluation, seconds);
        if (i > 0) { /* the first one warms up */
            totals.seconds[totals.evaluations++] = seconds;
            if (evaluation->speed.ratio.measured)
                totals.ratios[totals.ratio_count++] = evaluation->speed.ratio.value;
        }
        evaluation_free(evaluation);
    }
    session_close(session);
    printf("median of %u: %.3f s\n", totals.evaluations,
           stats_median(totals.seconds, totals.evaluations));
    if (totals.ratio_count < 2)
        return 0;
    for (unsigned i = 0; i < totals.ratio_count; i++)
        mean += totals.ratios[i] / totals.ratio_count;
    for (unsigned i = 0; i < totals.ratio_count; i++)
        variance +=
            (totals.ratios[i] - mean) * (totals.ratios[i] - mean) / (totals.ratio_count - 1);
    printf("ratio: mean %.4f, standard deviation %.2f%%\n", mean, 100 * sqrt(variance) / mean);
    return 0;
}

int main(int argc, char **argv)
{
    enum { OPTION_REPEAT = OPTION_OWN };
    static const struct option options[] = {
        JUDGE_LONG_OPTIONS, {"repeat", required_argument, NULL, OPTION_REPEAT}, {NULL, 0, NULL, 0}};
    struct judge_options judge = JUDGE_OPTIONS_INIT;
    struct error err = ERROR_INIT;
    unsigned repeat = 10;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPTION_REPEAT) {
            repeat = (unsigned)strtoul(optarg, NULL, 10);
        } else if (option == '?' || option == OPTION_HELP ||
                   judge_options_take(&judge, option, optarg, &err) < 0) {
            fprintf(stderr, "judge_bench: %s\n",
                    err.text[0] ? err.text : "see the head of judge_bench.c");
            return 2;
        }
    }
    if (argc - optind != 2 || repeat < 1 || repeat >= REPEAT_MAX) {
        fputs("usage: judge_bench [--device D] [--repeat N] [--time-cap S] PROBLEM CANDIDATE\n",
              stderr);
        return 2;
    }
    judge.request.problem_path = argv[optind];
    judge.request.candidate_path = argv[optind + 1];
    return bench(&judge, repeat, &err) < 0 ? report_error(&err) : 0;
}
