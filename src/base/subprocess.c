#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* One of the helper's two streams on our side. */
struct stream {
    int fd; /* -1 once it reached its end */
    char *kept;
    size_t kept_length, kept_max;
    uint64_t bytes;
};

/* What the child says when it cannot become the helper. */
struct start_failure {
    int number;     /* errno */
    bool directory; /* chdir() failed, else exec */
};

static int stream_init(struct stream *stream, size_t max, struct error *err)
{
    stream->kept = malloc(max + 1);
    if (!stream->kept)
        return error_set(err, ERROR_INTERNAL, "out of memory for %zu bytes of output", max);
    stream->kept_max = max;
    return 0;
}

/* Reads what is there, once. */
static void stream_read(struct stream *stream)
{
    char chunk[16384];
    ssize_t got = read(stream->fd, chunk, sizeof(chunk));

    if (got > 0) {
        size_t room = stream->kept_max - stream->kept_length;
        size_t take = (size_t)got < room ? (size_t)got : room;

        memcpy(stream->kept + stream->kept_length, chunk, take);
        stream->kept_length += take;
        stream->bytes += (uint64_t)got;
        return;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close(stream->fd);
    stream->fd = -1;
}

/* Takes what the pipe still holds. Bounded, because somebody who left the helper's group may hold
 * the other end and write for ever. */
static void stream_drain(struct stream *stream)
{
    for (int turn = 0; turn < 64 && stream->fd >= 0; turn++) {
        struct pollfd ready = {.fd = stream->fd, .events = POLLIN};

        if (poll(&ready, 1, 0) <= 0)
            return;
        stream_read(stream);
    }
}

static char *stream_take(struct stream *stream)
{
    stream->kept[stream->kept_length] = '\0';
    return pointer_steal(&stream->kept);
}

static void stream_release(struct stream *stream)
{
    cleanup_fd(&stream->fd);
    free(stream->kept);
}

#define CLEANUP_STREAM __attribute__((cleanup(stream_release)))

/* The child's part: only async-signal-safe calls, because the caller may have threads. */
static void __attribute__((noreturn))
become_helper(const struct subprocess *what, pid_t parent, int out, int errors, int report)
{
    struct start_failure failure = {0};
    sigset_t none;
    int null;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(127);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);

    null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(errors, 2) < 0)
        goto fail;
    if (what->directory && chdir(what->directory) < 0) {
        failure.directory = true;
        goto fail;
    }
    syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
    if (what->env)
        execvpe(what->argv[0], (char *const *)what->argv, (char *const *)what->env);
    else
        execvp(what->argv[0], (char *const *)what->argv);
fail:
    failure.number = errno;
    if (write(report, &failure, sizeof(failure)) < 0)
        _exit(126);
    _exit(127);
}

/* Waits for the exec: the report's other end closes by it, or brings what went wrong. */
static int await_start(const struct subprocess *what, int report, struct error *err)
{
    struct start_failure failure;
    enum error_kind kind;
    ssize_t got;

    do
        got = read(report, &failure, sizeof(failure));
    while (got < 0 && errno == EINTR);
    if (got != sizeof(failure))
        return 0;
    kind = failure.number == EMFILE || failure.number == ENOMEM ? ERROR_INTERNAL : ERROR_UNFIT;
    return error_set(err, kind, "cannot run %s: %s%s%s", what->argv[0],
                     failure.directory ? what->directory : "", failure.directory ? ": " : "",
                     strerror(failure.number));
}

/* Milliseconds that poll() may wait: rounded up, so that it never spins before the deadline. */
static int poll_timeout_ms(uint64_t end_ns)
{
    uint64_t now, left_ms;

    if (!end_ns)
        return -1;
    now = clock_now_ns();
    if (now >= end_ns)
        return 0;
    left_ms = (end_ns - now + NS_PER_MS - 1) / NS_PER_MS;
    return left_ms > 3600000 ? 3600000 : (int)left_ms;
}

/* Reads both streams until the helper ends or the deadline passes. */
static int collect(int pidfd, struct stream *const streams[2], uint64_t end_ns, bool *ret_timed_out,
                   struct error *err)
{
    for (;;) {
        struct pollfd ready[3] = {
            {.fd = pidfd, .events = POLLIN},
            {.fd = streams[0]->fd, .events = POLLIN},
            {.fd = streams[1]->fd, .events = POLLIN},
        };

        if (poll(ready, ARRAY_SIZE(ready), poll_timeout_ms(end_ns)) < 0 && errno != EINTR)
            return error_errno(err, ERROR_INTERNAL, "poll");
        for (int i = 0; i < 2; i++)
            if (streams[i]->fd >= 0 && ready[i + 1].revents)
                stream_read(streams[i]);
        if (ready[0].revents) {
            *ret_timed_out = false;
            return 0;
        }
        if (end_ns && clock_now_ns() >= end_ns) {
            *ret_timed_out = true;
            return 0;
        }
    }
}

/* Ends the helper's group and reaps the helper: its wait status, or -1. The group is killed before
 * the reaping, because until then its number cannot belong to anybody else. */
static int end_group(pid_t pid)
{
    int status;

    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* where it had not reached setpgid() yet */
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return status;
}

static int open_pipe(int *ret_read, int *ret_write, struct error *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, ERROR_INTERNAL, "pipe2");
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

/* Starts the helper; the writing ends of the three pipes are the child's alone afterwards. */
static pid_t start(const struct subprocess *what, struct stream *out, struct stream *errors,
                   int *ret_report, struct error *err)
{
    CLEANUP_FD int out_end = -1, errors_end = -1, report = -1, report_end = -1;
    pid_t parent = getpid(), pid;

    if (open_pipe(&out->fd, &out_end, err) < 0 || open_pipe(&errors->fd, &errors_end, err) < 0 ||
        open_pipe(&report, &report_end, err) < 0)
        return -1;
    pid = fork();
    if (pid < 0)
        return error_errno(err, ERROR_INTERNAL, "fork");
    if (pid == 0)
        become_helper(what, parent, out_end, errors_end, report_end);
    setpgid(pid, pid); /* in both processes: whoever comes first */
    *ret_report = fd_steal(&report);
    return pid;
}

static int watch(const struct subprocess *what, pid_t pid, int report,
                 struct stream *const streams[2], uint64_t end_ns, bool *ret_timed_out,
                 struct error *err)
{
    CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, pid, 0u);

    if (pidfd < 0)
        return error_errno(err, ERROR_INTERNAL, "pidfd_open");
    if (await_start(what, report, err) < 0)
        return -1;
    return collect(pidfd, streams, end_ns, ret_timed_out, err);
}

int subprocess_run(const struct subprocess *what, struct subprocess_result *ret_result,
                   struct error *err)
{
    CLEANUP_STREAM struct stream out = {.fd = -1}, errors = {.fd = -1};
    CLEANUP_FD int report = -1;
    uint64_t end_ns = what->deadline_ns ? clock_now_ns() + what->deadline_ns : 0;
    struct stream *const streams[2] = {&out, &errors};
    bool timed_out = false;
    int watched, status;
    pid_t pid;

    if (stream_init(&out, what->output_max, err) < 0 ||
        stream_init(&errors, what->output_max, err) < 0)
        return -1;
    pid = start(what, &out, &errors, &report, err);
    if (pid < 0)
        return -1;
    watched = watch(what, pid, report, streams, end_ns, &timed_out, err);
    status = end_group(pid);
    if (watched < 0)
        return -1;
    if (status < 0)
        return error_errno(err, ERROR_INTERNAL, "waitpid for %s", what->argv[0]);
    stream_drain(&out);
    stream_drain(&errors);
    *ret_result = (struct subprocess_result){
        .timed_out = timed_out,
        .wait_status = status,
        .output_length = out.kept_length,
        .errors_length = errors.kept_length,
        .output_bytes = out.bytes,
        .errors_bytes = errors.bytes,
        .output = stream_take(&out),
        .errors = stream_take(&errors),
    };
    return 0;
}

bool subprocess_succeeded(const struct subprocess_result *result)
{
    return !result->timed_out && WIFEXITED(result->wait_status) &&
           WEXITSTATUS(result->wait_status) == 0;
}

void subprocess_result_release(struct subprocess_result *result)
{
    free(result->output);
    free(result->errors);
    *result = (struct subprocess_result)SUBPROCESS_RESULT_INIT;
}
