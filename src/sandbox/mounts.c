/*
 * A file system that holds the view and nothing else: a small tmpfs, with the parts of the system
 * attached to it, read-only but for scratch. Landlock says the same once more; but it knows nothing
 * of chmod(), of stat() and of sockets that have a path, and an old kernel has none.
 *
 * A step that fails leaves the process without a usable file system. So nothing is undone here: the
 * process is given up, and another one does without this layer.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

/* From linux/mount.h, which cannot be included beside sys/mount.h in every C library. */
struct mount_attributes {
    uint64_t set, clear, propagation, userns_fd;
};
enum {
    ATTRIBUTE_RDONLY = 0x1,
    ATTRIBUTE_NOSUID = 0x2,
    ATTRIBUTE_NODEV = 0x4,
    AT_WHOLE_TREE = 0x8000, /* AT_RECURSIVE */
    TREE_CLONE = 1,         /* OPEN_TREE_CLONE */
    MOVE_FROM_FD = 4,       /* MOVE_MOUNT_F_EMPTY_PATH */
};

/* The new root is built upon this directory. What was there is still reached, because the parts of
 * the view were taken before. */
#define SITE "/tmp"

enum { SOURCES_MAX = 512 };

/* tmpfs of the sandbox's own: the root holds mount points only. */
#define ROOT_OPTIONS "mode=0755,size=1m,nr_inodes=4096"
#define SHM_OPTIONS  "mode=1777,size=64m,nr_inodes=4096"

/* Parts of /proc that set something of the system; mounts of their own, so that they can stay
 * read-only where /proc must not. Landlock forbids to write them, and so do missing capabilities
 * for some; but many ask for the owner only, and a candidate that runs as root is it. */
static const char *const settings_of_system[] = {
    SITE "/proc/bus",           SITE "/proc/fs", SITE "/proc/irq", SITE "/proc/sys",
    SITE "/proc/sysrq-trigger",
};

/* What follows /proc/self into whichever process asks. */
static const struct {
    const char *path, *target;
} links[] = {
    {SITE "/dev/fd", "/proc/self/fd"},
    {SITE "/dev/stdin", "/proc/self/fd/0"},
    {SITE "/dev/stdout", "/proc/self/fd/1"},
    {SITE "/dev/stderr", "/proc/self/fd/2"},
};

struct source {
    int fd; /* a copy of the mounts there, attached nowhere yet */
    char *path;
    enum view_kind kind;
    struct stat what;
};

struct sources {
    size_t count;
    struct source list[SOURCES_MAX];
};

static bool is_beneath(const char *path, const char *directory)
{
    size_t length = strlen(directory);

    return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static int copy_source(const char *path, enum view_kind kind, void *context)
{
    struct sources *sources = context;
    struct source *source = &sources->list[sources->count];

    /* These two are mounted afresh. */
    if (is_beneath(path, "/proc") || kind == VIEW_SHM)
        return 0;
    if (sources->count == SOURCES_MAX) {
        errno = E2BIG;
        return -1;
    }
    /* With what is mounted below, because a part of a tree whose mounts are locked cannot be copied
     * by itself. */
    source->fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
                              (unsigned)(TREE_CLONE | AT_WHOLE_TREE | O_CLOEXEC));
    if (source->fd < 0) {
        /* It cannot be reached now, so nothing is lost where it cannot be later. */
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ? 0 : -1;
    }
    source->path = strdup(path);
    source->kind = kind;
    if (!source->path || fstat(source->fd, &source->what) < 0)
        return -1;
    sources->count++;
    return 0;
}

static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        int made;

        if (slash)
            *slash = '\0';
        made = mkdir(path, 0755);
        if (slash)
            *slash = '/';
        if (made < 0 && errno != EEXIST)
            return -1;
        if (!slash)
            return 0;
    }
}

static int make_point(char *path, bool directory)
{
    char *slash = strrchr(path, '/');
    int made, fd;

    if (directory)
        return make_directories(path);
    *slash = '\0';
    made = make_directories(path);
    *slash = '/';
    if (made < 0)
        return -1;
    fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int attach_source(const struct source *source)
{
    char to[PATH_MAX + sizeof(SITE)];
    struct stat there;

    if (snprintf(to, sizeof(to), SITE "%s", source->path) >= (int)sizeof(to)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    /* Beneath a directory that is there already; scratch comes once more, to be writable. */
    if (source->kind != VIEW_SCRATCH && stat(to, &there) == 0 &&
        there.st_dev == source->what.st_dev && there.st_ino == source->what.st_ino)
        return 0;
    if (make_point(to, S_ISDIR(source->what.st_mode)) < 0)
        return -1;
    return (int)syscall(SYS_move_mount, source->fd, "", AT_FDCWD, to, (unsigned)MOVE_FROM_FD);
}

static int set_attributes(const char *path, unsigned flags, uint64_t set, uint64_t clear)
{
    struct mount_attributes attributes = {.set = set, .clear = clear};

    return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attributes, sizeof(attributes));
}

/* A pid namespace gets a /proc that shows itself and no others. The kernel refuses that where parts
 * of the old one are covered, as container engines do it: then it is the pid namespace that cannot
 * be had (namespaces.c says why), and everything else can. */
static int mount_proc(struct sandbox_state *state)
{
    if (mkdir(SITE "/proc", 0755) < 0)
        return -1;
    if (!(state->layers & SANDBOX_PID_NS))
        return mount("/proc", SITE "/proc", NULL, MS_BIND | MS_REC, NULL);
    if (mount("proc", SITE "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        layers_refuse(SANDBOX_PID_NS, errno, "mounting its /proc");
        return -1;
    }
    state->own_proc = true;
    return 0;
}

static int mount_dev_extras(struct sandbox_state *state)
{
    if (mkdir(SITE "/dev/shm", 01777) < 0 ||
        mount("kbv-shm", SITE "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, SHM_OPTIONS) <
            0)
        return -1;
    state->own_shm = true;
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        if (symlink(links[i].target, links[i].path) < 0)
            return -1;
    }
    return 0;
}

/* Since Linux 6.14 this bounds the tasks of one pid namespace, root's too, whom RLIMIT_NPROC does
 * not bind. The kernel reserves the numbers below 300 and takes no smaller bound. Elsewhere the
 * file is not ours to write, and nothing is lost. */
static void limit_pids(const struct sandbox_policy *policy, const struct sandbox_state *state)
{
    enum { SMALLEST = 301 };
    CLEANUP_FD int fd = -1;

    if (!policy->processes || !state->own_proc || !(state->layers & SANDBOX_USER_NS))
        return;
    fd = open(SITE "/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        dprintf(fd, "%u\n", policy->processes < SMALLEST ? SMALLEST : policy->processes);
}

static int separate_settings(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(settings_of_system); i++) {
        const char *path = settings_of_system[i];

        if (access(path, F_OK) < 0)
            continue; /* not on this kernel */
        if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0)
            return -1;
    }
    return 0;
}

/* Everything at once, then the tops of the trees that may be written. */
static int make_read_only(const struct sources *sources)
{
    if (set_attributes(SITE, AT_WHOLE_TREE, ATTRIBUTE_RDONLY | ATTRIBUTE_NOSUID, 0) < 0 ||
        set_attributes(SITE "/dev/shm", 0, 0, ATTRIBUTE_RDONLY) < 0)
        return -1;
    /* For VIEW_TASKS. Refused where /proc was read-only outside already, which is no loss. */
    set_attributes(SITE "/proc", 0, 0, ATTRIBUTE_RDONLY);
    for (size_t i = 0; i < sources->count; i++) {
        char path[PATH_MAX + sizeof(SITE)];

        if (sources->list[i].kind != VIEW_SCRATCH)
            continue;
        snprintf(path, sizeof(path), SITE "%s", sources->list[i].path);
        if (set_attributes(path, 0, ATTRIBUTE_NODEV, ATTRIBUTE_RDONLY) < 0)
            return -1;
    }
    return 0;
}

static int change_root(void)
{
    if (chdir(SITE) < 0)
        return -1;
    /* The old root comes to lie upon the new one, and is taken off. */
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        return -1;
    return chdir("/");
}

static void release_sources(struct sources **sources)
{
    if (!*sources)
        return;
    for (size_t i = 0; i < (*sources)->count; i++) {
        close((*sources)->list[i].fd);
        free((*sources)->list[i].path);
    }
    free(*sources);
}

/* Returns what failed, or NULL. */
static const char *build_and_enter(const struct sandbox_policy *policy, struct sandbox_state *state,
                                   struct sources *sources)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return "private propagation";
    if (view_walk(policy, state, copy_source, sources) < 0)
        return "copying the view";
    if (mount("kbv-root", SITE, "tmpfs", MS_NOSUID | MS_NODEV, ROOT_OPTIONS) < 0)
        return "new root on " SITE;
    if (mount_proc(state) < 0)
        return "/proc";
    for (size_t i = 0; i < sources->count; i++) {
        if (attach_source(&sources->list[i]) < 0)
            return "attaching the view";
    }
    if (mount_dev_extras(state) < 0)
        return "/dev";
    limit_pids(policy, state);
    if (separate_settings() < 0)
        return "system settings in /proc";
    if (make_read_only(sources) < 0)
        return "making it read-only";
    if (change_root() < 0)
        return "pivot_root";
    return NULL;
}

int mounts_enter(const struct sandbox_policy *policy, struct sandbox_state *state)
{
    __attribute__((cleanup(release_sources))) struct sources *sources = calloc(1, sizeof(*sources));
    struct sandbox_state now = *state;
    const char *failed = "memory";

    umask(0);
    if (sources)
        failed = build_and_enter(policy, &now, sources);
    if (failed) {
        /* Unless it was the pid namespace's /proc, which says nothing against mounts. */
        if (!(now.layers & SANDBOX_PID_NS) || layers_wanted(SANDBOX_PID_NS))
            layers_refuse(SANDBOX_MOUNT_NS, errno, "%s", failed);
        return -1;
    }
    *state = now;
    return 0;
}
