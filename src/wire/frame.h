/*
 * Frames: how the judge talks to workers and warm parents.
 *
 * One frame is one SOCK_SEQPACKET datagram of exactly FRAME_BYTES, with up to FRAME_FDS_MAX
 * descriptors beside it. The body is a sequence of typed values: a tag byte, then
 *   'i' 8 bytes, signed;  'd' 8 bytes, IEEE double;  's' u16 length and that many bytes.
 * Integers are in host order: both ends are the same machine. Whoever receives treats everything
 * in a frame as hostile: lengths are checked against the body before they are used, descriptors
 * that nobody asked for are closed, a frame that breaks a rule is FRAME_MALFORMED with a reason.
 *
 * Anything longer than a frame (sources, pickled arguments) travels in a sealed memfd whose
 * descriptor goes beside the frame.
 */
#ifndef KBV_WIRE_FRAME_H
#define KBV_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define FRAME_BYTES    4096
#define FRAME_MAGIC    0x4b425631u /* "KBV1" */
#define FRAME_FDS_MAX  4
#define FRAME_BODY_MAX (FRAME_BYTES - 16)
#define FRAME_TEXT_MAX 3000 /* longest text that senders put into one value */

struct frame {
    uint32_t magic;
    uint16_t type;
    uint16_t length; /* bytes of body in use */
    uint32_t sequence;
    uint32_t reserved; /* 0 */
    uint8_t body[FRAME_BODY_MAX];
};
_Static_assert(sizeof(struct frame) == FRAME_BYTES, "a frame has one size");

enum frame_status {
    FRAME_OK,
    FRAME_CLOSED,    /* the other side is gone */
    FRAME_TIMEOUT,   /* nothing came in time */
    FRAME_MALFORMED, /* what came is no frame; the text says why */
    FRAME_ERROR,     /* a system call failed */
};

/* Starts an empty frame. */
void frame_init(struct frame *frame, uint16_t type);

/* Append one value. A value that does not fit sets `length` past the end, which frame_send()
 * refuses: a chain of puts needs one check. */
void frame_put_int(struct frame *frame, int64_t value);
void frame_put_double(struct frame *frame, double value);
void frame_put_bytes(struct frame *frame, const void *bytes, size_t length);
void frame_put_text(struct frame *frame, const char *text);

/* Reads values in order; `broken` sticks at the first that is not there or has another type. */
struct frame_reader {
    const struct frame *frame;
    size_t offset;
    bool broken;
};

/* Begins to read a frame that frame_receive() or frame_check() accepted. */
struct frame_reader frame_read(const struct frame *frame);
int64_t frame_get_int(struct frame_reader *reader);   /* 0 when broken */
double frame_get_double(struct frame_reader *reader); /* 0.0 when broken */
/* Points into the frame; length 0 and a valid pointer when broken. */
const void *frame_get_bytes(struct frame_reader *reader, size_t *ret_length);
/* Copies into a NUL-terminated buffer; a text longer than size - 1 or with a NUL inside breaks. */
void frame_get_text(struct frame_reader *reader, char *to, size_t size);
/* The tag of the next value: 'i', 'd', 's', or 0 at the end or when broken. */
char frame_peek(const struct frame_reader *reader);
/* True when every value was read and none was broken. */
bool frame_done(const struct frame_reader *reader);

/* Checks a datagram of `bytes` bytes: size, magic, length, every tag. NULL, or what is wrong. */
const char *frame_check(const struct frame *frame, size_t bytes);

/* Sends one frame. The descriptors stay the caller's. Fails rather than wait longer than
 * `timeout_ns` for room in the socket. */
enum frame_status frame_send(int socket, struct frame *frame, const int *fds, size_t fd_count,
                             uint64_t timeout_ns, struct error *err);

/* Waits up to `timeout_ns` for one frame. `fds` has room for FRAME_FDS_MAX descriptors; those that
 * came are the caller's now, *ret_fd_count of them (0 on any status but FRAME_OK). */
enum frame_status frame_receive(int socket, struct frame *ret_frame, int *fds, size_t *ret_fd_count,
                                uint64_t timeout_ns, struct error *err);

#endif
