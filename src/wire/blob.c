#include "wire/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BLOB_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

int blob_new(const void *bytes, size_t length, int *ret_fd, struct error *err)
{
    CLEANUP_FD int fd = memfd_create("kbv-blob", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;

    if (fd < 0)
        return error_errno(err, ERROR_INTERNAL, "creating a blob");
    while (done < length) {
        ssize_t wrote = write(fd, (const char *)bytes + done, length - done);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return error_errno(err, ERROR_INTERNAL, "writing a blob");
        done += (size_t)wrote;
    }
    if (fcntl(fd, F_ADD_SEALS, BLOB_SEALS) < 0)
        return error_errno(err, ERROR_INTERNAL, "sealing a blob");
    *ret_fd = fd_steal(&fd);
    return 0;
}

int blob_read(int fd, size_t max_length, char **ret_bytes, size_t *ret_length, struct error *err)
{
    CLEANUP_FREE char *bytes = NULL;
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat status;
    size_t length;

    if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) != (F_SEAL_WRITE | F_SEAL_SHRINK))
        return error_set(err, ERROR_INTERNAL,
                         "a message came with a descriptor that is not sealed");
    if (fstat(fd, &status) < 0)
        return error_errno(err, ERROR_INTERNAL, "reading a blob");
    if (status.st_size < 0 || (uint64_t)status.st_size > max_length)
        return error_set(err, ERROR_INTERNAL, "a message came with %lld bytes, more than %zu",
                         (long long)status.st_size, max_length);
    length = (size_t)status.st_size;
    bytes = malloc(length + 1);
    if (!bytes)
        return error_set(err, ERROR_INTERNAL, "out of memory");
    for (size_t done = 0; done < length;) {
        ssize_t got = pread(fd, bytes + done, length - done, (off_t)done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(err, ERROR_INTERNAL, "a blob ended early");
        done += (size_t)got;
    }
    bytes[length] = '\0';
    *ret_bytes = pointer_steal(&bytes);
    *ret_length = length;
    return 0;
}
