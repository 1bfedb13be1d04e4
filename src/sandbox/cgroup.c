/*
 * A cgroup v2 for the leaf: the only bound on the memory and the number of all its processes
 * together. It needs a subtree that was delegated to us with both controllers switched on, and
 * the kernel wants the processes of such a subtree in its leaves: so the new group becomes either
 * a child of our own group or a sibling of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

static int write_at(int directory, const char *name, const char *text)
{
    CLEANUP_FD int fd = openat(directory, name, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* Our own group's directory: "0::/path" in /proc/self/cgroup. */
static int own_path(char *to, size_t size)
{
    CLEANUP_FILE FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX];

    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        return snprintf(to, size, CGROUP_ROOT "%s", line + 3) < (int)size ? 0 : -1;
    }
    return -1;
}

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += length) {
        bool begins = at == list || at[-1] == ' ';

        if (begins && (at[length] == ' ' || at[length] == '\n' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* Root may write everywhere, and a subtree that nobody delegated is the service manager's alone.
 * It marks what it delegates; the root that a cgroup namespace shows is ours too. */
static bool is_delegated(int directory, const char *path)
{
    char value[2];

    if (geteuid() != 0 || strcmp(path, CGROUP_ROOT "/") == 0)
        return true;
    return fgetxattr(directory, "trusted.delegate", value, sizeof(value)) == 1 ||
           fgetxattr(directory, "user.delegate", value, sizeof(value)) == 1;
}

/* True where children of this group have both controllers, or can be given them. */
static bool hands_down(int directory)
{
    CLEANUP_FD int fd = -1;
    char text[256];
    ssize_t got;

    write_at(directory, "cgroup.subtree_control", "+memory +pids"); /* what counts is read below */
    fd = openat(directory, "cgroup.subtree_control", O_RDONLY | O_CLOEXEC);
    got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (got < 0)
        return false;
    text[got] = '\0';
    return has_word(text, "memory") && has_word(text, "pids");
}

static int set_limits(int directory, const struct sandbox_policy *policy)
{
    char number[32];

    if (policy->processes) {
        snprintf(number, sizeof(number), "%u", policy->processes);
        if (write_at(directory, "pids.max", number) < 0)
            return -1;
    }
    if (policy->memory_bytes) {
        snprintf(number, sizeof(number), "%llu", (unsigned long long)policy->memory_bytes);
        if (write_at(directory, "memory.max", number) < 0)
            return -1;
        write_at(directory, "memory.swap.max", "0"); /* absent where there is no swap accounting */
    }
    return 0;
}

static int make_below(const char *path, const struct sandbox_policy *policy,
                      struct cgroup *ret_cgroup)
{
    static atomic_uint serial;
    CLEANUP_FD int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP_FD int directory = -1;
    struct cgroup made = CGROUP_INIT;

    if (parent < 0 || !is_delegated(parent, path) || !hands_down(parent))
        return -1;
    snprintf(made.name, sizeof(made.name), "kbv-%d-%u", getpid(), atomic_fetch_add(&serial, 1u));
    if (mkdirat(parent, made.name, 0755) < 0)
        return -1;
    directory = openat(parent, made.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0 && set_limits(directory, policy) == 0)
        made.procs_fd = openat(directory, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (made.procs_fd < 0) {
        unlinkat(parent, made.name, AT_REMOVEDIR);
        return -1;
    }
    made.parent_fd = fd_steal(&parent);
    *ret_cgroup = made;
    return 0;
}

void cgroup_make(const struct sandbox_policy *policy, struct cgroup *ret_cgroup)
{
    char path[PATH_MAX];
    struct statfs system;
    char *slash;

    if (!layers_wanted(SANDBOX_CGROUP) || (!policy->processes && !policy->memory_bytes))
        return;
    if (statfs(CGROUP_ROOT, &system) < 0 || system.f_type != CGROUP2_SUPER_MAGIC) {
        layers_refuse(SANDBOX_CGROUP, 0, "no cgroup v2 at " CGROUP_ROOT);
        return;
    }
    if (own_path(path, sizeof(path)) < 0) {
        layers_refuse(SANDBOX_CGROUP, 0, "own cgroup unknown");
        return;
    }
    if (make_below(path, policy, ret_cgroup) == 0)
        return;
    slash = strrchr(path, '/');
    if (slash && (size_t)(slash - path) >= sizeof(CGROUP_ROOT) - 1) {
        *slash = '\0';
        if (make_below(path, policy, ret_cgroup) == 0)
            return;
    }
    layers_refuse(SANDBOX_CGROUP, 0, "no delegated subtree with memory and pids");
}

int cgroup_join(const struct cgroup *cgroup)
{
    return write(cgroup->procs_fd, "0", 1) == 1 ? 0 : -1;
}

void cgroup_remove(struct cgroup *cgroup)
{
    if (cgroup->parent_fd >= 0)
        unlinkat(cgroup->parent_fd, cgroup->name, AT_REMOVEDIR);
}

void cgroup_close(struct cgroup *cgroup)
{
    cleanup_fd(&cgroup->parent_fd);
    cleanup_fd(&cgroup->procs_fd);
    *cgroup = (struct cgroup)CGROUP_INIT;
}
