/*
 * Which files may be opened, changed and run: those of the view. Written against the system calls,
 * because no C library wraps them and the kernel's headers are often older than the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

#define FS_EXECUTE     (1ull << 0)
#define FS_WRITE_FILE  (1ull << 1)
#define FS_READ_FILE   (1ull << 2)
#define FS_READ_DIR    (1ull << 3)
#define FS_REMOVE_DIR  (1ull << 4)
#define FS_REMOVE_FILE (1ull << 5)
#define FS_MAKE_CHAR   (1ull << 6)
#define FS_MAKE_DIR    (1ull << 7)
#define FS_MAKE_REG    (1ull << 8)
#define FS_MAKE_SOCK   (1ull << 9)
#define FS_MAKE_FIFO   (1ull << 10)
#define FS_MAKE_BLOCK  (1ull << 11)
#define FS_MAKE_SYM    (1ull << 12)
#define FS_REFER       (1ull << 13)
#define FS_TRUNCATE    (1ull << 14)
#define FS_IOCTL_DEV   (1ull << 15)

#define NET_BIND_TCP    (1ull << 0)
#define NET_CONNECT_TCP (1ull << 1)

#define SCOPE_ABSTRACT_SOCKET (1ull << 0)
#define SCOPE_SIGNAL          (1ull << 1)

/* Denials of untrusted code are no news, and a loop of them would fill the system's audit log. */
#define RESTRICT_LOG_OFF (1u << 0)
#define RESTRICT_TSYNC   (1u << 3)

enum {
    CREATE_RULESET_VERSION = 1 << 0,
    RULE_PATH_BENEATH = 1,
    ABI_LOG_FLAGS = 7,
    ABI_TSYNC = 8,
    ABI_NEWEST_KNOWN = 8,
};

/* What is handled is denied unless a rule grants it. Cumulative: one row for each ABI that added
 * something. */
static const struct {
    int abi;
    uint64_t fs, net, scoped;
} handled_by_abi[] = {
    {1, (FS_MAKE_SYM << 1) - 1, 0, 0},
    {2, FS_REFER, 0, 0},
    {LANDLOCK_ABI_TRUNCATE, FS_TRUNCATE, 0, 0},
    {4, 0, NET_BIND_TCP | NET_CONNECT_TCP, 0},
    {5, FS_IOCTL_DEV, 0, 0},
    {LANDLOCK_ABI_SCOPES, 0, 0, SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL},
};

#define SCRATCH_RIGHTS                                                                             \
    (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_READ_DIR | FS_REMOVE_DIR | FS_REMOVE_FILE |    \
     FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER |            \
     FS_TRUNCATE)

static const uint64_t rights[] = {
    [VIEW_CODE] = FS_READ_FILE | FS_READ_DIR | FS_EXECUTE,
    [VIEW_FACTS] = FS_READ_FILE | FS_READ_DIR,
    [VIEW_NODE] = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE, /* "> /dev/null" truncates */
    [VIEW_GPU] = FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL_DEV,
    [VIEW_TASKS] = FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE,
    [VIEW_SHM] =
        FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_MAKE_REG | FS_REMOVE_FILE,
    [VIEW_SCRATCH] = SCRATCH_RIGHTS,
};

/* A rule for a file may name no other rights. */
#define FILE_RIGHTS (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

struct ruleset_attributes {
    uint64_t handled_fs, handled_net, scoped;
};

struct path_beneath {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed)); /* as the kernel has it */

struct ruleset {
    int fd;
    uint64_t handled_fs;
    struct error *err;
};

int landlock_abi(void)
{
    long abi;

    if (!layers_wanted(SANDBOX_LANDLOCK))
        return 0;
    abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    if (abi < 1) {
        layers_refuse(SANDBOX_LANDLOCK, errno, "landlock_create_ruleset");
        return 0;
    }
    return (int)abi;
}

static int add_path(const char *path, enum view_kind kind, void *context)
{
    struct ruleset *ruleset = context;
    CLEANUP_FD int fd = open(path, O_PATH | O_CLOEXEC);
    struct path_beneath rule = {.allowed = rights[kind] & ruleset->handled_fs, .parent_fd = fd};
    struct stat what;

    if (fd < 0 || fstat(fd, &what) < 0)
        return 0; /* out of reach now, out of reach later */
    if (!S_ISDIR(what.st_mode))
        rule.allowed &= FILE_RIGHTS;
    if (syscall(SYS_landlock_add_rule, ruleset->fd, RULE_PATH_BENEATH, &rule, 0u) < 0)
        return error_errno(ruleset->err, ERROR_INTERNAL, "sandbox: Landlock rule for %s", path);
    return 0;
}

static struct ruleset_attributes handled_by(int abi)
{
    struct ruleset_attributes handled = {0};

    for (size_t i = 0; i < ARRAY_SIZE(handled_by_abi); i++) {
        if (handled_by_abi[i].abi > abi)
            break;
        handled.handled_fs |= handled_by_abi[i].fs;
        handled.handled_net |= handled_by_abi[i].net;
        handled.scoped |= handled_by_abi[i].scoped;
    }
    return handled;
}

/* The number of threads of this process; 1 where nobody can tell. */
static unsigned count_threads(void)
{
    struct stat task;

    /* A directory's link count is 2 and its subdirectories. */
    return stat("/proc/self/task", &task) == 0 && task.st_nlink > 2 ? (unsigned)task.st_nlink - 2
                                                                    : 1;
}

int landlock_apply(const struct sandbox_policy *policy, struct sandbox_state *state,
                   struct error *err)
{
    int abi = landlock_abi();
    struct ruleset_attributes handled = handled_by(abi);
    struct ruleset ruleset = {.handled_fs = handled.handled_fs, .err = err};
    CLEANUP_FD int fd = -1;
    unsigned threads = count_threads(), flags = 0;
    bool every_thread = threads == 1;

    if (!abi)
        return 0;
    fd = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0u);
    if (fd < 0) {
        layers_refuse(SANDBOX_LANDLOCK, errno, "landlock_create_ruleset");
        return 0;
    }
    ruleset.fd = fd;
    if (view_walk(policy, state, add_path, &ruleset) < 0)
        return -1;
    if (abi >= ABI_LOG_FLAGS)
        flags |= RESTRICT_LOG_OFF;
    if (threads > 1 && abi >= ABI_TSYNC) {
        flags |= RESTRICT_TSYNC;
        every_thread = true;
    }
    if (syscall(SYS_landlock_restrict_self, fd, flags) < 0) {
        layers_refuse(SANDBOX_LANDLOCK, errno, "landlock_restrict_self");
        return 0;
    }
    /* It binds this thread and what comes from it. Threads that ran before stay free, and hostile
     * code can take one over: then this is no layer, whatever it still prevents. */
    if (!every_thread) {
        layers_refuse(SANDBOX_LANDLOCK, 0, "%u threads ran before sandbox_lock()", threads);
        return 0;
    }
    state->landlock_abi = abi < ABI_NEWEST_KNOWN ? abi : ABI_NEWEST_KNOWN;
    state->layers |= SANDBOX_LANDLOCK;
    return 0;
}
