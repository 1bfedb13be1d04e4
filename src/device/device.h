/*
 * The device table: what a worker process does with memory that it shares with
 * another process, on any kind of device. One `struct device_ops` for each kind
 * (`cpu`, `cuda`); a new kind of device is one new file and one row in the table
 * of device.c. Used only inside worker processes: the judge never touches a device.
 *
 * Order of calls: device_open(); then any; device_close(). A handle belongs to the
 * thread that opened it. Nothing here depends on torch or Python. All functions
 * return 0, or -1 with `err` set; outputs stay untouched on failure. Where nothing else is said, a
 * function's work is complete when it returns. On CUDA that work is ordered after what was
 * submitted to the default stream; who must be sure of other streams calls synchronize() first.
 *
 * A *region* is device memory that can be mapped by several processes: the owner
 * creates it, exports a descriptor, the other side imports that descriptor
 * read-only or read-write. Addresses in this header are device addresses; on the
 * CPU device they are ordinary pointers. Offsets and sizes are in bytes.
 */
#ifndef KBV_DEVICE_DEVICE_H
#define KBV_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/tensor.h"

struct device;
struct region;

enum region_access { REGION_READ_ONLY, REGION_READ_WRITE };

struct device_facts {
    char name[128];    /* "NVIDIA H200"; the CPU's model name */
    char driver[64];   /* driver version, "" on the CPU device */
    int compute_major; /* CUDA compute capability; 0 on the CPU device */
    int compute_minor;
    int multiprocessors;          /* CPU device: cores that this process may use */
    uint64_t memory_bytes;        /* total */
    uint64_t l2_bytes;            /* last-level cache; 0 where unknown */
    double bandwidth_bytes_per_s; /* peak, from clock and bus width (CUDA), or 0 where unknown */
};

struct device_ops {
    const char *name; /* "cpu", "cuda": the part of --device before the colon */

    int (*open)(int index, struct device **ret_device, struct error *err);
    void (*close)(struct device *device);
    int (*facts)(struct device *device, struct device_facts *ret_facts, struct error *err);

    /* A zero-filled region of at least `bytes`, mapped read-write here. */
    int (*region_new)(struct device *device, size_t bytes, struct region **ret_region,
                      struct error *err);
    /* A new descriptor for a region made here; the caller closes it. `access` is the most that an
     * importer may have. On the CPU device the first export settles that for good (seals cannot be
     * undone), and a later one that differs is refused; CUDA's descriptors carry no access, there
     * read-only is kept by who imports. */
    int (*region_export)(struct region *region, enum region_access access, int *ret_fd,
                         struct error *err);
    /* Maps a region that another process exported. `fd` stays the caller's. `bytes` is what
     * region_new() was asked for; a descriptor of a smaller object is refused. With
     * REGION_READ_ONLY a write through this mapping faults, and on the CPU device a descriptor
     * that was exported read-only can never be mapped writable (sealed against future writes). */
    int (*region_import)(struct device *device, int fd, size_t bytes, enum region_access access,
                         struct region **ret_region, struct error *err);
    void (*region_free)(struct region *region); /* called by region_free() below */

    int (*copy)(struct device *device, uint64_t to, uint64_t from, size_t bytes, struct error *err);
    /* Host memory to or from the device. */
    int (*upload)(struct device *device, uint64_t to, const void *from, size_t bytes,
                  struct error *err);
    int (*download)(struct device *device, void *to, uint64_t from, size_t bytes,
                    struct error *err);
    /* Repeats the 8-byte `pattern`, in phase with the address modulo 8; any alignment and size. */
    int (*fill)(struct device *device, uint64_t to, uint64_t pattern, size_t bytes,
                struct error *err);
    /* How many bytes differ from what fill() of the same range wrote, and the offset of the
     * first (untouched where none does). */
    int (*check_fill)(struct device *device, uint64_t from, uint64_t pattern, size_t bytes,
                      uint64_t *ret_different_bytes, uint64_t *ret_first_offset, struct error *err);
    /* 128-bit position-dependent hash of the bytes under a secret key; the same on every device
     * for the same bytes and key. Not cryptographic: it detects change by a party that does not
     * know the key. */
    int (*hash)(struct device *device, uint64_t from, size_t bytes, uint64_t key,
                uint64_t ret_hash[2], struct error *err);
    /* See struct compare_result in protocol/tensor.h. Both addresses must be aligned to their
     * element's size. The same call gives the same bits on the same device. */
    int (*compare)(struct device *device, uint64_t expected, enum dtype expected_dtype,
                   uint64_t got, enum dtype got_dtype, uint64_t count,
                   struct compare_result *ret_result, struct error *err);
    /* Evicts the caches: resets persisting L2 lines, then writes a buffer of twice the
     * last-level cache, and waits. */
    int (*flush)(struct device *device, struct error *err);
    /* Waits for all work of this process on the device, on every stream. */
    int (*synchronize)(struct device *device, struct error *err);
    /* Own clock of one call: mark_start() records an event (CPU: reads the clock) on the default
     * stream; mark_stop() records one after everything submitted before it and waits; elapsed
     * time between the two in nanoseconds. */
    int (*mark_start)(struct device *device, struct error *err);
    int (*mark_stop)(struct device *device, uint64_t *ret_elapsed_ns, struct error *err);
    /* Device memory as the driver sees it, all processes together. CPU device: of the machine. */
    int (*memory)(struct device *device, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes,
                  struct error *err);
};

/* The row whose name is the part of `spec` before ':' ("cpu", "cuda", "cuda:1"); stores the
 * index after it (0 if none). NULL with `err` (ERROR_USAGE) where there is no such device kind or
 * the index is no number. */
const struct device_ops *device_ops_find(const char *spec, int *ret_index, struct error *err);

/* What all implementations put first in their struct device. */
struct device_head {
    const struct device_ops *ops;
    int index;
};

/* What all implementations put first in their struct region. */
struct region_head {
    struct device *device;
    uint64_t address; /* device address of the first byte; at least 4096-aligned */
    size_t bytes;     /* as asked for */
};

static inline uint64_t region_address(const struct region *region)
{
    return ((const struct region_head *)(const void *)region)->address;
}

static inline size_t region_bytes(const struct region *region)
{
    return ((const struct region_head *)(const void *)region)->bytes;
}

/* Unmaps and frees; NULL is allowed. */
void region_free(struct region *region);

extern const struct device_ops device_cpu;
extern const struct device_ops device_cuda;

#endif
