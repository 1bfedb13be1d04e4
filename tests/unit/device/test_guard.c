/* The CPU allocator's guard, preloaded into this process by the test's environment. */
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/guard.h"

static const struct guard_table *guard;

/* Written through a volatile pointer: the compiler sees that these are out of bounds. */
static void write_byte(void *pointer, ptrdiff_t offset, unsigned char value)
{
    ((volatile unsigned char *)pointer)[offset] = value;
}

static void *allocate(size_t alignment, size_t size)
{
    void *pointer = NULL;

    assert_int_equal(posix_memalign(&pointer, alignment, size), 0);
    assert_int_equal((uintptr_t)pointer % alignment, 0);
    return pointer;
}

static struct guard_report check(void)
{
    struct guard_report report;

    guard->check(&report);
    return report;
}

static struct guard_counts counts(void)
{
    struct guard_counts counts;

    guard->counts(&counts);
    return counts;
}

static int find_guard(void **state)
{
    guard = dlsym(RTLD_DEFAULT, "kbv_guard_table");
    return guard && guard->version == GUARD_TABLE_VERSION ? 0 : -1;
}

static int switch_off(void **state)
{
    guard->enable(0);
    return 0;
}

/* Before the first enable(): nothing is counted, nothing is surrounded. */
static void test_passes_through(void **state)
{
    void *pointer = allocate(64, 100);

    assert_int_equal(counts().allocations, 0);
    assert_true(malloc_usable_size(pointer) >= 100);
    free(pointer);
    free(NULL);
    assert_int_equal(check().damaged, 0);
}

static void test_damage(void **state)
{
    static const struct {
        size_t size;
        ptrdiff_t offset;
    } cases[] = {{1, 1},       {100, 100},  {100, 4195}, {100, -1}, {100, -4096},
                 {4096, 4096}, {5000, -17}, {64, 64},    {65, 70}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct guard_report report;
        void *pointer;

        guard->enable(GUARD_ZONES);
        pointer = allocate(64, cases[i].size);
        memset(pointer, 0, cases[i].size);
        assert_int_equal(check().damaged, 0);
        write_byte(pointer, cases[i].offset, 0x33);
        report = check();
        assert_int_equal(report.damaged, 1);
        assert_int_equal(report.size_bytes, cases[i].size);
        assert_int_equal(report.offset_bytes, cases[i].offset);
        assert_int_equal(check().damaged, 0); /* repaired: reported once */
        write_byte(pointer, cases[i].offset, 0x33);
        assert_int_equal(check().offset_bytes, cases[i].offset);
        free(pointer);
        assert_int_equal(check().damaged, 0);
    }
}

static void test_damage_seen_at_release(void **state)
{
    struct guard_report report;
    void *first, *second;

    guard->enable(GUARD_ZONES);
    first = allocate(64, 10);
    second = allocate(64, 20);
    write_byte(first, 12, 0);
    write_byte(second, -3, 0);
    free(first);
    free(second);
    report = check();
    assert_int_equal(report.damaged, 2);
    assert_int_equal(report.size_bytes, 10);
    assert_int_equal(report.offset_bytes, 12);
    assert_int_equal(check().damaged, 0);
}

static void test_poison(void **state)
{
    unsigned char *pointer;

    guard->enable(GUARD_POISON);
    pointer = allocate(128, 999);
    for (size_t i = 0; i < 999; i++)
        assert_int_equal(pointer[i], 0xff);
    free(pointer);
}

static void test_counts(void **state)
{
    struct guard_counts before = counts(), now;
    void *pointers[200];

    guard->enable(GUARD_COUNT | GUARD_ZONES);
    guard->reset_peak();
    for (int i = 0; i < 200; i++)
        pointers[i] = allocate(64, 1000);
    for (int i = 0; i < 150; i++)
        free(pointers[i]);
    now = counts();
    assert_int_equal(now.live_bytes - before.live_bytes, 50000);
    assert_int_equal(now.peak_bytes - before.live_bytes, 200000);
    assert_int_equal(now.allocations - before.allocations, 200);
    guard->reset_peak();
    assert_int_equal(counts().peak_bytes, now.live_bytes);
    /* Released after it is switched off, still counted off. */
    guard->enable(0);
    for (int i = 150; i < 200; i++)
        free(pointers[i]);
    assert_int_equal(counts().live_bytes, before.live_bytes);
    pointers[0] = allocate(64, 1000);
    assert_int_equal(counts().live_bytes, before.live_bytes);
    free(pointers[0]);
}

static void test_other_entries(void **state)
{
    struct guard_counts before = counts();
    unsigned char *pointer, *moved;
    void *untouched = &before;

    guard->enable(GUARD_ZONES | GUARD_COUNT);
    pointer = aligned_alloc(4096, 8192);
    assert_int_equal((uintptr_t)pointer % 4096, 0);
    assert_int_equal(malloc_usable_size(pointer), 8192);
    for (int i = 0; i < 8192; i++)
        pointer[i] = (unsigned char)(i * 7);
    moved = realloc(pointer, 20000);
    for (int i = 0; i < 8192; i++)
        assert_int_equal(moved[i], (unsigned char)(i * 7));
    assert_int_equal(counts().live_bytes, before.live_bytes);
    free(moved);

    pointer = memalign(65536, 10);
    assert_int_equal((uintptr_t)pointer % 65536, 0);
    pointer[9] = 42;
    moved = realloc(pointer, 10);
    assert_int_equal(moved[9], 42);
    assert_null(realloc(allocate(64, 10), 0));
    free(moved);

    assert_int_equal(posix_memalign(&untouched, 3, 10), EINVAL);
    assert_int_equal(posix_memalign(&untouched, 64, SIZE_MAX - 100), ENOMEM);
    assert_ptr_equal(untouched, &before);
    errno = 0;
    assert_null(aligned_alloc(64, (size_t)1 << 62));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(counts().failures - before.failures, 2);
    assert_int_equal(counts().live_bytes, before.live_bytes);
    assert_int_equal(check().damaged, 0);
}

static void *churn(void *argument)
{
    unsigned seed = *(unsigned *)argument;
    void *live[64] = {0};

    for (int i = 0; i < 20000; i++) {
        size_t slot = (seed = seed * 1103515245 + 12345) >> 16 & 63;

        free(live[slot]);
        live[slot] = NULL;
        if (seed >> 24 & 1 && posix_memalign(&live[slot], 64, 1 + (seed >> 8 & 1023)) == 0)
            memset(live[slot], 0, 1);
    }
    for (int i = 0; i < 64; i++)
        free(live[i]);
    return NULL;
}

/* Threads allocate while this one forks: the children must be able to allocate and check. */
static void test_threads_and_forks(void **state)
{
    struct guard_counts before = counts();
    pthread_t threads[3];
    unsigned seeds[3] = {1, 2, 3};

    guard->enable(GUARD_COUNT | GUARD_ZONES);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
    for (int i = 0; i < 30; i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0) {
            unsigned seed = 9;
            void *pointer;

            alarm(20);
            churn(&seed);
            if (posix_memalign(&pointer, 64, 5) != 0)
                _exit(2);
            write_byte(pointer, 5, 1);
            _exit(check().damaged == 1 ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(check().damaged, 0);
    assert_int_equal(counts().live_bytes, before.live_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_passes_through, switch_off),
        cmocka_unit_test_teardown(test_damage, switch_off),
        cmocka_unit_test_teardown(test_damage_seen_at_release, switch_off),
        cmocka_unit_test_teardown(test_poison, switch_off),
        cmocka_unit_test_teardown(test_counts, switch_off),
        cmocka_unit_test_teardown(test_other_entries, switch_off),
        cmocka_unit_test_teardown(test_threads_and_forks, switch_off),
    };

    return cmocka_run_group_tests(tests, find_guard, NULL);
}
