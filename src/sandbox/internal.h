/*
 * What the files of the sandbox share. Nobody else includes this, but for the unit tests, which
 * take layers away with layers_mask().
 *
 * In the order in which a candidate meets them:
 *
 *     layers.c       which layers are wanted, which this system refused, and why
 *     cgroup.c       caller: a cgroup for the leaf
 *     namespaces.c   supervisor: becomes pid 1 of its own namespaces
 *     mounts.c       supervisor: a file system that holds nothing but the view
 *     view.c         the table of what is in the view; Landlock's rules come from it too
 *     supervisor.c   supervisor: waits, kills, reports
 *     descriptors.c  both: closes what was inherited
 *     limits.c       leaf: capabilities, rlimits
 *     landlock.c     leaf: which files
 *     seccomp.c      leaf: which system calls
 */
#ifndef KBV_SANDBOX_INTERNAL_H
#define KBV_SANDBOX_INTERNAL_H

#include "sandbox/sandbox.h"

/* ---- layers.c ---- */

enum { LAYER_REASON_BYTES = 128 };

/* What this process learned about the system: filled by failures, carried from the supervisor back
 * to its caller, inherited by the leaf. */
struct layer_refusals {
    unsigned layers;
    char reason[SANDBOX_LAYER_COUNT][LAYER_REASON_BYTES];
};

/* Notes that the layer cannot be had; the first reason stays. `number` is an errno or 0. */
void layers_refuse(enum sandbox_layer layer, int number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* False once the layer was refused or masked: do not try (again). */
bool layers_wanted(enum sandbox_layer layer);

const struct layer_refusals *layers_refusals(void);
unsigned layers_missing(void); /* refused or masked */
void layers_merge(const struct layer_refusals *other);

/* "<why it is missing>; <what would mend it>", cut where it does not fit. */
void layers_explain(enum sandbox_layer layer, char *to, size_t size);

/* Tests only: these layers are not tried, as if the system refused them. Forgets what was learned.
 */
void layers_mask(unsigned layers);

/* ---- state of a leaf, set up by its supervisor before the fork ---- */

struct sandbox_state {
    bool leaf;        /* sandbox_fork() returned 0 here */
    bool isolated;    /* the mode is not SANDBOX_OFF */
    unsigned layers;  /* active so far */
    bool own_proc;    /* /proc shows this sandbox's processes and no others */
    bool own_shm;     /* /dev/shm belongs to this sandbox alone */
    int landlock_abi; /* 0: none */
};

/* ---- view.c ---- */

enum view_kind {
    VIEW_CODE,    /* read, list, execute */
    VIEW_FACTS,   /* read, list */
    VIEW_NODE,    /* a harmless device node: read, write */
    VIEW_GPU,     /* a device node: read, write, ioctl */
    VIEW_TASKS,   /* what a process may set of its own threads: read, list, write */
    VIEW_SHM,     /* the sandbox's own shared memory */
    VIEW_SCRATCH, /* everything but device nodes */
};

/* Calls `visit` for every path that exists on this system and that the policy grants, scratch
 * last. `path` is absolute; it may be a symbolic link. A negative return ends the walk. */
typedef int view_visit(const char *path, enum view_kind kind, void *context);
int view_walk(const struct sandbox_policy *policy, const struct sandbox_state *state,
              view_visit *visit, void *context);

/* ERROR_USAGE where a path of the policy is relative, is the root, or (scratch) no directory. */
int view_check(const struct sandbox_policy *policy, struct error *err);

/* ---- cgroup.c ---- */

struct cgroup {
    int parent_fd; /* -1: there is none */
    int procs_fd;
    char name[64];
};
#define CGROUP_INIT                                                                                \
    {                                                                                              \
        .parent_fd = -1, .procs_fd = -1                                                            \
    }

/* Makes an empty cgroup with the policy's limits, or refuses the layer and leaves `ret_cgroup`. */
void cgroup_make(const struct sandbox_policy *policy, struct cgroup *ret_cgroup);
int cgroup_join(const struct cgroup *cgroup); /* moves the calling process */
void cgroup_remove(struct cgroup *cgroup);    /* once all of its processes are gone */
void cgroup_close(struct cgroup *cgroup);

/* ---- namespaces.c ---- */

/*
 * Forks a sibling, if isolated with as many of the user and pid namespaces as are wanted and
 * permitted. Returns as fork() does; `ret_layers` receives the two bits in both processes.
 */
pid_t namespaces_fork(bool isolated, unsigned *ret_layers);

/* In the child: identity maps, then ipc, network and mount namespace, each by itself. Returns -1
 * where the process is spoilt and the caller has to fork another, without the layer that was
 * refused meanwhile. */
int namespaces_enter(const struct sandbox_policy *policy, uid_t uid, gid_t gid,
                     struct sandbox_state *state);

/* ---- mounts.c ---- */

/* In a mount namespace of our own: puts the view in place of the file system. -1 spoils the
 * process; the layer that cannot be had is refused then. */
int mounts_enter(const struct sandbox_policy *policy, struct sandbox_state *state);

/* ---- descriptors.c ---- */

enum { DESCRIPTORS_KEPT_MAX = 64, DESCRIPTORS_OWN_MAX = 4 };

/* Closes every descriptor from `first` on that is not in `keep`. */
int descriptors_close(int first, const int *keep, size_t keep_count);

/* ---- supervisor.c ---- */

/* Forks the leaf. Returns in the leaf; never in the supervisor, which writes to `started_fd` what
 * it learned as soon as the leaf runs. */
void supervisor_run(struct sandbox_state *state, int report_fd, int started_fd, const int *keep_fds,
                    size_t keep_count, struct cgroup *cgroup);

/* Ends a supervisor that could not begin. With an empty `failure` the caller tries again without
 * the layers that were refused meanwhile. */
void supervisor_give_up(int started_fd, const char *failure) __attribute__((noreturn));

/* What a supervisor tells its caller: one write. */
struct supervisor_start {
    bool running; /* the leaf is there */
    struct layer_refusals refusals;
    char failure[256];
};

/* ---- limits.c ---- */

void limits_drop_capabilities(void);
int limits_apply(const struct sandbox_policy *policy, const struct sandbox_state *state,
                 struct error *err);

/* ---- landlock.c ---- */

/* The ABI of this kernel; 0 with the layer refused where there is none. */
int landlock_abi(void);
/* Since this ABI a domain's processes cannot signal others, nor reach their abstract sockets. */
enum { LANDLOCK_ABI_TRUNCATE = 3, LANDLOCK_ABI_SCOPES = 6 };
int landlock_apply(const struct sandbox_policy *policy, struct sandbox_state *state,
                   struct error *err);

/* ---- seccomp.c ---- */

int seccomp_apply(struct sandbox_state *state, struct error *err);

#endif
