#include "cli/judge-options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/locate.h"

#define SEED_BOUND (UINT64_C(1) << 53)

/* Checks `value` against a list; the error names the list. */
static int choose(const char *flag, const char *value, const char *const *choices, size_t count,
                  size_t *ret_index, struct error *err)
{
    char list[128] = "";

    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, choices[i]) == 0) {
            *ret_index = i;
            return 0;
        }
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
                 choices[i]);
    }
    return error_set(err, ERROR_USAGE, "%s: there is no '%.100s'; choose one of %s", flag, value,
                     list);
}

int parse_seconds(const char *flag, const char *text, double *ret_seconds, struct error *err)
{
    double seconds;
    char *end;

    errno = 0;
    seconds = strtod(text, &end);
    if (end == text || *end || errno || !(seconds > 0) || seconds > 1e6 ||
        isspace((unsigned char)text[0]))
        return error_set(err, ERROR_USAGE, "%s: '%.100s' is no number of seconds above 0", flag,
                         text);
    *ret_seconds = seconds;
    return 0;
}

static int take_seed(struct judge_options *options, const char *text, struct error *err)
{
    unsigned long long seed;
    char *end;

    errno = 0;
    seed = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || seed >= SEED_BOUND)
        return error_set(err, ERROR_USAGE, "--seed: '%.100s' is no whole number below 2^53", text);
    options->request.seed_given = true;
    options->request.seed = seed;
    return 0;
}

static int take_device(struct judge_options *options, const char *text, struct error *err)
{
    const char *number = text + 5;
    size_t digits;

    if (strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0) {
        options->device = strcmp(text, "cuda") == 0 ? "cuda:0" : text;
        return 0;
    }
    digits = strncmp(text, "cuda:", 5) == 0 ? strspn(number, "0123456789") : 0;
    if (digits == 0 || digits > 3 || number[digits])
        return error_set(err, ERROR_USAGE,
                         "--device: there is no device '%.100s'; choose cpu, cuda or cuda:N", text);
    options->device = text;
    return 0;
}

int judge_options_take(struct judge_options *options, int option, const char *value,
                       struct error *err)
{
    static const char *const dtypes[] = {"fp32", "bf16", "fp16"};
    static const char *const sandboxes[] = {"auto", "strict", "off"};
    static const char *const precisions[] = {"highest", "high", "medium"};
    struct request *request = &options->request;
    size_t index;

    switch (option) {
    case OPTION_DEVICE:
        return take_device(options, value, err);
    case OPTION_DTYPE:
        if (choose("--dtype", value, dtypes, 3, &index, err) < 0)
            return -1;
        request->dtype = dtypes[index];
        return 0;
    case OPTION_SEED:
        return take_seed(options, value, err);
    case OPTION_TIMEOUT:
        return parse_seconds("--timeout", value, &request->timeout_s, err);
    case OPTION_BUILD_TIMEOUT:
        return parse_seconds("--build-timeout", value, &request->build_timeout_s, err);
    case OPTION_TIME_CAP:
        if (strcmp(value, "0") == 0) {
            request->time_cap_s = -1;
            return 0;
        }
        return parse_seconds("--time-cap", value, &request->time_cap_s, err);
    case OPTION_SANDBOX:
        if (choose("--sandbox", value, sandboxes, 3, &index, err) < 0)
            return -1;
        options->sandbox = (enum sandbox_mode)index; /* in the order of the enum */
        return 0;
    case OPTION_JSON:
        options->json = value;
        return 0;
    case OPTION_PYTHON:
        options->python = value;
        return 0;
    case OPTION_MATMUL:
        if (choose("--baseline-matmul", value, precisions, 3, &index, err) < 0)
            return -1;
        request->baseline_matmul = precisions[index];
        return 0;
    default:
        return error_set(err, ERROR_USAGE, "unknown option");
    }
}

int judge_options_complain(const char *command, int answer, const char *argument)
{
    fprintf(stderr, "kbv: %s: %s '%.100s'; see `kbv %s --help`\n", command,
            answer == ':' ? "a value is missing after" : "there is no option", argument, command);
    return EXIT_BAD_INPUT;
}

int judge_options_open(struct judge_options *options, struct session **ret_session,
                       struct error *err)
{
    char python[LOCATE_PATH_MAX], library[LOCATE_PATH_MAX];
    struct session_options session = {
        .python = python, .library = library, .sandbox = options->sandbox};
    bool chosen = options->device != NULL;

    if (locate_python(options->python, python, err) < 0 || locate_library(library, err) < 0)
        return -1;
    /* Without a GPU's device node torch cannot see one; with one, its torch may still be a CPU
     * build: the session tells. */
    session.device = chosen                                ? options->device
                     : access("/dev/nvidiactl", F_OK) == 0 ? "cuda:0"
                                                           : "cpu";
    if (session_open(ret_session, &session, err) < 0)
        return -1;
    if (!chosen && !(*ret_session)->on_cpu && (*ret_session)->cuda_version[0] == '\0') {
        session_close(*ret_session);
        session.device = "cpu";
        return session_open(ret_session, &session, err);
    }
    return 0;
}

/* ---- Progress ------------------------------------------------------------------------------ */

static const char *const stage_names[] = {"starting", "building", "correctness", "timing",
                                          "memory"};

void progress_init(struct progress *progress)
{
    *progress = (struct progress){.terminal = isatty(2), .stage = -1};
}

void progress_clear(struct progress *progress)
{
    if (progress->dirty)
        fputs("\r\033[K", stderr);
    progress->dirty = false;
    progress->stage = -1;
}

void progress_show(void *context, enum stage stage, const char *what, unsigned done, unsigned total)
{
    struct progress *progress = context;
    char count[32] = "";

    if (!progress->terminal) {
        /* Piped: one line a stage, nothing that is rewritten. */
        if (progress->stage != (int)stage)
            fprintf(stderr, "kbv: %s%s%s\n", progress->prefix ? progress->prefix : "",
                    progress->prefix ? ": " : "", stage_names[stage]);
        progress->stage = (int)stage;
        return;
    }
    if (total)
        snprintf(count, sizeof(count), " %u/%u", done + 1 > total ? total : done + 1, total);
    else if (done)
        snprintf(count, sizeof(count), " %u", done);
    fprintf(stderr, "\r\033[K%s%s%s%s  %s", progress->prefix ? progress->prefix : "",
            progress->prefix ? ": " : "", stage_names[stage], count, what);
    fflush(stderr);
    progress->dirty = true;
    progress->stage = (int)stage;
}

int report_error(const struct error *err)
{
    fprintf(stderr, "kbv: %s\n", err->text);
    return err->kind == ERROR_NONE ? EXIT_DEFECT : (int)err->kind;
}
