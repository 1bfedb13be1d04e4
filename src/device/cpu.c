/*
 * The CPU as a device. A region is a memfd; its descriptor is what another process imports.
 *
 * Read-only is kept by F_SEAL_FUTURE_WRITE: mappings that exist stay writable (the owner's), but
 * no new writable mapping and no write() is possible through any descriptor of the object, and a
 * read-only mapping of it cannot be made writable by mprotect(). F_SEAL_SEAL then stops either
 * side from changing that. F_SEAL_SHRINK is what keeps a peer from truncating the object under
 * the other's mapping, which would kill it with SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/compare_host.h"
#include "device/device.h"
#include "device/fill.h"
#include "device/hash.h"
#include "device/parallel.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define FLUSH_BYTES_MIN ((size_t)8 << 20)
/* A machine's whole last-level cache is not one process'; a virtual machine reports its host's. */
#define FLUSH_BYTES_MAX ((size_t)32 << 20)

struct cpu_device {
    struct device_head head;
    uint64_t cache_bytes; /* last level; 0 where unknown */
    void *flush_buffer;   /* made by the first flush(); NULL before */
    size_t flush_bytes;
    uint64_t flush_round;
    uint64_t start_ns;
};

struct cpu_region {
    struct region_head head;
    int fd; /* -1 on an imported region */
    size_t mapped_bytes;
};

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static struct cpu_device *cpu_device(struct device *device)
{
    return (struct cpu_device *)(void *)device;
}

static struct cpu_region *cpu_region(struct region *region)
{
    return (struct cpu_region *)(void *)region;
}

/* sysconf() knows the caches of x86 only; the kernel's own list covers the rest. */
static uint64_t find_last_level_cache(void)
{
    static const int levels[] = {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE,
                                 _SC_LEVEL2_CACHE_SIZE};
    uint64_t largest = 0;

    for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
        long bytes = sysconf(levels[i]);

        if (bytes > 0)
            return (uint64_t)bytes;
    }
    for (int i = 0; i < 8; i++) {
        char path[80];
        unsigned long kib;
        CLEANUP_FILE FILE *file = NULL;

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        file = fopen(path, "re");
        if (file && fscanf(file, "%luK", &kib) == 1 && (uint64_t)kib << 10 > largest)
            largest = (uint64_t)kib << 10;
    }
    return largest;
}

static int cpu_open(int index, struct device **ret_device, struct error *err)
{
    struct cpu_device *device;

    if (index != 0)
        return error_set(err, ERROR_USAGE, "device cpu:%d: there is only cpu:0", index);
    device = calloc(1, sizeof(*device));
    if (!device)
        return error_set(err, ERROR_INTERNAL, "opening the CPU device: out of memory");
    device->head.ops = &device_cpu;
    device->cache_bytes = find_last_level_cache();
    *ret_device = (struct device *)(void *)device;
    return 0;
}

static void cpu_close(struct device *device)
{
    if (!device)
        return;
    if (cpu_device(device)->flush_buffer)
        munmap(cpu_device(device)->flush_buffer, cpu_device(device)->flush_bytes);
    free(device);
}

static void read_model_name(char *to, size_t size)
{
    CLEANUP_FILE FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(to, size, "CPU");
    while (file && fgets(line, sizeof(line), file)) {
        char *value = strstr(line, ": ");

        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += 2;
        value[strcspn(value, "\n")] = '\0';
        snprintf(to, size, "%s", value);
        return;
    }
}

/* Of the machine, from /proc/meminfo. */
static int read_memory(uint64_t *ret_free, uint64_t *ret_total, struct error *err)
{
    CLEANUP_FILE FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long total = 0, available = 0;
    char line[128];

    if (!file)
        return error_errno(err, ERROR_INTERNAL, "/proc/meminfo");
    while (fgets(line, sizeof(line), file)) {
        sscanf(line, "MemTotal: %llu kB", &total);
        sscanf(line, "MemAvailable: %llu kB", &available);
    }
    if (total == 0)
        return error_set(err, ERROR_INTERNAL, "/proc/meminfo: no MemTotal");
    *ret_free = (uint64_t)available << 10;
    *ret_total = (uint64_t)total << 10;
    return 0;
}

static int cpu_facts(struct device *device, struct device_facts *ret_facts, struct error *err)
{
    struct device_facts facts = {0};
    uint64_t free_bytes;

    if (read_memory(&free_bytes, &facts.memory_bytes, err) < 0)
        return -1;
    read_model_name(facts.name, sizeof(facts.name));
    facts.multiprocessors = (int)parallel_cores();
    facts.l2_bytes = cpu_device(device)->cache_bytes;
    *ret_facts = facts;
    return 0;
}

static int make_memfd(void)
{
    int fd = memfd_create("kbv-region", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    /* Kernels before 6.3 do not know the flag, and need none: they never warn about its absence. */
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("kbv-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

/* Maps `fd` and wraps it; takes the descriptor over where `owned`. */
static int wrap(struct device *device, int fd, bool owned, size_t bytes, int protection,
                struct region **ret_region, struct error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct cpu_region *region = calloc(1, sizeof(*region));
    size_t mapped = (bytes + page - 1) / page * page;
    void *address;

    if (!region)
        return error_set(err, ERROR_INTERNAL, "mapping a region: out of memory");
    address = mmap(NULL, mapped, protection, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
        free(region);
        return error_errno(err, ERROR_INTERNAL, "mapping a region of %zu bytes", bytes);
    }
    region->head.device = device;
    region->head.address = (uintptr_t)address;
    region->head.bytes = bytes;
    region->fd = owned ? fd : -1;
    region->mapped_bytes = mapped;
    *ret_region = (struct region *)(void *)region;
    return 0;
}

/* The object is as long as a whole number of pages, so that its last page is fully there. */
static int cpu_region_new(struct device *device, size_t bytes, struct region **ret_region,
                          struct error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CLEANUP_FD int fd = -1;

    if (bytes == 0 || bytes > SIZE_MAX / 2)
        return error_set(err, ERROR_INTERNAL, "a region of %zu bytes", bytes);
    fd = make_memfd();
    if (fd < 0)
        return error_errno(err, ERROR_UNFIT, "memfd_create");
    if (ftruncate(fd, (off_t)((bytes + page - 1) / page * page)) < 0)
        return error_errno(err, ERROR_INTERNAL, "a region of %zu bytes", bytes);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return error_errno(err, ERROR_UNFIT, "sealing a region");
    if (wrap(device, fd, true, bytes, PROT_READ | PROT_WRITE, ret_region, err) < 0)
        return -1;
    fd_steal(&fd);
    return 0;
}

static void cpu_region_free(struct region *region)
{
    munmap(pointer(region_address(region)), cpu_region(region)->mapped_bytes);
    if (cpu_region(region)->fd >= 0)
        close(cpu_region(region)->fd);
    free(region);
}

static int cpu_region_export(struct region *region, enum region_access access, int *ret_fd,
                             struct error *err)
{
    int fd = cpu_region(region)->fd;
    int wanted = access == REGION_READ_ONLY ? F_SEAL_FUTURE_WRITE : 0;
    int seals, copy;

    if (fd < 0)
        return error_set(err, ERROR_INTERNAL, "exporting a region that was imported");
    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return error_errno(err, ERROR_INTERNAL, "reading a region's seals");
    if (!(seals & F_SEAL_SEAL)) {
        if (fcntl(fd, F_ADD_SEALS, wanted | F_SEAL_SEAL) < 0)
            return error_errno(err, ERROR_UNFIT, "sealing a region");
    } else if ((seals & F_SEAL_FUTURE_WRITE) != wanted) {
        return error_set(err, ERROR_INTERNAL,
                         "exporting a region read-only and read-write, one after the other");
    }
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return error_errno(err, ERROR_INTERNAL, "exporting a region");
    *ret_fd = copy;
    return 0;
}

static int cpu_region_import(struct device *device, int fd, size_t bytes, enum region_access access,
                             struct region **ret_region, struct error *err)
{
    int seals = fcntl(fd, F_GET_SEALS);
    int protection = access == REGION_READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
    struct stat status;

    if (seals < 0 || fstat(fd, &status) < 0)
        return error_errno(err, ERROR_INTERNAL, "importing a region");
    if (!(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_SEAL))
        return error_set(err, ERROR_INTERNAL, "importing a region: it is not sealed");
    if (access == REGION_READ_WRITE && seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE))
        return error_set(err, ERROR_INTERNAL,
                         "importing a region read-write that was exported read-only");
    if (bytes == 0 || (uint64_t)status.st_size < bytes)
        return error_set(err, ERROR_INTERNAL,
                         "importing a region: %zu bytes wanted, the descriptor has %llu", bytes,
                         (unsigned long long)status.st_size);
    return wrap(device, fd, false, bytes, protection, ret_region, err);
}

static int cpu_copy(struct device *device, uint64_t to, uint64_t from, size_t bytes,
                    struct error *err)
{
    memmove(pointer(to), pointer(from), bytes);
    return 0;
}

static int cpu_upload(struct device *device, uint64_t to, const void *from, size_t bytes,
                      struct error *err)
{
    memmove(pointer(to), from, bytes);
    return 0;
}

static int cpu_download(struct device *device, void *to, uint64_t from, size_t bytes,
                        struct error *err)
{
    memmove(to, pointer(from), bytes);
    return 0;
}

static int cpu_fill(struct device *device, uint64_t to, uint64_t pattern, size_t bytes,
                    struct error *err)
{
    fill_host(pointer(to), pattern, bytes);
    return 0;
}

static int cpu_check_fill(struct device *device, uint64_t from, uint64_t pattern, size_t bytes,
                          uint64_t *ret_different_bytes, uint64_t *ret_first_offset,
                          struct error *err)
{
    *ret_different_bytes = fill_host_check(pointer(from), pattern, bytes, ret_first_offset);
    return 0;
}

static int cpu_hash(struct device *device, uint64_t from, size_t bytes, uint64_t key,
                    uint64_t ret_hash[2], struct error *err)
{
    hash_host(pointer(from), bytes, key, ret_hash);
    return 0;
}

static int cpu_compare(struct device *device, uint64_t expected, enum dtype expected_dtype,
                       uint64_t got, enum dtype got_dtype, uint64_t count,
                       struct compare_result *ret_result, struct error *err)
{
    return compare_host(pointer(expected), expected_dtype, pointer(got), got_dtype, count,
                        ret_result, err);
}

static size_t flush_bytes(uint64_t cache_bytes)
{
    uint64_t wanted = 2 * cache_bytes;

    if (wanted < FLUSH_BYTES_MIN)
        return FLUSH_BYTES_MIN;
    return wanted > FLUSH_BYTES_MAX ? FLUSH_BYTES_MAX : (size_t)wanted;
}

static int cpu_flush(struct device *base, struct error *err)
{
    struct cpu_device *device = cpu_device(base);

    if (!device->flush_buffer) {
        size_t bytes = flush_bytes(device->cache_bytes);
        void *buffer =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (buffer == MAP_FAILED)
            return error_errno(err, ERROR_INTERNAL, "a buffer of %zu bytes to flush caches", bytes);
        device->flush_buffer = buffer;
        device->flush_bytes = bytes;
    }
    fill_host(device->flush_buffer, ++device->flush_round, device->flush_bytes);
    return 0;
}

/* Work on the CPU is done when its call returns; threads that a candidate leaves running are its
 * own affair, and the judge's clock and the check after the fact see them. */
static int cpu_synchronize(struct device *device, struct error *err)
{
    return 0;
}

static int cpu_mark_start(struct device *device, struct error *err)
{
    cpu_device(device)->start_ns = clock_now_ns();
    return 0;
}

static int cpu_mark_stop(struct device *device, uint64_t *ret_elapsed_ns, struct error *err)
{
    *ret_elapsed_ns = clock_now_ns() - cpu_device(device)->start_ns;
    return 0;
}

static int cpu_memory(struct device *device, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes,
                      struct error *err)
{
    return read_memory(ret_free_bytes, ret_total_bytes, err);
}

const struct device_ops device_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .facts = cpu_facts,
    .region_new = cpu_region_new,
    .region_export = cpu_region_export,
    .region_import = cpu_region_import,
    .region_free = cpu_region_free,
    .copy = cpu_copy,
    .upload = cpu_upload,
    .download = cpu_download,
    .fill = cpu_fill,
    .check_fill = cpu_check_fill,
    .hash = cpu_hash,
    .compare = cpu_compare,
    .flush = cpu_flush,
    .synchronize = cpu_synchronize,
    .mark_start = cpu_mark_start,
    .mark_stop = cpu_mark_stop,
    .memory = cpu_memory,
};
