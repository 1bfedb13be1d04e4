/*
 * The CUDA allocator's guard (see guard.h). Every request is one of the driver's; records of live
 * allocations stand in an array without order, because an allocation by the driver costs more than
 * a walk over the few thousand that a model has.
 */
#include "device/cuda_alloc.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "device/cuda_driver.h"
#include "device/guard_zone.h"

struct record {
    cu_address base; /* what the driver gave */
    cu_address user;
    size_t size;
    unsigned flags;
    cu_context context;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct record *records;
static size_t record_count, record_room;
static struct guard_report released; /* damage found at release, for the next check() */

static atomic_uint current_flags;
static struct guard_tally tally;

/* torch enters the context before it allocates; threads that have none yet get the primary one. */
static int ensure_context(int ordinal, cu_context *ret_context)
{
    struct error ignored = ERROR_INIT;
    cu_context context = NULL;
    cu_device device;

    if (cuda_driver_open(&ignored) < 0)
        return -1;
    if (cuda()->ctx_get_current(&context))
        return -1;
    if (!context &&
        (cuda()->device_get(&device, ordinal) || cuda()->primary_ctx_retain(&context, device) ||
         cuda()->ctx_set_current(context)))
        return -1;
    *ret_context = context;
    return 0;
}

static int record_add(const struct record *record)
{
    int status = 0;

    pthread_mutex_lock(&mutex);
    if (record_count == record_room) {
        size_t room = record_room ? record_room * 2 : 256;
        struct record *grown = realloc(records, room * sizeof(*grown));

        if (grown) {
            records = grown;
            record_room = room;
        } else {
            status = -1;
        }
    }
    if (status == 0)
        records[record_count++] = *record;
    pthread_mutex_unlock(&mutex);
    return status;
}

/* From the end: what was made last goes first, mostly. */
static int record_take(cu_address user, struct record *ret_record)
{
    int status = -1;

    pthread_mutex_lock(&mutex);
    for (size_t i = record_count; i-- > 0 && status < 0;) {
        if (records[i].user == user) {
            *ret_record = records[i];
            records[i] = records[--record_count];
            status = 0;
        }
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

static cu_result prepare(const struct record *record, cu_stream stream)
{
    cu_result result = 0;

    if (record->flags & GUARD_ZONES) {
        result = cuda()->memset_d8(record->user - GUARD_ZONE_BYTES, GUARD_ZONE_BYTE,
                                   GUARD_ZONE_BYTES, stream);
        if (!result)
            result = cuda()->memset_d8(record->user + record->size, GUARD_ZONE_BYTE,
                                       GUARD_ZONE_BYTES, stream);
    }
    if (!result && record->flags & GUARD_POISON)
        result = cuda()->memset_d8(record->user, GUARD_POISON_BYTE, record->size, stream);
    return result;
}

/* 0 where there is no memory. */
static cu_address allocate(size_t size, int device, cu_stream stream)
{
    struct record record = {.size = size, .flags = atomic_load(&current_flags)};
    size_t zone = record.flags & GUARD_ZONES ? GUARD_ZONE_BYTES : 0;

    if (ensure_context(device, &record.context) < 0 ||
        cuda()->mem_alloc(&record.base, size + 2 * zone))
        return 0;
    record.user = record.base + zone;
    if (prepare(&record, stream) || (record.flags && record_add(&record) < 0)) {
        cuda()->mem_free(record.base);
        return 0;
    }
    if (record.flags & GUARD_COUNT)
        guard_tally_add(&tally, size);
    return record.user;
}

void *kbv_cuda_allocate(ssize_t size, int device, void *stream)
{
    cu_address address;

    if (size <= 0)
        return NULL;
    address = allocate((size_t)size, device, stream);
    if (!address)
        atomic_fetch_add(&tally.failures, 1);
    return (void *)(uintptr_t)address;
}

/* GUARD_ZONE_BYTES where the zone is whole or cannot be read (the device has failed, and says so
 * at every later call). Damage is repaired. */
static size_t check_zone(cu_address zone)
{
    unsigned char bytes[GUARD_ZONE_BYTES];
    size_t first;

    if (cuda()->memcpy_dtoh(bytes, zone, sizeof(bytes), CU_STREAM_LEGACY) ||
        cuda()->stream_synchronize(CU_STREAM_LEGACY))
        return GUARD_ZONE_BYTES;
    first = guard_zone_damage(bytes);
    if (first < GUARD_ZONE_BYTES) {
        cuda()->memset_d8(zone, GUARD_ZONE_BYTE, GUARD_ZONE_BYTES, CU_STREAM_LEGACY);
        cuda()->stream_synchronize(CU_STREAM_LEGACY);
    }
    return first;
}

/* The device is idle. An allocation that is damaged on both sides is reported once, by what was
 * written past its end. */
static void check_record(const struct record *record, struct guard_report *report)
{
    size_t before, after;

    if (!(record->flags & GUARD_ZONES))
        return;
    before = check_zone(record->user - GUARD_ZONE_BYTES);
    after = check_zone(record->user + record->size);
    if (after < GUARD_ZONE_BYTES)
        guard_report_add(report, record->size, (int64_t)(record->size + after));
    else if (before < GUARD_ZONE_BYTES)
        guard_report_add(report, record->size, (int64_t)before - (int64_t)GUARD_ZONE_BYTES);
}

void kbv_cuda_release(void *pointer, ssize_t size, int device, void *stream)
{
    cu_address user = (uintptr_t)pointer;
    struct record record = {.base = user};
    struct guard_report damage = {0};
    cu_context context;

    if (!pointer || ensure_context(device, &context) < 0)
        return;
    cuda()->ctx_synchronize();
    if (record_take(user, &record) == 0) {
        check_record(&record, &damage);
        if (damage.damaged) {
            pthread_mutex_lock(&mutex);
            guard_report_add(&released, damage.size_bytes, damage.offset_bytes);
            pthread_mutex_unlock(&mutex);
        }
        if (record.flags & GUARD_COUNT)
            guard_tally_subtract(&tally, record.size);
    }
    cuda()->mem_free(record.base);
}

static void alloc_enable(unsigned flags)
{
    atomic_store(&current_flags, flags);
}

/* Allocations belong to contexts; the caller's current one is put back. */
static void alloc_check(struct guard_report *ret_report)
{
    struct guard_report report;
    cu_context before = NULL, current;

    pthread_mutex_lock(&mutex);
    report = released;
    released = (struct guard_report){0};
    if (record_count > 0)
        cuda()->ctx_get_current(&before);
    current = before;
    for (size_t i = 0; i < record_count; i++) {
        if (i == 0 || records[i].context != current) {
            current = records[i].context;
            cuda()->ctx_set_current(current);
            cuda()->ctx_synchronize();
        }
        check_record(&records[i], &report);
    }
    if (current != before)
        cuda()->ctx_set_current(before);
    pthread_mutex_unlock(&mutex);
    *ret_report = report;
}

static void alloc_counts(struct guard_counts *ret_counts)
{
    guard_tally_read(&tally, ret_counts);
}

static void alloc_reset_peak(void)
{
    atomic_store(&tally.peak_bytes, atomic_load(&tally.live_bytes));
}

const struct guard_table guard_cuda = {
    .version = GUARD_TABLE_VERSION,
    .enable = alloc_enable,
    .check = alloc_check,
    .counts = alloc_counts,
    .reset_peak = alloc_reset_peak,
};
