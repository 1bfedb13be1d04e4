#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

enum view_when {
    WHEN_ALWAYS,
    WHEN_DEVICE,     /* the policy grants the GPU */
    WHEN_OWN_PROC,   /* /proc shows nobody else */
    WHEN_ALIEN_PROC, /* /proc shows the judge and everybody */
    WHEN_OWN_SHM,
};

/*
 * The system's part of the view. /etc is listed file by file, because a candidate that runs as root
 * owns /etc/shadow. Private keys, homes, /run (with its sockets), /var and /mnt are absent.
 */
static const struct {
    const char *pattern; /* as glob() takes it */
    enum view_kind kind;
    enum view_when when;
} system_view[] = {
    {"/usr", VIEW_CODE, WHEN_ALWAYS},
    {"/bin", VIEW_CODE, WHEN_ALWAYS},
    {"/sbin", VIEW_CODE, WHEN_ALWAYS},
    {"/lib", VIEW_CODE, WHEN_ALWAYS},
    {"/lib32", VIEW_CODE, WHEN_ALWAYS},
    {"/lib64", VIEW_CODE, WHEN_ALWAYS},
    {"/libx32", VIEW_CODE, WHEN_ALWAYS},
    {"/nix/store", VIEW_CODE, WHEN_ALWAYS},
    {"/etc/ld.so.*", VIEW_FACTS, WHEN_ALWAYS},
    {"/etc/localtime", VIEW_FACTS, WHEN_ALWAYS},
    {"/etc/passwd", VIEW_FACTS, WHEN_ALWAYS}, /* getpwuid(), of which TMPDIR and caches make use */
    {"/etc/group", VIEW_FACTS, WHEN_ALWAYS},
    {"/etc/nsswitch.conf", VIEW_FACTS, WHEN_ALWAYS},
    {"/etc/hosts", VIEW_FACTS, WHEN_ALWAYS},
    {"/etc/os-release", VIEW_FACTS, WHEN_ALWAYS},
    {"/etc/locale.alias", VIEW_FACTS, WHEN_ALWAYS},
    {"/etc/alternatives", VIEW_CODE, WHEN_ALWAYS}, /* Debian: /usr/bin/c++ and /usr/local/cuda */
    {"/etc/python3*", VIEW_FACTS, WHEN_ALWAYS},    /* Debian: sitecustomize.py points into it */
    {"/etc/nvidia", VIEW_FACTS, WHEN_DEVICE},      /* profiles of the driver */
    {"/etc/OpenCL", VIEW_FACTS, WHEN_DEVICE},
    {"/sys/devices", VIEW_FACTS, WHEN_ALWAYS}, /* processors, caches, NUMA nodes, PCI */
    {"/sys/bus", VIEW_FACTS, WHEN_ALWAYS},
    {"/sys/class", VIEW_FACTS, WHEN_ALWAYS},
    {"/sys/module", VIEW_FACTS, WHEN_ALWAYS},
    {"/sys/kernel/mm", VIEW_FACTS, WHEN_ALWAYS}, /* huge pages */
    {"/sys/fs/cgroup", VIEW_FACTS, WHEN_ALWAYS}, /* ninja and OpenMP size themselves by it */
    /* The leaf's own threads: cuInit() names one through TID/comm, and gives up (error 304) where
     * it cannot open that for writing. */
    {"/proc/self/task", VIEW_TASKS, WHEN_ALWAYS},
    {"/proc", VIEW_FACTS, WHEN_OWN_PROC},
    {"/proc/self", VIEW_FACTS, WHEN_ALIEN_PROC}, /* the leaf's own: its children have none */
    {"/proc/cpuinfo", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/devices", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/driver", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/filesystems", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/loadavg", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/meminfo", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/modules", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/stat", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/sys", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/uptime", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/proc/version", VIEW_FACTS, WHEN_ALIEN_PROC},
    {"/dev/null", VIEW_NODE, WHEN_ALWAYS},
    {"/dev/zero", VIEW_NODE, WHEN_ALWAYS},
    {"/dev/full", VIEW_NODE, WHEN_ALWAYS},
    {"/dev/random", VIEW_NODE, WHEN_ALWAYS},
    {"/dev/urandom", VIEW_NODE, WHEN_ALWAYS},
    {"/dev/shm", VIEW_SHM, WHEN_OWN_SHM},
    /* Not nvidia-modeset; the capability nodes serve MIG. */
    {"/dev/nvidia[0-9]*", VIEW_GPU, WHEN_DEVICE},
    {"/dev/nvidiactl", VIEW_GPU, WHEN_DEVICE},
    {"/dev/nvidia-uvm", VIEW_GPU, WHEN_DEVICE},
    {"/dev/nvidia-uvm-tools", VIEW_GPU, WHEN_DEVICE},
    {"/dev/nvidia-caps/*", VIEW_GPU, WHEN_DEVICE},
    {"/dev/nvidia-caps-imex-channels/*", VIEW_GPU, WHEN_DEVICE},
};

static bool applies(enum view_when when, const struct sandbox_policy *policy,
                    const struct sandbox_state *state)
{
    switch (when) {
    case WHEN_ALWAYS:
        return true;
    case WHEN_DEVICE:
        return policy->device;
    case WHEN_OWN_PROC:
        return state->own_proc;
    case WHEN_ALIEN_PROC:
        return !state->own_proc;
    case WHEN_OWN_SHM:
        return state->own_shm;
    }
    return false;
}

/* Where the path leads to, and the path as it was given: programs ask for both. In this order,
 * because mounts.c can then tell that a path through a link is there already. */
static int visit_real(const char *path, enum view_kind kind, view_visit *visit, void *context)
{
    CLEANUP_FREE char *real = realpath(path, NULL);

    if (!real)
        return 0; /* it went away, or never was: nothing to grant */
    if (visit(real, kind, context) < 0)
        return -1;
    return strcmp(path, real) == 0 ? 0 : visit(path, kind, context);
}

static int visit_pattern(const char *pattern, enum view_kind kind, view_visit *visit, void *context)
{
    glob_t found = {0};
    int result = 0;

    /* No match, or a directory that cannot be read: not on this system. */
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && result == 0; i++)
            result = visit(found.gl_pathv[i], kind, context);
    }
    globfree(&found);
    return result;
}

int view_walk(const struct sandbox_policy *policy, const struct sandbox_state *state,
              view_visit *visit, void *context)
{
    for (size_t i = 0; i < ARRAY_SIZE(system_view); i++) {
        if (!applies(system_view[i].when, policy, state))
            continue;
        if (visit_pattern(system_view[i].pattern, system_view[i].kind, visit, context) < 0)
            return -1;
    }
    for (size_t i = 0; policy->readable && policy->readable[i]; i++) {
        if (visit_real(policy->readable[i], VIEW_CODE, visit, context) < 0)
            return -1;
    }
    return policy->scratch ? visit_real(policy->scratch, VIEW_SCRATCH, visit, context) : 0;
}

static int check_path(const char *path, struct error *err)
{
    if (path[0] != '/' || strlen(path) >= PATH_MAX - 64)
        return error_set(err, ERROR_USAGE, "sandbox: not an absolute path: '%s'", path);
    if (path[strspn(path, "/")] == '\0')
        return error_set(err, ERROR_USAGE, "sandbox: the root directory cannot be granted");
    return 0;
}

int view_check(const struct sandbox_policy *policy, struct error *err)
{
    struct stat what;

    for (size_t i = 0; policy->readable && policy->readable[i]; i++) {
        if (check_path(policy->readable[i], err) < 0)
            return -1;
    }
    if (!policy->scratch)
        return 0;
    if (check_path(policy->scratch, err) < 0)
        return -1;
    if (stat(policy->scratch, &what) < 0)
        return error_errno(err, ERROR_USAGE, "sandbox: scratch directory %s", policy->scratch);
    if (!S_ISDIR(what.st_mode))
        return error_set(err, ERROR_USAGE, "sandbox: scratch is no directory: %s", policy->scratch);
    return 0;
}
