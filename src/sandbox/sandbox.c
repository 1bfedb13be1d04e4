#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

/* What sandbox_lock() cannot mend any more. */
#define FORK_LAYERS                                                                                \
    (SANDBOX_USER_NS | SANDBOX_PID_NS | SANDBOX_MOUNT_NS | SANDBOX_NET_NS | SANDBOX_IPC_NS)

/* Of this process, if it is a leaf. */
static struct sandbox_state leaf_state;

static int refuse_missing(unsigned missing, struct error *err)
{
    char list[800] = "";
    size_t used = 0;

    for (int bit = 0; bit < SANDBOX_LAYER_COUNT && used < sizeof(list); bit++) {
        enum sandbox_layer layer = (enum sandbox_layer)(1u << bit);
        char why[LAYER_REASON_BYTES];

        if (!(missing & layer))
            continue;
        layers_explain(layer, why, sizeof(why));
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s (%s)", used ? ", " : "",
                                 sandbox_layer_name(layer), why);
    }
    return error_set(err, ERROR_UNFIT, "strict sandbox: missing %s", list);
}

static int check_arguments(const struct sandbox_policy *policy, int report_fd, const int *keep_fds,
                           size_t keep_count, struct error *err)
{
    if (keep_count > DESCRIPTORS_KEPT_MAX)
        return error_set(err, ERROR_USAGE, "sandbox: more than %d descriptors to keep",
                         DESCRIPTORS_KEPT_MAX);
    for (size_t i = 0; i < keep_count; i++) {
        if (keep_fds[i] == report_fd)
            return error_set(err, ERROR_USAGE, "sandbox: the leaf may not hold the report");
        if (fcntl(keep_fds[i], F_GETFD) < 0)
            return error_errno(err, ERROR_USAGE, "sandbox: descriptor %d to keep", keep_fds[i]);
    }
    return view_check(policy, err);
}

/* ---- Births --------------------------------------------------------------------------------- */

/*
 * caller ── fork() ── midwife ── raw clone ── supervisor ── fork() ── leaf
 *
 * The midwife lives for the moment of the clone (namespaces.c says why it is needed). The
 * supervisor is its sibling, and so the caller's child. Each has one word to say to the caller.
 */
struct birth {
    const struct sandbox_policy *policy;
    uid_t uid;
    gid_t gid;
    int report_fd;
    int started_fd; /* the supervisor's word: struct supervisor_start */
    int midwife_fd; /* the midwife's word: struct delivery */
    const int *keep_fds;
    size_t keep_count;
    struct cgroup *cgroup;
};

struct delivery {
    pid_t supervisor; /* as the caller numbers it; -1 */
    int number;       /* errno of a failure */
};

/* Returns in the leaf only. */
static void become_supervisor(const struct birth *birth, unsigned layers)
{
    const char *directory = birth->policy->scratch ? birth->policy->scratch : "/";
    bool isolated = birth->policy->mode != SANDBOX_OFF;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    leaf_state = (struct sandbox_state){.isolated = isolated, .layers = layers};
    if (isolated && namespaces_enter(birth->policy, birth->uid, birth->gid, &leaf_state) < 0)
        supervisor_give_up(birth->started_fd, "");
    if (birth->policy->mode == SANDBOX_STRICT && (FORK_LAYERS & layers_missing()))
        supervisor_give_up(birth->started_fd, ""); /* no leaf may run; the caller says why */
    if (chdir(directory) < 0) {
        char text[64];

        snprintf(text, sizeof(text), "entering the scratch directory: %s", strerror(errno));
        supervisor_give_up(birth->started_fd, text);
    }
    supervisor_run(&leaf_state, birth->report_fd, birth->started_fd, birth->keep_fds,
                   birth->keep_count, birth->cgroup);
    leaf_state.leaf = true;
}

/* Returns in the leaf only. */
static void become_midwife(const struct birth *birth)
{
    struct delivery delivery;
    unsigned layers = 0;
    sigset_t all;

    /* The caller's signal handlers are for none of its descendants. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    delivery.supervisor = namespaces_fork(birth->policy->mode != SANDBOX_OFF, &layers);
    if (delivery.supervisor == 0) {
        become_supervisor(birth, layers);
        return;
    }
    delivery.number = errno;
    _exit(write(birth->midwife_fd, &delivery, sizeof(delivery)) == sizeof(delivery) ? 0 : 1);
}

/* ---- The caller's side ---------------------------------------------------------------------- */

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* One whole message; false where its sender died without it. */
static bool hear(int fd, void *message, size_t size)
{
    ssize_t got;

    do
        got = read(fd, message, size);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)size;
}

static int open_pipe(int *ret_read, int *ret_write, struct error *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, ERROR_INTERNAL, "sandbox: pipe2");
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

/*
 * One supervisor. Returns its pid, 0 in the leaf, -1 on failure; `ret_again` tells whether
 * something was learned so that another try makes sense.
 */
static pid_t try_once(struct birth *birth, bool *ret_again, struct error *err)
{
    CLEANUP_FD int started = -1, started_end = -1, delivered = -1, delivered_end = -1;
    struct supervisor_start start;
    struct delivery delivery;
    unsigned before = layers_refusals()->layers;
    bool heard;
    pid_t pid;

    *ret_again = false;
    if (open_pipe(&started, &started_end, err) < 0 ||
        open_pipe(&delivered, &delivered_end, err) < 0)
        return -1;
    pid = fork();
    if (pid < 0)
        return error_errno(err, ERROR_INTERNAL, "sandbox: fork");
    if (pid == 0) {
        /* Closed here, so that a word to a caller who is dead fails. */
        close(fd_steal(&started));
        close(fd_steal(&delivered));
        birth->started_fd = fd_steal(&started_end);
        birth->midwife_fd = fd_steal(&delivered_end);
        become_midwife(birth);
        return 0;
    }
    close(fd_steal(&started_end));
    close(fd_steal(&delivered_end));
    heard = hear(delivered, &delivery, sizeof(delivery));
    reap(pid);
    if (!heard)
        return error_set(err, ERROR_INTERNAL, "sandbox: died before there was a supervisor");
    if (delivery.supervisor < 0)
        return error_set(err, ERROR_INTERNAL, "sandbox: clone: %s", strerror(delivery.number));
    if (!hear(started, &start, sizeof(start))) {
        kill(delivery.supervisor, SIGKILL);
        reap(delivery.supervisor);
        return error_set(err, ERROR_INTERNAL, "sandbox: the supervisor died at its start");
    }
    layers_merge(&start.refusals);
    if (start.running)
        return delivery.supervisor;
    reap(delivery.supervisor);
    *ret_again = layers_refusals()->layers != before && !start.failure[0];
    return error_set(err, ERROR_INTERNAL, "sandbox: %s",
                     start.failure[0] ? start.failure : "the supervisor could not start");
}

pid_t sandbox_fork(const struct sandbox_policy *policy, int report_fd, const int *keep_fds,
                   size_t keep_count, struct error *err)
{
    struct cgroup cgroup = CGROUP_INIT;
    struct birth birth = {.policy = policy,
                          .uid = geteuid(),
                          .gid = getegid(),
                          .report_fd = report_fd,
                          .keep_fds = keep_fds,
                          .keep_count = keep_count,
                          .cgroup = &cgroup};
    bool strict = policy->mode == SANDBOX_STRICT, again;
    unsigned missing;
    pid_t pid;

    if (check_arguments(policy, report_fd, keep_fds, keep_count, err) < 0)
        return -1;
    if (policy->mode != SANDBOX_OFF)
        cgroup_make(policy, &cgroup);
    do {
        pid = try_once(&birth, &again, err);
    } while (pid < 0 && again && !strict);
    if (pid == 0)
        return 0;
    if (pid < 0)
        cgroup_remove(&cgroup);
    cgroup_close(&cgroup);

    missing = pid < 0 && strict ? FORK_LAYERS & layers_missing() : 0;
    return missing ? refuse_missing(missing, err) : pid;
}

/* ---- The lock ------------------------------------------------------------------------------- */

static void forbid_privileges(struct sandbox_state *state)
{
    if (!layers_wanted(SANDBOX_NO_NEW_PRIVS))
        return;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        layers_refuse(SANDBOX_NO_NEW_PRIVS, errno, "prctl");
    else
        state->layers |= SANDBOX_NO_NEW_PRIVS;
}

int sandbox_lock(const struct sandbox_policy *policy, unsigned *ret_layers, struct error *err)
{
    unsigned missing;

    if (!leaf_state.leaf)
        return error_set(err, ERROR_INTERNAL, "sandbox: lock outside of a leaf");
    if (limits_apply(policy, &leaf_state, err) < 0)
        return -1;
    leaf_state.layers |= SANDBOX_RLIMITS;
    if (leaf_state.isolated) {
        /* Landlock before seccomp, whose rules depend on what the others achieved. */
        forbid_privileges(&leaf_state);
        if (landlock_apply(policy, &leaf_state, err) < 0 || seccomp_apply(&leaf_state, err) < 0)
            return -1;
    }
    missing = SANDBOX_STRICT_LAYERS & ~leaf_state.layers;
    if (policy->mode == SANDBOX_STRICT && missing)
        return refuse_missing(missing, err);
    *ret_layers = leaf_state.layers;
    return 0;
}
