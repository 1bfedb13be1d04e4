/* The device, its regions, and watching a candidate's allocations. Regions are small integers; they
 * are never freed before the process ends unless said so: a tensor made over a region must not
 * outlive it. */
#define PY_SSIZE_T_CLEAN
#include "worker/module.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

#include "device/guard.h"
#include "protocol/tolerance.h"
#include "worker/dlpack.h"

#define REGIONS_MAX 512

static struct region *regions[REGIONS_MAX];
static const struct guard_table *guard;

/* device_open(spec) -> dict of facts */
PyObject *py_device_open(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct device_facts facts;
    const char *spec;
    int index, status;

    if (!PyArg_ParseTuple(args, "s", &spec))
        return NULL;
    worker_ops = device_ops_find(spec, &index, &err);
    if (!worker_ops)
        return worker_raise(&err);
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->open(index, &worker_device, &err);
    if (status == 0)
        status = worker_ops->facts(worker_device, &facts, &err);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return worker_raise(&err);
    return Py_BuildValue("{sssssKsKsdsisi}", "name", facts.name, "driver", facts.driver,
                         "memory_bytes", (unsigned long long)facts.memory_bytes, "l2_bytes",
                         (unsigned long long)facts.l2_bytes, "bandwidth",
                         facts.bandwidth_bytes_per_s, "major", facts.compute_major, "minor",
                         facts.compute_minor);
}

static PyObject *keep_region(struct region *region)
{
    for (int i = 0; i < REGIONS_MAX; i++) {
        if (!regions[i]) {
            regions[i] = region;
            return Py_BuildValue("(iK)", i, (unsigned long long)region_address(region));
        }
    }
    region_free(region);
    return worker_raise_text("too many regions");
}

static struct region *find_region(int handle)
{
    if (handle < 0 || handle >= REGIONS_MAX || !regions[handle]) {
        worker_raise_text("no such region");
        return NULL;
    }
    return regions[handle];
}

static bool have_device(void)
{
    if (!worker_device)
        worker_raise_text("no device is open");
    return worker_device != NULL;
}

/* region_new(bytes) -> (handle, address) */
PyObject *py_region_new(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct region *region;
    unsigned long long bytes;
    int status;

    if (!PyArg_ParseTuple(args, "K", &bytes) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->region_new(worker_device, bytes, &region, &err);
    Py_END_ALLOW_THREADS
    return status < 0 ? worker_raise(&err) : keep_region(region);
}

/* region_export(handle, writable) -> fd */
PyObject *py_region_export(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct region *region;
    int handle, writable, fd;

    if (!PyArg_ParseTuple(args, "ip", &handle, &writable) || !(region = find_region(handle)))
        return NULL;
    if (worker_ops->region_export(region, writable ? REGION_READ_WRITE : REGION_READ_ONLY, &fd,
                                  &err) < 0)
        return worker_raise(&err);
    return PyLong_FromLong(fd);
}

/* region_import(fd, bytes, writable) -> (handle, address); closes fd */
PyObject *py_region_import(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct region *region;
    unsigned long long bytes;
    int fd, writable, status;

    if (!PyArg_ParseTuple(args, "iKp", &fd, &bytes, &writable) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->region_import(
        worker_device, fd, bytes, writable ? REGION_READ_WRITE : REGION_READ_ONLY, &region, &err);
    Py_END_ALLOW_THREADS
    close(fd);
    return status < 0 ? worker_raise(&err) : keep_region(region);
}

/* region_free(handle): no tensor over it may be alive. */
PyObject *py_region_free(PyObject *self, PyObject *args)
{
    struct region *region;
    int handle;

    if (!PyArg_ParseTuple(args, "i", &handle) || !(region = find_region(handle)))
        return NULL;
    region_free(region);
    regions[handle] = NULL;
    Py_RETURN_NONE;
}

/* fill(address, pattern, bytes) */
PyObject *py_fill(PyObject *self, PyObject *args)
{
    unsigned long long address, pattern, bytes;
    struct error err = ERROR_INIT;
    int status;

    if (!PyArg_ParseTuple(args, "KKK", &address, &pattern, &bytes) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->fill(worker_device, address, pattern, bytes, &err);
    Py_END_ALLOW_THREADS
    return worker_finish(status, &err);
}

/* check_fill(address, pattern, bytes) -> (different bytes, offset of the first or -1) */
PyObject *py_check_fill(PyObject *self, PyObject *args)
{
    unsigned long long address, pattern, bytes;
    struct error err = ERROR_INIT;
    uint64_t different, first = UINT64_MAX;
    int status;

    if (!PyArg_ParseTuple(args, "KKK", &address, &pattern, &bytes) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status =
        worker_ops->check_fill(worker_device, address, pattern, bytes, &different, &first, &err);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return worker_raise(&err);
    return Py_BuildValue("(KL)", (unsigned long long)different,
                         different ? (long long)first : -1ll);
}

/* hash(address, bytes, key) -> (low, high), each below 2^63 */
PyObject *py_hash(PyObject *self, PyObject *args)
{
    unsigned long long address, bytes, key;
    struct error err = ERROR_INIT;
    uint64_t hash[2];
    int status;

    if (!PyArg_ParseTuple(args, "KKK", &address, &bytes, &key) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->hash(worker_device, address, bytes, key, hash, &err);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return worker_raise(&err);
    return Py_BuildValue("(KK)", (unsigned long long)hash[0] >> 1,
                         (unsigned long long)hash[1] >> 1);
}

/* compare(expected, expected_dtype, got, got_dtype, count, s(b), n(b), tf32=False) -> dict: the
 * fields of struct compare_result, and `excess`: how far over the budget, > 1 exactly when it is
 * not accepted. */
PyObject *py_compare(PyObject *self, PyObject *args)
{
    const char *expected_name, *got_name;
    unsigned long long expected, got, count;
    double baseline_s, baseline_n, excess;
    int tf32 = 0;
    struct error err = ERROR_INIT;
    struct compare_result result;
    int expected_dtype, got_dtype, status;
    struct budget budget;

    if (!PyArg_ParseTuple(args, "KsKsKdd|p", &expected, &expected_name, &got, &got_name, &count,
                          &baseline_s, &baseline_n, &tf32) ||
        !have_device())
        return NULL;
    expected_dtype = dtype_parse(expected_name);
    got_dtype = dtype_parse(got_name);
    if (expected_dtype < 0 || got_dtype < 0)
        return worker_raise_text("kbv cannot compare tensors of this dtype");
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->compare(worker_device, expected, (enum dtype)expected_dtype, got,
                                 (enum dtype)got_dtype, count, &result, &err);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return worker_raise(&err);
    budget_set(&budget, (enum dtype)got_dtype, baseline_s, baseline_n);
    if (tf32)
        budget_allow_tf32(&budget);
    excess = budget_accepts(&budget, &result) ? 0.0 : 2.0;
    if (budget.s_limit > 0 && budget.n_limit > 0 && !result.mask_mismatches)
        excess = fmax(result.s / budget.s_limit, result.n / budget.n_limit);
    if (isnan(excess) || (excess <= 1 && !budget_accepts(&budget, &result)))
        excess = INFINITY;
    return Py_BuildValue(
        "{sdsdsdsdsKsdsdsKsKsKsKsdsdsKsK}", "excess", excess, "s", result.s, "n", result.n, "sigma",
        result.sigma, "worst_index", (unsigned long long)result.worst_index, "worst_expected",
        result.worst_expected, "worst_got", result.worst_got, "nonfinite_expected",
        (unsigned long long)result.nonfinite_expected, "nonfinite_got",
        (unsigned long long)result.nonfinite_got, "mask_mismatches",
        (unsigned long long)result.mask_mismatches, "first_mask_mismatch",
        (unsigned long long)result.first_mask_mismatch, "mask_expected", result.mask_expected,
        "mask_got", result.mask_got, "mismatch_count", (unsigned long long)result.mismatch_count,
        "first_mismatch", (unsigned long long)result.first_mismatch);
}

PyObject *py_flush(PyObject *self, PyObject *unused)
{
    struct error err = ERROR_INIT;
    int status;

    if (!have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->flush(worker_device, &err);
    Py_END_ALLOW_THREADS
    return worker_finish(status, &err);
}

PyObject *py_synchronize(PyObject *self, PyObject *unused)
{
    struct error err = ERROR_INIT;
    int status;

    if (!have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->synchronize(worker_device, &err);
    Py_END_ALLOW_THREADS
    return worker_finish(status, &err);
}

/* memory() -> (free bytes, total bytes), as the driver sees them */
PyObject *py_memory(PyObject *self, PyObject *unused)
{
    struct error err = ERROR_INIT;
    uint64_t free_bytes, total_bytes;

    if (!have_device())
        return NULL;
    if (worker_ops->memory(worker_device, &free_bytes, &total_bytes, &err) < 0)
        return worker_raise(&err);
    return Py_BuildValue("(KK)", (unsigned long long)free_bytes, (unsigned long long)total_bytes);
}

/* dlpack(address, bytes) -> capsule of a one-dimensional uint8 tensor on the open device */
PyObject *py_dlpack(PyObject *self, PyObject *args)
{
    unsigned long long address, bytes;

    if (!PyArg_ParseTuple(args, "KK", &address, &bytes) || !have_device())
        return NULL;
    return dlpack_capsule(address, bytes, worker_ops == &device_cuda,
                          ((struct device_head *)(void *)worker_device)->index);
}

/* guard_enable(flags) -> whether the device's allocator can be watched */
PyObject *py_guard_enable(PyObject *self, PyObject *args)
{
    unsigned flags;

    if (!PyArg_ParseTuple(args, "I", &flags))
        return NULL;
    if (worker_ops == &device_cuda)
        guard = &guard_cuda;
    else
        guard = dlsym(RTLD_DEFAULT, "kbv_guard_table");
    if (!guard || guard->version != GUARD_TABLE_VERSION) {
        guard = NULL;
        Py_RETURN_FALSE;
    }
    guard->enable(flags);
    Py_RETURN_TRUE;
}

/* guard_check() -> (damaged allocations, size of the first, offset of its first damaged byte) */
PyObject *py_guard_check(PyObject *self, PyObject *unused)
{
    struct guard_report report = {0};

    if (guard) {
        Py_BEGIN_ALLOW_THREADS
        guard->check(&report);
        Py_END_ALLOW_THREADS
    }
    return Py_BuildValue("(KKL)", (unsigned long long)report.damaged,
                         (unsigned long long)report.size_bytes, (long long)report.offset_bytes);
}

/* guard_counts(reset) -> (live bytes, peak bytes, allocations, refused allocations) */
PyObject *py_guard_counts(PyObject *self, PyObject *args)
{
    struct guard_counts counts = {0};
    int reset;

    if (!PyArg_ParseTuple(args, "p", &reset))
        return NULL;
    if (guard) {
        if (reset)
            guard->reset_peak();
        guard->counts(&counts);
    }
    return Py_BuildValue(
        "(KKKK)", (unsigned long long)counts.live_bytes, (unsigned long long)counts.peak_bytes,
        (unsigned long long)counts.allocations, (unsigned long long)counts.failures);
}
