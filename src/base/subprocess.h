/*
 * Runs a short-lived helper (a compiler's --version, a line of Python) and collects what it says.
 *
 *     const char *argv[] = {"python3", "-V", NULL};
 *     struct subprocess what = {.argv = argv, .deadline_ns = 5 * NS_PER_S, .output_max = 4096};
 *     struct subprocess_result result = SUBPROCESS_RESULT_INIT;
 *     if (subprocess_run(&what, &result, &err) < 0)
 *         return -1;
 *     if (subprocess_succeeded(&result))
 *         puts(result.output);
 *     subprocess_result_release(&result);
 *
 * The helper reads /dev/null, is the leader of a process group of its own, inherits no descriptor
 * but 0, 1 and 2, and dies with the thread that started it. When it ends, or when its deadline
 * passes, its whole group is killed: a helper leaves nothing behind. This is for trusted helpers;
 * whoever leaves the process group survives (sandbox/sandbox.h is for those).
 */
#ifndef KBV_BASE_SUBPROCESS_H
#define KBV_BASE_SUBPROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct subprocess {
    const char *const *argv; /* NULL-terminated; argv[0] without a slash is looked up in PATH */
    const char *const *env;  /* NULL-terminated "NAME=value"; NULL: the caller's */
    const char *directory;   /* working directory; NULL: the caller's */
    uint64_t deadline_ns;    /* counted from the call; 0: none */
    size_t output_max;       /* bytes that are kept of each stream; the rest is read and counted */
};

struct subprocess_result {
    bool timed_out;       /* the deadline passed, and the group was killed */
    int wait_status;      /* as waitpid() gives it */
    char *output;         /* stdout: NUL-terminated, never NULL after success */
    char *errors;         /* stderr, the same */
    size_t output_length; /* bytes that stand in `output` */
    size_t errors_length;
    uint64_t output_bytes; /* bytes that were written in all */
    uint64_t errors_bytes;
};

#define SUBPROCESS_RESULT_INIT                                                                     \
    {                                                                                              \
        0                                                                                          \
    }

/*
 * Returns 0 when the helper ran, however it ended, and -1 when it could not be run at all:
 * ERROR_UNFIT where there is no such program or directory, ERROR_INTERNAL where a system call
 * failed. The result is the caller's, to be released.
 */
int subprocess_run(const struct subprocess *what, struct subprocess_result *ret_result,
                   struct error *err) __attribute__((warn_unused_result));

/* True when it ended by itself, in time, with status 0. */
bool subprocess_succeeded(const struct subprocess_result *result);

/* Frees the texts; the struct is as after SUBPROCESS_RESULT_INIT. */
void subprocess_result_release(struct subprocess_result *result);

#endif
