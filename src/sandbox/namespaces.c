#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

static const struct {
    enum sandbox_layer layer;
    int flag;
} at_fork[] = {
    {SANDBOX_USER_NS, CLONE_NEWUSER},
    {SANDBOX_PID_NS, CLONE_NEWPID},
};

static const struct {
    enum sandbox_layer layer;
    int flag;
} after_fork[] = {
    {SANDBOX_NET_NS, CLONE_NEWNET},
    {SANDBOX_IPC_NS, CLONE_NEWIPC},
    {SANDBOX_MOUNT_NS, CLONE_NEWNS},
};

/*
 * fork() with namespaces. It goes past the C library, which knows no such fork: the child's cached
 * thread id is stale, and fork handlers have not run. So it is only for a process that an ordinary
 * fork() made, and its child gives birth to the leaf by an ordinary fork() again, which makes the
 * leaf whole. (Fork handlers matter: that of OpenBLAS joins its threads, and would wait for ever in
 * a process that lost them unnoticed.)
 */
static pid_t raw_fork(int flags)
{
    return (pid_t)syscall(SYS_clone, (unsigned long)flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

static bool fork_works(int flags)
{
    pid_t pid = raw_fork(flags);
    int saved = errno;

    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    errno = saved;
    return pid > 0;
}

pid_t namespaces_fork(bool isolated, unsigned *ret_layers)
{
    /* In a foreign /proc the threads of a pid namespace have other numbers than they know of, and
     * whoever looks for his own (the CUDA driver, to name them) fails. */
    if (!layers_wanted(SANDBOX_MOUNT_NS))
        layers_refuse(SANDBOX_PID_NS, 0, "no mount namespace for a /proc of its own");
    for (;;) {
        unsigned layers = 0;
        int flags = 0, number;
        enum sandbox_layer guilty = 0;
        pid_t pid;

        for (size_t i = 0; i < ARRAY_SIZE(at_fork); i++) {
            if (isolated && layers_wanted(at_fork[i].layer)) {
                layers |= at_fork[i].layer;
                flags |= at_fork[i].flag;
            }
        }
        pid = raw_fork(flags | CLONE_PARENT);
        if (pid >= 0) {
            *ret_layers = layers;
            return pid;
        }
        number = errno;
        if (!flags || number == EAGAIN || number == ENOMEM)
            return -1;
        /* A pid namespace needs the capabilities that the user namespace brings, so alone it says
         * nothing; a user namespace that works alone shows that the other one was refused. */
        if (flags == (CLONE_NEWUSER | CLONE_NEWPID) && fork_works(CLONE_NEWUSER))
            guilty = SANDBOX_PID_NS;
        else
            guilty = layers & SANDBOX_USER_NS ? SANDBOX_USER_NS : SANDBOX_PID_NS;
        layers_refuse(guilty, number, "clone");
    }
}

static int write_file(const char *path, const char *text)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t length = strlen(text);

    if (fd < 0)
        return -1;
    return write(fd, text, length) == (ssize_t)length ? 0 : -1;
}

/* The ids stay what they are, so that files keep their owner: only the one pair is mapped. */
static int write_maps(uid_t uid, gid_t gid)
{
    char line[64];

    /* /proc/self belongs to root while a process is not dumpable, as its parent may have wished. */
    prctl(PR_SET_DUMPABLE, 1);
    snprintf(line, sizeof(line), "%u %u 1\n", uid, uid);
    if (write_file("/proc/self/uid_map", line) < 0)
        return -1;
    /* Without this an unprivileged process may not map its group; kernels before 3.19 lack it. */
    if (write_file("/proc/self/setgroups", "deny\n") < 0 && errno != ENOENT)
        return -1;
    snprintf(line, sizeof(line), "%u %u 1\n", gid, gid);
    return write_file("/proc/self/gid_map", line);
}

int namespaces_enter(const struct sandbox_policy *policy, uid_t uid, gid_t gid,
                     struct sandbox_state *state)
{
    if ((state->layers & SANDBOX_USER_NS) && write_maps(uid, gid) < 0) {
        layers_refuse(SANDBOX_USER_NS, errno, "identity map");
        return -1;
    }
    for (size_t i = 0; i < ARRAY_SIZE(after_fork); i++) {
        if (!layers_wanted(after_fork[i].layer))
            continue;
        if (unshare(after_fork[i].flag) == 0)
            state->layers |= after_fork[i].layer;
        else
            layers_refuse(after_fork[i].layer, errno, "unshare");
    }
    if (state->layers & SANDBOX_MOUNT_NS)
        return mounts_enter(policy, state);
    if (state->layers & SANDBOX_PID_NS)
        return -1; /* the next one will have none, as there is no mount namespace for it */
    return 0;
}
