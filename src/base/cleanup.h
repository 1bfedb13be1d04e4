/*
 * Scope-bound resources: `CLEANUP_FD int fd = open(...)` closes at the end of
 * the scope; `fd_steal(&fd)` hands the descriptor to somebody else.
 */
#ifndef KBV_BASE_CLEANUP_H
#define KBV_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline int fd_steal(int *fd)
{
    int stolen = *fd;

    *fd = -1;
    return stolen;
}

static inline void cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline void *pointer_steal(void *pointer)
{
    void **slot = pointer;
    void *stolen = *slot;

    *slot = NULL;
    return stolen;
}

static inline void cleanup_file(FILE **file)
{
    if (*file)
        fclose(*file);
}

#define CLEANUP_FD        __attribute__((cleanup(cleanup_fd)))
#define CLEANUP_FREE      __attribute__((cleanup(cleanup_free)))
#define CLEANUP_FILE      __attribute__((cleanup(cleanup_file)))
#define MUST_CHECK        __attribute__((warn_unused_result))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
