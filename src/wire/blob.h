/* Blobs: what is too long for a frame, in a sealed memfd. */
#ifndef KBV_WIRE_BLOB_H
#define KBV_WIRE_BLOB_H

#include <stddef.h>

#include "base/error.h"

/* A descriptor of a read-only, sealed copy of `bytes`; the caller closes it. */
int blob_new(const void *bytes, size_t length, int *ret_fd, struct error *err);

/* Reads all of a blob that somebody else made, at most `max_length` bytes, into memory that the
 * caller frees; a NUL stands behind the last byte. Refuses what is no memfd or is not sealed
 * against change: an untrusted sender could alter it between check and use. */
int blob_read(int fd, size_t max_length, char **ret_bytes, size_t *ret_length, struct error *err);

#endif
