/* Regions of the CPU device: what the other process may do with them, and what it may not. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"

#define BYTES 10000

static struct device *device;

static int open_device(void **state)
{
    struct error err = ERROR_INIT;
    int index;
    const struct device_ops *ops = device_ops_find("cpu", &index, &err);

    return ops == &device_cpu && index == 0 ? ops->open(index, &device, &err) : -1;
}

static int close_device(void **state)
{
    device_cpu.close(device);
    return 0;
}

static struct region *make(void)
{
    struct error err = ERROR_INIT;
    struct region *region = NULL;

    assert_int_equal(device_cpu.region_new(device, BYTES, &region, &err), 0);
    return region;
}

static int export(struct region *region, enum region_access access)
{
    struct error err = ERROR_INIT;
    int fd = -1;

    assert_int_equal(device_cpu.region_export(region, access, &fd, &err), 0);
    return fd;
}

static unsigned char *bytes_of(const struct region *region)
{
    return (unsigned char *)(uintptr_t)region_address(region);
}

/* Runs `work` in a child that has the descriptor and nothing of our mapping in use. */
static int in_child(int (*work)(int fd), int fd)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler would report a failed test */
        signal(SIGBUS, SIG_DFL);
        _exit(work(fd));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_new_is_zero(void **state)
{
    struct region *region = make();

    assert_int_equal(region_address(region) % 4096, 0);
    assert_int_equal(region_bytes(region), BYTES);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(bytes_of(region)[i], 0);
    region_free(region);
    region_free(NULL);
}

static struct region *import_in_child(int fd, enum region_access access)
{
    struct error err = ERROR_INIT;
    struct region *region = NULL;

    return device_cpu.region_import(device, fd, BYTES, access, &region, &err) == 0 ? region : NULL;
}

static int read_first(int fd)
{
    struct region *region = import_in_child(fd, REGION_READ_ONLY);

    return region ? bytes_of(region)[BYTES - 1] : 255;
}

static int write_read_only(int fd)
{
    struct region *region = import_in_child(fd, REGION_READ_ONLY);

    if (!region)
        return 255;
    *(volatile unsigned char *)bytes_of(region) = 1;
    return 0;
}

/* Every other way to a writable mapping; the number of the first that works. */
static int force_read_only(int fd)
{
    struct region *region = import_in_child(fd, REGION_READ_ONLY);
    char path[64];
    int again;

    if (!region)
        return 255;
    if (mprotect(bytes_of(region), 4096, PROT_READ | PROT_WRITE) == 0)
        return 1;
    if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
        return 2;
    if (pwrite(fd, "x", 1, 0) == 1)
        return 3;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR);
    if (again >= 0 && pwrite(again, "x", 1, 0) == 1)
        return 4;
    if (again >= 0 && mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED)
        return 5;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0)
        return 6;
    if (ftruncate(fd, 0) == 0 || ftruncate(fd, 1 << 20) == 0)
        return 7;
    if (madvise(bytes_of(region), 4096, MADV_REMOVE) == 0)
        return 8;
    if (import_in_child(fd, REGION_READ_WRITE))
        return 9;
    return 100;
}

static void test_read_only(void **state)
{
    struct region *region = make();
    int fd = export(region, REGION_READ_ONLY), status;

    /* The owner's mapping stays writable after the export, and the change is seen. */
    bytes_of(region)[BYTES - 1] = 77;
    status = in_child(read_first, fd);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 77);

    status = in_child(write_read_only, fd);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    status = in_child(force_read_only, fd);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 100);
    assert_int_equal(bytes_of(region)[0], 0);
    close(fd);
    region_free(region);
}

static int write_last(int fd)
{
    struct region *region = import_in_child(fd, REGION_READ_WRITE);

    if (!region)
        return 1;
    bytes_of(region)[BYTES - 1] = 5;
    return 0;
}

/* With the descriptor of an output: nothing that would hurt the owner. */
static int hurt_owner(int fd)
{
    if (ftruncate(fd, 0) == 0)
        return 1;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0)
        return 2;
    return 100;
}

static void test_read_write(void **state)
{
    struct region *region = make();
    int fd = export(region, REGION_READ_WRITE);

    assert_int_equal(in_child(write_last, fd), 0);
    assert_int_equal(bytes_of(region)[BYTES - 1], 5);
    assert_int_equal(WEXITSTATUS(in_child(hurt_owner, fd)), 100);
    close(fd);
    region_free(region);
}

static void test_export_settles_access(void **state)
{
    struct error err = ERROR_INIT;
    struct region *region = make();
    int first = export(region, REGION_READ_ONLY), again = export(region, REGION_READ_ONLY);
    int fd = -7;

    assert_int_not_equal(first, again);
    assert_true(fcntl(first, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(device_cpu.region_export(region, REGION_READ_WRITE, &fd, &err), -1);
    assert_int_equal(fd, -7);
    close(first);
    close(again);
    region_free(region);
}

static void test_import_refuses(void **state)
{
    struct error err = ERROR_INIT;
    struct region *region = make(), *imported = NULL, *none = NULL;
    int fd = export(region, REGION_READ_WRITE), plain = memfd_create("plain", MFD_ALLOW_SEALING);
    int pipes[2];

    assert_int_equal(ftruncate(plain, BYTES), 0);
    assert_int_equal(pipe(pipes), 0);
    /* Longer than the object, not sealed against shrinking, no memfd, nothing at all. */
    assert_int_equal(device_cpu.region_import(device, fd, 1 << 20, REGION_READ_ONLY, &none, &err),
                     -1);
    assert_non_null(strstr(err.text, "1048576"));
    assert_int_equal(device_cpu.region_import(device, plain, BYTES, REGION_READ_ONLY, &none, &err),
                     -1);
    assert_non_null(strstr(err.text, "sealed"));
    assert_int_equal(
        device_cpu.region_import(device, pipes[0], BYTES, REGION_READ_ONLY, &none, &err), -1);
    assert_int_equal(device_cpu.region_import(device, -1, BYTES, REGION_READ_ONLY, &none, &err),
                     -1);
    assert_int_equal(device_cpu.region_import(device, fd, 0, REGION_READ_ONLY, &none, &err), -1);
    assert_null(none);

    assert_int_equal(
        device_cpu.region_import(device, fd, BYTES, REGION_READ_WRITE, &imported, &err), 0);
    assert_int_equal(region_bytes(imported), BYTES);
    assert_int_equal(device_cpu.region_export(imported, REGION_READ_ONLY, &pipes[0], &err), -1);
    region_free(imported);
    close(fd);
    close(plain);
    region_free(region);
}

static void test_find(void **state)
{
    static const char *const bad[] = {"gpu",     "",       "cpu:",
                                      "cpu:x",   "cpu:-1", "cuda:1x",
                                      "cuda: 1", "cpux",   "cuda:99999999999999999999"};
    struct error err = ERROR_INIT;
    int index = -1;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_null(device_ops_find(bad[i], &index, &err));
        assert_int_equal(err.kind, ERROR_USAGE);
        assert_int_equal(index, -1);
    }
    assert_ptr_equal(device_ops_find("cuda:3", &index, &err), &device_cuda);
    assert_int_equal(index, 3);
    assert_ptr_equal(device_ops_find("cpu", &index, &err), &device_cpu);
    assert_int_equal(index, 0);
}

/* Either there is a driver and a device, or the error says that this machine is unfit. */
static void test_cuda_may_be_absent(void **state)
{
    struct error err = ERROR_INIT;
    struct device *opened = NULL;

    if (device_cuda.open(0, &opened, &err) == 0) {
        assert_non_null(opened);
        device_cuda.close(opened);
        return;
    }
    assert_int_equal(err.kind, ERROR_UNFIT);
    assert_non_null(strstr(err.text, "CUDA"));
    assert_null(opened);
}

static void test_facts(void **state)
{
    struct error err = ERROR_INIT;
    struct device_facts facts;
    struct device *none = NULL;
    uint64_t free_bytes, total_bytes, elapsed_ns = 0;

    assert_int_equal(device_cpu.facts(device, &facts, &err), 0);
    assert_true(facts.multiprocessors >= 1 && facts.memory_bytes > 1 << 20 && facts.name[0]);
    assert_int_equal(facts.compute_major, 0);
    assert_int_equal(device_cpu.memory(device, &free_bytes, &total_bytes, &err), 0);
    assert_int_equal(total_bytes, facts.memory_bytes);
    assert_true(free_bytes > 0 && free_bytes <= total_bytes);
    assert_int_equal(device_cpu.open(1, &none, &err), -1);

    assert_int_equal(device_cpu.mark_start(device, &err), 0);
    usleep(3000);
    assert_int_equal(device_cpu.mark_stop(device, &elapsed_ns, &err), 0);
    assert_true(elapsed_ns >= 2900000 && elapsed_ns < 10000000000);
    assert_int_equal(device_cpu.flush(device, &err), 0);
    assert_int_equal(device_cpu.synchronize(device, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_is_zero),        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_read_write),         cmocka_unit_test(test_export_settles_access),
        cmocka_unit_test(test_import_refuses),     cmocka_unit_test(test_find),
        cmocka_unit_test(test_cuda_may_be_absent), cmocka_unit_test(test_facts),
    };

    return cmocka_run_group_tests(tests, open_device, close_device);
}
