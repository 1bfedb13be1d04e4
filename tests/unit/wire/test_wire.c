/* Frames, blobs and the shared page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the four above first. */
#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/blob.h"
#include "wire/frame.h"
#include "wire/message.h"
#include "wire/page.h"

static void pair(int sockets[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
}

static void test_values_arrive_as_sent(void **state)
{
    struct error err = ERROR_INIT;
    int sockets[2], fds[FRAME_FDS_MAX], null;
    struct frame_reader reader;
    struct frame sent, got;
    size_t fd_count, length;
    char text[16];

    (void)state;
    pair(sockets);
    null = open("/dev/null", O_RDONLY);
    frame_init(&sent, MESSAGE_CALL);
    frame_put_int(&sent, INT64_MIN);
    frame_put_double(&sent, -0.0);
    frame_put_text(&sent, "grüße");
    frame_put_bytes(&sent, "", 0);
    assert_int_equal(frame_send(sockets[0], &sent, &null, 1, 0, &err), FRAME_OK);
    assert_int_equal(frame_receive(sockets[1], &got, fds, &fd_count, NS_PER_S, &err), FRAME_OK);
    assert_int_equal(got.type, MESSAGE_CALL);
    assert_int_equal(fd_count, 1);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    reader = frame_read(&got);
    assert_int_equal(frame_peek(&reader), 'i');
    assert_true(frame_get_int(&reader) == INT64_MIN);
    assert_true(signbit(frame_get_double(&reader)));
    frame_get_text(&reader, text, sizeof(text));
    assert_string_equal(text, "grüße");
    assert_false(frame_done(&reader));
    frame_get_bytes(&reader, &length);
    assert_int_equal(length, 0);
    assert_true(frame_done(&reader));
    assert_int_equal(frame_peek(&reader), 0);
    close(fds[0]);
    close(null);
    close(sockets[0]);
    assert_int_equal(frame_receive(sockets[1], &got, fds, &fd_count, NS_PER_S, &err), FRAME_CLOSED);
    close(sockets[1]);
}

static void test_wrong_reads_break_and_stick(void **state)
{
    struct frame_reader reader;
    struct frame frame;
    char small[4];

    (void)state;
    frame_init(&frame, MESSAGE_OK);
    frame_put_text(&frame, "four");
    frame_put_int(&frame, 7);
    reader = frame_read(&frame);
    assert_int_equal(frame_get_int(&reader), 0);
    assert_true(reader.broken);
    assert_int_equal(frame_get_int(&reader), 0);
    assert_false(frame_done(&reader));

    reader = frame_read(&frame);
    frame_get_text(&reader, small, sizeof(small)); /* no room for the NUL */
    assert_true(reader.broken);
    assert_string_equal(small, "");

    frame_init(&frame, MESSAGE_OK);
    frame_put_bytes(&frame, "a\0b", 3);
    reader = frame_read(&frame);
    frame_get_text(&reader, small, sizeof(small)); /* a NUL inside */
    assert_true(reader.broken);
}

static void test_frame_that_is_too_long_is_not_sent(void **state)
{
    struct error err = ERROR_INIT;
    char bytes[FRAME_BODY_MAX] = {0};
    struct frame frame;
    int sockets[2];

    (void)state;
    pair(sockets);
    frame_init(&frame, MESSAGE_OK);
    frame_put_bytes(&frame, bytes, FRAME_BODY_MAX - 3);
    assert_int_equal(frame_send(sockets[0], &frame, NULL, 0, 0, &err), FRAME_OK);
    frame_put_int(&frame, 1);
    frame_put_int(&frame, 1); /* stays too long, wraps around nowhere */
    assert_int_equal(frame_send(sockets[0], &frame, NULL, 0, 0, &err), FRAME_ERROR);
    frame_init(&frame, MESSAGE_OK);
    frame_put_bytes(&frame, bytes, (size_t)1 << 20);
    assert_int_equal(frame_send(sockets[0], &frame, NULL, 0, 0, &err), FRAME_ERROR);
    close(sockets[0]);
    close(sockets[1]);
}

static void test_malformed_frames_are_refused(void **state)
{
    struct error err = ERROR_INIT;
    struct frame frame, got;
    int sockets[2], fds[FRAME_FDS_MAX];
    size_t fd_count;

    (void)state;
    frame_init(&frame, MESSAGE_OK);
    frame_put_int(&frame, 1);
    assert_null(frame_check(&frame, FRAME_BYTES));
    assert_non_null(frame_check(&frame, FRAME_BYTES - 1));
    frame.magic ^= 1;
    assert_non_null(frame_check(&frame, FRAME_BYTES));
    frame.magic ^= 1;
    frame.reserved = 1;
    assert_non_null(frame_check(&frame, FRAME_BYTES));
    frame.reserved = 0;
    frame.length = FRAME_BODY_MAX + 1;
    assert_non_null(frame_check(&frame, FRAME_BYTES));
    frame.length = 8; /* cuts the integer */
    assert_non_null(frame_check(&frame, FRAME_BYTES));
    frame.length = 9;
    frame.body[0] = 'x';
    assert_non_null(frame_check(&frame, FRAME_BYTES));
    frame_init(&frame, MESSAGE_OK);
    frame_put_text(&frame, "abc");
    frame.body[1] = 0xff; /* says 255 bytes where 3 are */
    assert_non_null(frame_check(&frame, FRAME_BYTES));

    pair(sockets);
    assert_int_equal(send(sockets[0], "junk", 4, 0), 4);
    assert_int_equal(frame_receive(sockets[1], &got, fds, &fd_count, NS_PER_S, &err), FRAME_MALFORMED);
    {
        char large[FRAME_BYTES + 1] = {0};

        assert_int_equal(send(sockets[0], large, sizeof(large), 0), sizeof(large));
    }
    assert_int_equal(frame_receive(sockets[1], &got, fds, &fd_count, NS_PER_S, &err), FRAME_MALFORMED);
    assert_int_equal(frame_receive(sockets[1], &got, fds, &fd_count, NS_PER_MS, &err), FRAME_TIMEOUT);
    close(sockets[0]);
    close(sockets[1]);
}

static int open_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void test_unwanted_descriptors_are_closed(void **state)
{
    struct error err = ERROR_INIT;
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 16)];
        struct cmsghdr align;
    } control = {0};
    struct frame frame, got;
    struct iovec iov = {.iov_base = &frame, .iov_len = sizeof(frame)};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int sockets[2], fds[FRAME_FDS_MAX], before;
    size_t fd_count;

    (void)state;
    pair(sockets);
    before = open_descriptors();
    frame_init(&frame, MESSAGE_OK);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * 16);
    for (int i = 0; i < 16; i++)
        memcpy(CMSG_DATA(header) + i * (int)sizeof(int), &sockets[0], sizeof(int));
    assert_int_equal(sendmsg(sockets[0], &message, 0), FRAME_BYTES);
    assert_int_equal(frame_receive(sockets[1], &got, fds, &fd_count, NS_PER_S, &err), FRAME_MALFORMED);
    assert_int_equal(fd_count, 0);
    assert_int_equal(open_descriptors(), before);

    /* An empty datagram looks like the end of the stream. */
    header->cmsg_len = CMSG_LEN(sizeof(int));
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    message.msg_iovlen = 0;
    assert_int_equal(sendmsg(sockets[0], &message, 0), 0);
    assert_int_equal(frame_receive(sockets[1], &got, fds, &fd_count, NS_PER_S, &err), FRAME_MALFORMED);
    assert_int_equal(open_descriptors(), before);
    close(sockets[0]);
    close(sockets[1]);
}

static void test_sender_gives_up_on_a_full_socket(void **state)
{
    struct error err = ERROR_INIT;
    struct frame frame;
    int sockets[2];
    enum frame_status status;
    uint64_t start = clock_now_ns();

    (void)state;
    pair(sockets);
    frame_init(&frame, MESSAGE_OK);
    do {
        status = frame_send(sockets[0], &frame, NULL, 0, 20 * NS_PER_MS, &err);
    } while (status == FRAME_OK && clock_seconds_since(start) < 20);
    assert_int_equal(status, FRAME_TIMEOUT);
    close(sockets[0]);
    close(sockets[1]);
}

static void test_blobs_are_sealed_and_bounded(void **state)
{
    struct error err = ERROR_INIT;
    size_t length;
    char *bytes;
    int fd, loose;

    (void)state;
    assert_int_equal(blob_new("some\0bytes", 10, &fd, &err), 0);
    assert_true(write(fd, "x", 1) < 0);
    assert_true(ftruncate(fd, 0) < 0);
    assert_int_equal(blob_read(fd, 10, &bytes, &length, &err), 0);
    assert_int_equal(length, 10);
    assert_memory_equal(bytes, "some\0bytes", 11);
    free(bytes);
    assert_int_equal(blob_read(fd, 9, &bytes, &length, &err), -1);
    close(fd);

    loose = memfd_create("loose", MFD_ALLOW_SEALING);
    assert_int_equal(blob_read(loose, 10, &bytes, &length, &err), -1);
    close(loose);
    fd = open("/dev/null", O_RDONLY);
    assert_int_equal(blob_read(fd, 10, &bytes, &length, &err), -1);
    close(fd);
}

static void *answer(void *argument)
{
    struct page *page = argument;

    usleep(20000);
    page_post(&page->state, page_word(1, PAGE_READY));
    return NULL;
}

static void test_page_waits_wake_and_end(void **state)
{
    struct error err = ERROR_INIT;
    struct page *page, *other;
    pthread_t thread;
    uint64_t start;
    int fd;

    (void)state;
    assert_int_equal(page_create(&fd, &page, &err), 0);
    assert_true(ftruncate(fd, 0) < 0); /* nobody can pull it from under the judge */
    assert_int_equal(page_map(fd, &other, &err), 0);
    start = clock_now_ns();
    assert_int_equal(page_wait(&page->state, 0, 0, 30 * NS_PER_MS), 0);
    assert_true(clock_now_ns() - start >= 30 * NS_PER_MS);
    pthread_create(&thread, NULL, answer, other);
    assert_int_equal(page_wait(&page->state, 0, 0, 10 * NS_PER_S), page_word(1, PAGE_READY));
    pthread_join(thread, NULL);
    assert_true(clock_seconds_since(start) < 5);
    page_unmap(other);
    page_unmap(page);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_arrive_as_sent),
        cmocka_unit_test(test_wrong_reads_break_and_stick),
        cmocka_unit_test(test_frame_that_is_too_long_is_not_sent),
        cmocka_unit_test(test_malformed_frames_are_refused),
        cmocka_unit_test(test_unwanted_descriptors_are_closed),
        cmocka_unit_test(test_sender_gives_up_on_a_full_socket),
        cmocka_unit_test(test_blobs_are_sealed_and_bounded),
        cmocka_unit_test(test_page_waits_wake_and_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
