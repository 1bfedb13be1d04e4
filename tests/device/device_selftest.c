/*
 * Checks every operation of a device against the same operation on the host, on the machine that
 * is there: `device_selftest [cuda[:N] | cpu]`. Needs no framework and no Python, so that it can be
 * carried to a GPU machine as it is. Prints one line for each failure and `N passed, N failed` at
 * the end; the status is 1 if anything failed.
 *
 * Order matters in one place: the peer process is forked before the device is opened, because the
 * CUDA driver does not survive a fork.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/compare_host.h"
#include "device/cuda_alloc.h"
#include "device/device.h"
#include "device/fill.h"
#include "device/guard.h"
#include "device/hash.h"

#define PATTERN     0x0123456789abcdefu
#define KEY         0x51c6f21e8b3d9a07u
#define LARGE_BYTES (((size_t)96 << 20) + 4096)
#define WRITE_SEEN  42 /* exit status of a peer whose forbidden write was refused */

static unsigned passed, failed;
static const struct device_ops *ops;
static struct device *device;
static struct error err;

#define CHECK(condition, ...) check(condition, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) static void check(bool holds, int line, const char *format,
                                                        ...)
{
    va_list args;

    if (holds) {
        passed++;
        return;
    }
    failed++;
    va_start(args, format);
    printf("line %d: ", line);
    vprintf(format, args);
    printf("%s%s\n", err.text[0] ? ": " : "", err.text);
    va_end(args);
    err.text[0] = '\0';
}

/* Deterministic numbers; the state is a counter through a mixer. */
static uint64_t random_state = 1;

static uint64_t random_bits(void)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static void random_fill(void *to, size_t bytes)
{
    uint64_t word;

    for (size_t i = 0; i < bytes; i += sizeof(word)) {
        word = random_bits();
        memcpy((char *)to + i, &word, bytes - i < sizeof(word) ? bytes - i : sizeof(word));
    }
}

/* A region, and host memory of the same size. */
struct pair {
    struct region *region;
    uint64_t address;
    unsigned char *host;
    size_t bytes;
};

static void pair_make(struct pair *pair, size_t bytes)
{
    pair->bytes = bytes;
    pair->host = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!pair->host || ops->region_new(device, bytes, &pair->region, &err) < 0) {
        fprintf(stderr, "%zu bytes: %s\n", bytes, err.text);
        exit(1);
    }
    pair->address = region_address(pair->region);
}

static void pair_release(struct pair *pair)
{
    region_free(pair->region);
    free(pair->host);
}

static bool upload(const struct pair *pair)
{
    return ops->upload(device, pair->address, pair->host, pair->bytes, &err) == 0;
}

static bool same_as_host(const struct pair *pair)
{
    CLEANUP_FREE unsigned char *there = malloc(pair->bytes);

    return there && ops->download(device, there, pair->address, pair->bytes, &err) == 0 &&
           memcmp(there, pair->host, pair->bytes) == 0;
}

static void test_facts(void)
{
    struct device_facts facts = {0};
    uint64_t free_bytes = 0, total_bytes = 0;

    CHECK(ops->facts(device, &facts, &err) == 0, "facts");
    CHECK(facts.name[0] && facts.memory_bytes > 0 && facts.multiprocessors > 0, "empty facts");
    CHECK(ops->memory(device, &free_bytes, &total_bytes, &err) == 0, "memory");
    CHECK(free_bytes > 0 && free_bytes <= total_bytes, "free memory above total");
    if (strcmp(ops->name, "cuda") == 0) {
        CHECK(facts.compute_major >= 5 && facts.l2_bytes > 0, "compute capability or L2");
        CHECK(facts.bandwidth_bytes_per_s > 1e10, "bandwidth %g", facts.bandwidth_bytes_per_s);
        CHECK(facts.driver[0], "driver's version");
    }
    printf("device: %s, driver %s, %d.%d, %d multiprocessors, %.1f GiB, L2 %.1f MiB, %.2f TB/s\n",
           facts.name, facts.driver, facts.compute_major, facts.compute_minor,
           facts.multiprocessors, (double)facts.memory_bytes / 0x1p30,
           (double)facts.l2_bytes / 0x1p20, facts.bandwidth_bytes_per_s / 1e12);
}

static void test_copies(void)
{
    struct pair a, b;

    pair_make(&a, 1000003);
    pair_make(&b, 1000003);
    CHECK(a.address % 4096 == 0, "a region that is not aligned to 4096");
    memset(a.host, 0, a.bytes);
    CHECK(same_as_host(&a), "a new region is not zero");
    random_fill(a.host, a.bytes);
    CHECK(upload(&a) && same_as_host(&a), "upload and download");
    memcpy(b.host, a.host, b.bytes);
    CHECK(ops->copy(device, b.address, a.address, a.bytes, &err) == 0 && same_as_host(&b),
          "copy on the device");
    memmove(b.host + 17, a.host + 5, 1001);
    CHECK(ops->copy(device, b.address + 17, a.address + 5, 1001, &err) == 0 && same_as_host(&b),
          "copy at odd offsets");
    CHECK(ops->region_new(device, 0, &a.region, &err) < 0, "a region of no bytes");
    err.text[0] = '\0';
    pair_release(&a);
    pair_release(&b);
}

static void test_fill_range(struct pair *pair, size_t offset, size_t bytes)
{
    uint64_t different = 99, first = 99;

    fill_host(pair->host + offset, PATTERN, bytes);
    CHECK(ops->fill(device, pair->address + offset, PATTERN, bytes, &err) == 0, "fill");
    CHECK(same_as_host(pair), "fill of %zu bytes at %zu", bytes, offset);
    CHECK(ops->check_fill(device, pair->address + offset, PATTERN, bytes, &different, &first,
                          &err) == 0 &&
              different == 0 && first == 99,
          "check of %zu whole bytes at %zu: %llu different", bytes, offset,
          (unsigned long long)different);
    for (int i = 0; i < 3 && bytes > 0; i++) {
        size_t at[] = {0, bytes / 2, bytes - 1};
        unsigned char damaged = (unsigned char)(pair->host[offset + at[i]] ^ 0x10);

        ops->upload(device, pair->address + offset + at[i], &damaged, 1, &err);
        CHECK(ops->check_fill(device, pair->address + offset, PATTERN, bytes, &different, &first,
                              &err) == 0 &&
                  different == 1 && first == at[i],
              "one damaged byte at %zu of %zu: %llu different, first %llu", at[i], bytes,
              (unsigned long long)different, (unsigned long long)first);
        ops->upload(device, pair->address + offset + at[i], pair->host + offset + at[i], 1, &err);
    }
}

static void test_fill(void)
{
    static const size_t sizes[] = {0, 1, 7, 8, 15, 16, 17, 31, 33, 4096, 100003, 3000000};
    struct pair pair;
    uint64_t different, first;

    pair_make(&pair, 3 << 20);
    random_fill(pair.host, pair.bytes);
    CHECK(upload(&pair), "upload");
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        for (size_t offset = 0; offset < 20; offset += i < 9 ? 1 : 7)
            test_fill_range(&pair, offset, sizes[i]);
    random_fill(pair.host, pair.bytes);
    upload(&pair);
    CHECK(ops->check_fill(device, pair.address + 3, PATTERN, pair.bytes - 3, &different, &first,
                          &err) == 0,
          "check_fill");
    {
        uint64_t host_first = 0;
        uint64_t host = fill_host_check(pair.host + 3, PATTERN, pair.bytes - 3, &host_first);

        CHECK(different == host && first == host_first, "check of random bytes: %llu and %llu",
              (unsigned long long)different, (unsigned long long)host);
    }
    pair_release(&pair);
}

static void test_hash_range(const struct pair *pair, size_t offset, size_t bytes)
{
    uint64_t there[2] = {0}, here[2] = {0};

    hash_host(pair->host + offset, bytes, KEY, here);
    CHECK(ops->hash(device, pair->address + offset, bytes, KEY, there, &err) == 0, "hash");
    CHECK(here[0] == there[0] && here[1] == there[1], "hash of %zu bytes at %zu", bytes, offset);
}

static void test_hash(void)
{
    static const size_t sizes[] = {0, 1, 8, 4095, 8191, 8192, 8193, 65536, 1000001, 40000003};
    static const size_t offsets[] = {0, 1, 8, 16, 4096};
    struct pair pair;

    pair_make(&pair, 40 << 20);
    random_fill(pair.host, pair.bytes);
    CHECK(upload(&pair), "upload");
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        for (size_t j = 0; j < ARRAY_SIZE(offsets); j++)
            test_hash_range(&pair, offsets[j], sizes[i]);
    pair_release(&pair);
}

/* An element near the integer `value`; `special` makes some floating elements NaN or infinite. */
static void set_element(enum dtype dtype, unsigned char *to, int value, bool special)
{
    static const uint16_t halves[] = {0x7e00, 0x7c00, 0xfc00}, bfloats[] = {0x7fc0, 0x7f80, 0xff80};
    static const double doubles[] = {NAN, INFINITY, -INFINITY};
    size_t kind = random_bits() % 3;
    double x = special ? doubles[kind] : value * 0.37;
    float single = (float)x;
    uint32_t bits;
    uint16_t half;
    int64_t integer = value;

    switch (dtype) {
    case DTYPE_FLOAT64:
        memcpy(to, &x, sizeof(x));
        break;
    case DTYPE_FLOAT32:
        memcpy(to, &single, sizeof(single));
        break;
    case DTYPE_FLOAT16: /* any small pattern: denormals and numbers up to 2 */
        half = special ? halves[kind] : (uint16_t)(abs(value) % 0x4000 | (value < 0) << 15);
        memcpy(to, &half, sizeof(half));
        break;
    case DTYPE_BFLOAT16:
        memcpy(&bits, &single, sizeof(bits));
        half = special ? bfloats[kind] : (uint16_t)(bits >> 16);
        memcpy(to, &half, sizeof(half));
        break;
    case DTYPE_BOOL:
        *to = (unsigned char)(value & 1);
        break;
    default: /* little-endian: the low bytes are the narrower integer */
        memcpy(to, &integer, dtype_size(dtype));
    }
}

static bool near(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-12 * fabs(b);
}

static bool same_value(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Sums are added in another order on each device; all the rest is the same. */
static bool agree(const struct compare_result *a, const struct compare_result *b)
{
    return near(a->s, b->s) && near(a->n, b->n) && near(a->sigma, b->sigma) &&
           a->worst_index == b->worst_index && same_value(a->worst_expected, b->worst_expected) &&
           same_value(a->worst_got, b->worst_got) &&
           a->nonfinite_expected == b->nonfinite_expected && a->nonfinite_got == b->nonfinite_got &&
           a->mask_mismatches == b->mask_mismatches &&
           a->first_mask_mismatch == b->first_mask_mismatch &&
           same_value(a->mask_expected, b->mask_expected) && same_value(a->mask_got, b->mask_got) &&
           a->mismatch_count == b->mismatch_count && a->first_mismatch == b->first_mismatch;
}

static void test_compare_pair(struct pair *e, struct pair *g, enum dtype expected_dtype,
                              enum dtype got_dtype, uint64_t count, size_t shift)
{
    size_t e_offset = shift * dtype_size(expected_dtype), g_offset = shift * dtype_size(got_dtype);
    struct compare_result here = {0}, there = {0}, again = {0};

    CHECK(compare_host(e->host + e_offset, expected_dtype, g->host + g_offset, got_dtype, count,
                       &here, &err) == 0,
          "compare on the host");
    CHECK(ops->compare(device, e->address + e_offset, expected_dtype, g->address + g_offset,
                       got_dtype, count, &there, &err) == 0,
          "compare %s with %s", dtype_name(expected_dtype), dtype_name(got_dtype));
    CHECK(agree(&here, &there),
          "compare %s with %s, %llu elements, shift %zu: s %.17g %.17g, n %g %g, worst %llu %llu, "
          "masks %llu %llu, mismatches %llu %llu",
          dtype_name(expected_dtype), dtype_name(got_dtype), (unsigned long long)count, shift,
          here.s, there.s, here.n, there.n, (unsigned long long)here.worst_index,
          (unsigned long long)there.worst_index, (unsigned long long)here.mask_mismatches,
          (unsigned long long)there.mask_mismatches, (unsigned long long)here.mismatch_count,
          (unsigned long long)there.mismatch_count);
    ops->compare(device, e->address + e_offset, expected_dtype, g->address + g_offset, got_dtype,
                 count, &again, &err);
    CHECK(memcmp(&there, &again, sizeof(again)) == 0, "compare twice: other bits");
}

/* Mostly equal elements, some that differ, and now and then one that is not finite. */
static void set_pair(struct pair *e, struct pair *g, enum dtype expected_dtype,
                     enum dtype got_dtype, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int value = (int)(random_bits() % 100);
        bool special = random_bits() % 5000 == 0;
        bool other = random_bits() % 700 == 0;

        set_element(expected_dtype, e->host + i * dtype_size(expected_dtype), value, special);
        set_element(got_dtype, g->host + i * dtype_size(got_dtype), other ? value + 1 : value,
                    special);
    }
    CHECK(upload(e) && upload(g), "upload");
}

static void test_compare(void)
{
    static const uint64_t counts[] = {0, 1, 2, 1023, 5000, 300001};
    struct pair e, g;

    pair_make(&e, (300001 + 16) * 8);
    pair_make(&g, (300001 + 16) * 8);
    memset(e.host, 0, e.bytes);
    memset(g.host, 0, g.bytes);
    for (int i = 0; i < DTYPE_COUNT; i++) {
        for (int j = 0; j < DTYPE_COUNT; j++) {
            set_pair(&e, &g, (enum dtype)i, (enum dtype)j, 300001 + 16);
            for (size_t k = 0; k < ARRAY_SIZE(counts); k++)
                for (size_t shift = 0; shift < 4; shift += 3)
                    test_compare_pair(&e, &g, (enum dtype)i, (enum dtype)j, counts[k], shift);
        }
    }
    pair_release(&e);
    pair_release(&g);
}

/* Enough for the widest grid several times over, the worst element near the end, tiny numbers whose
 * squares vanish, and halves with every bit pattern. */
static void test_compare_edges(void)
{
    size_t count = LARGE_BYTES / sizeof(double);
    struct pair e, g;
    double *x;
    float *y;

    pair_make(&e, LARGE_BYTES);
    pair_make(&g, LARGE_BYTES);
    x = (double *)(void *)e.host;
    y = (float *)(void *)g.host;
    for (size_t i = 0; i < count; i++) {
        x[i] = (double)(int64_t)random_bits() * 0x1p-60;
        y[i] = (float)x[i];
    }
    y[count - 5] = (float)x[count - 5] + 3;
    CHECK(upload(&e) && upload(&g), "upload");
    test_compare_pair(&e, &g, DTYPE_FLOAT64, DTYPE_FLOAT32, count, 0);
    test_compare_pair(&e, &g, DTYPE_FLOAT64, DTYPE_FLOAT32, count - 1, 1);

    for (size_t i = 0; i < count; i++) {
        x[i] *= 0x1p-700;
        ((double *)(void *)g.host)[i] = x[i] * (1 + 0x1p-30);
    }
    CHECK(upload(&e) && upload(&g), "upload");
    test_compare_pair(&e, &g, DTYPE_FLOAT64, DTYPE_FLOAT64, count, 0);

    for (size_t i = 0; i < 65536; i++) {
        ((uint16_t *)(void *)e.host)[i] = (uint16_t)i;
        ((uint16_t *)(void *)g.host)[i] = (uint16_t)(i ^ (i % 97 == 0));
    }
    CHECK(upload(&e) && upload(&g), "upload");
    test_compare_pair(&e, &g, DTYPE_FLOAT16, DTYPE_FLOAT16, 65536, 0);
    test_compare_pair(&e, &g, DTYPE_BFLOAT16, DTYPE_BFLOAT16, 65536, 0);
    CHECK(ops->compare(device, e.address + 1, DTYPE_FLOAT32, g.address, DTYPE_FLOAT32, 4,
                       &(struct compare_result){0}, &err) < 0,
          "compare at an address that is not aligned");
    err.text[0] = '\0';
    pair_release(&e);
    pair_release(&g);
}

static void test_clock(void)
{
    struct pair a, b;
    uint64_t start_ns, wall_ns, own_ns = 0;

    pair_make(&a, LARGE_BYTES);
    pair_make(&b, LARGE_BYTES);
    CHECK(ops->flush(device, &err) == 0 && ops->flush(device, &err) == 0, "flush");
    CHECK(ops->synchronize(device, &err) == 0, "synchronize");
    start_ns = clock_now_ns();
    CHECK(ops->mark_start(device, &err) == 0, "mark_start");
    for (int i = 0; i < 20; i++)
        ops->copy(device, b.address, a.address, LARGE_BYTES, &err);
    CHECK(ops->mark_stop(device, &own_ns, &err) == 0, "mark_stop");
    wall_ns = clock_now_ns() - start_ns;
    /* 10 TB/s is above every memory there is. */
    CHECK((double)own_ns > 20.0 * 2 * LARGE_BYTES / 10000 && own_ns <= wall_ns,
          "20 copies: own clock %llu ns, wall %llu ns", (unsigned long long)own_ns,
          (unsigned long long)wall_ns);
    pair_release(&a);
    pair_release(&b);
}

static int send_fd(int socket, int fd)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

static int receive_fd(int socket)
{
    char byte;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int fd = -1;

    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

#define SHARED_BYTES ((size_t)1000000)

/* The other process: imports both regions, says what it found by its exit status. */
static int peer(const char *spec, int socket)
{
    struct region *input, *output, *refused;
    int input_fd = receive_fd(socket), output_fd = receive_fd(socket), index;
    uint64_t different = 0, first;

    ops = device_ops_find(spec, &index, &err);
    if (input_fd < 0 || output_fd < 0 || ops->open(index, &device, &err) < 0 ||
        ops->region_import(device, input_fd, SHARED_BYTES, REGION_READ_ONLY, &input, &err) < 0 ||
        ops->region_import(device, output_fd, SHARED_BYTES, REGION_READ_WRITE, &output, &err) < 0)
        return 2;
    if (ops->region_import(device, input_fd, (size_t)1 << 30, REGION_READ_ONLY, &refused, &err) ==
        0)
        return 3;
    if (ops->check_fill(device, region_address(input), PATTERN, SHARED_BYTES, &different, &first,
                        &err) < 0 ||
        different > 0)
        return 4;
    if (ops->copy(device, region_address(output), region_address(input), SHARED_BYTES, &err) < 0)
        return 5;
    if (ops->synchronize(device, &err) < 0 || write(socket, "", 1) != 1)
        return 6;
    /* The forbidden write. Lost is the device for this process, or the process (by the signal
     * itself, not a sanitizer's handler). */
    signal(SIGSEGV, SIG_DFL);
    if (ops->fill(device, region_address(input), 0, 4096, &err) < 0)
        return WRITE_SEEN;
    return 0;
}

static void test_sharing(pid_t child, int socket)
{
    struct pair input, output;
    int input_fd = -1, output_fd = -1, status = 0;
    uint64_t different = 99, first;
    char byte;

    pair_make(&input, SHARED_BYTES);
    pair_make(&output, SHARED_BYTES);
    CHECK(ops->fill(device, input.address, PATTERN, SHARED_BYTES, &err) == 0, "fill");
    CHECK(ops->region_export(input.region, REGION_READ_ONLY, &input_fd, &err) == 0 &&
              ops->region_export(output.region, REGION_READ_WRITE, &output_fd, &err) == 0,
          "export");
    CHECK(send_fd(socket, input_fd) == 0 && send_fd(socket, output_fd) == 0, "sending");
    CHECK(read(socket, &byte, 1) == 1, "the peer did not get through its checks");
    CHECK(ops->check_fill(device, output.address, PATTERN, SHARED_BYTES, &different, &first,
                          &err) == 0 &&
              different == 0,
          "what the peer wrote: %llu bytes differ", (unsigned long long)different);
    CHECK(waitpid(child, &status, 0) == child, "waiting for the peer");
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == WRITE_SEEN) ||
              (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV),
          "a write through a read-only mapping: status %#x", status);
    CHECK(ops->check_fill(device, input.address, PATTERN, SHARED_BYTES, &different, &first, &err) ==
                  0 &&
              different == 0,
          "the peer changed a read-only region: %llu bytes", (unsigned long long)different);
    close(input_fd);
    close(output_fd);
    pair_release(&input);
    pair_release(&output);
}

static void test_guard_damage(uint64_t address, int64_t offset, uint64_t size)
{
    struct guard_report report = {0};

    ops->fill(device, address + (uint64_t)offset, 0, 1, &err);
    guard_cuda.check(&report);
    CHECK(report.damaged == 1 && report.size_bytes == size && report.offset_bytes == offset,
          "a write at %lld of %llu: %llu damaged, at %lld", (long long)offset,
          (unsigned long long)size, (unsigned long long)report.damaged,
          (long long)report.offset_bytes);
    guard_cuda.check(&report);
    CHECK(report.damaged == 0, "one damage was reported twice");
}

static void test_guard(void)
{
    struct guard_counts counts = {0};
    struct guard_report report = {0};
    unsigned char bytes[1001];
    void *first, *second;

    guard_cuda.enable(GUARD_ZONES | GUARD_POISON | GUARD_COUNT);
    first = kbv_cuda_allocate(1001, 0, NULL);
    second = kbv_cuda_allocate(1 << 20, 0, NULL);
    CHECK(first && second && (uintptr_t)first % 512 == 0, "allocations of the guard");
    CHECK(ops->download(device, bytes, (uintptr_t)first, sizeof(bytes), &err) == 0, "download");
    CHECK(bytes[0] == 0xff && memcmp(bytes, bytes + 1, sizeof(bytes) - 1) == 0, "poison");
    guard_cuda.counts(&counts);
    CHECK(counts.live_bytes == 1001 + (1 << 20) && counts.allocations == 2, "counts");
    guard_cuda.check(&report);
    CHECK(report.damaged == 0, "damage that nobody did");
    test_guard_damage((uintptr_t)first, 1001, 1001);
    test_guard_damage((uintptr_t)first, -1, 1001);
    test_guard_damage((uintptr_t)second, (1 << 20) + 4095, 1 << 20);
    test_guard_damage((uintptr_t)second, -4096, 1 << 20);
    ops->fill(device, (uintptr_t)second + (1 << 20) + 3, 0, 1, &err);
    kbv_cuda_release(second, 1 << 20, 0, NULL);
    guard_cuda.check(&report);
    CHECK(report.damaged == 1 && report.offset_bytes == (1 << 20) + 3, "damage seen at release");
    kbv_cuda_release(first, 1001, 0, NULL);
    guard_cuda.counts(&counts);
    CHECK(counts.live_bytes == 0 && counts.peak_bytes == 1001 + (1 << 20), "counts after release");
    guard_cuda.reset_peak();
    guard_cuda.counts(&counts);
    CHECK(counts.peak_bytes == 0, "peak after reset");
    CHECK(kbv_cuda_allocate(0, 0, NULL) == NULL, "an allocation of nothing");
    CHECK(kbv_cuda_allocate((ssize_t)1 << 46, 0, NULL) == NULL, "an allocation of 64 TiB");
    guard_cuda.counts(&counts);
    CHECK(counts.failures == 1, "%llu failures instead of 1", (unsigned long long)counts.failures);
    guard_cuda.enable(0);
    first = kbv_cuda_allocate(4096, 0, NULL);
    guard_cuda.counts(&counts);
    CHECK(first && counts.live_bytes == 0, "passing through");
    kbv_cuda_release(first, 4096, 0, NULL);
    CHECK(ops->synchronize(device, &err) == 0, "synchronize after it all");
}

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : "cuda";
    int sockets[2], index = 0;
    pid_t child;

    ops = device_ops_find(spec, &index, &err);
    if (!ops || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0) {
        fprintf(stderr, "%s\n", ops ? strerror(errno) : err.text);
        return 2;
    }
    child = fork();
    if (child == 0) {
        close(sockets[0]);
        _exit(peer(spec, sockets[1]));
    }
    close(sockets[1]);
    if (ops->open(index, &device, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    test_facts();
    test_copies();
    test_fill();
    test_hash();
    test_compare_edges();
    test_compare();
    test_clock();
    test_sharing(child, sockets[0]);
    if (strcmp(ops->name, "cuda") == 0)
        test_guard();
    ops->close(device);
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0;
}
