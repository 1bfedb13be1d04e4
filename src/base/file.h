/* Files and directories. */
#ifndef KBV_BASE_FILE_H
#define KBV_BASE_FILE_H

#include <stddef.h>

#include "base/error.h"

/* Reads a regular file of at most `max_bytes` into memory that the caller frees; a NUL stands
 * behind the last byte. The error names path and reason (ERROR_USAGE). */
int file_read(const char *path, size_t max_bytes, char **ret_bytes, size_t *ret_length,
              struct error *err);

/* Copies `from` to `to` (created, or truncated), mode 0600 | `mode`. */
int file_copy(const char *from, const char *to, unsigned mode, struct error *err);

/* Creates `path` and what is missing above it, mode 0700. */
int directory_make(const char *path, struct error *err);

/* Removes a directory and all below it, never following a link. The tree may be hostile: names
 * without end, directories without permissions, deep nesting. Best effort; nothing is reported. */
void directory_remove(const char *path);

#endif
