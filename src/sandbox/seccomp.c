/*
 * Which system calls are refused.
 *
 * The list names what is refused and lets the rest through. A list of what is allowed would be
 * stronger in theory; in practice it would have to hold whatever the CUDA driver, an interpreter,
 * three JIT compilers and a C toolchain use in any version, and every gap in it would be an honest
 * kernel called a crash. What a list of refusals lacks, calls that are younger than itself, a
 * second, tiny filter supplies: above the youngest call that was reviewed here everything is
 * ENOSYS, as it is on the kernels before.
 *
 * Where another layer is missing, rules take over a part of its work as far as numbers can express
 * it (column `when`).
 */
#include "sandbox/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

/* Numbers that older headers lack; since 424 they are the same on every architecture we build for.
 */
enum {
    NR_MOUNT_SETATTR = 442,
    NR_QUOTACTL_FD = 443,
    NR_PROCESS_MRELEASE = 448,
    NR_FCHMODAT2 = 452,
    NR_SETXATTRAT = 463,
    NR_REMOVEXATTRAT = 466,
    NR_OPEN_TREE_ATTR = 467,
    NR_FILE_SETATTR = 469,
    NR_YOUNGEST_REVIEWED = NR_FILE_SETATTR, /* Linux 6.18 */
};

/* Conditions; a rule with several applies where any holds. */
enum {
    ALWAYS = 0,
    NO_PID_NS = 1 << 0,
    NO_MOUNT_NS = 1 << 1,
    NO_IPC_NS = 1 << 2,
    NO_SIGNAL_GUARD = 1 << 3, /* neither a pid namespace nor Landlock keeps signals inside */
    NO_TRUNCATE_RIGHT =
        1 << 4, /* a writable file system, and a Landlock that knows no truncation */
};

/* A comparison with an argument of which the kernel reads the lower half only, as it does with
 * every int: the upper half must not hide the value. */
#define INT_IS(n, value)                                                                           \
    {                                                                                              \
        n, SCMP_CMP_MASKED_EQ, 0xffffffffu, (uint32_t)(value)                                      \
    }
#define BITS_ARE(n, mask, value)                                                                   \
    {                                                                                              \
        n, SCMP_CMP_MASKED_EQ, mask, value                                                         \
    }
#define IS_NOT(n, value)                                                                           \
    {                                                                                              \
        n, SCMP_CMP_NE, value, 0                                                                   \
    }
/* Replaced by the leaf's pid. */
#define SELF ((scmp_datum_t)-2)

#define EVERY(name)                                                                                \
    {                                                                                              \
        SCMP_SYS(name), EPERM, ALWAYS, 0,                                                          \
        {                                                                                          \
            {                                                                                      \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define EVERY_NR(number)                                                                           \
    {                                                                                              \
        number, EPERM, ALWAYS, 0,                                                                  \
        {                                                                                          \
            {                                                                                      \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

static const struct rule {
    int number;      /* negative: this architecture has no such call */
    uint16_t answer; /* errno; 0: pretend that it was done */
    uint16_t when;
    unsigned argument_count;
    struct scmp_arg_cmp arguments[2]; /* all must hold */
} rules[] = {
    /* Other processes' memory, descriptors and registers. */
    EVERY(ptrace),
    EVERY(process_vm_readv),
    EVERY(process_vm_writev),
    EVERY(process_madvise),
    EVERY_NR(NR_PROCESS_MRELEASE),
    EVERY(pidfd_getfd),
    EVERY(kcmp),
    /* Interfaces with a long history of holes and no use here. */
    EVERY(perf_event_open),
    EVERY(bpf),
    EVERY(userfaultfd),
    EVERY(io_uring_setup), /* would also carry opens and connects past this filter */
    EVERY(io_uring_enter),
    EVERY(io_uring_register),
    EVERY(add_key), /* keyrings are shared by user id, and outlive the process */
    EVERY(request_key),
    EVERY(keyctl),
    EVERY(modify_ldt),
    EVERY(vm86),
    EVERY(vm86old),
    EVERY(lookup_dcookie),
    EVERY(uselib),
    EVERY(nfsservctl),
    EVERY(_sysctl),
    {SCMP_SYS(personality), EPERM, ALWAYS, 1, {IS_NOT(0, 0xffffffffu)}}, /* asking is allowed */
    /* New namespaces bring capabilities back. clone3() hides its flags in memory where no filter
     * sees them; the C library goes on with clone() on ENOSYS. */
    EVERY(unshare),
    EVERY(setns),
    {SCMP_SYS(clone3), ENOSYS, ALWAYS, 0, {{0}}},
    {SCMP_SYS(clone), EPERM, ALWAYS, 1, {BITS_ARE(0, CLONE_NEWUSER, CLONE_NEWUSER)}},
    {SCMP_SYS(clone), EPERM, ALWAYS, 1, {BITS_ARE(0, CLONE_NEWPID, CLONE_NEWPID)}},
    {SCMP_SYS(clone), EPERM, ALWAYS, 1, {BITS_ARE(0, CLONE_NEWNS, CLONE_NEWNS)}},
    {SCMP_SYS(clone), EPERM, ALWAYS, 1, {BITS_ARE(0, CLONE_NEWNET, CLONE_NEWNET)}},
    {SCMP_SYS(clone), EPERM, ALWAYS, 1, {BITS_ARE(0, CLONE_NEWIPC, CLONE_NEWIPC)}},
    {SCMP_SYS(clone), EPERM, ALWAYS, 1, {BITS_ARE(0, CLONE_NEWUTS, CLONE_NEWUTS)}},
    {SCMP_SYS(clone), EPERM, ALWAYS, 1, {BITS_ARE(0, CLONE_NEWCGROUP, CLONE_NEWCGROUP)}},
    /* The file system's shape, and ways to files that pass by their paths. */
    EVERY(mount),
    EVERY(umount),
    EVERY(umount2),
    EVERY(pivot_root),
    EVERY(chroot),
    EVERY(open_tree),
    EVERY(move_mount),
    EVERY(fsopen),
    EVERY(fsconfig),
    EVERY(fsmount),
    EVERY(fspick),
    EVERY_NR(NR_MOUNT_SETATTR),
    EVERY_NR(NR_OPEN_TREE_ATTR),
    EVERY(name_to_handle_at),
    EVERY(open_by_handle_at),
    EVERY(fanotify_init),
    EVERY(fanotify_mark),
    EVERY(quotactl),
    EVERY_NR(NR_QUOTACTL_FD),
    EVERY(swapon),
    EVERY(swapoff),
    {SCMP_SYS(mknod), EPERM, ALWAYS, 1, {BITS_ARE(1, S_IFMT, S_IFCHR)}},
    {SCMP_SYS(mknod), EPERM, ALWAYS, 1, {BITS_ARE(1, S_IFMT, S_IFBLK)}},
    {SCMP_SYS(mknodat), EPERM, ALWAYS, 1, {BITS_ARE(2, S_IFMT, S_IFCHR)}},
    {SCMP_SYS(mknodat), EPERM, ALWAYS, 1, {BITS_ARE(2, S_IFMT, S_IFBLK)}},
    /* The machine. */
    EVERY(reboot),
    EVERY(kexec_load),
    EVERY(kexec_file_load),
    EVERY(init_module),
    EVERY(finit_module),
    EVERY(delete_module),
    EVERY(create_module),
    EVERY(iopl),
    EVERY(ioperm),
    EVERY(acct),
    EVERY(syslog),
    EVERY(vhangup),
    EVERY(sethostname),
    EVERY(setdomainname),
    EVERY(settimeofday),
    EVERY(stime),
    EVERY(clock_settime),
    EVERY(clock_adjtime),
    EVERY(adjtimex),
    /* Identities: useless without capabilities, which are gone. */
    EVERY(setuid),
    EVERY(setgid),
    EVERY(setreuid),
    EVERY(setregid),
    EVERY(setresuid),
    EVERY(setresgid),
    EVERY(setfsuid),
    EVERY(setfsgid),
    EVERY(setgroups),
    EVERY(capset),
    /* A terminal's input queue, should a descriptor of one have come along. */
    {SCMP_SYS(ioctl), EPERM, ALWAYS, 1, {INT_IS(1, TIOCSTI)}},
    {SCMP_SYS(ioctl), EPERM, ALWAYS, 1, {INT_IS(1, TIOCLINUX)}},
    /*
     * Sockets. Local ones only, of the kinds that send to nobody but their peer; and none connects,
     * because neither a namespace nor Landlock keeps a local socket with a path (a container
     * engine's, a service manager's) out of reach. Pairs and inherited sockets are not concerned.
     */
    {SCMP_SYS(socket), EPERM, ALWAYS, 1, {IS_NOT(0, AF_UNIX)}},
    {SCMP_SYS(socket), EPERM, ALWAYS, 1, {BITS_ARE(1, 0xf, SOCK_DGRAM)}},
    {SCMP_SYS(socket),
     EPERM,
     ALWAYS,
     1,
     {BITS_ARE(1, 0xf, SOCK_RAW)}}, /* a local raw one is DGRAM */
    {SCMP_SYS(socketpair), EPERM, ALWAYS, 1, {IS_NOT(0, AF_UNIX)}},
    {SCMP_SYS(socketpair), EPERM, ALWAYS, 1, {BITS_ARE(1, 0xf, SOCK_DGRAM)}},
    {SCMP_SYS(socketpair), EPERM, ALWAYS, 1, {BITS_ARE(1, 0xf, SOCK_RAW)}},
    EVERY(connect),
    /* Another process' limits: with the same user id one could lower the judge's. */
    {SCMP_SYS(prlimit64), EPERM, ALWAYS, 2, {IS_NOT(0, 0), IS_NOT(2, 0)}},
    EVERY(pidfd_send_signal),
    /* Signals. */
    {SCMP_SYS(kill), EPERM, NO_SIGNAL_GUARD, 1, {IS_NOT(0, SELF)}},
    {SCMP_SYS(tgkill), EPERM, NO_SIGNAL_GUARD, 1, {IS_NOT(0, SELF)}},
    {SCMP_SYS(tkill), EPERM, NO_SIGNAL_GUARD, 0, {{0}}},
    {SCMP_SYS(rt_sigqueueinfo), EPERM, NO_SIGNAL_GUARD, 1, {IS_NOT(0, SELF)}},
    {SCMP_SYS(rt_tgsigqueueinfo), EPERM, NO_SIGNAL_GUARD, 1, {IS_NOT(0, SELF)}},
    {SCMP_SYS(fcntl), EPERM, NO_SIGNAL_GUARD, 1, {INT_IS(1, F_SETOWN)}}, /* SIGIO to anybody */
    {SCMP_SYS(fcntl), EPERM, NO_SIGNAL_GUARD, 1, {INT_IS(1, F_SETOWN_EX)}},
    {SCMP_SYS(ioctl), EPERM, NO_SIGNAL_GUARD, 1, {INT_IS(1, FIOSETOWN)}},
    {SCMP_SYS(ioctl), EPERM, NO_SIGNAL_GUARD, 1, {INT_IS(1, SIOCSPGRP)}},
    /* Slowing others down: their processors, their priority, their memory's place. */
    {SCMP_SYS(sched_setaffinity), EPERM, NO_PID_NS, 1, {IS_NOT(0, 0)}},
    {SCMP_SYS(sched_setscheduler), EPERM, NO_PID_NS, 1, {IS_NOT(0, 0)}},
    {SCMP_SYS(sched_setparam), EPERM, NO_PID_NS, 1, {IS_NOT(0, 0)}},
    {SCMP_SYS(sched_setattr), EPERM, NO_PID_NS, 1, {IS_NOT(0, 0)}},
    {SCMP_SYS(setpriority), EPERM, NO_PID_NS, 1, {IS_NOT(0, 0)}}, /* PRIO_PROCESS is 0 */
    {SCMP_SYS(setpriority), EPERM, NO_PID_NS, 1, {IS_NOT(1, 0)}},
    {SCMP_SYS(ioprio_set), EPERM, NO_PID_NS, 1, {IS_NOT(0, 1)}}, /* IOPRIO_WHO_PROCESS is 1 */
    {SCMP_SYS(ioprio_set), EPERM, NO_PID_NS, 1, {IS_NOT(1, 0)}},
    {SCMP_SYS(migrate_pages), EPERM, NO_PID_NS, 1, {IS_NOT(0, 0)}},
    {SCMP_SYS(move_pages), EPERM, NO_PID_NS, 1, {IS_NOT(0, 0)}},
    /* Outliving a supervisor that was killed. */
    {SCMP_SYS(prctl), EPERM, NO_PID_NS, 1, {INT_IS(0, PR_SET_PDEATHSIG)}},
    /* A place where one candidate could leave answers for the next. */
    {SCMP_SYS(shmget), EPERM, NO_IPC_NS, 0, {{0}}},
    {SCMP_SYS(shmat), EPERM, NO_IPC_NS, 0, {{0}}},
    {SCMP_SYS(semget), EPERM, NO_IPC_NS, 0, {{0}}},
    {SCMP_SYS(msgget), EPERM, NO_IPC_NS, 0, {{0}}},
    {SCMP_SYS(mq_open), EPERM, NO_IPC_NS, 0, {{0}}},
    {SCMP_SYS(mq_unlink), EPERM, NO_IPC_NS, 0, {{0}}},
    /*
     * What Landlock has no rights for: without a read-only view, a candidate could lock the judge
     * out of files that both own. A change of mode is answered as if it had happened, because
     * linkers and shutil.copy() take a refusal for a failure of their work.
     */
    {SCMP_SYS(chmod), 0, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(fchmod), 0, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(fchmodat), 0, NO_MOUNT_NS, 0, {{0}}},
    {NR_FCHMODAT2, 0, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(chown), EPERM, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(fchown), EPERM, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(lchown), EPERM, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(fchownat), EPERM, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(setxattr), EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(lsetxattr), EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(fsetxattr), EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(removexattr), EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(lremovexattr), EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    {SCMP_SYS(fremovexattr), EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    {NR_SETXATTRAT, EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    {NR_REMOVEXATTRAT, EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    {NR_FILE_SETATTR, EOPNOTSUPP, NO_MOUNT_NS, 0, {{0}}},
    /* An open for reading with O_TRUNC truncates, and only since ABI 3 does Landlock see it. */
    {SCMP_SYS(truncate), EPERM, NO_TRUNCATE_RIGHT, 0, {{0}}},
    {SCMP_SYS(open), EPERM, NO_TRUNCATE_RIGHT, 1, {BITS_ARE(1, O_TRUNC | O_ACCMODE, O_TRUNC)}},
    {SCMP_SYS(openat), EPERM, NO_TRUNCATE_RIGHT, 1, {BITS_ARE(2, O_TRUNC | O_ACCMODE, O_TRUNC)}},
    {SCMP_SYS(openat2), ENOSYS, NO_TRUNCATE_RIGHT, 0, {{0}}},
};

static unsigned conditions(const struct sandbox_state *state)
{
    int abi = state->layers & SANDBOX_LANDLOCK ? state->landlock_abi : 0;
    unsigned when = 0;

    if (!(state->layers & SANDBOX_PID_NS))
        when |= NO_PID_NS;
    if (!(state->layers & SANDBOX_MOUNT_NS))
        when |= NO_MOUNT_NS;
    if (!(state->layers & SANDBOX_IPC_NS))
        when |= NO_IPC_NS;
    if (!(state->layers & SANDBOX_PID_NS) && abi < LANDLOCK_ABI_SCOPES)
        when |= NO_SIGNAL_GUARD;
    if (!(state->layers & SANDBOX_MOUNT_NS) && abi > 0 && abi < LANDLOCK_ABI_TRUNCATE)
        when |= NO_TRUNCATE_RIGHT;
    return when;
}

static int add_rule(scmp_filter_ctx filter, const struct rule *rule)
{
    struct scmp_arg_cmp arguments[2];

    memcpy(arguments, rule->arguments, sizeof(arguments));
    for (unsigned i = 0; i < rule->argument_count; i++) {
        if (arguments[i].datum_a == SELF)
            arguments[i].datum_a = (scmp_datum_t)getpid();
    }
    return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(rule->answer), rule->number,
                                  rule->argument_count, arguments);
}

/* Every thread, and without the kernel's mitigation that slows a filtered process (before 5.16 it
 * is on by default): the reference process has no filter, and the race must be even. */
static int set_attributes(scmp_filter_ctx filter)
{
    static const struct {
        enum scmp_filter_attr attribute;
        uint32_t value;
    } attributes[] = {
        {SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS},
        {SCMP_FLTATR_CTL_TSYNC, 1},
        {SCMP_FLTATR_CTL_SSB, 1},
        {SCMP_FLTATR_CTL_OPTIMIZE, 2}, /* a binary tree */
    };

    for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
        int result = seccomp_attr_set(filter, attributes[i].attribute, attributes[i].value);

        if (result < 0)
            return result;
    }
    return 0;
}

/* The filter against calls that nobody has reviewed. It leaves foreign architectures to the other
 * one, which ends the process for them; of two answers the kernel takes the harsher. */
static int refuse_younger(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NR_YOUNGEST_REVIEWED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ARRAY_SIZE(code), .filter = code};

    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

static void release_filter(scmp_filter_ctx *filter)
{
    if (*filter)
        seccomp_release(*filter);
}

int seccomp_apply(struct sandbox_state *state, struct error *err)
{
    __attribute__((cleanup(release_filter))) scmp_filter_ctx filter = NULL;
    unsigned when = conditions(state);
    int result;

    if (!layers_wanted(SANDBOX_SECCOMP))
        return 0;
    filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter)
        return error_set(err, ERROR_INTERNAL, "sandbox: no memory for the seccomp filter");
    result = set_attributes(filter);
    if (result < 0)
        return error_set(err, ERROR_INTERNAL, "sandbox: seccomp attributes: %s", strerror(-result));
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        if (rules[i].number < 0 || (rules[i].when && !(rules[i].when & when)))
            continue;
        result = add_rule(filter, &rules[i]);
        if (result < 0)
            return error_set(err, ERROR_INTERNAL, "sandbox: seccomp rule %zu (call %d): %s", i,
                             rules[i].number, strerror(-result));
    }
    /* The small one first: the other one may not forbid seccomp(), but why rely on it. */
    if (refuse_younger() != 0) {
        layers_refuse(SANDBOX_SECCOMP, errno, "seccomp");
        return 0;
    }
    result = seccomp_load(filter);
    if (result < 0) {
        layers_refuse(SANDBOX_SECCOMP, -result, "loading the filter");
        return 0;
    }
    state->layers |= SANDBOX_SECCOMP;
    return 0;
}
