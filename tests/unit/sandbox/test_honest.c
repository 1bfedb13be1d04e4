/* What honest kernels, interpreters and compilers do, and what must go on working in a sandbox. */
#include "harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    REQUIRE(fd >= 0);
    REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    REQUIRE(close(fd) == 0);
}

static void scratch(const struct arena *arena)
{
    char here[128];
    struct stat what;
    int fd;

    REQUIRE(getcwd(here, sizeof(here)) && strcmp(here, arena->scratch) == 0);
    put("file", "text");
    REQUIRE(stat("file", &what) == 0 && (what.st_mode & 07777) == 0600); /* the umask */
    REQUIRE(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0);
    put("a/one", "1");
    REQUIRE(rename("a/one", "b/two") == 0); /* how caches publish a result */
    REQUIRE(link("b/two", "a/three") == 0);
    REQUIRE(symlink("three", "a/four") == 0);
    REQUIRE(truncate("a/four", 0) == 0);
    REQUIRE(mkfifo("fifo", 0600) == 0);
    REQUIRE(chmod("file", 0640) == 0);
    fd = open("file", O_RDWR);
    REQUIRE(flock(fd, LOCK_EX) == 0); /* how builds lock theirs */
    REQUIRE(ftruncate(fd, 100) == 0);
    REQUIRE(mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
    REQUIRE(unlink("a/three") == 0 && unlink("a/four") == 0 && rmdir("a") == 0);
}

static void readable(const struct arena *arena)
{
    char path[128], text[8] = "";
    int fd;

    snprintf(path, sizeof(path), "%s/tool", arena->readable);
    fd = open(path, O_RDONLY);
    REQUIRE(fd >= 0 && read(fd, text, sizeof(text) - 1) == 5 && strcmp(text, "tool\n") == 0);
    REQUIRE(open(arena->readable, O_RDONLY | O_DIRECTORY) >= 0);
    REQUIRE(open("/etc/ld.so.cache", O_RDONLY) >= 0);
    REQUIRE(open("/etc/passwd", O_RDONLY) >= 0);
}

static void kept_descriptor(const struct arena *arena)
{
    char zero = 1;

    REQUIRE(read(arena->kept_fd, &zero, 1) == 1 && zero == 0);
}

static void facts(const struct arena *arena)
{
    static const char *const files[] = {"/proc/self/maps",
                                        "/proc/self/status",
                                        "/proc/cpuinfo",
                                        "/proc/meminfo",
                                        "/proc/sys/vm/overcommit_memory",
                                        "/sys/devices/system/cpu/online"};

    (void)arena;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char byte;
        int fd = open(files[i], O_RDONLY);

        if (fd < 0 || read(fd, &byte, 1) != 1)
            complain("%s: %s", files[i], strerror(errno));
        close(fd);
    }
    REQUIRE(open("/proc/self/fd", O_RDONLY | O_DIRECTORY) >= 0);
    REQUIRE(open("/proc/self/task", O_RDONLY | O_DIRECTORY) >= 0);
    REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) >= 1);
}

static void device_nodes(const struct arena *arena)
{
    char bytes[16];
    int fd = open("/dev/null", O_RDWR | O_TRUNC);

    (void)arena;
    REQUIRE(fd >= 0 && write(fd, "x", 1) == 1 && read(fd, bytes, 1) == 0);
    fd = open("/dev/urandom", O_RDONLY);
    REQUIRE(fd >= 0 && read(fd, bytes, sizeof(bytes)) == sizeof(bytes));
    fd = open("/dev/zero", O_RDWR);
    REQUIRE(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) != MAP_FAILED);
}

static void *add_one(void *counter)
{
    cpu_set_t all;

    if (sched_getaffinity(0, sizeof(all), &all) == 0 &&
        sched_setaffinity(0, sizeof(all), &all) == 0)
        __atomic_add_fetch((int *)counter, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void *wait_for_line(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* Naming another thread goes through /proc; the CUDA driver gives up where it fails. */
static void name_thread(const struct arena *arena)
{
    pthread_mutex_t line = PTHREAD_MUTEX_INITIALIZER;
    pthread_t other;
    char name[16];

    (void)arena;
    pthread_mutex_lock(&line);
    REQUIRE(pthread_create(&other, NULL, wait_for_line, &line) == 0);
    REQUIRE(pthread_setname_np(other, "worker") == 0);
    REQUIRE(pthread_getname_np(other, name, sizeof(name)) == 0 && strcmp(name, "worker") == 0);
    pthread_mutex_unlock(&line);
    REQUIRE(pthread_join(other, NULL) == 0);
}

static void threads(const struct arena *arena)
{
    pthread_t thread[8];
    struct rlimit stack;
    int counter = 0;

    (void)arena;
    for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
        REQUIRE(pthread_create(&thread[i], NULL, add_one, &counter) == 0);
    for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
        REQUIRE(pthread_join(thread[i], NULL) == 0);
    REQUIRE(counter == (int)ARRAY_SIZE(thread));
    REQUIRE(pthread_setname_np(pthread_self(), "kernel") == 0);
    REQUIRE(prlimit(0, RLIMIT_STACK, NULL, &stack) == 0);
    REQUIRE(prlimit(getpid(), RLIMIT_STACK, NULL, &stack) == 0);
}

static volatile sig_atomic_t signals_seen;

static void see(int number)
{
    signals_seen |= 1 << number;
}

static void own_signals(const struct arena *arena)
{
    (void)arena;
    signal(SIGUSR1, see);
    signal(SIGUSR2, see);
    REQUIRE(raise(SIGUSR1) == 0 && (signals_seen & (1 << SIGUSR1)));
    REQUIRE(kill(getpid(), SIGUSR2) == 0 && (signals_seen & (1 << SIGUSR2)));
}

/* As subprocess.Popen.kill() does it. */
static void kill_own_child(const struct arena *arena)
{
    int status;
    pid_t pid = fork();

    (void)arena;
    if (pid == 0) {
        pause();
        _exit(0);
    }
    REQUIRE(pid > 0 && kill(pid, SIGTERM) == 0);
    REQUIRE(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void shared_between_own(const struct arena *arena)
{
    int pair[2], fd, status;
    char byte = 0;
    pid_t pid;

    (void)arena;
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    fd = (int)syscall(SYS_memfd_create, "kernel", 0u);
    REQUIRE(fd >= 0 && ftruncate(fd, 4096) == 0);
    pid = fork();
    if (pid == 0)
        _exit(write(pair[1], "x", 1) == 1 && pwrite(fd, "y", 1, 0) == 1 ? 0 : 1);
    REQUIRE(read(pair[0], &byte, 1) == 1 && byte == 'x');
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    REQUIRE(pread(fd, &byte, 1, 0) == 1 && byte == 'y');
}

static void commands(const struct arena *arena)
{
    (void)arena;
    REQUIRE(shell("true") == 0);
    REQUIRE(WEXITSTATUS(shell("exit 5")) == 5);
    REQUIRE(shell("echo text | grep -q text && echo more > file && mv file other") == 0);
    REQUIRE(shell("cd .. ; cd scratch && ls > list") == 0);
}

static void compiler(const struct arena *arena)
{
    int (*answer)(void);
    void *library;

    setenv("TMPDIR", arena->scratch, 1);
    put("kernel.c", "int answer(void) { return 42; }\n");
    REQUIRE(shell("cc -shared -fPIC kernel.c -o kernel.so 2> log") == 0);
    library = dlopen("./kernel.so", RTLD_NOW);
    REQUIRE(library);
    *(void **)&answer = dlsym(library, "answer");
    REQUIRE(answer && answer() == 42);
}

/* A just-in-time compiler's memory. */
static void generated_code(const struct arena *arena)
{
#if defined(__x86_64__)
    static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov eax, 42; ret */
    int (*answer)(void);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(page != MAP_FAILED);
    memcpy(page, code, sizeof(code));
    REQUIRE(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    *(void **)&answer = page;
    REQUIRE(answer() == 42);
#endif
    (void)arena;
}

static void shared_memory_file(const struct arena *arena)
{
    int fd = open("/dev/shm/sem.kernel", O_RDWR | O_CREAT, 0600);

    (void)arena;
    REQUIRE(fd >= 0 && ftruncate(fd, 4096) == 0);
    REQUIRE(unlink("/dev/shm/sem.kernel") == 0);
}

static const struct program programs[] = {
    {"scratch", scratch},
    {"readable", readable},
    {"kept descriptor", kept_descriptor},
    {"facts", facts},
    {"device nodes", device_nodes},
    {"name thread", name_thread},
    {"threads", threads},
    {"own signals", own_signals},
    {"kill own child", kill_own_child, .needs_any = SANDBOX_PID_NS | SANDBOX_LANDLOCK},
    {"shared between own", shared_between_own},
    {"commands", commands},
    {"compiler", compiler},
    {"generated code", generated_code},
    {"shared memory file", shared_memory_file, .needs = SANDBOX_MOUNT_NS},
};

int main(void)
{
    return harness_run(programs, ARRAY_SIZE(programs));
}
