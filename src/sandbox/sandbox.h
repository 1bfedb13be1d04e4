/*
 * What an untrusted process may do.
 *
 * Two steps, because a worker needs a moment between them: sandbox_fork() makes the process (own
 * namespaces where the system permits, under a supervisor that outlives it), sandbox_lock() takes
 * the rights away for good (rlimits, no_new_privs, Landlock, seccomp). Whatever is opened between
 * the two stays open; candidate code runs only after the second.
 *
 *     caller ── fork ── supervisor (pid 1 of the new pid namespace, or a subreaper)
 *                           └── fork ── leaf: sandbox_fork() returns 0 here
 *
 * The supervisor reports how the leaf ended (struct sandbox_exit, one write to `report_fd`), kills
 * and reaps every descendant that is left, and exits. SIGTERM makes it kill the leaf and do the
 * same. It dies with its parent (PR_SET_PDEATHSIG), and the leaf dies with it.
 */
#ifndef KBV_SANDBOX_SANDBOX_H
#define KBV_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum sandbox_mode {
    SANDBOX_AUTO,   /* every layer that this system permits */
    SANDBOX_STRICT, /* fail where a layer of SANDBOX_STRICT_LAYERS is missing */
    SANDBOX_OFF,    /* supervisor and rlimits only */
};

enum sandbox_layer {
    SANDBOX_NO_NEW_PRIVS = 1 << 0,
    SANDBOX_LANDLOCK = 1 << 1,
    SANDBOX_SECCOMP = 1 << 2,
    SANDBOX_RLIMITS = 1 << 3,
    SANDBOX_USER_NS = 1 << 4,
    SANDBOX_PID_NS = 1 << 5,
    SANDBOX_MOUNT_NS = 1 << 6,
    SANDBOX_NET_NS = 1 << 7,
    SANDBOX_IPC_NS = 1 << 8,
    SANDBOX_CGROUP = 1 << 9,
};
#define SANDBOX_LAYER_COUNT 10
/* What --sandbox=strict insists on: all but the cgroup. */
#define SANDBOX_STRICT_LAYERS 0x1ff

/* "landlock", "pid_ns", ...: the name of one bit. */
const char *sandbox_layer_name(enum sandbox_layer layer);

struct sandbox_policy {
    enum sandbox_mode mode;
    /* Absolute path of the one directory that may be written (TMPDIR, HOME, caches), owned by the
     * caller's user. NULL: none. */
    const char *scratch;
    /* NULL-terminated absolute paths that may be read and executed beside the system's own
     * directories (/usr, /lib*, /bin, /etc/{ld.so.*,localtime,passwd,...}, /proc/self, /sys for
     * hardware facts, /dev/{null,zero,urandom,full,shm?}): the Python installation, CUDA's
     * toolkit, the worker's directory, finished builds. A path that does not exist grants nothing;
     * "/" is refused; what lies inside scratch can be written, whatever is said here. */
    const char *const *readable;
    bool device;              /* may open /dev/nvidia* and what the driver needs */
    uint64_t memory_bytes;    /* RLIMIT_DATA; 0: no limit */
    uint64_t file_bytes;      /* RLIMIT_FSIZE; 0: no limit */
    unsigned open_files;      /* RLIMIT_NOFILE; 0: as inherited */
    unsigned processes;       /* processes and threads of this sandbox (cgroup pids.max, RLIMIT_NPROC in
                                 a user namespace); 0: no limit */
};

/* How a leaf ended; written whole to report_fd by the supervisor. */
struct sandbox_exit {
    uint32_t magic;        /* SANDBOX_EXIT_MAGIC */
    int32_t wait_status;   /* as waitpid() gives it */
    uint64_t max_rss_bytes;
    uint32_t stray_processes; /* descendants that were still there and were killed */
};
#define SANDBOX_EXIT_MAGIC 0x6b627865u

/*
 * Forks supervisor and leaf. Returns the supervisor's pid in the caller, 0 in the leaf, -1 with
 * `err`. The caller reaps the supervisor. In the leaf every descriptor is closed but 0, 1, 2 and
 * `keep_fds` (a `keep_count` array, at most 64). `report_fd` (-1: no report) belongs to the
 * supervisor alone. The caller must be single-threaded, but for threads that their library's fork
 * handler stops, as OpenBLAS does.
 *
 * The leaf starts in scratch (else in "/"), as leader of a session of its own, with default signal
 * dispositions, umask 077 and, but for SANDBOX_OFF, without capabilities. With a mount namespace it
 * already sees nothing but what the policy grants.
 *
 * What the system refused is remembered: the next call does not try it again.
 *
 * To end a leaf early, send SIGTERM to the supervisor. SIGKILL ends the leaf as well, but where
 * there is no pid namespace it leaves the leaf's own children behind.
 */
pid_t sandbox_fork(const struct sandbox_policy *policy, int report_fd, const int *keep_fds,
                   size_t keep_count, struct error *err);

/*
 * In the leaf: takes the rights away. `ret_layers` receives the layers that are active, those of
 * sandbox_fork() included. Under SANDBOX_STRICT a missing layer is ERROR_UNFIT, here and already in
 * sandbox_fork() where it is a namespace. After a failure the leaf must end: some rights are gone,
 * others not.
 *
 * To be called before anything that starts threads (the CUDA driver does): Landlock binds the
 * calling thread and what comes from it, and only its ABI 8 can bind the siblings. With siblings on
 * an older kernel the layer is in force for the caller, but is not counted as active.
 */
int sandbox_lock(const struct sandbox_policy *policy, unsigned *ret_layers, struct error *err);

/* Which layers this system gives, tried for real in a short-lived child. For each missing layer,
 * `ret_reason[bit]` (SANDBOX_LAYER_COUNT entries of 128 bytes) says why, and what would mend it;
 * for an active one it is empty. The caller must be single-threaded. */
int sandbox_probe(unsigned *ret_layers, char ret_reason[SANDBOX_LAYER_COUNT][128],
                  struct error *err);

#endif
