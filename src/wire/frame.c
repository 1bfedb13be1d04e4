#include "wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define HEADER_BYTES offsetof(struct frame, body)
#define OVERFLOWED   UINT16_MAX

void frame_init(struct frame *frame, uint16_t type)
{
    /* The whole frame is cleared: no stale stack bytes travel to an untrusted process. */
    memset(frame, 0, sizeof(*frame));
    frame->magic = FRAME_MAGIC;
    frame->type = type;
}

static void put(struct frame *frame, char tag, const void *head, size_t head_bytes,
                const void *bytes, size_t length)
{
    size_t need = 1 + head_bytes + length;
    uint8_t *to;

    if (frame->length > FRAME_BODY_MAX || need > FRAME_BODY_MAX - (size_t)frame->length) {
        frame->length = OVERFLOWED;
        return;
    }
    to = frame->body + frame->length;
    *to++ = (uint8_t)tag;
    if (head_bytes)
        memcpy(to, head, head_bytes);
    if (length)
        memcpy(to + head_bytes, bytes, length);
    frame->length = (uint16_t)(frame->length + need);
}

void frame_put_int(struct frame *frame, int64_t value)
{
    put(frame, 'i', NULL, 0, &value, sizeof(value));
}

void frame_put_double(struct frame *frame, double value)
{
    put(frame, 'd', NULL, 0, &value, sizeof(value));
}

void frame_put_bytes(struct frame *frame, const void *bytes, size_t length)
{
    uint16_t head = (uint16_t)length;

    if (length > FRAME_BODY_MAX) {
        frame->length = OVERFLOWED;
        return;
    }
    put(frame, 's', &head, sizeof(head), bytes, length);
}

void frame_put_text(struct frame *frame, const char *text)
{
    frame_put_bytes(frame, text, strlen(text));
}

/* Bytes that the value at `offset` takes, tag included; 0 where there is no whole value. */
static size_t value_bytes(const struct frame *frame, size_t offset)
{
    size_t left = frame->length - offset;
    uint16_t length;

    if (left < 1)
        return 0;
    switch (frame->body[offset]) {
    case 'i':
    case 'd':
        return left >= 9 ? 9 : 0;
    case 's':
        if (left < 3)
            return 0;
        memcpy(&length, frame->body + offset + 1, sizeof(length));
        return left - 3 >= length ? 3 + (size_t)length : 0;
    default:
        return 0;
    }
}

struct frame_reader frame_read(const struct frame *frame)
{
    return (struct frame_reader){.frame = frame};
}

char frame_peek(const struct frame_reader *reader)
{
    if (reader->broken || reader->offset >= reader->frame->length)
        return 0;
    return (char)reader->frame->body[reader->offset];
}

/* The payload of the next value if its tag is `tag`, and moves on; NULL and broken otherwise. */
static const uint8_t *take(struct frame_reader *reader, char tag, size_t *ret_bytes)
{
    const uint8_t *value = reader->frame->body + reader->offset;
    size_t bytes;

    if (frame_peek(reader) != tag || !(bytes = value_bytes(reader->frame, reader->offset))) {
        reader->broken = true;
        return NULL;
    }
    reader->offset += bytes;
    *ret_bytes = bytes;
    return value + 1;
}

int64_t frame_get_int(struct frame_reader *reader)
{
    size_t bytes;
    const uint8_t *value = take(reader, 'i', &bytes);
    int64_t result = 0;

    if (value)
        memcpy(&result, value, sizeof(result));
    return result;
}

double frame_get_double(struct frame_reader *reader)
{
    size_t bytes;
    const uint8_t *value = take(reader, 'd', &bytes);
    double result = 0;

    if (value)
        memcpy(&result, value, sizeof(result));
    return result;
}

const void *frame_get_bytes(struct frame_reader *reader, size_t *ret_length)
{
    size_t bytes;
    const uint8_t *value = take(reader, 's', &bytes);

    *ret_length = value ? bytes - 3 : 0;
    return value ? value + 2 : reader->frame->body;
}

void frame_get_text(struct frame_reader *reader, char *to, size_t size)
{
    size_t length;
    const void *bytes = frame_get_bytes(reader, &length);

    if (length >= size || memchr(bytes, 0, length)) {
        reader->broken = true;
        length = 0;
    }
    memcpy(to, bytes, length);
    to[length] = '\0';
}

bool frame_done(const struct frame_reader *reader)
{
    return !reader->broken && reader->offset == reader->frame->length;
}

const char *frame_check(const struct frame *frame, size_t bytes)
{
    size_t offset = 0;

    if (bytes != FRAME_BYTES)
        return "wrong size";
    if (frame->magic != FRAME_MAGIC)
        return "wrong magic number";
    if (frame->reserved != 0)
        return "reserved field in use";
    if (frame->length > FRAME_BODY_MAX)
        return "length beyond the frame";
    while (offset < frame->length) {
        size_t value = value_bytes(frame, offset);

        if (!value)
            return "value with an unknown tag or beyond the body";
        offset += value;
    }
    return NULL;
}

/* Waits until `socket` is ready for `events`; FRAME_OK, FRAME_TIMEOUT or FRAME_ERROR. */
static enum frame_status wait_ready(int socket, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd poll_fd = {.fd = socket, .events = events};
        uint64_t now = clock_now_ns();
        uint64_t left_ms = deadline_ns > now ? (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS : 0;
        int ready = poll(&poll_fd, 1, left_ms > 3600000 ? 3600000 : (int)left_ms);

        if (ready > 0)
            return FRAME_OK;
        if (ready == 0 && clock_now_ns() >= deadline_ns)
            return FRAME_TIMEOUT;
        if (ready < 0 && errno != EINTR)
            return FRAME_ERROR;
    }
}

static uint64_t deadline_after(uint64_t timeout_ns)
{
    uint64_t now = clock_now_ns();

    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

enum frame_status frame_send(int socket, struct frame *frame, const int *fds, size_t fd_count,
                             uint64_t timeout_ns, struct error *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * FRAME_FDS_MAX)];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = frame, .iov_len = FRAME_BYTES};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    uint64_t deadline = deadline_after(timeout_ns);

    if (frame->length > FRAME_BODY_MAX || fd_count > FRAME_FDS_MAX) {
        error_set(err, ERROR_INTERNAL, "message %u is too large for a frame", frame->type);
        return FRAME_ERROR;
    }
    if (fd_count) {
        struct cmsghdr *header;

        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
    }
    for (;;) {
        ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        enum frame_status ready;

        if (sent == FRAME_BYTES)
            return FRAME_OK;
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
            return FRAME_CLOSED;
        if (sent >= 0 || (errno != EAGAIN && errno != EINTR)) {
            error_errno(err, ERROR_INTERNAL, "sending message %u", frame->type);
            return FRAME_ERROR;
        }
        ready = wait_ready(socket, POLLOUT, deadline);
        if (ready != FRAME_OK)
            return ready;
    }
}

/* Moves descriptors out of `message` into `fds`, closing what there is no room for. False when
 * there was more than FRAME_FDS_MAX or control data of another kind. */
static bool take_descriptors(struct msghdr *message, int *fds, size_t *ret_count)
{
    bool clean = !(message->msg_flags & MSG_CTRUNC);
    size_t count = 0;

    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        size_t here;

        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            clean = false;
            continue;
        }
        here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (count < FRAME_FDS_MAX) {
                fds[count++] = fd;
            } else {
                close(fd);
                clean = false;
            }
        }
    }
    *ret_count = count;
    return clean;
}

enum frame_status frame_receive(int socket, struct frame *ret_frame, int *fds, size_t *ret_fd_count,
                                uint64_t timeout_ns, struct error *err)
{
    uint64_t deadline = deadline_after(timeout_ns);

    *ret_fd_count = 0;
    for (;;) {
        union {
            char bytes[CMSG_SPACE(sizeof(int) * (FRAME_FDS_MAX + 4))];
            struct cmsghdr align;
        } control = {0};
        struct iovec iov = {.iov_base = ret_frame, .iov_len = FRAME_BYTES};
        struct msghdr message = {.msg_iov = &iov,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        enum frame_status ready = wait_ready(socket, POLLIN, deadline);
        const char *wrong = NULL;
        size_t count;
        ssize_t got;
        bool clean;

        if (ready == FRAME_ERROR)
            error_errno(err, ERROR_INTERNAL, "waiting for a message");
        if (ready != FRAME_OK)
            return ready;
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got < 0 && errno == ECONNRESET)
            return FRAME_CLOSED;
        if (got < 0) {
            error_errno(err, ERROR_INTERNAL, "receiving a message");
            return FRAME_ERROR;
        }
        clean = take_descriptors(&message, fds, &count);
        /* The end of the stream; an empty datagram looks the same, but may carry descriptors. */
        if (got == 0 && count == 0)
            return FRAME_CLOSED;
        if (message.msg_flags & MSG_TRUNC)
            wrong = "larger than a frame";
        else if (!clean)
            wrong = "too many descriptors, or control data of another kind";
        else
            wrong = frame_check(ret_frame, (size_t)got);
        if (wrong) {
            for (size_t i = 0; i < count; i++)
                close(fds[i]);
            error_set(err, ERROR_INTERNAL, "malformed message: %s", wrong);
            return FRAME_MALFORMED;
        }
        *ret_fd_count = count;
        return FRAME_OK;
    }
}
