/*
 * libkbv-guard.so: the CPU allocator's guard (see guard.h), preloaded.
 *
 * Theory of operation. The aligned allocation functions ask the real posix_memalign() for room
 * plus zones and hand out a pointer inside; a record of each such pointer is kept in a table,
 * so that free(), realloc() and malloc_usable_size() recognise it. The table is sharded by
 * address; a shard is an open-addressing array in memory straight from mmap(), so that nothing
 * here calls the allocator that it stands in for. Before the first guard_enable() the table is
 * not looked at: one load and one branch.
 *
 * Hazards:
 * - free() is called before our constructor has run (by other libraries' constructors), and by
 *   dlsym() itself while we resolve; see resolve().
 * - fork() may come while another thread holds a shard: the atfork handlers hold all of them
 *   across it.
 * - libc frees some memory without coming through here; it never does that with a pointer from
 *   an aligned allocation.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/guard_zone.h"

#define EXPORT      __attribute__((visibility("default")))
#define SHARDS      64
#define SLOTS_FIRST 256 /* of a shard when it is first used; a power of two, like all sizes */
#define TOMBSTONE   ((unsigned char *)1)
#define ALIGNMENT   64 /* the least that a guarded allocation has: torch's own */

struct record {
    unsigned char *user; /* NULL: free slot; TOMBSTONE: was used */
    void *base;          /* what the real allocator gave */
    size_t size;
    unsigned flags;
};

struct shard {
    atomic_flag lock;
    struct record *slots;
    size_t slot_count;
    size_t used; /* tombstones included */
};

static struct {
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    size_t (*malloc_usable_size)(void *);
    void (*free)(void *);
} real;

static struct shard shards[SHARDS];
static atomic_bool ever_enabled;
static atomic_uint current_flags;
static struct guard_tally tally;

static atomic_flag released_lock = ATOMIC_FLAG_INIT;
static struct guard_report released; /* damage found at release, for the next check() */

EXPORT int posix_memalign(void **ret_pointer, size_t alignment, size_t size);
EXPORT void *aligned_alloc(size_t alignment, size_t size);
EXPORT void *memalign(size_t alignment, size_t size);
EXPORT void *realloc(void *pointer, size_t size);
EXPORT size_t malloc_usable_size(void *pointer);
EXPORT void free(void *pointer);
EXPORT extern const struct guard_table kbv_guard_table;

static void lock(atomic_flag *flag)
{
    while (atomic_flag_test_and_set_explicit(flag, memory_order_acquire))
        sched_yield();
}

static void unlock(atomic_flag *flag)
{
    atomic_flag_clear_explicit(flag, memory_order_release);
}

static void hold_all(void)
{
    for (size_t i = 0; i < SHARDS; i++)
        lock(&shards[i].lock);
    lock(&released_lock);
}

static void release_all(void)
{
    unlock(&released_lock);
    for (size_t i = 0; i < SHARDS; i++)
        unlock(&shards[i].lock);
}

/*
 * dlsym() may free a message of an earlier error, which lands in our free() before there is a real
 * one. `resolving` tells that call apart: what it frees is leaked, once, a few bytes.
 */
static __thread bool resolving __attribute__((tls_model("initial-exec")));

static void *next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (!function)
        abort(); /* no libc without them */
    return function;
}

static void resolve(void)
{
    resolving = true;
    *(void **)&real.posix_memalign = next("posix_memalign");
    *(void **)&real.aligned_alloc = next("aligned_alloc");
    *(void **)&real.memalign = next("memalign");
    *(void **)&real.realloc = next("realloc");
    *(void **)&real.malloc_usable_size = next("malloc_usable_size");
    *(void **)&real.free = next("free");
    resolving = false;
}

static inline void make_ready(void)
{
    if (__builtin_expect(!real.free, 0))
        resolve();
}

__attribute__((constructor)) static void start(void)
{
    make_ready();
    pthread_atfork(hold_all, release_all, release_all);
}

static size_t slot_of(const unsigned char *user, size_t slot_count)
{
    return (uintptr_t)user / ALIGNMENT / SHARDS * 0x9e3779b97f4a7c15u >> 20 & (slot_count - 1);
}

static struct shard *shard_of(const unsigned char *user)
{
    return &shards[(uintptr_t)user / ALIGNMENT % SHARDS];
}

static void put(struct record *slots, size_t slot_count, const struct record *record)
{
    size_t slot = slot_of(record->user, slot_count);

    while (slots[slot].user)
        slot = (slot + 1) & (slot_count - 1);
    slots[slot] = *record;
}

/* Room for one more record; tombstones vanish whenever the array is copied. */
static bool make_room(struct shard *shard)
{
    size_t live = 0, wanted = SLOTS_FIRST;
    struct record *slots;

    if (shard->slots && (shard->used + 1) * 2 <= shard->slot_count)
        return true;
    for (size_t i = 0; i < shard->slot_count; i++)
        live += shard->slots[i].user > TOMBSTONE;
    while (wanted < (live + 1) * 4)
        wanted *= 2;
    slots = mmap(NULL, wanted * sizeof(*slots), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    if (slots == MAP_FAILED)
        return false;
    for (size_t i = 0; i < shard->slot_count; i++)
        if (shard->slots[i].user > TOMBSTONE)
            put(slots, wanted, &shard->slots[i]);
    if (shard->slots)
        munmap(shard->slots, shard->slot_count * sizeof(*slots));
    shard->slots = slots;
    shard->slot_count = wanted;
    shard->used = live;
    return true;
}

static bool record_add(const struct record *record)
{
    struct shard *shard = shard_of(record->user);
    bool room;

    lock(&shard->lock);
    room = make_room(shard);
    if (room) {
        put(shard->slots, shard->slot_count, record);
        shard->used++;
    }
    unlock(&shard->lock);
    return room;
}

/* Copies the record of `pointer` to `ret_record` and with `take` removes it. */
static bool record_find(const void *pointer, bool take, struct record *ret_record)
{
    const unsigned char *user = pointer;
    struct shard *shard = shard_of(user);
    bool found = false;

    if ((uintptr_t)user % ALIGNMENT)
        return false;
    lock(&shard->lock);
    if (shard->slots) {
        size_t slot = slot_of(user, shard->slot_count);

        while (shard->slots[slot].user && shard->slots[slot].user != user)
            slot = (slot + 1) & (shard->slot_count - 1);
        if (shard->slots[slot].user == user) {
            found = true;
            *ret_record = shard->slots[slot];
            if (take)
                shard->slots[slot].user = TOMBSTONE;
        }
    }
    unlock(&shard->lock);
    return found;
}

/* Reads both zones of an allocation, reports the first damaged byte and repairs. The zone after
 * comes first in the report: overruns are the likelier mistake, and an allocation is reported once.
 */
static void check_zones(const struct record *record, struct guard_report *report)
{
    unsigned char *before = record->user - GUARD_ZONE_BYTES;
    unsigned char *after = record->user + record->size;
    size_t first_before, first_after;

    if (!(record->flags & GUARD_ZONES))
        return;
    first_before = guard_zone_damage(before);
    first_after = guard_zone_damage(after);
    if (first_after < GUARD_ZONE_BYTES)
        guard_report_add(report, record->size, (int64_t)(record->size + first_after));
    else if (first_before < GUARD_ZONE_BYTES)
        guard_report_add(report, record->size, (int64_t)first_before - (int64_t)GUARD_ZONE_BYTES);
    if (first_before < GUARD_ZONE_BYTES)
        memset(before, GUARD_ZONE_BYTE, GUARD_ZONE_BYTES);
    if (first_after < GUARD_ZONE_BYTES)
        memset(after, GUARD_ZONE_BYTE, GUARD_ZONE_BYTES);
}

/* Makes a whole allocation, -1 where there is no memory. The record comes last: from then on a
 * check() in another thread, or in a child forked by one, reads the zones. */
static int allocate(struct record *record, size_t alignment)
{
    size_t zone = record->flags & GUARD_ZONES ? GUARD_ZONE_BYTES : 0;
    size_t lead = (zone + alignment - 1) / alignment * alignment;

    if (record->size > PTRDIFF_MAX - lead - zone ||
        real.posix_memalign(&record->base, alignment, lead + record->size + zone) != 0)
        return -1;
    record->user = (unsigned char *)record->base + lead;
    memset(record->user - zone, GUARD_ZONE_BYTE, zone);
    memset(record->user + record->size, GUARD_ZONE_BYTE, zone);
    if (record->flags & GUARD_POISON)
        memset(record->user, GUARD_POISON_BYTE, record->size);
    if (!record_add(record)) {
        real.free(record->base);
        return -1;
    }
    return 0;
}

/* NULL when out of memory. */
static void *guarded_allocate(size_t alignment, size_t size, unsigned flags)
{
    struct record record = {.size = size, .flags = flags};

    if (allocate(&record, alignment < ALIGNMENT ? ALIGNMENT : alignment) < 0) {
        atomic_fetch_add(&tally.failures, 1);
        return NULL;
    }
    if (flags & GUARD_COUNT)
        guard_tally_add(&tally, size);
    return record.user;
}

/* `record` is no longer in the table. */
static void guarded_free(const struct record *record)
{
    struct guard_report damage = {0};

    check_zones(record, &damage);
    if (damage.damaged) {
        lock(&released_lock);
        guard_report_add(&released, damage.size_bytes, damage.offset_bytes);
        unlock(&released_lock);
    }
    if (record->flags & GUARD_COUNT)
        guard_tally_subtract(&tally, record->size);
    real.free(record->base);
}

/* The flags for a new allocation of `size` bytes; 0 where it is none of ours. */
static inline unsigned flags_for(size_t alignment, size_t size)
{
    make_ready();
    if (__builtin_expect(!atomic_load_explicit(&ever_enabled, memory_order_relaxed), 1))
        return 0;
    /* Bad alignments go to the real function, which refuses them in its own way. */
    if (size == 0 || alignment == 0 || alignment & (alignment - 1))
        return 0;
    return atomic_load_explicit(&current_flags, memory_order_relaxed);
}

int posix_memalign(void **ret_pointer, size_t alignment, size_t size)
{
    unsigned flags = flags_for(alignment, size);
    void *pointer;

    if (!flags || alignment % sizeof(void *))
        return real.posix_memalign(ret_pointer, alignment, size);
    pointer = guarded_allocate(alignment, size, flags);
    if (!pointer)
        return ENOMEM;
    *ret_pointer = pointer;
    return 0;
}

static void *allocate_or_set_errno(size_t alignment, size_t size, unsigned flags)
{
    void *pointer = guarded_allocate(alignment, size, flags);

    if (!pointer)
        errno = ENOMEM;
    return pointer;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    unsigned flags = flags_for(alignment, size);

    return flags ? allocate_or_set_errno(alignment, size, flags)
                 : real.aligned_alloc(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
    unsigned flags = flags_for(alignment, size);

    return flags ? allocate_or_set_errno(alignment, size, flags) : real.memalign(alignment, size);
}

/* free() and its kin are asked about every pointer of the process. */
static inline bool is_guarded(const void *pointer, bool take, struct record *ret_record)
{
    if (__builtin_expect(!atomic_load_explicit(&ever_enabled, memory_order_relaxed), 1))
        return false;
    return pointer && record_find(pointer, take, ret_record);
}

void free(void *pointer)
{
    struct record record;

    if (is_guarded(pointer, true, &record)) {
        guarded_free(&record);
        return;
    }
    if (__builtin_expect(!real.free, 0)) {
        if (resolving)
            return;
        resolve();
    }
    real.free(pointer);
}

/* A guarded pointer that grows or shrinks becomes an ordinary one: realloc() promises no
 * alignment, so nothing that needs one calls it. */
void *realloc(void *pointer, size_t size)
{
    struct record record;
    void *moved;

    make_ready();
    if (!is_guarded(pointer, false, &record))
        return real.realloc(pointer, size);
    if (size == 0) {
        free(pointer);
        return NULL;
    }
    moved = real.realloc(NULL, size);
    if (!moved)
        return NULL;
    memcpy(moved, pointer, size < record.size ? size : record.size);
    free(pointer);
    return moved;
}

size_t malloc_usable_size(void *pointer)
{
    struct record record;

    make_ready();
    return is_guarded(pointer, false, &record) ? record.size : real.malloc_usable_size(pointer);
}

static void guard_enable(unsigned flags)
{
    atomic_store(&current_flags, flags);
    if (flags)
        atomic_store(&ever_enabled, true);
}

static void guard_check(struct guard_report *ret_report)
{
    struct guard_report report;

    lock(&released_lock);
    report = released;
    released = (struct guard_report){0};
    unlock(&released_lock);
    for (size_t i = 0; i < SHARDS; i++) {
        lock(&shards[i].lock);
        for (size_t slot = 0; slot < shards[i].slot_count; slot++)
            if (shards[i].slots[slot].user > TOMBSTONE)
                check_zones(&shards[i].slots[slot], &report);
        unlock(&shards[i].lock);
    }
    *ret_report = report;
}

static void guard_counts_read(struct guard_counts *ret_counts)
{
    guard_tally_read(&tally, ret_counts);
}

static void guard_reset_peak(void)
{
    atomic_store(&tally.peak_bytes, atomic_load(&tally.live_bytes));
}

const struct guard_table kbv_guard_table = {
    .version = GUARD_TABLE_VERSION,
    .enable = guard_enable,
    .check = guard_check,
    .counts = guard_counts_read,
    .reset_peak = guard_reset_peak,
};
