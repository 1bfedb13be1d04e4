/* kbv eval: one problem, one candidate, one verdict. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "cli/command.h"
#include "cli/judge-options.h"
#include "report/report.h"

static const char usage[] =
    "usage: kbv eval PROBLEM CANDIDATE [options]\n"
    "\n"
    "Judges one kernel: is it right, is it faster than PyTorch, does it need more memory?\n"
    "PROBLEM is a file in KernelBench's format (class Model, get_inputs, get_init_inputs),\n"
    "CANDIDATE a file with class ModelNew.\n"
    "\n"
    "  --json FILE|-              write everything that was seen; - is standard output,\n"
    "                             which then holds nothing else\n" JUDGE_OPTIONS_USAGE
    "  --help                     this text\n"
    "\n"
    "Exit status: 0 verified; 1 judged and not verified; 2 usage or bad input; 3 this\n"
    "machine or environment is not fit to judge (see `kbv doctor`); 4 a defect of kbv.\n";

static bool want_color(FILE *out)
{
    const char *term = getenv("TERM");

    return isatty(fileno(out)) && !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0;
}

/* Opens --json's file before any work is done: an evaluation must not be lost to a bad path. */
static FILE *open_json(const char *path, struct error *err)
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");

    if (!file)
        error_errno(err, ERROR_USAGE, "--json: %s", path);
    return file;
}

static int write_reports(const struct evaluation *evaluation, FILE *json, struct error *err)
{
    if (json && (report_json(evaluation, json, err) < 0 || fflush(json) != 0))
        return err->kind ? -1 : error_errno(err, ERROR_USAGE, "--json");
    if (json != stdout)
        return report_terminal(evaluation, stdout, want_color(stdout), report_columns(stdout), err);
    return 0;
}

static int judge(struct judge_options *options, struct error *err)
{
    struct evaluation *evaluation = evaluation_new();
    struct session *session = NULL;
    struct progress progress;
    FILE *json = NULL;
    int status = -1;

    progress_init(&progress);
    options->request.progress = progress_show;
    options->request.progress_context = &progress;
    if (!evaluation) {
        error_set(err, ERROR_INTERNAL, "out of memory");
        goto out;
    }
    if (options->json && !(json = open_json(options->json, err)))
        goto out;
    /* Bad paths are told at once, not after torch was imported. */
    if (evaluate_check(&options->request, err) < 0)
        goto out;
    progress_show(&progress, STAGE_STARTUP, "importing torch", 0, 0);
    if (judge_options_open(options, &session, err) < 0)
        goto out;
    status = evaluate(session, &options->request, evaluation, err);
    progress_clear(&progress);
    if (status == 0)
        status = write_reports(evaluation, json, err);
    if (status == 0)
        status = evaluation->verdict == VERDICT_VERIFIED ? EXIT_VERIFIED : EXIT_NOT_VERIFIED;
out:
    progress_clear(&progress);
    session_close(session);
    if (json && json != stdout)
        fclose(json);
    evaluation_free(evaluation);
    return status;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {JUDGE_LONG_OPTIONS, {NULL, 0, NULL, 0}};
    struct judge_options judge_options = JUDGE_OPTIONS_INIT;
    struct error err = ERROR_INIT;
    int option, status;

    opterr = 0; /* its messages would name the subcommand as the program */
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            fputs(usage, stdout);
            return 0;
        }
        if (option == '?' || option == ':')
            return judge_options_complain("eval", option, argv[optind - 1]);
        if (judge_options_take(&judge_options, option, optarg, &err) < 0)
            return report_error(&err);
    }
    if (argc - optind != 2) {
        error_set(&err, ERROR_USAGE,
                  "eval takes a problem and a candidate, two files; see `kbv eval --help`");
        return report_error(&err);
    }
    judge_options.request.problem_path = argv[optind];
    judge_options.request.candidate_path = argv[optind + 1];
    interrupt_catch();
    status = judge(&judge_options, &err);
    return status < 0 ? report_error(&err) : status;
}

const struct command command_eval = {
    .name = "eval",
    .summary = "judge one kernel",
    .usage = usage,
    .run = run,
};
