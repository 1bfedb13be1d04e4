/*
 * Errors with context.
 *
 * Library code never ends the process and never prints: it returns a negative
 * number and describes what went wrong in a `struct error` that the caller
 * owns. The text is one line, says what is wrong, where, and (where that is
 * known) what to do about it. Outputs of a failed call stay untouched.
 *
 *     struct error err = ERROR_INIT;
 *     if (thing_do(&thing, &err) < 0)
 *         return error_context(&err, "while judging %s", path);
 */
#ifndef KBV_BASE_ERROR_H
#define KBV_BASE_ERROR_H

/* What kind of failure it was; the values are kbv's exit statuses. */
enum error_kind {
    ERROR_NONE = 0,
    ERROR_USAGE = 2,    /* arguments, or a file that is not what it should be */
    ERROR_UNFIT = 3,    /* this machine or environment cannot do it */
    ERROR_INTERNAL = 4, /* a defect of kbv, or a system call that should not fail */
    ERROR_INTERRUPTED = 130,
};

struct error {
    enum error_kind kind;
    char text[1024];
};

#define ERROR_INIT                                                                                 \
    {                                                                                              \
        0                                                                                          \
    }

/* Sets kind and text; always returns -1, so that `return error_set(...)` reads well. */
int error_set(struct error *err, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like error_set(), with ": <strerror(errno)>" appended. */
int error_errno(struct error *err, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "<context>: " in front of the text that is there; always returns -1. */
int error_context(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
