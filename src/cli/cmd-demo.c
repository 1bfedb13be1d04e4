/* kbv demo: judges the bundled problems and candidates, and says whether each verdict is the one
 * that its manifest demands. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "cli/command.h"
#include "cli/judge-options.h"
#include "cli/locate.h"
#include "cli/manifest.h"
#include "protocol/evaluation.h"
#include "report/document.h"
#include "report/report.h"

static const char usage[] =
    "usage: kbv demo [options]\n"
    "\n"
    "Judges the examples that come with kbv, honest kernels and bad ones, and prints a table\n"
    "of verdicts with reasons. Each example says which verdict it must get.\n"
    "\n"
    "  --all                      every example, not only the short tour\n"
    "  --only TEXT                those whose id contains TEXT (may be repeated)\n"
    "  --list                     name the examples and what is expected, judge nothing\n"
    "  --manifest FILE            other examples: a table in the form of\n"
    "                             problems/manifest.tsv, paths relative to its directory\n"
    "  --json FILE|-              one line of JSON for each example\n" JUDGE_OPTIONS_USAGE
    "  --help                     this text\n"
    "\n"
    "Exit status: 0 every verdict is as expected; 1 one is not; 2 usage; 3 this machine or\n"
    "environment is not fit to judge (see `kbv doctor`); 4 a defect of kbv.\n";

#define ONLY_MAX 32

struct demo {
    struct judge_options judge;
    bool all, list;
    const char *manifest;
    const char *only[ONLY_MAX];
    size_t only_count;
    FILE *json;
    unsigned as_expected, unexpected, skipped;
};

static bool selected(const struct demo *demo, const struct manifest_row *row)
{
    for (size_t i = 0; i < demo->only_count; i++) {
        if (strstr(row->id, demo->only[i]))
            return true;
    }
    return demo->only_count == 0 && (demo->all || row->quick);
}

static void describe_expectation(const struct manifest_row *row, char *to, size_t size)
{
    size_t used = 0;

    to[0] = '\0';
    for (int i = 0; i < VERDICT_COUNT && used < size; i++) {
        if (row->verdicts >> i & 1)
            used += (size_t)snprintf(to + used, size - used, "%s%s", used ? " or " : "",
                                     verdict_name((enum verdict)i));
    }
    if (row->label && used < size)
        snprintf(to + used, size - used, " with %s", label_name((enum label)row->label));
}

/* `faster` is a figure of the machine and not held against it; a gain that must not be is. One in
 * forty equal kernels comes out above 1 by chance; those that lie gain far more. */
static bool must_not_gain(const struct manifest_row *row, const struct evaluation *evaluation)
{
    return row->speed == SPEED_MUST_NOT_GAIN && evaluation->speed.low.measured &&
           evaluation->speed.low.value > 1.1;
}

static bool is_expected(const struct manifest_row *row, const struct evaluation *evaluation)
{
    return !must_not_gain(row, evaluation) && (row->verdicts >> evaluation->verdict & 1) &&
           (!row->label || (evaluation->labels & row->label));
}

/* One line: what was expected, and the whole kbv.evaluation/1 document. */
static int write_json(FILE *out, const struct manifest_row *row,
                      const struct evaluation *evaluation, const char *expected, bool as_expected,
                      struct error *err)
{
    json_t *document = report_document(evaluation, err), *line;
    CLEANUP_FREE char *text = NULL;

    if (!document)
        return -1;
    line = json_pack("{ss ss sb so}", "id", row->id, "expected", expected, "as_expected",
                     as_expected, "evaluation", document);
    text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(line);
    if (!text)
        return error_set(err, ERROR_INTERNAL, "out of memory");
    if (fprintf(out, "%s\n", text) < 0 || fflush(out) != 0)
        return error_errno(err, ERROR_USAGE, "--json");
    return 0;
}

static int judge_row(struct demo *demo, struct session *session, const struct manifest_row *row,
                     struct progress *progress, struct error *err)
{
    struct evaluation *evaluation = evaluation_new();
    struct request request = demo->judge.request;
    bool color = isatty(1) && !getenv("NO_COLOR"), as_expected;
    char expected[256];
    int status;

    if (!evaluation)
        return error_set(err, ERROR_INTERNAL, "out of memory");
    request.problem_path = row->problem;
    request.candidate_path = row->candidate;
    progress->prefix = row->id;
    status = evaluate(session, &request, evaluation, err);
    if (status == 0 && must_not_gain(row, evaluation)) {
        /* A lie gains again; what a busy machine did to the baseline does not come twice. */
        evaluation_free(evaluation);
        evaluation = evaluation_new();
        if (!evaluation)
            return error_set(err, ERROR_INTERNAL, "out of memory");
        status = evaluate(session, &request, evaluation, err);
    }
    progress_clear(progress);
    if (status < 0) {
        evaluation_free(evaluation);
        return error_context(err, "%s", row->id);
    }
    as_expected = is_expected(row, evaluation);
    describe_expectation(row, expected, sizeof(expected));
    if (as_expected)
        demo->as_expected++;
    else
        demo->unexpected++;
    if (demo->json != stdout) {
        status = report_row(evaluation, stdout, color, err);
        if (!as_expected)
            printf("  ^ expected %s\n", expected);
        fflush(stdout);
    }
    if (status == 0 && demo->json)
        status = write_json(demo->json, row, evaluation, expected, as_expected, err);
    evaluation_free(evaluation);
    return status;
}

static void list_rows(const struct demo *demo, const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++) {
        char expected[256];

        if (!selected(demo, &manifest->rows[i]))
            continue;
        describe_expectation(&manifest->rows[i], expected, sizeof(expected));
        printf("%-40s %s\n", manifest->rows[i].id, expected);
    }
}

static int judge_all(struct demo *demo, const struct manifest *manifest, struct error *err)
{
    struct session *session;
    struct progress progress;
    uint64_t started = clock_now_ns();
    int status = 0;

    progress_init(&progress);
    demo->judge.request.progress = progress_show;
    demo->judge.request.progress_context = &progress;
    progress_show(&progress, STAGE_STARTUP, "importing torch", 0, 0);
    if (judge_options_open(&demo->judge, &session, err) < 0) {
        progress_clear(&progress);
        return -1;
    }
    progress_clear(&progress);
    if (demo->json != stdout)
        status = report_row(NULL, stdout, isatty(1), err);
    for (size_t i = 0; status == 0 && i < manifest->count; i++) {
        const struct manifest_row *row = &manifest->rows[i];

        if (!selected(demo, row))
            continue;
        if (session->on_cpu ? !row->on_cpu : !row->on_cuda) {
            demo->skipped++;
            continue;
        }
        status = judge_row(demo, session, row, &progress, err);
    }
    session_close(session);
    if (status == 0 && demo->json != stdout)
        printf("\n%u as expected, %u not, %u not for this device, %.0f s\n", demo->as_expected,
               demo->unexpected, demo->skipped, clock_seconds_since(started));
    return status;
}

static int demo_run(struct demo *demo, struct error *err)
{
    char problems[LOCATE_PATH_MAX], root[LOCATE_PATH_MAX + 16], path[LOCATE_PATH_MAX + 16];
    struct manifest manifest = MANIFEST_INIT;
    int status = 0;

    if (demo->manifest) {
        snprintf(path, sizeof(path), "%s", demo->manifest);
        snprintf(root, sizeof(root), "%s", strchr(path, '/') ? path : "./");
    } else {
        if (locate_data("problems", problems, err) < 0)
            return -1;
        snprintf(path, sizeof(path), "%s/manifest.tsv", problems);
        snprintf(root, sizeof(root), "%s", problems);
    }
    *strrchr(root, '/') = '\0';
    if (manifest_read(path, root, &manifest, err) < 0)
        return -1;
    if (demo->list)
        list_rows(demo, &manifest);
    else
        status = judge_all(demo, &manifest, err);
    manifest_release(&manifest);
    if (status < 0)
        return -1;
    if (!demo->list && demo->as_expected + demo->unexpected == 0)
        return error_set(err, ERROR_USAGE, "no example was selected; see `kbv demo --all --list`");
    return demo->unexpected ? EXIT_NOT_VERIFIED : 0;
}

static int run(int argc, char **argv)
{
    enum { OPTION_ALL = OPTION_OWN, OPTION_ONLY, OPTION_LIST, OPTION_MANIFEST };
    static const struct option options[] = {{"all", no_argument, NULL, OPTION_ALL},
                                            {"only", required_argument, NULL, OPTION_ONLY},
                                            {"list", no_argument, NULL, OPTION_LIST},
                                            {"manifest", required_argument, NULL, OPTION_MANIFEST},
                                            JUDGE_LONG_OPTIONS,
                                            {NULL, 0, NULL, 0}};
    struct demo demo = {.judge = JUDGE_OPTIONS_INIT};
    struct error err = ERROR_INIT;
    int option, status;

    opterr = 0; /* its messages would name the subcommand as the program */
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        switch (option) {
        case OPTION_HELP:
            fputs(usage, stdout);
            return 0;
        case OPTION_ALL:
            demo.all = true;
            break;
        case OPTION_LIST:
            demo.list = true;
            break;
        case OPTION_MANIFEST:
            demo.manifest = optarg;
            break;
        case OPTION_ONLY:
            if (demo.only_count == ONLY_MAX) {
                error_set(&err, ERROR_USAGE, "--only: at most %d times", ONLY_MAX);
                return report_error(&err);
            }
            demo.only[demo.only_count++] = optarg;
            break;
        case '?':
        case ':':
            return judge_options_complain("demo", option, argv[optind - 1]);
        default:
            if (judge_options_take(&demo.judge, option, optarg, &err) < 0)
                return report_error(&err);
        }
    }
    if (optind < argc) {
        error_set(&err, ERROR_USAGE, "demo takes no argument '%s'; see `kbv demo --help`",
                  argv[optind]);
        return report_error(&err);
    }
    if (demo.judge.json) {
        demo.json = strcmp(demo.judge.json, "-") == 0 ? stdout : fopen(demo.judge.json, "we");
        if (!demo.json) {
            error_errno(&err, ERROR_USAGE, "--json: %s", demo.judge.json);
            return report_error(&err);
        }
    }
    interrupt_catch();
    status = demo_run(&demo, &err);
    if (demo.json && demo.json != stdout)
        fclose(demo.json);
    return status < 0 ? report_error(&err) : status;
}

const struct command command_demo = {
    .name = "demo",
    .summary = "judge the examples that come with kbv",
    .usage = usage,
    .run = run,
};
