/* What hostile code tries, and must not achieve. Each attempt is a process of its own; afterwards
 * the harness looks whether anything of the judge's has changed. */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FILES   (SANDBOX_LANDLOCK | SANDBOX_MOUNT_NS)
#define PROCESS (SANDBOX_PID_NS | SANDBOX_LANDLOCK)

/* A path in the arena; overwritten by the fourth call after it. */
static const char *in(const char *directory, const char *name)
{
    static char paths[4][160];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
    return path;
}

/* ---- Files ---------------------------------------------------------------------------------- */

static void read_secrets(const struct arena *arena)
{
    char task[160];

    REFUSED(open(in(arena->secret, "answer"), O_RDONLY), 0);
    REFUSED(open(arena->secret, O_RDONLY | O_DIRECTORY), 0);
    REFUSED(open("/etc/shadow", O_RDONLY), 0);
    REFUSED(open("/root", O_RDONLY | O_DIRECTORY), 0);
    REFUSED(open("/root/.bashrc", O_RDONLY), 0);
    REFUSED(open("/home", O_RDONLY | O_DIRECTORY), 0);
    REFUSED(open("/var/log", O_RDONLY | O_DIRECTORY), 0);
    if (arena->layers & SANDBOX_LANDLOCK) {
        /* Without it one can list what leads to the parts of the view, and finds nothing else. */
        REFUSED(open(arena->root, O_RDONLY | O_DIRECTORY), 0);
        REFUSED(open("/", O_RDONLY | O_DIRECTORY), 0);
    }
    /* Round about. */
    REFUSED(open(in(arena->readable, "../secret/answer"), O_RDONLY), 0);
    snprintf(task, sizeof(task), "/proc/%d/root%s/answer", arena->judge, arena->secret);
    REFUSED(open(task, O_RDONLY), 0);
    snprintf(task, sizeof(task), "/proc/%d/cwd", arena->judge);
    REFUSED(open(task, O_RDONLY), 0);
}

static void raw_devices(const struct arena *arena)
{
    (void)arena;
    REFUSED(open("/dev/mem", O_RDONLY), 0);
    REFUSED(open("/dev/kmsg", O_RDONLY), 0);
    REFUSED(open("/dev/vda", O_RDONLY), 0);
    REFUSED(open("/dev/sda", O_RDONLY), 0);
    REFUSED(open("/dev/fuse", O_RDWR), 0);
    REFUSED(open("/dev/tty", O_RDWR), 0);
    REFUSED(open("/dev/ptmx", O_RDWR), 0);
    REFUSED(open("/dev/nvidiactl", O_RDWR), 0); /* the policy grants no device */
    REFUSED(mknod("null", S_IFCHR | 0666, makedev(1, 3)), 0);
    REFUSED(mknod("disk", S_IFBLK | 0666, makedev(8, 0)), 0);
}

static void write_outside(const struct arena *arena)
{
    REFUSED(open(in(arena->readable, "tool"), O_WRONLY), 0);
    REFUSED(open(in(arena->readable, "new"), O_WRONLY | O_CREAT, 0600), 0);
    REFUSED(open(in(arena->secret, "answer"), O_WRONLY), 0);
    REFUSED(open(in(arena->root, "new"), O_WRONLY | O_CREAT, 0600), 0);
    REFUSED(open("/tmp/kbv-escape", O_WRONLY | O_CREAT, 0600), 0);
    REFUSED(open("/usr/kbv-escape", O_WRONLY | O_CREAT, 0600), 0);
    REFUSED(mkdir(in(arena->readable, "directory"), 0700), 0);
    REFUSED(mkfifo(in(arena->readable, "fifo"), 0600), 0);
    REFUSED(unlink(in(arena->readable, "tool")), 0);
    REFUSED(rmdir(arena->secret), 0);
}

/* Files of the kernel that belong to root, as a candidate's user may. */
static void settings_of_system(const struct arena *arena)
{
    (void)arena;
    REFUSED(open("/proc/sys/kernel/core_pattern", O_WRONLY), 0);
    REFUSED(open("/proc/sys/kernel/hostname", O_WRONLY), 0);
    REFUSED(open("/proc/sys/kernel/pid_max", O_WRONLY), 0);
    REFUSED(open("/proc/sys/vm/drop_caches", O_WRONLY), 0);
    REFUSED(open("/proc/sysrq-trigger", O_WRONLY), 0);
    REFUSED(open("/proc/irq/default_smp_affinity", O_WRONLY), 0);
    REFUSED(open("/proc/1/oom_score_adj", O_WRONLY), 0);
    REFUSED(open("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY), 0);
    REFUSED(open("/sys/devices/system/cpu/cpu0/online", O_WRONLY), 0);
}

static void truncate_outside(const struct arena *arena)
{
    REFUSED(truncate(in(arena->readable, "tool"), 0), 0);
    REFUSED(truncate(in(arena->secret, "answer"), 0), 0);
    REFUSED(open(in(arena->readable, "tool"), O_RDONLY | O_TRUNC), 0);
    REFUSED(open(in(arena->secret, "answer"), O_RDONLY | O_TRUNC), 0);
}

static void links_and_renames(const struct arena *arena)
{
    REQUIRE(symlink(in(arena->secret, "answer"), "link") == 0);
    REFUSED(open("link", O_RDONLY), 0);
    REQUIRE(symlink(arena->secret, "directory") == 0);
    REFUSED(open("directory/answer", O_RDONLY), 0);
    REFUSED(open("directory/answer", O_WRONLY | O_TRUNC), 0);
    REFUSED(link(in(arena->secret, "answer"), "hard"), 0);
    REFUSED(link(in(arena->readable, "tool"), "hard"), 0);
    REFUSED(rename(in(arena->secret, "answer"), "stolen"), 0);
    REFUSED(rename(in(arena->readable, "tool"), "stolen"), 0);
    REQUIRE(close(open("mine", O_WRONLY | O_CREAT, 0600)) == 0);
    REFUSED(rename("mine", in(arena->readable, "tool")), 0);
    REFUSED(rename("mine", in(arena->readable, "mine")), 0);
    REFUSED(rename("mine", in(arena->root, "mine")), 0);
    REFUSED(link("mine", in(arena->readable, "mine")), 0);
    REFUSED(rename(arena->scratch, in(arena->root, "moved")), 0);
}

/* No call may change what belongs to the judge; inspect_arena() looks at the modes. A sandbox that
 * answers a change of mode without doing it is fine. */
static void change_attributes(const struct arena *arena)
{
    const char *tool = in(arena->readable, "tool"), *answer = in(arena->secret, "answer");
    int fd = open(tool, O_RDONLY);

    REQUIRE(fd >= 0);
    if (chmod(tool, 0) == 0 || fchmod(fd, 0) == 0 || chmod(answer, 0) == 0 ||
        fchmodat(AT_FDCWD, answer, 0, 0) == 0)
        REQUIRE(!(arena->layers & SANDBOX_MOUNT_NS));
    REFUSED(chown(tool, geteuid(), getegid()), 0);
    REFUSED(fchown(fd, geteuid(), getegid()), 0);
    REFUSED(setxattr(tool, "user.note", "x", 1, 0), 0);
    REFUSED(fsetxattr(fd, "user.note", "x", 1, 0), 0);
    REFUSED(setxattr(answer, "user.note", "x", 1, 0), 0);
}

static void pass_by_path(const struct arena *arena)
{
    struct {
        struct file_handle head;
        unsigned char bytes[128];
    } handle = {.head.handle_bytes = sizeof(handle.bytes)};
    int mount_id;

    REFUSED(name_to_handle_at(AT_FDCWD, arena->scratch, &handle.head, &mount_id, 0), EPERM);
    REFUSED(open_by_handle_at(AT_FDCWD, &handle.head, O_RDONLY), EPERM);
    REFUSED(syscall(SYS_fanotify_init, 0u, 0u), EPERM);
}

/* ---- Privileges ----------------------------------------------------------------------------- */

static void mounts(const struct arena *arena)
{
    REFUSED(mount("none", arena->scratch, "tmpfs", 0, NULL), EPERM);
    REFUSED(mount("/", arena->scratch, NULL, MS_BIND, NULL), EPERM);
    REFUSED(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL), EPERM);
    REFUSED(umount2("/proc", MNT_DETACH), EPERM);
    REFUSED(chroot(arena->scratch), EPERM);
    REFUSED(syscall(SYS_pivot_root, ".", "."), EPERM);
    REFUSED(syscall(SYS_open_tree, AT_FDCWD, "/", 1u), EPERM);
    REFUSED(syscall(SYS_move_mount, AT_FDCWD, "/", AT_FDCWD, ".", 0u), EPERM);
    REFUSED(syscall(SYS_fsopen, "tmpfs", 0u), EPERM);
    REFUSED(syscall(442, AT_FDCWD, "/", 0u, NULL, 0ul), EPERM); /* mount_setattr */
}

static void namespaces_again(const struct arena *arena)
{
    static const int flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    unsigned long arguments[11] = {CLONE_NEWUSER, [4] = SIGCHLD};

    (void)arena;
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        REFUSED(unshare(flags[i]), EPERM);
        REFUSED(syscall(SYS_clone, (unsigned long)flags[i] | SIGCHLD, NULL, NULL, NULL, NULL),
                EPERM);
    }
    REFUSED(syscall(SYS_clone, (unsigned long)(CLONE_NEWUSER | CLONE_NEWNS) | SIGCHLD, NULL, NULL,
                    NULL, NULL),
            EPERM);
    REFUSED(syscall(SYS_clone3, arguments, sizeof(arguments)), ENOSYS);
    REFUSED(setns(0, 0), EPERM);
}

static void no_capability(const struct arena *arena)
{
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
        if (geteuid() == 0)
            REQUIRE(prctl(PR_CAPBSET_READ, capability) == 0);
        REQUIRE(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability, 0, 0) == 0);
    }
    REQUIRE(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    /* Nor after an exec, which gives root everything back where nobody forbade it. (Where /proc is
     * the judge's, children cannot read their own part of it.) */
    if ((arena->layers & SANDBOX_PID_NS) && (arena->layers & SANDBOX_MOUNT_NS))
        REQUIRE(shell("grep -Eq '^CapEff:[[:space:]]*0+$' /proc/self/status") == 0);
    REFUSED(sethostname("kbv", 3), EPERM);
    REFUSED(setgroups(0, NULL), EPERM);
    REFUSED(setuid(0), EPERM);
    REFUSED(setresuid(1, 1, 1), EPERM);
    REFUSED(setpriority(PRIO_PROCESS, 0, -5), 0);
}

static void dangerous_calls(const struct arena *arena)
{
    struct perf_event_attr event = {.size = sizeof(event), .type = PERF_TYPE_SOFTWARE};
    char parameters[256] = {0};
    struct timespec now = {.tv_sec = 1};

    (void)arena;
    REFUSED(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0ul), EPERM);
    REFUSED(syscall(SYS_bpf, 0, parameters, sizeof(parameters)), EPERM);
    REFUSED(syscall(SYS_userfaultfd, 0), EPERM);
    REFUSED(syscall(SYS_io_uring_setup, 4u, parameters), EPERM);
    REFUSED(syscall(SYS_add_key, "user", "kbv", "x", 1ul, -3), EPERM);
    REFUSED(syscall(SYS_request_key, "user", "kbv", NULL, 0), EPERM);
    REFUSED(syscall(SYS_keyctl, 0, -3, 0, 0, 0), EPERM);
    REFUSED(syscall(SYS_kexec_load, 0ul, 0ul, NULL, 0ul), EPERM);
    REFUSED(syscall(SYS_init_module, NULL, 0ul, ""), EPERM);
    REFUSED(syscall(SYS_reboot, 0, 0, 0, NULL), EPERM);
    REFUSED(syscall(SYS_syslog, 2, parameters, 1), EPERM);
    REFUSED(syscall(SYS_acct, NULL), EPERM);
    REFUSED(syscall(SYS_quotactl, 0, NULL, 0, NULL), EPERM);
    REFUSED(syscall(SYS_swapoff, "none"), EPERM);
    REFUSED(clock_settime(CLOCK_REALTIME, &now), EPERM);
    REFUSED(personality(ADDR_NO_RANDOMIZE), EPERM);
    REQUIRE(personality(0xffffffff) >= 0);
    REFUSED(ioctl(0, TIOCSTI, "x"), EPERM);
    REFUSED(ioctl(0, 0xff00000000000000ul | TIOCSTI, "x"), EPERM); /* the kernel cuts it */
    REFUSED(syscall(900), ENOSYS);
}

/* ---- The judge and the supervisor ------------------------------------------------------------ */

static void open_of(pid_t pid, const char *what, int mode)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
    fd = open(path, mode);
    if (fd >= 0)
        complain("permitted: %s", path);
}

static void look_into(pid_t pid)
{
    char word[8];
    struct iovec local = {word, sizeof(word)}, remote = {(char *)judge_memory, sizeof(word)};
    int pidfd;

    open_of(pid, "mem", O_RDWR);
    open_of(pid, "mem", O_RDONLY);
    open_of(pid, "maps", O_RDONLY);
    open_of(pid, "environ", O_RDONLY);
    /* Root may list the numbers of a supervisor; what is behind them is what counts. */
    for (int fd = 0; fd < 16; fd++) {
        char name[16];

        snprintf(name, sizeof(name), "fd/%d", fd);
        open_of(pid, name, O_RDONLY | O_NONBLOCK);
        open_of(pid, name, O_WRONLY | O_NONBLOCK);
    }
    REFUSED(ptrace(PTRACE_ATTACH, pid, NULL, NULL), EPERM);
    REFUSED(ptrace(PTRACE_SEIZE, pid, NULL, NULL), EPERM);
    REFUSED(process_vm_readv(pid, &local, 1, &remote, 1, 0), EPERM);
    REFUSED(process_vm_writev(pid, &local, 1, &remote, 1, 0), EPERM);
    REFUSED(syscall(SYS_kcmp, getpid(), pid, KCMP_FILE, 0ul, 0ul), EPERM);
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0u);
    REFUSED(syscall(SYS_pidfd_getfd, pidfd, 0, 0u), EPERM);
}

static void look_into_others(const struct arena *arena)
{
    /* In a pid namespace the judge's number is nobody's, or that of one of ours. */
    if (!(arena->layers & SANDBOX_PID_NS))
        look_into(arena->judge);
    look_into(getppid());
    REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
}

/* Signal 0 asks for the permission only, so that a hole is seen without a dead judge. */
static void signal_judge(const struct arena *arena)
{
    pid_t judge = arena->judge;
    siginfo_t info = {.si_code = SI_QUEUE};
    struct f_owner_ex owner = {F_OWNER_PID, judge};
    int pidfd, ends[2];

    REFUSED(kill(judge, 0), 0);
    REFUSED(kill(judge, SIGSTOP), 0);
    REFUSED(kill(-judge, 0), 0);
    REFUSED(syscall(SYS_tgkill, judge, judge, 0), 0);
    REFUSED(syscall(SYS_tkill, judge, 0), 0);
    REFUSED(syscall(SYS_rt_sigqueueinfo, judge, 0, &info), 0);
    pidfd = (int)syscall(SYS_pidfd_open, judge, 0u);
    REFUSED(syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0u), 0);
    /* A descriptor that promises to signal somebody when data arrive: either that promise is
     * refused or it is not kept, which be_judge() shows by living. */
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    fcntl(ends[0], F_SETSIG, SIGKILL);
    if (fcntl(ends[0], F_SETOWN_EX, &owner) == 0 || fcntl(ends[0], F_SETOWN, judge) == 0) {
        REQUIRE(fcntl(ends[0], F_SETFL, O_ASYNC) == 0);
        REQUIRE(write(ends[1], "x", 1) == 1);
    }
}

static void signal_supervisor(const struct arena *arena)
{
    pid_t supervisor = getppid();

    (void)arena;
    kill(supervisor, SIGKILL);
    kill(supervisor, SIGSTOP);
    kill(supervisor, SIGSEGV);
    syscall(SYS_tgkill, supervisor, supervisor, SIGKILL);
    syscall(SYS_tkill, supervisor, SIGKILL);
    usleep(20000);
    REQUIRE(getppid() == supervisor);
}

static void slow_the_judge(const struct arena *arena)
{
    struct rlimit few = {1, 1};
    struct sched_param parameter = {0};
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    REFUSED(prlimit(arena->judge, RLIMIT_NOFILE, &few, NULL), 0);
    REFUSED(sched_setaffinity(arena->judge, sizeof(one), &one), 0);
    REFUSED(sched_setscheduler(arena->judge, SCHED_IDLE, &parameter), 0);
    REFUSED(setpriority(PRIO_PROCESS, (id_t)arena->judge, 19), 0);
    REFUSED(syscall(SYS_ioprio_set, 1, arena->judge, 3 << 13), 0);
    /* Everybody of this user: refused, or confined to the namespace. */
    setpriority(PRIO_USER, 0, 19);
    REFUSED(syscall(SYS_migrate_pages, arena->judge, 1ul, NULL, NULL), 0);
}

/* ---- Ways out -------------------------------------------------------------------------------- */

static void inet_sockets(const struct arena *arena)
{
    static const int domains[] = {AF_INET, AF_INET6, AF_NETLINK,   AF_PACKET,
                                  AF_ALG,  AF_VSOCK, AF_BLUETOOTH, AF_XDP};
    struct sockaddr_in judge = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)arena->tcp_port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    for (size_t i = 0; i < ARRAY_SIZE(domains); i++) {
        REFUSED(socket(domains[i], SOCK_STREAM, 0), EPERM);
        REFUSED(socket(domains[i], SOCK_DGRAM, 0), EPERM);
        REFUSED(socket(domains[i], SOCK_RAW, 0), EPERM);
    }
    REFUSED(connect(arena->kept_fd, (struct sockaddr *)&judge, sizeof(judge)), 0);
}

static void local_sockets(const struct arena *arena)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX}, abstract = {.sun_family = AF_UNIX};
    socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(arena->socket_abstract));
    struct msghdr message = {.msg_name = &path, .msg_namelen = sizeof(path)};
    int stream = socket(AF_UNIX, SOCK_STREAM, 0), pair[2];

    memcpy(path.sun_path, arena->socket_path, strlen(arena->socket_path) + 1);
    memcpy(abstract.sun_path + 1, arena->socket_abstract, strlen(arena->socket_abstract));
    REQUIRE(stream >= 0);
    REFUSED(connect(stream, (struct sockaddr *)&path, sizeof(path)), EPERM);
    REFUSED(connect(stream, (struct sockaddr *)&abstract, length), EPERM);
    REFUSED(sendmsg(stream, &message, MSG_NOSIGNAL), 0);
    REFUSED(socket(AF_UNIX, SOCK_DGRAM, 0), EPERM);
    REFUSED(socket(AF_UNIX, SOCK_RAW, 0), EPERM);
    REFUSED(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), EPERM);
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    /* A pair that takes a name sends to its peer all the same. */
    if (sendmsg(pair[0], &message, MSG_NOSIGNAL) >= 0)
        REQUIRE(recv(pair[1], &message, 0, MSG_DONTWAIT) >= 0);
}

static void shared_memory(const struct arena *arena)
{
    int segment = shmget(0x6b6276, 4096, IPC_CREAT | 0600);
    char path[] = "/dev/shm/kbv-escape";

    if (!(arena->layers & SANDBOX_IPC_NS))
        REQUIRE(segment < 0);
    if (!(arena->layers & SANDBOX_MOUNT_NS))
        REFUSED(open(path, O_RDWR | O_CREAT, 0600), 0);
}

/* By any means: standard streams, what the policy keeps, and no other. */
static void descriptors(const struct arena *arena)
{
    int open_count = 0;

    for (int fd = 0; fd < 4096; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            open_count++;
    }
    /* 0, 1, 2, the channel of complaints, the kept one. */
    REQUIRE(open_count == 5);
    REQUIRE(fcntl(arena->kept_fd, F_GETFD) >= 0);
    REFUSED(fcntl(arena->alien_fd, F_GETFD), EBADF);
}

/* ---- Greed ---------------------------------------------------------------------------------- */

static void memory(const struct arena *arena)
{
    static volatile char *last;

    (void)arena;
    for (int i = 0; i < 64; i++) { /* 4 GiB, of which the policy grants one */
        char *block =
            mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (block == MAP_FAILED) {
            REQUIRE(errno == ENOMEM && i >= 8 && i < 17);
            return;
        }
        last = block;
    }
    complain("4 GiB were given, the last at %p", (void *)last);
}

static void file_size(const struct arena *arena)
{
    static char block[1 << 20];
    int fd = open("large", O_WRONLY | O_CREAT, 0600);

    (void)arena;
    REQUIRE(fd >= 0);
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 16; i++)
        REQUIRE(write(fd, block, sizeof(block)) == sizeof(block));
    REFUSED(write(fd, block, sizeof(block)), EFBIG);
    REFUSED(ftruncate(fd, 1 << 30), EFBIG);
}

static void file_size_kills(const struct arena *arena)
{
    (void)arena;
    REQUIRE(ftruncate(open("large", O_WRONLY | O_CREAT, 0600), 1 << 30) != 0);
    complain("survived SIGXFSZ");
}

static void open_files(const struct arena *arena)
{
    struct rlimit more = {4096, 4096};
    int last = -1, fd;

    (void)arena;
    while ((fd = dup(0)) >= 0)
        last = fd;
    REQUIRE(errno == EMFILE && last == 63);
    REFUSED(setrlimit(RLIMIT_NOFILE, &more), EPERM);
}

/* Bounded for a plain user by RLIMIT_NPROC. Root is exempt from that, and bounded where pid
 * namespaces have a pid_max of their own. The children are left to the supervisor. */
static void fork_bomb(const struct arena *arena)
{
    int children = 0, most = 64;
    pid_t pid;

    (void)arena;
    if (geteuid() == 0) {
        FILE *file = fopen("/proc/sys/kernel/pid_max", "re");

        REQUIRE(file && fscanf(file, "%d", &most) == 1);
        if (most > 1000)
            return; /* a kernel before 6.14, or a /proc that is not ours */
    }
    while (children < 1000 && (pid = fork()) >= 0) {
        if (pid == 0) {
            pause();
            _exit(0);
        }
        children++;
    }
    REQUIRE(errno == EAGAIN && children > most / 2 && children < most);
}

static void raise_limits(const struct arena *arena)
{
    static const int limits[] = {RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_CORE};
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

    (void)arena;
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        REFUSED(setrlimit((__rlimit_resource_t)limits[i], &none), EPERM);
}

static const struct program programs[] = {
    {"read secrets", read_secrets, .needs_any = FILES},
    {"raw devices", raw_devices, .needs_any = FILES},
    {"write outside", write_outside, .needs_any = FILES},
    {"settings of the system", settings_of_system, .needs_any = FILES},
    {"truncate outside", truncate_outside, .needs_any = FILES},
    {"links and renames", links_and_renames, .needs_any = FILES},
    {"change attributes", change_attributes},
    {"pass by path", pass_by_path},
    {"mounts", mounts},
    {"namespaces again", namespaces_again},
    {"no capability", no_capability},
    {"dangerous calls", dangerous_calls},
    {"look into others", look_into_others, .needs_any = PROCESS},
    {"signal the judge", signal_judge},
    {"signal the supervisor", signal_supervisor},
    {"slow the judge", slow_the_judge},
    {"inet sockets", inet_sockets},
    {"local sockets", local_sockets},
    {"shared memory", shared_memory, .needs_any = FILES},
    {"descriptors", descriptors},
    {"memory", memory},
    {"file size", file_size},
    {"file size kills", file_size_kills, .ending = -SIGXFSZ},
    {"open files", open_files},
    {"fork bomb", fork_bomb, .needs = SANDBOX_USER_NS, .strays = STRAYS_ANY},
    {"raise limits", raise_limits},
};

int main(void)
{
    return harness_run(programs, ARRAY_SIZE(programs));
}
