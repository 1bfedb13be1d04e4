/* The zones around a guarded allocation, and the counts; shared by both allocators. */
#ifndef KBV_DEVICE_GUARD_ZONE_H
#define KBV_DEVICE_GUARD_ZONE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "device/guard.h"

#define GUARD_ZONE_BYTES  ((size_t)4096)
#define GUARD_ZONE_BYTE   0xa5 /* as float32 -2.9e-16: no value that a kernel computes often */
#define GUARD_POISON_BYTE 0xff

/* The first byte of a zone that is not GUARD_ZONE_BYTE, or GUARD_ZONE_BYTES. */
static inline size_t guard_zone_damage(const unsigned char zone[GUARD_ZONE_BYTES])
{
    /* A zone that equals itself shifted by one byte holds one value throughout. */
    if (zone[0] == GUARD_ZONE_BYTE && memcmp(zone, zone + 1, GUARD_ZONE_BYTES - 1) == 0)
        return GUARD_ZONE_BYTES;
    for (size_t i = 0; i < GUARD_ZONE_BYTES; i++)
        if (zone[i] != GUARD_ZONE_BYTE)
            return i;
    return GUARD_ZONE_BYTES;
}

/* Adds one damaged allocation; the report keeps the first. */
static inline void guard_report_add(struct guard_report *report, uint64_t size_bytes,
                                    int64_t offset_bytes)
{
    if (report->damaged++ == 0) {
        report->size_bytes = size_bytes;
        report->offset_bytes = offset_bytes;
    }
}

struct guard_tally {
    _Atomic uint64_t live_bytes;
    _Atomic uint64_t peak_bytes;
    _Atomic uint64_t allocations;
    _Atomic uint64_t failures;
};

static inline void guard_tally_add(struct guard_tally *tally, uint64_t bytes)
{
    uint64_t live = atomic_fetch_add(&tally->live_bytes, bytes) + bytes;
    uint64_t peak = atomic_load(&tally->peak_bytes);

    while (live > peak && !atomic_compare_exchange_weak(&tally->peak_bytes, &peak, live))
        ;
    atomic_fetch_add(&tally->allocations, 1);
}

static inline void guard_tally_subtract(struct guard_tally *tally, uint64_t bytes)
{
    atomic_fetch_sub(&tally->live_bytes, bytes);
}

static inline void guard_tally_read(struct guard_tally *tally, struct guard_counts *ret_counts)
{
    ret_counts->live_bytes = atomic_load(&tally->live_bytes);
    ret_counts->peak_bytes = atomic_load(&tally->peak_bytes);
    ret_counts->allocations = atomic_load(&tally->allocations);
    ret_counts->failures = atomic_load(&tally->failures);
}

#endif
