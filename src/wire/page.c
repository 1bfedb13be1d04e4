#include "wire/page.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void page_post(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    /* Shared futex: the waiter is another process. */
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint32_t page_wait(_Atomic uint32_t *word, uint32_t old, uint64_t spin_ns, uint64_t timeout_ns)
{
    uint64_t start = clock_now_ns();
    uint32_t value;

    while ((value = atomic_load_explicit(word, memory_order_acquire)) == old) {
        uint64_t passed = clock_now_ns() - start;
        uint64_t left;
        struct timespec wait;

        if (passed >= timeout_ns)
            return old;
        if (passed < spin_ns) {
            for (int i = 0; i < 16; i++)
                cpu_relax();
            continue;
        }
        left = timeout_ns - passed;
        wait.tv_sec = (time_t)(left / NS_PER_S);
        wait.tv_nsec = (long)(left % NS_PER_S);
        syscall(SYS_futex, word, FUTEX_WAIT, old, &wait, NULL, 0);
    }
    return value;
}

int page_map(int fd, struct page **ret_page, struct error *err)
{
    struct stat status;
    void *memory;

    if (fstat(fd, &status) < 0 || status.st_size < PAGE_BYTES)
        return error_set(err, ERROR_INTERNAL, "the shared page is too small");
    memory = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_errno(err, ERROR_INTERNAL, "mapping the shared page");
    *ret_page = memory;
    return 0;
}

int page_create(int *ret_fd, struct page **ret_page, struct error *err)
{
    CLEANUP_FD int fd = memfd_create("kbv-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, PAGE_BYTES) < 0)
        return error_errno(err, ERROR_INTERNAL, "creating the shared page");
    /* A worker that could shrink the file would have the judge die of SIGBUS. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, ERROR_INTERNAL, "sealing the shared page");
    if (page_map(fd, ret_page, err) < 0)
        return -1;
    *ret_fd = fd_steal(&fd);
    return 0;
}

void page_unmap(struct page *page)
{
    if (page)
        munmap(page, PAGE_BYTES);
}
