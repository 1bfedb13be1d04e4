/*
 * A session: the warm parents, and what every evaluation on one device shares.
 *
 * session_open() starts two warm parents (each a python3 that has imported torch and nothing
 * else): one forks reference processes, the other candidates, baselines and builders. They share
 * nothing writable. Importing torch takes seconds, so a session is opened once and serves many
 * evaluations; evaluate() may be called on it one at a time.
 *
 * All scratch lies below one directory, $TMPDIR/kbv-XXXXXX. session_close() ends the parents and
 * removes it; should the judge be killed, the parents notice and do the same.
 */
#ifndef KBV_JUDGE_SESSION_H
#define KBV_JUDGE_SESSION_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/tail.h"
#include "sandbox/sandbox.h"

struct session_options {
    const char *device;  /* "cpu", "cuda:0" */
    const char *python;  /* absolute path of the interpreter that has torch */
    const char *library; /* absolute path of the directory that holds worker.py and _kbv */
    enum sandbox_mode sandbox;
};

/* A warm parent. */
struct parent {
    pid_t pid;
    int channel;
    struct tail *output; /* its stderr, for the message when it fails to start */
    char scratch[PATH_MAX];
};

struct session {
    char device[64];
    char python[PATH_MAX];
    enum sandbox_mode sandbox;
    bool on_cpu;
    char root[PATH_MAX];    /* scratch of all */
    char library[PATH_MAX]; /* where worker.py and _kbv lie */
    char cache[PATH_MAX];   /* builds, compiled kernels */
    struct parent reference, candidate;
    char torch_version[64], python_version[64], cuda_version[64];
    unsigned next_job;
    uint64_t machine_memory_bytes;
    uint64_t spin_ns; /* how long the judge spins for a word of a shared page */
};

/* Starts the parents and waits until both have torch. ERROR_UNFIT where python or torch is
 * missing, with what to do about it. */
int session_open(struct session **ret_session, const struct session_options *options,
                 struct error *err);
void session_close(struct session *session);

#endif
