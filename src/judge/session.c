#include "judge/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "wire/frame.h"
#include "wire/message.h"

#define START_TIMEOUT_NS (180 * NS_PER_S)
#define CLOSE_TIMEOUT_NS (8 * NS_PER_S)
#define ENVIRONMENT_MAX  64

/* What a warm parent inherits of the user's environment: enough to find torch and compilers, no
 * credentials. */
static const char *const environment_kept[] = {
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TORCH_CUDA_ARCH_LIST",
    "CC",
    "CXX",
    "TMPDIR",
    "KBV_NVRTC_DIR",
    "PYENV_VERSION",
    "PYENV_ROOT",
    "CUDA_MODULE_LOADING",
    "OPENBLAS_CORETYPE",
};

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int find_cache(struct session *session, struct error *err)
{
    const char *named = getenv("KBV_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    char kernels[PATH_MAX + 16];
    int length;

    if (named && *named)
        length = snprintf(session->cache, sizeof(session->cache), "%s", named);
    else if (xdg && *xdg)
        length = snprintf(session->cache, sizeof(session->cache), "%s/kbv", xdg);
    else
        length = snprintf(session->cache, sizeof(session->cache), "%s/.cache/kbv",
                          home && *home ? home : session->root);
    if (length < 0 || (size_t)length >= sizeof(session->cache) - 128)
        return error_set(err, ERROR_USAGE, "the path of the cache is too long");
    snprintf(kernels, sizeof(kernels), "%s/kernels", session->cache);
    if (directory_make(kernels, err) < 0)
        return error_context(err, "the cache (set KBV_CACHE to another directory)");
    return 0;
}

static void run_parent(struct session *session, struct parent *parent, int channel, int error_fd,
                       bool guarded)
{
    char *environment[ENVIRONMENT_MAX + 8];
    char omp_wait[] = "OMP_WAIT_POLICY=PASSIVE", gomp_spin[] = "GOMP_SPINCOUNT=0";
    char script[PATH_MAX + 16], channel_text[16], preload[PATH_MAX + 64], kernels[PATH_MAX + 64];
    char *argv[] = {session->python, script, channel_text, parent->scratch, NULL};
    sigset_t none;
    size_t count = 0;
    int null;

    for (size_t i = 0; i < ARRAY_SIZE(environment_kept); i++) {
        const char *value = getenv(environment_kept[i]);
        char *entry;

        if (value && asprintf(&entry, "%s=%s", environment_kept[i], value) >= 0)
            environment[count++] = entry;
    }
    snprintf(kernels, sizeof(kernels), "KBV_KERNEL_CACHE=%s/kernels", session->cache);
    environment[count++] = kernels;
    /* The reference process works right before each timed call: its OpenMP threads must not spin on
     * a core that the call needs. */
    if (!guarded) {
        environment[count++] = omp_wait;
        environment[count++] = gomp_spin;
    }
    if (guarded) {
        snprintf(preload, sizeof(preload), "%s/libkbv-guard.so", session->library);
        if (!exists(preload))
            snprintf(preload, sizeof(preload), "%s/../device/libkbv-guard.so", session->library);
        if (exists(preload)) {
            memmove(preload + strlen("LD_PRELOAD="), preload, strlen(preload) + 1);
            memcpy(preload, "LD_PRELOAD=", strlen("LD_PRELOAD="));
            environment[count++] = preload;
        }
    }
    environment[count] = NULL;
    snprintf(script, sizeof(script), "%s/worker.py", session->library);
    snprintf(channel_text, sizeof(channel_text), "%d", channel);
    /* Its own group: an interrupt from the terminal is for the judge, which then ends it. */
    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(error_fd, 1);
    dup2(error_fd, 2);
    fcntl(channel, F_SETFD, 0);
    execvpe(session->python, argv, environment);
    dprintf(2, "%s: %s\n", session->python, strerror(errno));
    _exit(127);
}

static int parent_start(struct session *session, struct parent *parent, const char *name,
                        bool guarded, struct error *err)
{
    CLEANUP_FD int error_fd = -1;
    int ends[2];

    if ((size_t)snprintf(parent->scratch, sizeof(parent->scratch), "%s/%s", session->root, name) >=
        sizeof(parent->scratch) - 64)
        return error_set(err, ERROR_USAGE, "TMPDIR is too long a path");
    if (mkdir(parent->scratch, 0700) < 0)
        return error_errno(err, ERROR_UNFIT, "creating %s", parent->scratch);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_errno(err, ERROR_INTERNAL, "creating a socket");
    if (tail_start(&parent->output, &error_fd, err) < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    parent->pid = fork();
    if (parent->pid == 0)
        run_parent(session, parent, ends[1], error_fd, guarded);
    close(ends[1]);
    parent->channel = ends[0];
    if (parent->pid < 0)
        return error_errno(err, ERROR_INTERNAL, "starting %s", session->python);
    return 0;
}

/* The last line that the parent printed, for an error message. */
static void last_output(struct parent *parent, char *to, size_t size)
{
    char bytes[TAIL_BYTES];
    uint64_t total;
    size_t length;
    const char *line;

    usleep(20000); /* what it printed before it died may still be in the pipe */
    length = tail_read(parent->output, bytes, &total);
    while (length && (bytes[length - 1] == '\n' || bytes[length - 1] == ' '))
        length--;
    line = length ? memrchr(bytes, '\n', length) : NULL;
    line = line ? line + 1 : bytes;
    text_clean_line(to, size, line, length - (size_t)(line - bytes));
}

static int parent_wait(struct session *session, struct parent *parent, struct error *err)
{
    uint64_t deadline = clock_now_ns() + START_TIMEOUT_NS;
    int fds[FRAME_FDS_MAX];
    struct frame_reader reader;
    enum frame_status status;
    struct frame frame;
    char text[512];
    size_t fd_count;

    do {
        if (interrupt_pending())
            return error_set(err, ERROR_INTERRUPTED, "interrupted");
        status = frame_receive(parent->channel, &frame, fds, &fd_count, NS_PER_S / 5, err);
    } while (status == FRAME_TIMEOUT && clock_now_ns() < deadline);
    if (status == FRAME_TIMEOUT)
        return error_set(err, ERROR_UNFIT, "%s did not import torch within %llu s", session->python,
                         START_TIMEOUT_NS / NS_PER_S);
    if (status != FRAME_OK) {
        last_output(parent, text, sizeof(text));
        return error_set(err, ERROR_UNFIT,
                         "%s cannot run kbv's worker: %s; name another python with "
                         "--python, or see `kbv doctor`",
                         session->python, text[0] ? text : "it ended without a word");
    }
    reader = frame_read(&frame);
    if (frame.type == MESSAGE_FAIL) {
        frame_get_int(&reader);
        frame_get_int(&reader);
        frame_get_text(&reader, text, sizeof(text));
        return error_set(err, ERROR_UNFIT,
                         "%s has no usable torch: %s; install it (pip install torch) "
                         "or name another python with --python",
                         session->python, text);
    }
    frame_get_text(&reader, session->torch_version, sizeof(session->torch_version));
    frame_get_text(&reader, session->python_version, sizeof(session->python_version));
    frame_get_text(&reader, session->cuda_version, sizeof(session->cuda_version));
    if (frame.type != MESSAGE_HELLO || reader.broken)
        return error_set(err, ERROR_INTERNAL, "the warm parent spoke out of turn");
    return 0;
}

static void parent_close(struct parent *parent)
{
    uint64_t deadline = clock_now_ns() + CLOSE_TIMEOUT_NS;

    if (parent->channel >= 0)
        close(parent->channel);
    while (parent->pid > 0 && waitpid(parent->pid, NULL, WNOHANG) == 0) {
        if (clock_now_ns() > deadline) {
            kill(parent->pid, SIGKILL);
            waitpid(parent->pid, NULL, 0);
            break;
        }
        usleep(2000);
    }
    tail_free(parent->output);
}

int session_open(struct session **ret_session, const struct session_options *options,
                 struct error *err)
{
    struct session *session = calloc(1, sizeof(*session));
    const char *temporary = getenv("TMPDIR");
    struct sysinfo info;
    char *real = NULL;

    if (!session)
        return error_set(err, ERROR_INTERNAL, "out of memory");
    session->reference.channel = session->candidate.channel = -1;
    session->sandbox = options->sandbox;
    session->on_cpu = strcmp(options->device, "cpu") == 0;
    /* Spinning takes a core from what is measured on the CPU device; there the judge sleeps. */
    session->spin_ns = session->on_cpu ? 0 : 50 * NS_PER_MS;
    snprintf(session->device, sizeof(session->device), "%s", options->device);
    if (sysinfo(&info) == 0)
        session->machine_memory_bytes = (uint64_t)info.totalram * info.mem_unit;

    real = realpath(temporary && *temporary ? temporary : "/tmp", NULL);
    if (!real || (size_t)snprintf(session->root, sizeof(session->root), "%s/kbv-XXXXXX", real) >=
                     sizeof(session->root) - 128) {
        error_set(err, ERROR_UNFIT, "TMPDIR (%s) is no usable directory",
                  temporary ? temporary : "/tmp");
        session->root[0] = '\0';
        goto fail;
    }
    if (!mkdtemp(session->root)) {
        error_errno(err, ERROR_UNFIT, "creating a directory in %s", real);
        session->root[0] = '\0';
        goto fail;
    }
    if ((size_t)snprintf(session->library, sizeof(session->library), "%s", options->library) >=
            sizeof(session->library) - 64 ||
        (size_t)snprintf(session->python, sizeof(session->python), "%s", options->python) >=
            sizeof(session->python)) {
        error_set(err, ERROR_USAGE, "the path of python or of kbv's worker is too long");
        goto fail;
    }
    if (find_cache(session, err) < 0)
        goto fail;
    /* Both import torch at the same time. */
    if (parent_start(session, &session->reference, "reference", false, err) < 0 ||
        parent_start(session, &session->candidate, "candidate", true, err) < 0)
        goto fail;
    if (parent_wait(session, &session->reference, err) < 0 ||
        parent_wait(session, &session->candidate, err) < 0)
        goto fail;
    free(real);
    *ret_session = session;
    return 0;
fail:
    free(real);
    session_close(session);
    return -1;
}

void session_close(struct session *session)
{
    if (!session)
        return;
    parent_close(&session->reference);
    parent_close(&session->candidate);
    if (session->root[0])
        directory_remove(session->root);
    free(session);
}
