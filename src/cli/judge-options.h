/* The options that `kbv eval` and `kbv demo` share, and opening the session that they ask for. */
#ifndef KBV_CLI_JUDGE_OPTIONS_H
#define KBV_CLI_JUDGE_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>

#include "base/error.h"
#include "judge/evaluate.h"
#include "judge/session.h"

struct judge_options {
    struct request request; /* paths are the caller's to fill in */
    const char *device;     /* NULL: a GPU where there is one */
    const char *python;
    const char *json; /* NULL, a path, or "-" */
    enum sandbox_mode sandbox;
};

#define JUDGE_OPTIONS_INIT                                                                         \
    {                                                                                              \
        .request = REQUEST_INIT                                                                    \
    }

/* Values of struct option.val above any character. */
enum judge_option {
    OPTION_DEVICE = 256,
    OPTION_DTYPE,
    OPTION_SEED,
    OPTION_TIMEOUT,
    OPTION_BUILD_TIMEOUT,
    OPTION_TIME_CAP,
    OPTION_SANDBOX,
    OPTION_JSON,
    OPTION_PYTHON,
    OPTION_MATMUL,
    OPTION_HELP,
    OPTION_OWN, /* a subcommand's own options start here */
};

#define JUDGE_LONG_OPTIONS                                                                         \
    {"device", required_argument, NULL, OPTION_DEVICE},                                            \
        {"dtype", required_argument, NULL, OPTION_DTYPE},                                          \
        {"seed", required_argument, NULL, OPTION_SEED},                                            \
        {"timeout", required_argument, NULL, OPTION_TIMEOUT},                                      \
        {"build-timeout", required_argument, NULL, OPTION_BUILD_TIMEOUT},                          \
        {"time-cap", required_argument, NULL, OPTION_TIME_CAP},                                    \
        {"sandbox", required_argument, NULL, OPTION_SANDBOX},                                      \
        {"json", required_argument, NULL, OPTION_JSON},                                            \
        {"python", required_argument, NULL, OPTION_PYTHON},                                        \
        {"baseline-matmul", required_argument, NULL, OPTION_MATMUL},                               \
    {                                                                                              \
        "help", no_argument, NULL, OPTION_HELP                                                     \
    }

/* Usage text of the shared options. */
#define JUDGE_OPTIONS_USAGE                                                                        \
    "  --device cpu|cuda|cuda:N   where to judge (default: the first GPU that torch sees,\n"       \
    "                             or else the CPU)\n"                                              \
    "  --dtype fp32|bf16|fp16     type of inputs and parameters (default: fp32)\n"                 \
    "  --seed N                   repeat an evaluation, N below 2^53 (default: secret,\n"          \
    "                             reported afterwards)\n"                                          \
    "  --timeout S                seconds for any one step of the candidate: loading,\n"           \
    "                             constructing, a call (default: 60)\n"                            \
    "  --build-timeout S          seconds for each build (default: 600)\n"                         \
    "  --time-cap S               seconds of timing; it ends earlier once the interval is\n"       \
    "                             within 1% (default: 5 on a GPU, 0.6 on the CPU);\n"              \
    "                             0: right or wrong only, nothing is timed\n"                      \
    "  --sandbox auto|strict|off  strict refuses to judge where a layer is missing\n"              \
    "                             (default: auto)\n"                                               \
    "  --baseline-matmul highest|high|medium\n"                                                    \
    "                             precision of the baseline's fp32 matrix products\n"              \
    "                             (default: high, which is TF32)\n"                                \
    "  --python PATH              the interpreter that has torch\n"

/* Takes one option. 0, or -1 with `err` (ERROR_USAGE) where its value is none. */
int judge_options_take(struct judge_options *options, int option, const char *value,
                       struct error *err);

/* What getopt_long() answered with '?' or ':' about `argument`, as one line on standard error.
 * Returns the exit status. */
int judge_options_complain(const char *command, int answer, const char *argument);

/* Chooses the device where none was named, finds python and the worker, starts the session. */
int judge_options_open(struct judge_options *options, struct session **ret_session,
                       struct error *err);

/* Prints progress on standard error: one line that is rewritten on a terminal, a line for each
 * stage where it is piped. */
struct progress {
    bool terminal;
    bool dirty;         /* a line stands that must be cleared */
    int stage;          /* last one that was printed; -1: none */
    const char *prefix; /* NULL, or what is judged */
};
void progress_init(struct progress *progress);
void progress_show(void *progress, enum stage stage, const char *what, unsigned done,
                   unsigned total);
void progress_clear(struct progress *progress);

/* "kbv: <text>" on standard error; the exit status of that kind of error. */
int report_error(const struct error *err);

/* Reads a whole number of seconds (fractions allowed) above 0. */
int parse_seconds(const char *flag, const char *text, double *ret_seconds, struct error *err);

#endif
