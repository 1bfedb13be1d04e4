/*
 * The end of what a process printed.
 *
 * A thread drains the pipe for as long as anybody holds its other end, so that a process that
 * prints without end neither blocks nor fills memory: only the last TAIL_BYTES are kept, and a
 * count of all.
 */
#ifndef KBV_BASE_TAIL_H
#define KBV_BASE_TAIL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define TAIL_BYTES 4096

struct tail;

/* Starts a drain; *ret_write_fd is the end for the process, the caller closes its copy. */
int tail_start(struct tail **ret_tail, int *ret_write_fd, struct error *err);

/* Copies the last bytes so far, oldest first; returns how many (at most TAIL_BYTES). */
size_t tail_read(struct tail *tail, char to[TAIL_BYTES], uint64_t *ret_total_bytes);

/* Takes what is in the pipe now and drains no more, whoever still holds the other end: after it,
 * tail_read() has everything that an ended process said. NULL is allowed. */
void tail_stop(struct tail *tail);

/* Stops and frees. NULL is allowed. */
void tail_free(struct tail *tail);

#endif
