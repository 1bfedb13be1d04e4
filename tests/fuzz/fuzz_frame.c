/*
 * libFuzzer target: whatever a candidate sends to the judge.
 *
 * The first byte of an input says how the rest is sent: FUZZ_RAW as it is, anything else as the
 * body of a frame whose header is in order, without which the fuzzer would spend its time on
 * guessing the magic number. Beside what sanitizers see, these must hold:
 *   - frame_receive() accepts what frame_check() accepts, and nothing else;
 *   - an accepted frame reads to its end, value by value, without a broken reader;
 *   - writing the same values again makes the same body;
 *   - a reader that is broken stays broken, and gives out nothing but zeros and empty ranges that
 *     lie inside the frame.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/frame.h"

enum { FUZZ_RAW = 1 };

#define INSIST(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Fills `frame` from an input and returns the size of the datagram. */
static size_t make_datagram(struct frame *frame, const uint8_t *data, size_t size)
{
    frame_init(frame, 1);
    if (data[0] == FUZZ_RAW) {
        size_t bytes = size - 1 < sizeof(*frame) ? size - 1 : sizeof(*frame);

        memcpy(frame, data + 1, bytes);
        return bytes;
    }
    frame->length = (uint16_t)(size - 1 < FRAME_BODY_MAX ? size - 1 : FRAME_BODY_MAX);
    memcpy(frame->body, data + 1, frame->length);
    return sizeof(*frame);
}

static bool is_inside(const struct frame *frame, const void *bytes, size_t length)
{
    const uint8_t *from = bytes;

    return from >= frame->body && from + length <= frame->body + FRAME_BODY_MAX;
}

/* Reads one value and writes it to `copy`. */
static void copy_value(struct frame_reader *reader, char tag, struct frame *copy)
{
    const void *bytes;
    size_t length;

    switch (tag) {
    case 'i':
        frame_put_int(copy, frame_get_int(reader));
        break;
    case 'd':
        frame_put_double(copy, frame_get_double(reader));
        break;
    case 's':
        bytes = frame_get_bytes(reader, &length);
        INSIST(is_inside(reader->frame, bytes, length));
        frame_put_bytes(copy, bytes, length);
        break;
    default:
        abort(); /* frame_check() lets no other tag through */
    }
}

static void read_whole(const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    struct frame copy;
    char tag;

    frame_init(&copy, frame->type);
    while ((tag = frame_peek(&reader)) != 0)
        copy_value(&reader, tag, &copy);
    INSIST(frame_done(&reader));
    INSIST(copy.length == frame->length);
    INSIST(memcmp(copy.body, frame->body, copy.length) == 0);
}

/* Asks for one type after the other, whatever is there. */
static void read_wrongly(const struct frame *frame)
{
    struct frame_reader reader = frame_read(frame);
    char text[16];
    size_t length;

    for (int turn = 0; turn < 32; turn++) {
        bool was_broken = reader.broken;
        int64_t integer = frame_get_int(&reader);
        double number = frame_get_double(&reader);
        const void *bytes = frame_get_bytes(&reader, &length);

        INSIST(is_inside(frame, bytes, length));
        frame_get_text(&reader, text, sizeof(text));
        INSIST(strlen(text) < sizeof(text));
        INSIST(!was_broken || reader.broken);
        if (was_broken)
            INSIST(integer == 0 && number == 0.0 && length == 0 && text[0] == '\0');
    }
    if (reader.broken)
        INSIST(!frame_done(&reader) && frame_peek(&reader) == 0);
}

static void receive(const struct frame *frame, size_t bytes, bool acceptable)
{
    struct frame received;
    struct error err = ERROR_INIT;
    int ends[2], fds[FRAME_FDS_MAX];
    size_t fd_count;
    enum frame_status status;

    INSIST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    INSIST(send(ends[0], frame, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
    status = frame_receive(ends[1], &received, fds, &fd_count, NS_PER_S, &err);
    INSIST(fd_count == 0);
    INSIST((status == FRAME_OK) == acceptable);
    /* An empty datagram cannot be told from the end of the conversation. */
    INSIST(acceptable || status == (bytes ? FRAME_MALFORMED : FRAME_CLOSED));
    if (status == FRAME_OK)
        INSIST(memcmp(&received, frame, sizeof(received)) == 0);
    close(ends[0]);
    close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame frame;
    size_t bytes;
    bool acceptable;

    if (size == 0)
        return 0;
    bytes = make_datagram(&frame, data, size);
    acceptable = frame_check(&frame, bytes) == NULL;
    receive(&frame, bytes, acceptable);
    if (acceptable) {
        read_whole(&frame);
        read_wrongly(&frame);
    }
    return 0;
}
