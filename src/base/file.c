#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DEPTH_MAX 256

int file_read(const char *path, size_t max_bytes, char **ret_bytes, size_t *ret_length,
              struct error *err)
{
    /* O_NONBLOCK: a FIFO must not hang the open. */
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CLEANUP_FREE char *bytes = NULL;
    struct stat status;
    size_t length, done = 0;

    if (fd < 0 || fstat(fd, &status) < 0)
        return error_errno(err, ERROR_USAGE, "%s", path);
    if (S_ISDIR(status.st_mode))
        return error_set(err, ERROR_USAGE, "%s: is a directory; name a file", path);
    if (!S_ISREG(status.st_mode))
        return error_set(err, ERROR_USAGE, "%s: is no regular file", path);
    if ((unsigned long long)status.st_size > max_bytes)
        return error_set(err, ERROR_USAGE, "%s: has %lld bytes; at most %zu are read", path,
                         (long long)status.st_size, max_bytes);
    length = (size_t)status.st_size;
    bytes = malloc(length + 1);
    if (!bytes)
        return error_set(err, ERROR_INTERNAL, "%s: out of memory", path);
    while (done < length) {
        ssize_t got = read(fd, bytes + done, length - done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, ERROR_USAGE, "%s", path);
        if (got == 0)
            break;
        done += (size_t)got;
    }
    bytes[done] = '\0';
    *ret_bytes = pointer_steal(&bytes);
    *ret_length = done;
    return 0;
}

int file_copy(const char *from, const char *to, unsigned mode, struct error *err)
{
    CLEANUP_FD int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP_FD int out = -1;
    char chunk[64 << 10];
    struct stat status;

    if (in < 0 || fstat(in, &status) < 0)
        return error_errno(err, ERROR_INTERNAL, "%s", from);
    if (!S_ISREG(status.st_mode))
        return error_set(err, ERROR_INTERNAL, "%s: is no regular file", from);
    out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600 | mode);
    if (out < 0)
        return error_errno(err, ERROR_INTERNAL, "%s", to);
    for (;;) {
        ssize_t got = read(in, chunk, sizeof(chunk));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, ERROR_INTERNAL, "%s", from);
        if (got == 0)
            break;
        for (ssize_t done = 0; done < got;) {
            ssize_t wrote = write(out, chunk + done, (size_t)(got - done));

            if (wrote < 0 && errno == EINTR)
                continue;
            if (wrote < 0)
                return error_errno(err, errno == ENOSPC ? ERROR_USAGE : ERROR_INTERNAL, "%s", to);
            done += wrote;
        }
    }
    if (close(fd_steal(&out)) < 0)
        return error_errno(err, errno == ENOSPC ? ERROR_USAGE : ERROR_INTERNAL, "%s", to);
    return 0;
}

int directory_make(const char *path, struct error *err)
{
    char part[PATH_MAX];
    size_t length = strlen(path);

    if (length >= sizeof(part))
        return error_set(err, ERROR_USAGE, "%s: path too long", path);
    memcpy(part, path, length + 1);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return error_errno(err, ERROR_USAGE, "creating %s", part);
        *slash = '/';
    }
    if (mkdir(part, 0700) < 0 && errno != EEXIST)
        return error_errno(err, ERROR_USAGE, "creating %s", part);
    return 0;
}

static void remove_below(int parent, const char *name, int depth)
{
    DIR *directory;
    struct dirent *entry;
    int fd;

    if (unlinkat(parent, name, 0) == 0 || depth > DEPTH_MAX)
        return;
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (!directory) {
        if (fd >= 0)
            close(fd);
        return;
    }
    fchmod(fd, 0700);
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            remove_below(fd, entry->d_name, depth + 1);
    }
    closedir(directory);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void directory_remove(const char *path)
{
    remove_below(AT_FDCWD, path, 0);
}
