#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

static int compare_fds(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;

    return (a > b) - (a < b);
}

static bool is_kept(int fd, const int *keep, size_t keep_count)
{
    for (size_t i = 0; i < keep_count; i++) {
        if (keep[i] == fd)
            return true;
    }
    return false;
}

/* For kernels before 5.9, and container profiles that are older than the call. */
static int close_listed(int first, const int *keep, size_t keep_count)
{
    DIR *list = opendir("/proc/self/fd");
    struct dirent *entry;

    if (!list)
        return -1;
    while ((entry = readdir(list))) {
        int fd = atoi(entry->d_name); /* "." and ".." give 0, which stays unless first is 0 */

        if (entry->d_name[0] == '.' || fd < first || fd == dirfd(list))
            continue;
        if (!is_kept(fd, keep, keep_count))
            close(fd);
    }
    closedir(list);
    return 0;
}

int descriptors_close(int first, const int *keep, size_t keep_count)
{
    int sorted[DESCRIPTORS_KEPT_MAX + DESCRIPTORS_OWN_MAX];
    unsigned next = (unsigned)first;

    if (keep_count > ARRAY_SIZE(sorted)) {
        errno = E2BIG;
        return -1;
    }
    if (keep_count)
        memcpy(sorted, keep, keep_count * sizeof(*keep));
    qsort(sorted, keep_count, sizeof(*sorted), compare_fds);
    for (size_t i = 0; i < keep_count; i++) {
        unsigned fd = (unsigned)sorted[i];

        if (sorted[i] < 0 || fd < next) /* none, below `first`, or named twice */
            continue;
        if (fd > next && syscall(SYS_close_range, next, fd - 1, 0u) < 0)
            return close_listed(first, keep, keep_count);
        next = fd + 1;
    }
    if (syscall(SYS_close_range, next, ~0u, 0u) < 0)
        return close_listed(first, keep, keep_count);
    return 0;
}
