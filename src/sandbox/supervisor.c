/*
 * The process between the caller and the leaf. It holds two descriptors, uses no library that could
 * have been left in a bad state by the fork, and trusts nobody below it.
 *
 * As pid 1 of a pid namespace it is out of the leaf's reach by the kernel's rules, and the kernel
 * hands every orphan to it and kills whatever outlives it. Elsewhere it is a subreaper, and hunts
 * its descendants itself.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

enum { STATUS_LEAF_SPOILT = 125 };

/* Every signal to its default, none blocked. */
static void signals_reset(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        sigaction(number, &action, NULL); /* fails for SIGKILL, SIGSTOP and the C library's own */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* ---- Strays without a pid namespace --------------------------------------------------------- */

/* The parent of a process by /proc/PID/stat, whose second field may hold spaces and brackets. */
static pid_t parent_of(const char *pid)
{
    char path[64], text[512];
    CLEANUP_FD int fd = -1;
    const char *bracket;
    ssize_t got;
    int parent;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    got = read(fd, text, sizeof(text) - 1);
    if (got <= 0)
        return -1;
    text[got] = '\0';
    bracket = strrchr(text, ')');
    if (!bracket || sscanf(bracket + 1, " %*c %d", &parent) != 1)
        return -1;
    return parent;
}

static void kill_children_by_scan(void)
{
    DIR *list = opendir("/proc");
    struct dirent *entry;

    if (!list)
        return;
    while ((entry = readdir(list))) {
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == getpid())
            kill(atoi(entry->d_name), SIGKILL);
    }
    closedir(list);
}

/* By the kernel's own list where there is one (CONFIG_PROC_CHILDREN): it shows children even where
 * hidepid= hides them. */
static void kill_children(void)
{
    char path[64];
    FILE *list;
    int pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    list = fopen(path, "re");
    if (!list) {
        kill_children_by_scan();
        return;
    }
    while (fscanf(list, "%d", &pid) == 1)
        kill(pid, SIGKILL);
    fclose(list);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Takes in everybody who has ended: how many, or -1 where there is no child left. */
static int reap_ended(void)
{
    int count = 0;

    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);

        if (pid == 0)
            return count;
        if (pid > 0)
            count++;
        else if (errno != EINTR)
            return count ? count : -1;
    }
}

/*
 * Returns how many descendants had to be killed. Children of the killed become our own, so one
 * round is not enough; a process that forks as fast as it dies is met again in each.
 */
static uint32_t kill_strays(bool pid_namespace)
{
    const struct timespec pause = {.tv_nsec = 200000};
    uint32_t count = 0;

    if (reap_ended() < 0) /* who ended by himself is no stray */
        return 0;
    for (;;) {
        int ended;

        if (pid_namespace)
            kill(-1, SIGKILL); /* everybody in the namespace but pid 1 */
        else
            kill_children();
        ended = reap_ended();
        if (ended < 0)
            return count;
        count += (uint32_t)ended;
        if (!ended)
            nanosleep(&pause, NULL);
    }
}

static int await_leaf(pid_t leaf, const sigset_t *signals, struct rusage *ret_usage)
{
    for (;;) {
        int status;
        pid_t pid = wait4(-1, &status, WNOHANG | __WALL, ret_usage);

        if (pid == leaf)
            return status;
        if (pid != 0)
            continue; /* an orphan, or EINTR */
        if (sigwaitinfo(signals, NULL) == SIGTERM)
            kill(leaf, SIGKILL);
    }
}

static void __attribute__((noreturn))
supervise(pid_t leaf, const struct sandbox_state *state, int report_fd, struct cgroup *cgroup,
          const sigset_t *signals)
{
    struct sandbox_exit report = {.magic = SANDBOX_EXIT_MAGIC};
    struct rusage usage = {0};

    report.wait_status = await_leaf(leaf, signals, &usage);
    report.max_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    report.stray_processes = kill_strays(state->layers & SANDBOX_PID_NS);
    cgroup_remove(cgroup);
    _exit(report_fd < 0 || write(report_fd, &report, sizeof(report)) == sizeof(report) ? 0 : 1);
}

/* ---- The leaf ------------------------------------------------------------------------------- */

static void become_leaf(pid_t supervisor, struct sandbox_state *state, const int *keep_fds,
                        size_t keep_count, const struct cgroup *cgroup)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(STATUS_LEAF_SPOILT);
    prctl(PR_SET_DUMPABLE, 1); /* its own /proc/self must belong to it */
    setsid();                  /* no terminal, and a process group without the supervisor */
    if (cgroup->procs_fd >= 0) {
        if (cgroup_join(cgroup) == 0)
            state->layers |= SANDBOX_CGROUP;
        else
            layers_refuse(SANDBOX_CGROUP, errno, "joining it");
    }
    if (descriptors_close(3, keep_fds, keep_count) < 0)
        _exit(STATUS_LEAF_SPOILT);
    umask(077);
    /* Now rather than in sandbox_lock(), because capabilities belong to threads, and until the lock
     * there may be more than one. */
    if (state->isolated)
        limits_drop_capabilities();
    signals_reset();
}

static void tell(int started_fd, bool running, const char *failure)
{
    struct supervisor_start start = {.running = running, .refusals = *layers_refusals()};

    snprintf(start.failure, sizeof(start.failure), "%s", failure);
    /* A caller that is gone gives EPIPE: nobody is left to supervise for. */
    if (write(started_fd, &start, sizeof(start)) != sizeof(start))
        _exit(1);
}

void supervisor_give_up(int started_fd, const char *failure)
{
    tell(started_fd, false, failure);
    _exit(1);
}

/* Before the fork, while /proc/self is still ours to read on kernels where that is needed. */
static int close_inherited(int report_fd, int started_fd, const int *keep_fds, size_t keep_count,
                           const struct cgroup *cgroup)
{
    int both[DESCRIPTORS_OWN_MAX + DESCRIPTORS_KEPT_MAX] = {report_fd, started_fd,
                                                            cgroup->parent_fd, cgroup->procs_fd};

    if (keep_count)
        memcpy(both + DESCRIPTORS_OWN_MAX, keep_fds, keep_count * sizeof(*keep_fds));
    return descriptors_close(3, both, DESCRIPTORS_OWN_MAX + keep_count);
}

static void close_leafs(const int *keep_fds, size_t keep_count)
{
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    for (size_t i = 0; i < keep_count; i++)
        close(keep_fds[i]);
}

void supervisor_run(struct sandbox_state *state, int report_fd, int started_fd, const int *keep_fds,
                    size_t keep_count, struct cgroup *cgroup)
{
    pid_t self = getpid(), leaf;
    sigset_t all, signals;

    /* SIGCHLD must be neither ignored (children would reap themselves) nor handled. */
    signals_reset();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    if (!(state->layers & SANDBOX_PID_NS))
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (close_inherited(report_fd, started_fd, keep_fds, keep_count, cgroup) < 0)
        supervisor_give_up(started_fd, "closing inherited descriptors");
    /* Nobody may look into it: by /proc/PID/fd the report could be forged. */
    prctl(PR_SET_DUMPABLE, 0);

    leaf = fork();
    if (leaf < 0)
        supervisor_give_up(started_fd, strerror(errno));
    if (leaf == 0) {
        become_leaf(self, state, keep_fds, keep_count, cgroup);
        return;
    }
    tell(started_fd, true, "");
    close(started_fd);
    close_leafs(keep_fds, keep_count);
    supervise(leaf, state, report_fd, cgroup, &signals);
}
