/* How leaves end and what is said of it; what their caller's mistakes and the modes lead to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

#define NAMESPACES                                                                                 \
    (SANDBOX_USER_NS | SANDBOX_PID_NS | SANDBOX_MOUNT_NS | SANDBOX_NET_NS | SANDBOX_IPC_NS)

enum { DEADLINE_MS = 20000 };

/* With and without a pid namespace, strays are hunted in different ways. */
static const unsigned settings[] = {0, NAMESPACES, NAMESPACES | SANDBOX_LANDLOCK};

typedef void leaf_code(void);

/* A leaf beneath this process; its report comes on `report`. `life` is the reading end of a pipe
 * whose other end the leaf and its descendants hold: it ends with the last of them. */
struct running {
    pid_t supervisor;
    int report, life;
};

static struct sandbox_policy policy_of(enum sandbox_mode mode)
{
    return (struct sandbox_policy){.mode = mode, .scratch = "/tmp", .processes = 256};
}

static struct running start_leaf(const struct sandbox_policy *policy, leaf_code *run)
{
    struct error err = ERROR_INIT;
    int report[2], life[2];
    unsigned layers;
    pid_t pid;

    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    assert_int_equal(pipe2(life, O_CLOEXEC), 0);
    fflush(NULL);
    pid = sandbox_fork(policy, report[1], &life[1], 1, &err);
    if (pid == 0) {
        if (sandbox_lock(policy, &layers, &err) < 0)
            _exit(90);
        run();
        _exit(0);
    }
    if (pid < 0)
        fail_msg("%s", err.text);
    close(report[1]);
    close(life[1]);
    return (struct running){pid, report[0], life[0]};
}

/* The pipe's end is reached in time: everybody who could hold it is gone. */
static void assert_ends(int fd)
{
    struct pollfd what = {.fd = fd, .events = POLLIN};
    char byte;

    do {
        assert_int_equal(poll(&what, 1, DEADLINE_MS), 1);
    } while (read(fd, &byte, 1) > 0);
}

static struct sandbox_exit finish(struct running *what)
{
    struct pollfd ready = {.fd = what->report, .events = POLLIN};
    struct sandbox_exit end;
    char byte;
    int status;

    assert_int_equal(poll(&ready, 1, DEADLINE_MS), 1);
    assert_int_equal(read(what->report, &end, sizeof(end)), sizeof(end));
    assert_int_equal(end.magic, SANDBOX_EXIT_MAGIC);
    assert_ends(what->life);
    assert_int_equal(waitpid(what->supervisor, &status, 0), what->supervisor);
    assert_int_equal(status, 0);
    /* One report, no more. */
    assert_int_equal(read(what->report, &byte, 1), 0);
    close(what->report);
    close(what->life);
    return end;
}

/* ---- Endings -------------------------------------------------------------------------------- */

static void leaf_exits(void)
{
    _exit(7);
}

static void leaf_aborts(void)
{
    abort();
}

static void leaf_faults(void)
{
    static int *volatile nowhere; /* volatile, so that no compiler sees through it */

    *nowhere = 1;
}

static void leaf_waits(void)
{
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

static void sleep_us(long duration)
{
    struct timespec span = {.tv_nsec = duration * 1000};

    nanosleep(&span, NULL);
}

/* Two generations of daemons, each in a session of its own, deaf to everything. */
static void leaf_leaves_daemons(void)
{
    for (int i = 0; i < 3; i++) {
        if (fork() == 0) {
            setsid();
            if (fork() == 0) {
                setsid();
                leaf_waits();
            }
            leaf_waits();
        }
    }
    sleep_us(50000);
    _exit(3);
}

/* A process that is always somewhere else: each lives long enough to make its successor. */
static void leaf_leaves_comet(void)
{
    if (fork() == 0) {
        for (;;) {
            pid_t pid = fork();

            if (pid > 0)
                _exit(0);
            if (pid < 0)
                sleep_us(10);
        }
    }
    sleep_us(20000);
    _exit(4);
}

static void leaf_leaves_orphans_that_end(void)
{
    if (fork() == 0) {
        if (fork() == 0)
            _exit(0);
        _exit(0);
    }
    sleep_us(100000);
    _exit(0);
}

static const struct ending {
    const char *name;
    leaf_code *run;
    int signal, status;
    unsigned strays_least, strays_most;
} endings[] = {
    {"exits", leaf_exits, 0, 7, 0, 0},
    {"aborts", leaf_aborts, SIGABRT, 0, 0, 0},
    {"faults", leaf_faults, SIGSEGV, 0, 0, 0},
    {"leaves daemons", leaf_leaves_daemons, 0, 3, 6, 6},
    {"leaves a comet", leaf_leaves_comet, 0, 4, 0, ~0u},
    {"leaves orphans that end", leaf_leaves_orphans_that_end, 0, 0, 0, 0},
};

static void endings_are_reported(void **state)
{
    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(settings); s++) {
        for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
            const struct ending *want = &endings[i];
            struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
            struct running leaf;
            struct sandbox_exit end;

            layers_mask(settings[s]);
            leaf = start_leaf(&policy, want->run);
            end = finish(&leaf);
            if (want->signal
                    ? !WIFSIGNALED(end.wait_status) || WTERMSIG(end.wait_status) != want->signal
                    : !WIFEXITED(end.wait_status) || WEXITSTATUS(end.wait_status) != want->status)
                fail_msg("%s, setting %zu: status %#x", want->name, s, (unsigned)end.wait_status);
            if (end.stray_processes < want->strays_least || end.stray_processes > want->strays_most)
                fail_msg("%s, setting %zu: %u strays", want->name, s, end.stray_processes);
            assert_true(end.max_rss_bytes > 100 << 10);
        }
    }
}

static void sigterm_ends_the_leaf(void **state)
{
    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(settings); s++) {
        struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
        struct running leaf;
        struct sandbox_exit end;

        layers_mask(settings[s]);
        leaf = start_leaf(&policy, leaf_waits);
        assert_int_equal(kill(leaf.supervisor, SIGTERM), 0);
        end = finish(&leaf);
        assert_true(WIFSIGNALED(end.wait_status));
        assert_int_equal(WTERMSIG(end.wait_status), SIGKILL);
    }
}

/* SIGKILL lets nobody report, but the leaf goes as well. */
static void leaf_dies_with_supervisor(void **state)
{
    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(settings); s++) {
        struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
        struct running leaf;
        int status;

        layers_mask(settings[s]);
        leaf = start_leaf(&policy, leaf_waits);
        assert_int_equal(kill(leaf.supervisor, SIGKILL), 0);
        assert_ends(leaf.life);
        assert_ends(leaf.report);
        assert_int_equal(waitpid(leaf.supervisor, &status, 0), leaf.supervisor);
        close(leaf.life);
        close(leaf.report);
    }
}

/* A caller that dies without a word, as a judge that is killed. */
static void all_die_with_caller(void **state)
{
    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(settings); s++) {
        struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
        int life[2], status;
        pid_t caller;

        layers_mask(settings[s]);
        assert_int_equal(pipe2(life, O_CLOEXEC), 0);
        caller = fork();
        if (caller == 0) {
            struct error err = ERROR_INIT;
            pid_t pid = sandbox_fork(&policy, -1, &life[1], 1, &err);

            if (pid == 0)
                leaf_waits();
            _exit(pid > 0 ? 0 : 1);
        }
        close(life[1]);
        assert_int_equal(waitpid(caller, &status, 0), caller);
        assert_int_equal(status, 0);
        assert_ends(life[0]);
        close(life[0]);
    }
}

/* ---- What a leaf inherits -------------------------------------------------------------------- */

static void leaf_checks_inheritance(void)
{
    struct sigaction action;
    sigset_t blocked;

    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int number = 1; number < 32; number++) {
        if (sigismember(&blocked, number))
            _exit(1);
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            _exit(2);
    }
    if (umask(0) != 077)
        _exit(3);
    if (getsid(0) != getpid() || getpgrp() != getpid())
        _exit(4);
    _exit(0);
}

static void state_is_fresh(void **state)
{
    struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
    sigset_t some, before;
    struct sandbox_exit end;
    struct running leaf;

    (void)state;
    layers_mask(0);
    signal(SIGCHLD, SIG_IGN); /* would make children reap themselves */
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigprocmask(SIG_BLOCK, &some, &before);
    leaf = start_leaf(&policy, leaf_checks_inheritance);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    end = finish(&leaf);
    assert_int_equal(end.wait_status, 0);
}

/* ---- Scratch -------------------------------------------------------------------------------- */

static char marked[64];

static void leaf_leaves_mark(void)
{
    int fd = open(marked, O_WRONLY | O_CREAT | O_EXCL, 0600);

    _exit(fd >= 0 && write(fd, "mark", 4) == 4 && access("/etc/passwd", R_OK) == 0 ? 0 : 1);
}

/* The directory on which the view is built is as good a scratch as any: what is written there is
 * found outside. */
static void scratch_may_be_tmp(void **state)
{
    (void)state;
    for (size_t s = 0; s < ARRAY_SIZE(settings); s++) {
        struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
        struct running running;
        struct sandbox_exit end;
        struct stat what;

        layers_mask(settings[s]);
        snprintf(marked, sizeof(marked), "/tmp/kbv-mark-%d", getpid());
        running = start_leaf(&policy, leaf_leaves_mark);
        end = finish(&running);
        assert_int_equal(end.wait_status, 0);
        assert_int_equal(stat(marked, &what), 0);
        assert_int_equal(what.st_size, 4);
        assert_int_equal(unlink(marked), 0);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *wait_for_byte(void *fd)
{
    char byte;

    return read(*(int *)fd, &byte, 1) < 0 ? fd : NULL;
}

/* Landlock binds the thread that calls and those that come from it. With others about, the layer
 * must not be claimed; a kernel that can bind them all claims it rightly. */
static void landlock_with_siblings_is_not_claimed(void **state)
{
    enum { NO_LANDLOCK = 77, ABI_BINDS_SIBLINGS = 8 };
    struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
    struct error err = ERROR_INIT;
    struct pollfd ready;
    struct sandbox_exit end;
    int report[2];
    pid_t pid;

    (void)state;
    layers_mask(0);
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    pid = sandbox_fork(&policy, report[1], NULL, 0, &err);
    if (pid == 0) {
        int abi = landlock_abi(), line[2];
        pthread_t sibling;
        unsigned layers;

        if (!abi)
            _exit(NO_LANDLOCK);
        if (pipe(line) < 0 || pthread_create(&sibling, NULL, wait_for_byte, &line[0]) != 0)
            _exit(1);
        if (sandbox_lock(&policy, &layers, &err) < 0)
            _exit(2);
        if (!(layers & SANDBOX_LANDLOCK) != (abi < ABI_BINDS_SIBLINGS))
            _exit(3);
        /* What this thread starts is bound in any case. */
        _exit(open("/", O_RDONLY | O_DIRECTORY) < 0 ? 0 : 4);
    }
    assert_true(pid > 0);
    ready = (struct pollfd){.fd = report[0], .events = POLLIN};
    assert_int_equal(poll(&ready, 1, DEADLINE_MS), 1);
    assert_int_equal(read(report[0], &end, sizeof(end)), sizeof(end));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(report[0]);
    close(report[1]);
    assert_true(WIFEXITED(end.wait_status));
    if (WEXITSTATUS(end.wait_status) == NO_LANDLOCK)
        skip();
    assert_int_equal(WEXITSTATUS(end.wait_status), 0);
}

static struct {
    pthread_t thread;
    bool running;
    int line[2];
} library;

/* What OpenBLAS does before a fork: it stops its threads, and waits until they are gone. */
static void stop_library_threads(void)
{
    if (!library.running)
        return;
    if (write(library.line[1], "x", 1) == 1)
        pthread_join(library.thread, NULL);
    library.running = false;
}

static void fork_handlers_run_in_time(void **state)
{
    struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
    struct sandbox_exit end;
    struct running running;

    (void)state;
    layers_mask(0);
    assert_int_equal(pipe2(library.line, O_CLOEXEC), 0);
    assert_int_equal(pthread_atfork(stop_library_threads, NULL, NULL), 0);
    assert_int_equal(pthread_create(&library.thread, NULL, wait_for_byte, &library.line[0]), 0);
    library.running = true;
    running = start_leaf(&policy, leaf_exits);
    end = finish(&running);
    assert_int_equal(WEXITSTATUS(end.wait_status), 7);
    close(library.line[0]);
    close(library.line[1]);
}

/* ---- Modes and mistakes ---------------------------------------------------------------------- */

static void leaf_acts_freely(void)
{
    int fd = open("/", O_RDONLY | O_DIRECTORY);

    _exit(fd >= 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 ? 0 : 1);
}

static void off_is_off(void **state)
{
    struct sandbox_policy policy = policy_of(SANDBOX_OFF);
    struct running leaf;
    struct sandbox_exit end;

    (void)state;
    layers_mask(0);
    leaf = start_leaf(&policy, leaf_acts_freely);
    end = finish(&leaf);
    assert_int_equal(end.wait_status, 0);
    leaf = start_leaf(&policy, leaf_leaves_daemons);
    end = finish(&leaf);
    assert_int_equal(end.stray_processes, 6);
}

static void strict_needs_namespaces(void **state)
{
    struct sandbox_policy policy = policy_of(SANDBOX_STRICT);
    struct error err = ERROR_INIT;

    (void)state;
    layers_mask(SANDBOX_NET_NS);
    assert_int_equal(sandbox_fork(&policy, -1, NULL, 0, &err), -1);
    assert_int_equal(err.kind, ERROR_UNFIT);
    assert_non_null(strstr(err.text, "net_ns"));
    assert_null(strstr(err.text, "cgroup"));
    /* Nobody is left over. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void strict_needs_landlock(void **state)
{
    struct sandbox_policy policy = policy_of(SANDBOX_STRICT);
    struct error err = ERROR_INIT;
    int report[2], status;
    char text[256] = "";
    unsigned layers;
    pid_t pid;

    (void)state;
    layers_mask(0);
    pid = sandbox_fork(&policy, -1, NULL, 0, &err);
    if (pid == 0)
        _exit(0);
    if (pid < 0)
        skip(); /* this machine has no strict sandbox to begin with */
    assert_int_equal(waitpid(pid, &status, 0), pid);

    layers_mask(SANDBOX_LANDLOCK);
    assert_int_equal(pipe(report), 0);
    pid = sandbox_fork(&policy, -1, &report[1], 1, &err);
    if (pid == 0) {
        if (sandbox_lock(&policy, &layers, &err) == 0 || err.kind != ERROR_UNFIT)
            _exit(1);
        _exit(write(report[1], err.text, strlen(err.text)) > 0 ? 0 : 1);
    }
    close(report[1]);
    assert_true(read(report[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "landlock"));
    close(report[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void mistakes_are_named(void **state)
{
    static const char *const root[] = {"/", NULL}, *const relative[] = {"usr", NULL};
    const struct {
        struct sandbox_policy policy;
        int keep;
        const char *text;
    } cases[] = {
        {{.scratch = "tmp"}, 0, "absolute"},
        {{.scratch = "/nonexistent/kbv"}, 0, "/nonexistent/kbv"},
        {{.scratch = "/dev/null"}, 0, "no directory"},
        {{.scratch = "/"}, 0, "root directory"},
        {{.readable = root}, 0, "root directory"},
        {{.readable = relative}, 0, "absolute"},
        {{0}, 1000, "descriptor 1000"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err = ERROR_INIT;

        assert_int_equal(sandbox_fork(&cases[i].policy, -1, &cases[i].keep, 1, &err), -1);
        assert_int_equal(err.kind, ERROR_USAGE);
        if (!strstr(err.text, cases[i].text))
            fail_msg("'%s' is not in '%s'", cases[i].text, err.text);
    }
}

static void lock_is_for_leaves(void **state)
{
    struct sandbox_policy policy = policy_of(SANDBOX_AUTO);
    struct error err = ERROR_INIT;
    unsigned layers = 77;

    (void)state;
    assert_int_equal(sandbox_lock(&policy, &layers, &err), -1);
    assert_int_equal(err.kind, ERROR_INTERNAL);
    assert_int_equal(layers, 77);
}

static void probe_explains(void **state)
{
    char reason[SANDBOX_LAYER_COUNT][LAYER_REASON_BYTES];
    struct error err = ERROR_INIT;
    unsigned layers;

    (void)state;
    layers_mask(SANDBOX_IPC_NS);
    assert_int_equal(sandbox_probe(&layers, reason, &err), 0);
    assert_false(layers & SANDBOX_IPC_NS);
    assert_true(layers & SANDBOX_RLIMITS);
    for (int bit = 0; bit < SANDBOX_LAYER_COUNT; bit++) {
        if (layers & (1u << bit))
            assert_string_equal(reason[bit], "");
        else
            assert_non_null(strchr(reason[bit], ';'));
    }
}

/* As in a container: parts of /proc lie beneath other mounts, and the kernel permits no fresh one.
 */
static void covered_proc_costs_pid_namespace(void **state)
{
    enum { NOT_HERE = 77 };
    int status;
    pid_t pid;

    (void)state;
    layers_mask(0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        char reason[SANDBOX_LAYER_COUNT][LAYER_REASON_BYTES];
        struct error err = ERROR_INIT;
        unsigned layers;

        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("/dev/null", "/proc/uptime", NULL, MS_BIND, NULL) < 0)
            _exit(NOT_HERE); /* only root can play container engine */
        if (sandbox_probe(&layers, reason, &err) < 0)
            _exit(1);
        if (!(layers & SANDBOX_USER_NS))
            _exit(NOT_HERE);
        if ((layers & SANDBOX_PID_NS) || !(layers & SANDBOX_MOUNT_NS))
            _exit(2);
        _exit(strstr(reason[__builtin_ctz(SANDBOX_PID_NS)], "/proc") ? 0 : 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_HERE)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void names_are_known(void **state)
{
    (void)state;
    assert_string_equal(sandbox_layer_name(SANDBOX_NO_NEW_PRIVS), "no_new_privs");
    assert_string_equal(sandbox_layer_name(SANDBOX_CGROUP), "cgroup");
    assert_string_equal(sandbox_layer_name(0), "unknown");
    assert_string_equal(sandbox_layer_name((enum sandbox_layer)(1 << SANDBOX_LAYER_COUNT)),
                        "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endings_are_reported),
        cmocka_unit_test(sigterm_ends_the_leaf),
        cmocka_unit_test(leaf_dies_with_supervisor),
        cmocka_unit_test(all_die_with_caller),
        cmocka_unit_test(state_is_fresh),
        cmocka_unit_test(scratch_may_be_tmp),
        cmocka_unit_test(landlock_with_siblings_is_not_claimed),
        cmocka_unit_test(fork_handlers_run_in_time),
        cmocka_unit_test(off_is_off),
        cmocka_unit_test(strict_needs_namespaces),
        cmocka_unit_test(strict_needs_landlock),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(lock_is_for_leaves),
        cmocka_unit_test(probe_explains),
        cmocka_unit_test(covered_proc_costs_pid_namespace),
        cmocka_unit_test(names_are_known),
    };

    /* A hang fails instead of waiting for whoever started this. */
    alarm(200);
    return cmocka_run_group_tests_name("sandbox-lifecycle", tests, NULL, NULL);
}
