#include "base/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LAST_BYTES_MAX ((size_t)1 << 20)

struct tail {
    pthread_t thread;
    bool joined;
    pthread_mutex_t lock;
    int read_fd;
    int stop_fd;
    uint64_t total_bytes;
    char ring[TAIL_BYTES]; /* byte i of the stream stands at i % TAIL_BYTES */
};

static void keep(struct tail *tail, const char *bytes, size_t length)
{
    pthread_mutex_lock(&tail->lock);
    for (size_t i = 0; i < length; i++)
        tail->ring[(tail->total_bytes + i) % TAIL_BYTES] = bytes[i];
    tail->total_bytes += length;
    pthread_mutex_unlock(&tail->lock);
}

static void *drain(void *argument)
{
    struct tail *tail = argument;
    char chunk[64 << 10];
    size_t last = LAST_BYTES_MAX;
    bool stopping = false;

    while (!stopping || last > 0) {
        struct pollfd fds[2] = {{.fd = tail->read_fd, .events = POLLIN},
                                {.fd = tail->stop_fd, .events = POLLIN}};
        ssize_t got;

        if (poll(fds, 2, stopping ? 0 : -1) < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        /* What is in the pipe when the drain ends is read still, but of a flood only so much. */
        stopping = stopping || fds[1].revents;
        got = fds[0].revents ? read(tail->read_fd, chunk, sizeof(chunk)) : -1;
        if (got > 0) {
            keep(tail, chunk, (size_t)got);
            if (stopping)
                last = last > (size_t)got ? last - (size_t)got : 0;
        } else if (got == 0 || stopping || (fds[0].revents && errno != EINTR && errno != EAGAIN)) {
            break;
        }
    }
    return NULL;
}

int tail_start(struct tail **ret_tail, int *ret_write_fd, struct error *err)
{
    struct tail *tail = calloc(1, sizeof(*tail));
    int fds[2];

    if (!tail)
        return error_set(err, ERROR_INTERNAL, "out of memory");
    tail->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (tail->stop_fd < 0 || pipe2(fds, O_CLOEXEC) < 0) {
        error_errno(err, ERROR_INTERNAL, "creating a pipe");
        goto fail;
    }
    tail->read_fd = fds[0];
    fcntl(tail->read_fd, F_SETFL, O_NONBLOCK);
    pthread_mutex_init(&tail->lock, NULL);
    errno = pthread_create(&tail->thread, NULL, drain, tail);
    if (errno) {
        error_errno(err, ERROR_INTERNAL, "starting a thread");
        close(fds[0]);
        close(fds[1]);
        goto fail;
    }
    *ret_tail = tail;
    *ret_write_fd = fds[1];
    return 0;
fail:
    if (tail->stop_fd >= 0)
        close(tail->stop_fd);
    free(tail);
    return -1;
}

size_t tail_read(struct tail *tail, char to[TAIL_BYTES], uint64_t *ret_total_bytes)
{
    size_t length;

    pthread_mutex_lock(&tail->lock);
    length = tail->total_bytes < TAIL_BYTES ? (size_t)tail->total_bytes : TAIL_BYTES;
    for (size_t i = 0; i < length; i++)
        to[i] = tail->ring[(tail->total_bytes - length + i) % TAIL_BYTES];
    *ret_total_bytes = tail->total_bytes;
    pthread_mutex_unlock(&tail->lock);
    return length;
}

void tail_stop(struct tail *tail)
{
    uint64_t one = 1;

    if (!tail || tail->joined)
        return;
    if (write(tail->stop_fd, &one, sizeof(one)) < 0)
        abort(); /* an eventfd takes 2^64 - 2 such writes */
    pthread_join(tail->thread, NULL);
    tail->joined = true;
}

void tail_free(struct tail *tail)
{
    if (!tail)
        return;
    tail_stop(tail);
    pthread_mutex_destroy(&tail->lock);
    close(tail->read_fd);
    close(tail->stop_fd);
    free(tail);
}
