/*
 * Watching a candidate's own allocations, from inside its process.
 *
 * Two allocators share this interface:
 * - CPU: `libkbv-guard.so`, preloaded into the warm parent of candidates, interposes
 *   posix_memalign(), aligned_alloc() and free(), through which torch's CPU allocator goes. It
 *   does nothing (one predictable branch) until guard_enable(). The worker finds it by
 *   dlsym(RTLD_DEFAULT, "kbv_guard_table").
 * - CUDA: `kbv_cuda_allocate` and `kbv_cuda_release`, exported by the worker's extension module
 *   in the form torch.cuda.memory.CUDAPluggableAllocator wants; every request goes to the driver,
 *   nothing is cached.
 *
 * With GUARD_ZONES each allocation is surrounded by zones of a known pattern (4 KiB after it,
 * up to 4 KiB before it, so that alignment is kept: 64 bytes on the CPU, 512 on CUDA) which
 * check() reads. With GUARD_POISON fresh memory is filled with 0xFF bytes (NaN in every floating
 * type), so that a kernel relying on memory that happens to be zero shows. With GUARD_COUNT the
 * bytes that are live and their peak are kept.
 *
 * This serves to find mistakes. A candidate that tries can undo it in its own process, and gains
 * nothing by it: no verdict in its favour rests on these figures except memory, which is
 * cross-checked against what the system sees.
 */
#ifndef KBV_DEVICE_GUARD_H
#define KBV_DEVICE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum guard_flags {
    GUARD_ZONES = 1,
    GUARD_POISON = 2,
    GUARD_COUNT = 4,
};

struct guard_report {
    uint64_t damaged;     /* allocations whose zones were overwritten since the last check */
    uint64_t size_bytes;  /* of the first such allocation */
    int64_t offset_bytes; /* of the first overwritten byte, from the allocation's start: negative
                             before it, >= size_bytes after it */
};

struct guard_counts {
    uint64_t live_bytes; /* asked for and not yet released, since guard_enable() */
    uint64_t peak_bytes; /* the most that was live since the last reset */
    uint64_t allocations;
    /* Requests refused for lack of memory. torch takes the NULL of a pluggable CUDA allocator for
     * an address and goes on until a kernel faults: whoever uses that allocator must look here to
     * tell a crash from an exhausted device. */
    uint64_t failures;
};

/* One allocator; `version` is GUARD_TABLE_VERSION. */
#define GUARD_TABLE_VERSION 2
struct guard_table {
    int version;
    void (*enable)(unsigned flags); /* flags of allocations from now on; 0 passes through */
    /* Reads the zones of live allocations (and of those released since the last check, which are
     * checked at release). Damaged zones are repaired, so each damage is reported once. */
    void (*check)(struct guard_report *ret_report);
    void (*counts)(struct guard_counts *ret_counts);
    void (*reset_peak)(void); /* peak_bytes = live_bytes */
};

extern const struct guard_table guard_cuda; /* in the worker's module */

#endif
