#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h> /* cmocka wants it first */

#include <cmocka.h>

#include "base/cleanup.h"

#define NAMESPACES                                                                                 \
    (SANDBOX_USER_NS | SANDBOX_PID_NS | SANDBOX_MOUNT_NS | SANDBOX_NET_NS | SANDBOX_IPC_NS)

enum {
    DEADLINE_S = 60, /* generous: the machine may be busy; a hang is what it is for */
    PLAIN_USER = 65534,
};

static const struct setting settings[] = {
    {"all layers, root", 0, false},
    {"all layers, plain user", 0, true},
    {"no namespaces, root", NAMESPACES, false},
    {"no namespaces, plain user", NAMESPACES, true},
    {"no user namespace, root", SANDBOX_USER_NS, false},
    {"no mount namespace, plain user", SANDBOX_MOUNT_NS, true},
    {"no landlock, plain user", SANDBOX_LANDLOCK, true},
    {"seccomp alone, plain user", NAMESPACES | SANDBOX_LANDLOCK, true},
};

volatile char judge_memory[64] = "the judge's secret";

static int complaints = -1;

void complain(const char *format, ...)
{
    char text[512];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (complaints >= 0 && write(complaints, text, (size_t)length) < 0)
        _exit(98);
    _exit(99);
}

int shell(const char *command)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    return status;
}

/* ---- The arena ------------------------------------------------------------------------------ */

static void put(const char *directory, const char *name, const char *text, mode_t mode)
{
    char path[160];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        complain("cannot write %s: %s", path, strerror(errno));
    close(fd);
}

static void listen_local(const char *name, bool abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1);

    snprintf(address.sun_path + abstract, sizeof(address.sun_path) - abstract, "%s", name);
    if (abstract)
        length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, 1) < 0)
        complain("cannot listen on %s: %s", name, strerror(errno));
}

static int listen_tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    /* A machine without a loopback has nothing that could be reached. */
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return 1;
    return ntohs(address.sin_port);
}

static void build_arena(struct arena *arena)
{
    snprintf(arena->scratch, sizeof(arena->scratch), "%s/scratch", arena->root);
    snprintf(arena->readable, sizeof(arena->readable), "%s/readable", arena->root);
    snprintf(arena->secret, sizeof(arena->secret), "%s/secret", arena->root);
    snprintf(arena->socket_path, sizeof(arena->socket_path), "%s/socket", arena->secret);
    snprintf(arena->socket_abstract, sizeof(arena->socket_abstract), "kbv-test-%d", getpid());
    if (mkdir(arena->scratch, 0700) < 0 || mkdir(arena->readable, 0700) < 0 ||
        mkdir(arena->secret, 0700) < 0)
        complain("cannot build the arena: %s", strerror(errno));
    put(arena->readable, "tool", "tool\n", 0700);
    put(arena->secret, "answer", SECRET_TEXT, 0600);
    listen_local(arena->socket_path, false);
    listen_local(arena->socket_abstract, true);
    arena->tcp_port = listen_tcp();
    arena->judge = getpid();
    arena->alien_fd = open("/dev/null", O_RDWR);
    arena->kept_fd = open("/dev/zero", O_RDWR);
}

/* Nothing of what belongs to the judge has changed. */
static void inspect_arena(const struct arena *arena, const struct rlimit *files, int priority)
{
    struct rlimit now;
    struct stat what;
    char path[160], text[16] = "";
    int fd;

    snprintf(path, sizeof(path), "%s/answer", arena->secret);
    fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0 || strcmp(text, SECRET_TEXT) != 0)
        complain("the secret file was changed");
    if (fstat(fd, &what) < 0 || (what.st_mode & 07777) != 0600 || what.st_nlink != 1)
        complain("the secret file's mode or links were changed");
    close(fd);
    snprintf(path, sizeof(path), "%s/tool", arena->readable);
    if (stat(path, &what) < 0 || (what.st_mode & 07777) != 0700 || what.st_size != 5 ||
        what.st_nlink != 1)
        complain("the readable file was changed");
    if (getrlimit(RLIMIT_NOFILE, &now) < 0 || now.rlim_cur != files->rlim_cur)
        complain("the judge's limits were changed");
    if (getpriority(PRIO_PROCESS, 0) != priority)
        complain("the judge's priority was changed");
    if (strcmp((const char *)judge_memory, "the judge's secret") != 0)
        complain("the judge's memory was changed");
}

/* ---- Judge and leaf ------------------------------------------------------------------------- */

static void become_user(const struct setting *setting)
{
    if (!setting->plain_user || geteuid() != 0)
        return;
    if (setgroups(0, NULL) < 0 || setresgid(PLAIN_USER, PLAIN_USER, PLAIN_USER) < 0 ||
        setresuid(PLAIN_USER, PLAIN_USER, PLAIN_USER) < 0)
        complain("cannot become a plain user");
    /* A change of user protects a process from others of that user: not here, where only the
     * sandbox shall. */
    prctl(PR_SET_DUMPABLE, 1);
}

static void __attribute__((noreturn))
be_leaf(const struct program *program, struct arena *arena, const struct sandbox_policy *policy)
{
    struct error err = ERROR_INIT;

    memset((char *)judge_memory, 0, sizeof(judge_memory));
    if (sandbox_lock(policy, &arena->layers, &err) < 0)
        complain("lock: %s", err.text);
    program->run(arena);
    _exit(0);
}

static void check_ending(const struct program *program, const struct sandbox_exit *end)
{
    int status = end->wait_status;
    int ending = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);

    if (end->magic != SANDBOX_EXIT_MAGIC)
        complain("no report");
    if (ending != program->ending)
        complain("ended with %d instead of %d", ending, program->ending);
    if (program->strays != STRAYS_ANY && end->stray_processes != program->strays)
        complain("%u strays instead of %u", end->stray_processes, program->strays);
    if (end->max_rss_bytes < 100 << 10)
        complain("no memory was used");
}

/* Ends with 0 where everything was as it should be. */
static void __attribute__((noreturn))
be_judge(const struct program *program, const struct setting *setting, struct arena *arena)
{
    struct sandbox_policy policy = {.mode = SANDBOX_AUTO,
                                    .scratch = arena->scratch,
                                    .memory_bytes = 1ull << 30,
                                    .file_bytes = 16 << 20,
                                    .open_files = 64,
                                    .processes = 64};
    const char *readable[] = {arena->readable, NULL};
    struct sandbox_exit end = {0};
    struct error err = ERROR_INIT;
    struct rlimit files;
    int report[2], keep[2], status, priority;
    pid_t pid;

    alarm(DEADLINE_S);
    become_user(setting);
    build_arena(arena);
    layers_mask(setting->masked);
    policy.readable = readable;
    if (program->before)
        program->before(&policy);
    getrlimit(RLIMIT_NOFILE, &files);
    priority = getpriority(PRIO_PROCESS, 0);
    if (pipe(report) < 0)
        complain("pipe");
    keep[0] = complaints;
    keep[1] = arena->kept_fd;
    pid = sandbox_fork(&policy, report[1], keep, ARRAY_SIZE(keep), &err);
    if (pid < 0)
        complain("fork: %s", err.text);
    if (pid == 0)
        be_leaf(program, arena, &policy);
    close(report[1]);
    if (read(report[0], &end, sizeof(end)) != sizeof(end))
        complain("no report was written");
    if (waitpid(pid, &status, 0) != pid || status != 0)
        complain("the supervisor ended with %#x", status);
    check_ending(program, &end);
    inspect_arena(arena, &files, priority);
    _exit(0);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

struct test_case {
    const struct program *program;
    const struct setting *setting;
};

static void remove_tree(const char *path)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", path, NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

static void run_case(void **state)
{
    const struct test_case *what = *state;
    struct arena arena = {.root = "/tmp/kbv-sandbox-XXXXXX"};
    char text[1024] = "";
    int channel[2], status;
    size_t used = 0;
    ssize_t got;
    pid_t pid;

    assert_non_null(mkdtemp(arena.root));
    if (what->setting->plain_user && geteuid() == 0)
        assert_int_equal(chown(arena.root, PLAIN_USER, PLAIN_USER), 0);
    assert_int_equal(pipe(channel), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(channel[0]);
        complaints = channel[1];
        be_judge(what->program, what->setting, &arena);
    }
    close(channel[1]);
    while (used < sizeof(text) - 1 &&
           (got = read(channel[0], text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)got;
    close(channel[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    remove_tree(arena.root);
    if (status != 0 || text[0])
        fail_msg("%s, %s: status %#x: %s", what->program->name, what->setting->name, status, text);
}

/* The layers that a setting leaves on this machine. */
static int layers_of(const struct setting *setting, unsigned *ret_layers)
{
    char reason[SANDBOX_LAYER_COUNT][LAYER_REASON_BYTES];
    unsigned layers;
    int channel[2], status;
    bool heard;
    pid_t pid;

    if (pipe(channel) < 0 || (pid = fork()) < 0)
        return -1;
    if (pid == 0) {
        struct error err = ERROR_INIT;

        become_user(setting);
        layers_mask(setting->masked);
        if (sandbox_probe(&layers, reason, &err) < 0 ||
            write(channel[1], &layers, sizeof(layers)) != sizeof(layers))
            _exit(1);
        _exit(0);
    }
    close(channel[1]);
    heard = read(channel[0], &layers, sizeof(layers)) == sizeof(layers);
    close(channel[0]);
    if (waitpid(pid, &status, 0) != pid || !heard)
        return -1;
    *ret_layers = layers;
    return 0;
}

int harness_run(const struct program *programs, size_t count)
{
    struct CMUnitTest *tests = calloc(count * ARRAY_SIZE(settings), sizeof(*tests));
    struct test_case *cases = calloc(count * ARRAY_SIZE(settings), sizeof(*cases));
    size_t used = 0;
    int failed;

    if (!tests || !cases)
        return 1;
    for (size_t s = 0; s < ARRAY_SIZE(settings); s++) {
        unsigned layers;

        if (!settings[s].plain_user && geteuid() != 0)
            continue; /* the same as the plain user's */
        if (layers_of(&settings[s], &layers) < 0) {
            print_error("%s: cannot be probed\n", settings[s].name);
            return 1;
        }
        for (size_t p = 0; p < count; p++) {
            char *name;

            if ((programs[p].needs & ~layers) ||
                (programs[p].needs_any && !(programs[p].needs_any & layers)))
                continue;
            if (asprintf(&name, "%s (%s)", programs[p].name, settings[s].name) < 0)
                return 1;
            cases[used] = (struct test_case){&programs[p], &settings[s]};
            tests[used] = (struct CMUnitTest){
                .name = name, .test_func = run_case, .initial_state = &cases[used]};
            used++;
        }
    }
    failed = _cmocka_run_group_tests("sandbox", tests, used, NULL, NULL);
    for (size_t i = 0; i < used; i++)
        free((char *)(uintptr_t)tests[i].name);
    free(tests);
    free(cases);
    return failed;
}
