/*
 * Runs small hostile or honest programs in a sandbox, each beneath a process of its own that stands
 * for the judge and has a deadline.
 *
 *     test ── fork ── judge (the user of the setting, masked layers) ── sandbox_fork() ── leaf
 *
 * A program runs in the leaf after sandbox_lock(). It returns when what it looked for is as it
 * should be, and calls complain() otherwise.
 */
#ifndef TESTS_SANDBOX_HARNESS_H
#define TESTS_SANDBOX_HARNESS_H

#include <sys/types.h>

#include "sandbox/internal.h"

/* What a judge prepares; the leaf sees the numbers and paths as an attacker would who guessed them.
 */
struct arena {
    char root[64];     /* everything below is in here */
    char scratch[80];  /* may be written */
    char readable[80]; /* may be read: holds "tool" with the text "tool\n" */
    char secret[80];   /* may not be seen: holds "answer" with the text SECRET_TEXT */
    char socket_path[96];
    char socket_abstract[64];
    int tcp_port;    /* on 127.0.0.1 */
    pid_t judge;     /* in the judge's numbering */
    int kept_fd;     /* the one descriptor of keep_fds but for the channel of complaints */
    int alien_fd;    /* a number that was open in the judge and is not kept */
    unsigned layers; /* active in the leaf */
};
#define SECRET_TEXT "42\n"

/* The secret once more, in the judge's memory; the leaf's copy is wiped. */
extern volatile char judge_memory[64];

struct program {
    const char *name;
    void (*run)(const struct arena *arena);
    void (*before)(struct sandbox_policy *policy); /* NULL: the usual limits */
    /* How the leaf has to end: its exit status, or a signal (negative). */
    int ending;
    unsigned strays; /* that many, or STRAYS_ANY */
    /* Without one of these layers nobody promises anything: not run. */
    unsigned needs;
    unsigned needs_any;
};

#define STRAYS_ANY (~0u)

struct setting {
    const char *name;
    unsigned masked; /* layers */
    bool plain_user; /* not root, where the test has the choice */
};

/* In the leaf: what is wrong, and the end. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            complain("%s:%d: not true: %s (errno %d)", __FILE__, __LINE__, #condition, errno);     \
    } while (0)

/* The call fails; `number` is its errno, or 0 for any. */
#define REFUSED(call, number)                                                                      \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if ((call) >= 0)                                                                           \
            complain("%s:%d: permitted: %s", __FILE__, __LINE__, #call);                           \
        if ((number) && errno != (number))                                                         \
            complain("%s:%d: errno %d: %s", __FILE__, __LINE__, errno, #call);                     \
    } while (0)

/* Runs every program in every setting that this machine can give; a main() for cmocka. */
int harness_run(const struct program *programs, size_t count);

/* "/bin/sh -c command" in a child; its wait status. */
int shell(const char *command);

#endif
