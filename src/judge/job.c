#include "judge/job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/text.h"

#define SPAWN_TIMEOUT_NS (60 * NS_PER_S)
#define READY_TIMEOUT_NS (120 * NS_PER_S)
#define END_TIMEOUT_NS   (3 * NS_PER_S)
#define SEND_TIMEOUT_NS  (10 * NS_PER_S)
#define SLICE_NS         (5 * NS_PER_MS)
/* Processes and threads: teams of OpenMP and of compilers grow with the cores. */
#define PROCESSES_MAX (512 + 16 * sysconf(_SC_NPROCESSORS_ONLN))

/* Host memory of a job: enough for any honest kernel, not enough to take the machine down. */
static uint64_t memory_limit(const struct session *session)
{
    uint64_t limit = session->machine_memory_bytes / (session->on_cpu ? 3 : 2);
    const uint64_t least = 4ull << 30;

    return limit < least ? least : limit;
}

static int spawn(struct job *job, unsigned flags, int channel, int page, int report, int output,
                 struct error *err)
{
    struct session *session = job->session;
    struct parent *parent = job->role == ROLE_REFERENCE ? &session->reference : &session->candidate;
    int fds[FRAME_FDS_MAX] = {channel, page, report, output};
    int reply_fds[FRAME_FDS_MAX];
    struct frame_reader reader;
    enum frame_status status;
    struct frame frame;
    size_t fd_count;
    char text[512];

    frame_init(&frame, MESSAGE_SPAWN);
    frame_put_int(&frame, job->role);
    frame_put_int(&frame, flags);
    frame_put_int(&frame, session->sandbox);
    frame_put_text(&frame, session->device);
    frame_put_text(&frame, job->scratch);
    frame_put_text(&frame, job->builds);
    frame_put_int(&frame, job->role == ROLE_REFERENCE ? 0 : (int64_t)memory_limit(session));
    frame_put_int(&frame, PROCESSES_MAX);
    status = frame_send(parent->channel, &frame, fds, 4, SEND_TIMEOUT_NS, err);
    if (status == FRAME_OK)
        status =
            frame_receive(parent->channel, &frame, reply_fds, &fd_count, SPAWN_TIMEOUT_NS, err);
    if (status != FRAME_OK)
        return error_set(err, ERROR_INTERNAL, "a warm parent is gone");
    for (size_t i = 0; i < fd_count; i++)
        close(reply_fds[i]);
    reader = frame_read(&frame);
    if (frame.type == MESSAGE_FAIL) {
        frame_get_int(&reader);
        frame_get_int(&reader);
        frame_get_text(&reader, text, sizeof(text));
        return error_set(err, ERROR_UNFIT, "%s", text);
    }
    job->supervisor = (pid_t)frame_get_int(&reader);
    if (reader.broken || job->supervisor <= 0)
        return error_set(err, ERROR_INTERNAL, "a warm parent spoke out of turn");
    job->supervisor_fd = (int)syscall(SYS_pidfd_open, job->supervisor, 0);
    if (job->supervisor_fd < 0) {
        kill(job->supervisor, SIGTERM);
        job->supervisor = 0;
        return error_errno(err, ERROR_INTERNAL, "watching a job");
    }
    return 0;
}

int job_start(struct session *session, enum job_role role, unsigned flags, struct job **ret_job,
              struct error *err)
{
    struct job *job = calloc(1, sizeof(*job));
    CLEANUP_FD int page_fd = -1, output_fd = -1;
    int channel[2] = {-1, -1}, report[2] = {-1, -1};
    unsigned number = session->next_job++;
    int status = -1;

    if (!job)
        return error_set(err, ERROR_INTERNAL, "out of memory");
    job->session = session;
    job->role = role;
    job->channel = job->report_fd = job->supervisor_fd = -1;
    if ((size_t)snprintf(job->scratch, sizeof(job->scratch), "%s/job-%u",
                         role == ROLE_REFERENCE ? session->reference.scratch
                                                : session->candidate.scratch,
                         number) >= sizeof(job->scratch) ||
        (size_t)snprintf(job->builds, sizeof(job->builds), "%s/builds-%u",
                         session->candidate.scratch, number) >= sizeof(job->builds)) {
        error_set(err, ERROR_USAGE, "TMPDIR is too long a path");
        goto out;
    }
    /* Must exist when the job takes its rights away: a rule for a path that is not there is none.
     */
    if (mkdir(job->builds, 0700) < 0 || mkdir(job->scratch, 0700) < 0) {
        error_errno(err, ERROR_UNFIT, "creating %s", job->scratch);
        goto out;
    }
    if (page_create(&page_fd, &job->page, err) < 0 || tail_start(&job->output, &output_fd, err) < 0)
        goto out;
    job->page->spin_ns = session->on_cpu ? 0 : NS_PER_MS;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0 ||
        pipe2(report, O_CLOEXEC) < 0) {
        error_errno(err, ERROR_INTERNAL, "creating a channel");
        goto out;
    }
    job->channel = fd_steal(&channel[0]);
    job->report_fd = fd_steal(&report[0]);
    status = spawn(job, flags, channel[1], page_fd, report[1], output_fd, err);
out:
    for (int i = 0; i < 2; i++) {
        cleanup_fd(&channel[i]);
        cleanup_fd(&report[i]);
    }
    if (status < 0)
        job_free(job);
    else
        *ret_job = job;
    return status;
}

/* Reads the supervisor's report if it is there; true when the job has ended. */
static bool note_end(struct job *job, int wait_ms)
{
    struct pollfd poll_fd = {.fd = job->report_fd, .events = POLLIN};
    struct sandbox_exit report;
    ssize_t got;

    if (job->ended)
        return true;
    if (poll(&poll_fd, 1, wait_ms) <= 0)
        return false;
    got = read(job->report_fd, &report, sizeof(report));
    if (got == (ssize_t)sizeof(report) && report.magic == SANDBOX_EXIT_MAGIC) {
        job->exit = report;
        job->exit_known = true;
    }
    job->ended = true; /* also on end of file: the supervisor itself is gone */
    return true;
}

void job_tell_end(struct job *job)
{
    if (job && job->supervisor > 0 && !job->ended && job->supervisor_fd >= 0)
        syscall(SYS_pidfd_send_signal, job->supervisor_fd, SIGTERM, NULL, 0);
}

void job_end(struct job *job)
{
    if (!job || job->supervisor <= 0)
        return;
    if (!job->ended) {
        job_tell_end(job);
        if (!note_end(job, (int)(END_TIMEOUT_NS / NS_PER_MS)) && job->supervisor_fd >= 0)
            syscall(SYS_pidfd_send_signal, job->supervisor_fd, SIGKILL, NULL, 0);
    }
    if (job->supervisor_fd >= 0) {
        struct pollfd gone = {.fd = job->supervisor_fd, .events = POLLIN};

        /* The supervisor reaps what is left after its report, then goes. */
        poll(&gone, 1, (int)(END_TIMEOUT_NS / NS_PER_MS));
        close(fd_steal(&job->supervisor_fd));
    }
    job->ended = true;
    job->supervisor = 0;
    if (job->channel >= 0)
        close(fd_steal(&job->channel));
}

void job_free(struct job *job)
{
    if (!job)
        return;
    job_end(job);
    if (job->report_fd >= 0)
        close(job->report_fd);
    if (job->channel >= 0)
        close(job->channel);
    page_unmap(job->page);
    tail_free(job->output);
    directory_remove(job->scratch);
    directory_remove(job->builds);
    free(job);
}

static enum job_outcome forged(struct job *job, const char *what)
{
    job->failure.kind = FAIL_NONE;
    job->failure.line = 0;
    snprintf(job->failure.text, sizeof(job->failure.text), "%s", what);
    return JOB_FORGED;
}

/* Takes a MESSAGE_FAIL apart. */
static enum job_outcome take_failure(struct job *job, const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    int64_t kind = frame_get_int(&reader), line = frame_get_int(&reader);
    const void *text;
    size_t length;

    text = frame_get_bytes(&reader, &length);
    if (!frame_done(&reader) || kind <= FAIL_NONE || kind >= FAIL_COUNT || line < 0 ||
        line > 100000000)
        return forged(job, "malformed message: a failure without kind, line and text");
    job->failure.kind = (enum fail_kind)kind;
    job->failure.line = (unsigned)line;
    text_clean_line(job->failure.text, sizeof(job->failure.text), text, length);
    return JOB_FAILED;
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

/*
 * Waits for a frame, the job's end, or the deadline. JOB_OK: a frame that is neither MESSAGE_FAIL
 * nor MESSAGE_BUILD. *deadline_ns moves by what builds took. With `ret_built`, it also returns
 * after a build was answered, and says so.
 */
static enum job_outcome next_frame(struct job *job, uint64_t *deadline_ns, struct frame *frame,
                                   int *fds, size_t *fd_count, bool *ret_built, struct error *err)
{
    for (;;) {
        struct pollfd poll_fds[2] = {{.fd = job->channel, .events = POLLIN},
                                     {.fd = job->report_fd, .events = POLLIN}};
        uint64_t now = clock_now_ns(), started;
        enum frame_status status;

        if (interrupt_pending()) {
            error_set(err, ERROR_INTERRUPTED, "interrupted");
            return JOB_BROKEN;
        }
        if (now >= *deadline_ns)
            return JOB_TIMED_OUT;
        if (poll(poll_fds, 2,
                 *deadline_ns - now > 200 * NS_PER_MS
                     ? 200
                     : (int)((*deadline_ns - now) / NS_PER_MS) + 1) <= 0)
            continue;
        /* What it said before it died comes first. */
        status = poll_fds[0].revents ? frame_receive(job->channel, frame, fds, fd_count, 0, err)
                                     : FRAME_CLOSED;
        switch (status) {
        case FRAME_TIMEOUT:
            continue;
        case FRAME_CLOSED:
            /* A descendant may hold the channel open, or the leaf may have closed it and live. */
            if (note_end(job, poll_fds[1].revents ? 0 : 100))
                return JOB_DIED;
            if (poll_fds[0].revents)
                return forged(job, "closed its channel to the judge");
            continue;
        case FRAME_MALFORMED:
            return forged(job, err->text);
        case FRAME_ERROR:
            return JOB_BROKEN;
        case FRAME_OK:
            break;
        }
        if (frame->type == MESSAGE_FAIL) {
            close_all(fds, *fd_count);
            return take_failure(job, frame);
        }
        if (frame->type != MESSAGE_BUILD || !job->on_build)
            return JOB_OK;
        if (*fd_count != 1) {
            close_all(fds, *fd_count);
            return forged(job, "malformed message: a build without its specification");
        }
        started = clock_now_ns();
        if (job->on_build(job->build_context, job, fds[0], err) < 0) {
            close(fds[0]);
            return JOB_BROKEN;
        }
        close(fds[0]);
        *deadline_ns += clock_now_ns() - started;
        if (ret_built) {
            *ret_built = true;
            *fd_count = 0;
            return JOB_OK;
        }
    }
}

static uint64_t deadline_after(uint64_t timeout_ns)
{
    return clock_now_ns() + timeout_ns;
}

int job_wait_ready(struct job *job, struct error *err)
{
    uint64_t deadline = deadline_after(READY_TIMEOUT_NS);
    int fds[FRAME_FDS_MAX];
    struct frame_reader reader;
    enum job_outcome outcome;
    struct frame frame;
    size_t fd_count;
    char how[128];

    if (job->ready)
        return 0;
    outcome = next_frame(job, &deadline, &frame, fds, &fd_count, NULL, err);
    switch (outcome) {
    case JOB_OK:
        break;
    case JOB_FAILED:
        return error_set(err, job->failure.kind == FAIL_UNFIT ? ERROR_UNFIT : ERROR_INTERNAL, "%s",
                         job->failure.text);
    case JOB_DIED:
        job_describe_exit(job, how, sizeof(how));
        return error_set(err, ERROR_INTERNAL, "a worker %s before it was ready", how);
    case JOB_TIMED_OUT:
        return error_set(err, ERROR_UNFIT, "a worker was not ready within %llu s",
                         READY_TIMEOUT_NS / NS_PER_S);
    case JOB_FORGED:
        return error_set(err, ERROR_INTERNAL, "a worker was not ready but %s", job->failure.text);
    case JOB_BROKEN:
        return -1;
    }
    close_all(fds, fd_count);
    reader = frame_read(&frame);
    job->sandbox_layers = (unsigned)frame_get_int(&reader);
    frame_get_text(&reader, job->device_name, sizeof(job->device_name));
    frame_get_text(&reader, job->driver, sizeof(job->driver));
    job->device_memory_bytes = (uint64_t)frame_get_int(&reader);
    job->l2_bytes = (uint64_t)frame_get_int(&reader);
    job->bandwidth = frame_get_double(&reader);
    if (frame.type != MESSAGE_READY || !frame_done(&reader))
        return error_set(err, ERROR_INTERNAL, "a worker spoke out of turn");
    job->ready = true;
    return 0;
}

static enum job_outcome send_request(struct job *job, struct frame *request, const int *fds,
                                     size_t fd_count, struct error *err)
{
    switch (frame_send(job->channel, request, fds, fd_count, SEND_TIMEOUT_NS, err)) {
    case FRAME_OK:
        return JOB_OK;
    case FRAME_CLOSED:
        return note_end(job, 500) ? JOB_DIED : forged(job, "closed its channel to the judge");
    case FRAME_TIMEOUT:
        return JOB_TIMED_OUT;
    case FRAME_MALFORMED:
    case FRAME_ERROR:
        break;
    }
    return JOB_BROKEN;
}

enum job_outcome job_request_ahead(struct job *job, struct frame *request, struct error *err)
{
    job->ahead = request->type;
    return send_request(job, request, NULL, 0, err);
}

enum job_outcome job_request(struct job *job, struct frame *request, const int *fds,
                             size_t fd_count, uint64_t timeout_ns, struct frame *ret_reply,
                             int *ret_fds, size_t *ret_fd_count, struct error *err)
{
    uint64_t deadline = deadline_after(timeout_ns);
    int got_fds[FRAME_FDS_MAX];
    enum job_outcome outcome = JOB_OK;
    size_t got_count;

    if (job->ahead == request->type)
        job->ahead = 0;
    else
        outcome = send_request(job, request, fds, fd_count, err);
    if (outcome != JOB_OK)
        return outcome;
    outcome = next_frame(job, &deadline, ret_reply, got_fds, &got_count, NULL, err);
    if (outcome != JOB_OK)
        return outcome;
    if (ret_reply->type != MESSAGE_OK || (got_count && !ret_fds)) {
        close_all(got_fds, got_count);
        return forged(job, "a message that answers no request");
    }
    if (ret_fds) {
        memcpy(ret_fds, got_fds, got_count * sizeof(int));
        *ret_fd_count = got_count;
    }
    return JOB_OK;
}

enum job_outcome job_timing_begin(struct job *job, struct error *err)
{
    struct frame frame;

    frame_init(&frame, MESSAGE_TIMING);
    frame_put_int(&frame, job->sequence);
    return send_request(job, &frame, NULL, 0, err);
}

/*
 * Waits until the worker's word reaches `code` or a later one of this call. A frame on the channel
 * in the meantime is a build, or an end.
 */
static enum job_outcome wait_state(struct job *job, unsigned code, uint64_t timeout_ns,
                                   uint64_t *ret_when_ns, struct error *err)
{
    uint64_t deadline = deadline_after(timeout_ns);
    uint64_t spin_ns = job->session->spin_ns;

    for (;;) {
        uint32_t word = atomic_load_explicit(&job->page->state, memory_order_acquire);
        struct pollfd channel = {.fd = job->channel, .events = POLLIN};
        struct frame frame;
        int fds[FRAME_FDS_MAX];
        enum job_outcome outcome;
        size_t fd_count;
        bool built;

        if (word >> 8 == (job->sequence & 0xffffff) && (word & 0xff) >= code &&
            (word & 0xff) < PAGE_FAILED) {
            *ret_when_ns = clock_now_ns();
            return JOB_OK;
        }
        if (interrupt_pending()) {
            error_set(err, ERROR_INTERRUPTED, "interrupted");
            return JOB_BROKEN;
        }
        if (note_end(job, 0))
            return JOB_DIED;
        if (clock_now_ns() >= deadline)
            return JOB_TIMED_OUT;
        if (poll(&channel, 1, 0) > 0) {
            built = false;
            outcome = next_frame(job, &deadline, &frame, fds, &fd_count, &built, err);
            if (outcome == JOB_OK && built)
                continue;
            if (outcome == JOB_OK) {
                close_all(fds, fd_count);
                return forged(job, "a message in the middle of a timed call");
            }
            if (outcome != JOB_TIMED_OUT)
                return outcome;
            continue;
        }
        page_wait(&job->page->state, word, spin_ns, SLICE_NS > spin_ns ? SLICE_NS : spin_ns);
    }
}

enum job_outcome job_call_prepare(struct job *job, unsigned set, uint64_t generator_seed,
                                  uint64_t timeout_ns, struct error *err)
{
    uint64_t when;

    job->sequence = (job->sequence + 1) & 0xffffff;
    job->page->set = set;
    job->page->generator_seed = generator_seed;
    page_post(&job->page->go, page_word(job->sequence, PAGE_GO_PREPARE));
    return wait_state(job, PAGE_READY, timeout_ns, &when, err);
}

enum job_outcome job_call_run(struct job *job, uint64_t timeout_ns, uint64_t *ret_judge_ns,
                              uint64_t *ret_own_ns, struct error *err)
{
    uint64_t started, copied;
    enum job_outcome outcome;

    /* A worker whose word already says RETURNED did not wait for the start. */
    if ((atomic_load(&job->page->state) & 0xff) != PAGE_READY)
        return forged(job, "returned before the call was started");
    started = clock_now_ns();
    page_post(&job->page->go, page_word(job->sequence, PAGE_GO_START));
    outcome = wait_state(job, PAGE_COPIED, timeout_ns, &copied, err);
    if (outcome != JOB_OK)
        return outcome;
    *ret_judge_ns = copied - started;
    *ret_own_ns = atomic_load(&job->page->own_ns);
    return JOB_OK;
}

enum job_outcome job_timing_end(struct job *job, uint64_t timeout_ns, struct error *err)
{
    uint64_t deadline = deadline_after(timeout_ns);
    int fds[FRAME_FDS_MAX];
    enum job_outcome outcome;
    struct frame frame;
    size_t fd_count;

    job->sequence = (job->sequence + 1) & 0xffffff;
    page_post(&job->page->go, page_word(job->sequence, PAGE_GO_LEAVE));
    outcome = next_frame(job, &deadline, &frame, fds, &fd_count, NULL, err);
    if (outcome == JOB_OK) {
        close_all(fds, fd_count);
        if (frame.type != MESSAGE_OK)
            return forged(job, "a message that answers no request");
    }
    return outcome;
}

void job_describe_exit(const struct job *job, char *to, size_t size)
{
    int status = job->exit.wait_status;

    if (!job->exit_known)
        snprintf(to, size, "vanished with its supervisor");
    else if (WIFSIGNALED(status))
        snprintf(to, size, "was killed by SIG%s",
                 sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
    else
        snprintf(to, size, "exited with status %d", WEXITSTATUS(status));
}

pid_t job_leaf_pid(const struct job *job)
{
    char path[96];
    FILE *file;
    int pid = -1;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)job->supervisor,
             (int)job->supervisor);
    file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%d", &pid) != 1)
        pid = -1;
    fclose(file);
    return pid;
}

void job_pause(const struct job *job, bool pause)
{
    pid_t leaf = job && !job->ended ? job_leaf_pid(job) : -1;

    if (leaf > 0)
        kill(leaf, pause ? SIGSTOP : SIGCONT);
}
