/*
 * _kbv: the C half of a worker process.
 *
 * Loaded by the user's own python3 in warm parents and the jobs forked from them. It does what
 * must be exact or trusted: forking into a sandbox, frames, device memory shared across processes,
 * the clock of a call, comparing. What is natural in Python (constructing a model, walking nested
 * inputs) stands in the .py files beside it.
 *
 * Limited API, so one binary serves every CPython from 3.10 on. A process has one device; regions
 * and the page are small integers resp. module state, never freed before the process ends unless
 * said so: a tensor made over a region must never outlive it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/device.h"
#include "device/guard.h"
#include "protocol/tolerance.h"
#include "sandbox/sandbox.h"
#include "wire/blob.h"
#include "wire/frame.h"
#include "wire/message.h"
#include "wire/page.h"
#include "worker/dlpack.h"

#define REGIONS_MAX 512

static struct device *device;
static const struct device_ops *ops;
static struct region *regions[REGIONS_MAX];
static struct page *page;
static const struct guard_table *guard;
static PyObject *failure; /* _kbv.Error(kind, text) */

static PyObject *raise_error(const struct error *err)
{
    PyObject *args = Py_BuildValue("(is)", (int)err->kind, err->text);

    if (args) {
        PyErr_SetObject(failure, args);
        Py_DECREF(args);
    }
    return NULL;
}

static PyObject *raise_text(const char *text)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERROR_INTERNAL, "%s", text);
    return raise_error(&err);
}

/* ---- Frames -------------------------------------------------------------------------------- */

static int put_value(struct frame *frame, PyObject *value)
{
    if (PyLong_Check(value)) {
        long long number = PyLong_AsLongLong(value);

        if (number == -1 && PyErr_Occurred())
            return -1;
        frame_put_int(frame, number);
    } else if (PyFloat_Check(value)) {
        frame_put_double(frame, PyFloat_AsDouble(value));
    } else if (PyUnicode_Check(value)) {
        /* A lone surrogate (an exception's text may hold one) becomes '?', not an error. */
        PyObject *bytes = PyUnicode_AsEncodedString(value, "utf-8", "replace");
        Py_ssize_t length;
        char *text;

        if (!bytes || PyBytes_AsStringAndSize(bytes, &text, &length) < 0) {
            Py_XDECREF(bytes);
            return -1;
        }
        frame_put_bytes(frame, text, length > FRAME_TEXT_MAX ? FRAME_TEXT_MAX : (size_t)length);
        Py_DECREF(bytes);
    } else {
        PyErr_SetString(PyExc_TypeError, "a frame holds int, float and str");
        return -1;
    }
    return 0;
}

static int get_fds(PyObject *sequence, int *fds, size_t max, size_t *ret_count)
{
    Py_ssize_t count = sequence ? PySequence_Size(sequence) : 0;

    if (count < 0)
        return -1;
    if ((size_t)count > max) {
        PyErr_SetString(PyExc_ValueError, "too many descriptors");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        long fd = item ? PyLong_AsLong(item) : -1;

        Py_XDECREF(item);
        if (fd < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "negative descriptor");
            return -1;
        }
        fds[i] = (int)fd;
    }
    *ret_count = (size_t)count;
    return 0;
}

/* send(socket, type, values, fds=()) */
static PyObject *py_send(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    PyObject *values, *fd_list = NULL;
    int fds[FRAME_FDS_MAX], socket, type;
    enum frame_status status;
    struct frame frame;
    size_t fd_count;
    Py_ssize_t count;

    if (!PyArg_ParseTuple(args, "iiO|O", &socket, &type, &values, &fd_list) ||
        get_fds(fd_list, fds, FRAME_FDS_MAX, &fd_count) < 0)
        return NULL;
    frame_init(&frame, (uint16_t)type);
    count = PySequence_Size(values);
    if (count < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(values, i);
        int put = item ? put_value(&frame, item) : -1;

        Py_XDECREF(item);
        if (put < 0)
            return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = frame_send(socket, &frame, fds, fd_count, 60 * NS_PER_S, &err);
    Py_END_ALLOW_THREADS
    if (status != FRAME_OK)
        return raise_text(status == FRAME_CLOSED    ? "the judge is gone"
                          : status == FRAME_TIMEOUT ? "the judge does not read"
                                                    : err.text);
    Py_RETURN_NONE;
}

/* receive(socket) -> (type, [values], [fds]); None when the judge closed the socket. */
static PyObject *py_receive(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    int fds[FRAME_FDS_MAX], socket;
    struct frame_reader reader;
    enum frame_status status;
    PyObject *values, *fd_list;
    struct frame frame;
    size_t fd_count;

    if (!PyArg_ParseTuple(args, "i", &socket))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    do {
        status = frame_receive(socket, &frame, fds, &fd_count, 3600 * NS_PER_S, &err);
    } while (status == FRAME_TIMEOUT);
    Py_END_ALLOW_THREADS
    if (status == FRAME_CLOSED)
        Py_RETURN_NONE;
    if (status != FRAME_OK)
        return raise_error(&err);
    values = PyList_New(0);
    fd_list = PyList_New(0);
    reader = frame_read(&frame);
    for (char tag = frame_peek(&reader); tag && values; tag = frame_peek(&reader)) {
        PyObject *value;
        size_t length;
        const void *bytes;

        if (tag == 'i') {
            value = PyLong_FromLongLong(frame_get_int(&reader));
        } else if (tag == 'd') {
            value = PyFloat_FromDouble(frame_get_double(&reader));
        } else {
            bytes = frame_get_bytes(&reader, &length);
            value = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)length, "replace");
        }
        if (!value || PyList_Append(values, value) < 0) {
            Py_XDECREF(value);
            Py_CLEAR(values);
            break;
        }
        Py_DECREF(value);
    }
    for (size_t i = 0; i < fd_count && fd_list; i++) {
        PyObject *value = PyLong_FromLong(fds[i]);

        if (!value || PyList_Append(fd_list, value) < 0)
            Py_CLEAR(fd_list);
        Py_XDECREF(value);
    }
    if (!values || !fd_list) {
        Py_XDECREF(values);
        Py_XDECREF(fd_list);
        return PyErr_NoMemory();
    }
    return Py_BuildValue("(iNN)", (int)frame.type, values, fd_list);
}

/* blob(bytes) -> fd */
static PyObject *py_blob(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    Py_ssize_t length;
    const char *bytes;
    int fd;

    if (!PyArg_ParseTuple(args, "y#", &bytes, &length))
        return NULL;
    if (blob_new(bytes, (size_t)length, &fd, &err) < 0)
        return raise_error(&err);
    return PyLong_FromLong(fd);
}

/* unblob(fd, max_bytes) -> bytes; closes fd */
static PyObject *py_unblob(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    Py_ssize_t max;
    PyObject *result;
    size_t length;
    char *bytes;
    int fd;

    if (!PyArg_ParseTuple(args, "in", &fd, &max))
        return NULL;
    if (blob_read(fd, (size_t)max, &bytes, &length, &err) < 0) {
        close(fd);
        return raise_error(&err);
    }
    close(fd);
    result = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)length);
    free(bytes);
    return result;
}

/* ---- Processes ----------------------------------------------------------------------------- */

#define READABLE_MAX 64

struct policy_args {
    struct sandbox_policy policy;
    const char *readable[READABLE_MAX + 1];
    PyObject *strings; /* keeps the UTF-8 alive */
};

/* (mode, scratch, [readable], device, memory_bytes, processes) into a policy. */
static int parse_policy(PyObject *tuple, struct policy_args *to)
{
    unsigned long long memory_bytes;
    PyObject *readable;
    unsigned processes;
    Py_ssize_t count;
    int mode, uses_device;

    memset(to, 0, sizeof(*to));
    if (!PyArg_ParseTuple(tuple, "isOpKI", &mode, &to->policy.scratch, &readable, &uses_device,
                          &memory_bytes, &processes))
        return -1;
    count = PyList_Size(readable);
    if (count < 0 || count > READABLE_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many readable paths");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        to->readable[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(readable, i), NULL);
        if (!to->readable[i])
            return -1;
    }
    to->policy.mode = (enum sandbox_mode)mode;
    to->policy.readable = to->readable;
    to->policy.device = uses_device;
    to->policy.memory_bytes = memory_bytes;
    to->policy.file_bytes = 8ull << 30;
    to->policy.open_files = 4096;
    to->policy.processes = processes;
    return 0;
}

/* spawn(policy, report_fd, keep_fds) -> pid of the supervisor, 0 in the job itself */
static PyObject *py_spawn(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    PyObject *policy_tuple, *keep;
    struct policy_args policy;
    size_t keep_count;
    int report_fd, keep_fds[16];
    pid_t pid;

    if (!PyArg_ParseTuple(args, "OiO", &policy_tuple, &report_fd, &keep) ||
        parse_policy(policy_tuple, &policy) < 0 ||
        get_fds(keep, keep_fds, ARRAY_SIZE(keep_fds), &keep_count) < 0)
        return NULL;
    PyOS_BeforeFork();
    pid = sandbox_fork(&policy.policy, report_fd, keep_fds, keep_count, &err);
    if (pid == 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    if (pid < 0)
        return raise_error(&err);
    return PyLong_FromLong(pid);
}

/* lock(policy) -> active layers */
static PyObject *py_lock(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct policy_args policy;
    PyObject *policy_tuple;
    unsigned layers;

    if (!PyArg_ParseTuple(args, "O", &policy_tuple) || parse_policy(policy_tuple, &policy) < 0)
        return NULL;
    if (sandbox_lock(&policy.policy, &layers, &err) < 0)
        return raise_error(&err);
    return PyLong_FromUnsignedLong(layers);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (page) {
        atomic_store(&page->fault_address, (uint64_t)(uintptr_t)info->si_addr);
        atomic_store(&page->fault_signal, (uint32_t)signal);
    }
    /* SA_RESETHAND: the faulting instruction runs again and ends the process. */
}

/* watch_faults(): tells the judge where a fault happened before the process dies of it. */
static PyObject *py_watch_faults(PyObject *self, PyObject *unused)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_RESETHAND | SA_ONSTACK};
    stack_t stack = {.ss_size = 64 << 10};

    stack.ss_sp = malloc(stack.ss_size);
    if (!stack.ss_sp)
        return PyErr_NoMemory();
    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        sigaction(signals[i], &action, NULL);
    Py_RETURN_NONE;
}

/* ---- Device -------------------------------------------------------------------------------- */

/* device_open(spec) -> dict of facts */
static PyObject *py_device_open(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct device_facts facts;
    const char *spec;
    int index, status;

    if (!PyArg_ParseTuple(args, "s", &spec))
        return NULL;
    ops = device_ops_find(spec, &index, &err);
    if (!ops)
        return raise_error(&err);
    Py_BEGIN_ALLOW_THREADS
    status = ops->open(index, &device, &err);
    if (status == 0)
        status = ops->facts(device, &facts, &err);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return raise_error(&err);
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
    return raise_text("too many regions");
}

static struct region *find_region(int handle)
{
    if (handle < 0 || handle >= REGIONS_MAX || !regions[handle]) {
        raise_text("no such region");
        return NULL;
    }
    return regions[handle];
}

static bool have_device(void)
{
    if (!device)
        raise_text("no device is open");
    return device != NULL;
}

/* region_new(bytes) -> (handle, address) */
static PyObject *py_region_new(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct region *region;
    unsigned long long bytes;
    int status;

    if (!PyArg_ParseTuple(args, "K", &bytes) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ops->region_new(device, bytes, &region, &err);
    Py_END_ALLOW_THREADS
    return status < 0 ? raise_error(&err) : keep_region(region);
}

/* region_export(handle, writable) -> fd */
static PyObject *py_region_export(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct region *region;
    int handle, writable, fd;

    if (!PyArg_ParseTuple(args, "ip", &handle, &writable) || !(region = find_region(handle)))
        return NULL;
    if (ops->region_export(region, writable ? REGION_READ_WRITE : REGION_READ_ONLY, &fd, &err) < 0)
        return raise_error(&err);
    return PyLong_FromLong(fd);
}

/* region_import(fd, bytes, writable) -> (handle, address); closes fd */
static PyObject *py_region_import(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct region *region;
    unsigned long long bytes;
    int fd, writable, status;

    if (!PyArg_ParseTuple(args, "iKp", &fd, &bytes, &writable) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ops->region_import(device, fd, bytes, writable ? REGION_READ_WRITE : REGION_READ_ONLY,
                                &region, &err);
    Py_END_ALLOW_THREADS
    close(fd);
    return status < 0 ? raise_error(&err) : keep_region(region);
}

/* region_free(handle): no tensor over it may be alive. */
static PyObject *py_region_free(PyObject *self, PyObject *args)
{
    struct region *region;
    int handle;

    if (!PyArg_ParseTuple(args, "i", &handle) || !(region = find_region(handle)))
        return NULL;
    region_free(region);
    regions[handle] = NULL;
    Py_RETURN_NONE;
}

static PyObject *finish(int status, const struct error *err)
{
    if (status < 0)
        return raise_error(err);
    Py_RETURN_NONE;
}

/* fill(address, pattern, bytes) */
static PyObject *py_fill(PyObject *self, PyObject *args)
{
    unsigned long long address, pattern, bytes;
    struct error err = ERROR_INIT;
    int status;

    if (!PyArg_ParseTuple(args, "KKK", &address, &pattern, &bytes) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ops->fill(device, address, pattern, bytes, &err);
    Py_END_ALLOW_THREADS
    return finish(status, &err);
}

/* check_fill(address, pattern, bytes) -> (different bytes, offset of the first or -1) */
static PyObject *py_check_fill(PyObject *self, PyObject *args)
{
    unsigned long long address, pattern, bytes;
    struct error err = ERROR_INIT;
    uint64_t different, first = UINT64_MAX;
    int status;

    if (!PyArg_ParseTuple(args, "KKK", &address, &pattern, &bytes) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ops->check_fill(device, address, pattern, bytes, &different, &first, &err);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return raise_error(&err);
    return Py_BuildValue("(KL)", (unsigned long long)different,
                         different ? (long long)first : -1ll);
}

/* hash(address, bytes, key) -> (low, high), each below 2^63 */
static PyObject *py_hash(PyObject *self, PyObject *args)
{
    unsigned long long address, bytes, key;
    struct error err = ERROR_INIT;
    uint64_t hash[2];
    int status;

    if (!PyArg_ParseTuple(args, "KKK", &address, &bytes, &key) || !have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ops->hash(device, address, bytes, key, hash, &err);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return raise_error(&err);
    return Py_BuildValue("(KK)", (unsigned long long)hash[0] >> 1,
                         (unsigned long long)hash[1] >> 1);
}

/* compare(expected, expected_dtype, got, got_dtype, count, s(b), n(b), tf32=False) -> dict: the fields of struct
 * compare_result, and `excess`: how far over the budget, > 1 exactly when it is not accepted. */
static PyObject *py_compare(PyObject *self, PyObject *args)
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
        return raise_text("kbv cannot compare tensors of this dtype");
    Py_BEGIN_ALLOW_THREADS
    status = ops->compare(device, expected, (enum dtype)expected_dtype, got, (enum dtype)got_dtype,
                          count, &result, &err);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return raise_error(&err);
    budget_set(&budget, (enum dtype)got_dtype, baseline_s, baseline_n);
    if (tf32)
        budget_allow_tf32(&budget);
    excess = budget_accepts(&budget, &result) ? 0.0 : 2.0;
    if (budget.s_limit > 0 && budget.n_limit > 0 && !result.mask_mismatches)
        excess = fmax(result.s / budget.s_limit, result.n / budget.n_limit);
    if (isnan(excess) || (excess <= 1 && !budget_accepts(&budget, &result)))
        excess = INFINITY;
    return Py_BuildValue("{sdsdsdsdsKsdsdsKsKsKsKsdsdsKsK}", "excess", excess, "s", result.s, "n", result.n, "sigma",
                         result.sigma, "worst_index", (unsigned long long)result.worst_index,
                         "worst_expected", result.worst_expected, "worst_got", result.worst_got,
                         "nonfinite_expected", (unsigned long long)result.nonfinite_expected,
                         "nonfinite_got", (unsigned long long)result.nonfinite_got,
                         "mask_mismatches", (unsigned long long)result.mask_mismatches,
                         "first_mask_mismatch", (unsigned long long)result.first_mask_mismatch,
                         "mask_expected", result.mask_expected, "mask_got", result.mask_got,
                         "mismatch_count", (unsigned long long)result.mismatch_count,
                         "first_mismatch", (unsigned long long)result.first_mismatch);
}

static PyObject *py_flush(PyObject *self, PyObject *unused)
{
    struct error err = ERROR_INIT;
    int status;

    if (!have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ops->flush(device, &err);
    Py_END_ALLOW_THREADS
    return finish(status, &err);
}

static PyObject *py_synchronize(PyObject *self, PyObject *unused)
{
    struct error err = ERROR_INIT;
    int status;

    if (!have_device())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ops->synchronize(device, &err);
    Py_END_ALLOW_THREADS
    return finish(status, &err);
}

/* memory() -> (free bytes, total bytes), as the driver sees them */
static PyObject *py_memory(PyObject *self, PyObject *unused)
{
    struct error err = ERROR_INIT;
    uint64_t free_bytes, total_bytes;

    if (!have_device())
        return NULL;
    if (ops->memory(device, &free_bytes, &total_bytes, &err) < 0)
        return raise_error(&err);
    return Py_BuildValue("(KK)", (unsigned long long)free_bytes, (unsigned long long)total_bytes);
}

/* dlpack(address, bytes) -> capsule of a one-dimensional uint8 tensor on the open device */
static PyObject *py_dlpack(PyObject *self, PyObject *args)
{
    unsigned long long address, bytes;

    if (!PyArg_ParseTuple(args, "KK", &address, &bytes) || !have_device())
        return NULL;
    return dlpack_capsule(address, bytes, ops == &device_cuda, ((struct device_head *)(void *)device)->index);
}

/* ---- Guard --------------------------------------------------------------------------------- */

/* guard_enable(flags) -> whether the device's allocator can be watched */
static PyObject *py_guard_enable(PyObject *self, PyObject *args)
{
    unsigned flags;

    if (!PyArg_ParseTuple(args, "I", &flags))
        return NULL;
    if (ops == &device_cuda)
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
static PyObject *py_guard_check(PyObject *self, PyObject *unused)
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
static PyObject *py_guard_counts(PyObject *self, PyObject *args)
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
    return Py_BuildValue("(KKKK)", (unsigned long long)counts.live_bytes,
                         (unsigned long long)counts.peak_bytes,
                         (unsigned long long)counts.allocations,
                         (unsigned long long)counts.failures);
}

/* ---- The shared page ----------------------------------------------------------------------- */

/* page_map(fd); closes fd */
static PyObject *py_page_map(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    int fd, status;

    if (!PyArg_ParseTuple(args, "i", &fd))
        return NULL;
    status = page_map(fd, &page, &err);
    close(fd);
    return finish(status, &err);
}

static PyObject *no_page(void)
{
    return raise_text("no page is mapped");
}

/* page_next(sequence) -> (go code, set, generator seed): waits for the judge's word of call
 * `sequence` to be PREPARE or LEAVE. */
static PyObject *py_page_next(PyObject *self, PyObject *args)
{
    uint32_t sequence, word;

    if (!PyArg_ParseTuple(args, "I", &sequence))
        return NULL;
    if (!page)
        return no_page();
    Py_BEGIN_ALLOW_THREADS
    while ((word = atomic_load_explicit(&page->go, memory_order_acquire)) >> 8 != sequence)
        page_wait(&page->go, word, page->spin_ns, NS_PER_S);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(IIK)", (unsigned)(word & 0xff), (unsigned)page->set,
                         (unsigned long long)page->generator_seed);
}

/* page_call(sequence, callable, args) -> what callable returned. Tells the judge READY, waits for
 * START, times the call with the device's own clock, waits for the whole device, tells RETURNED.
 * When the call raises, the exception passes on and nothing is told. */
static PyObject *py_page_call(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    PyObject *callable, *call_args, *result;
    uint32_t sequence, word;
    uint64_t own_ns;
    int status;

    if (!PyArg_ParseTuple(args, "IOO", &sequence, &callable, &call_args))
        return NULL;
    if (!page)
        return no_page();
    page_post(&page->state, page_word(sequence, PAGE_READY));
    Py_BEGIN_ALLOW_THREADS
    while ((word = atomic_load_explicit(&page->go, memory_order_acquire)) ==
           page_word(sequence, PAGE_GO_PREPARE))
        page_wait(&page->go, word, page->spin_ns, NS_PER_S);
    Py_END_ALLOW_THREADS
    if (ops->mark_start(device, &err) < 0)
        return raise_error(&err);
    result = PyObject_CallObject(callable, call_args);
    if (!result)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ops->mark_stop(device, &own_ns, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        Py_DECREF(result);
        return raise_error(&err);
    }
    atomic_store(&page->own_ns, own_ns);
    page_post(&page->state, page_word(sequence, PAGE_RETURNED));
    return result;
}

/* page_copied(sequence): the output of the call stands in the output region. */
static PyObject *py_page_copied(PyObject *self, PyObject *args)
{
    uint32_t sequence;

    if (!PyArg_ParseTuple(args, "I", &sequence))
        return NULL;
    if (!page)
        return no_page();
    page_post(&page->state, page_word(sequence, PAGE_COPIED));
    Py_RETURN_NONE;
}

/* page_failed(sequence): a frame on the channel says why. */
static PyObject *py_page_failed(PyObject *self, PyObject *args)
{
    uint32_t sequence;

    if (!PyArg_ParseTuple(args, "I", &sequence))
        return NULL;
    if (!page)
        return no_page();
    page_post(&page->state, page_word(sequence, PAGE_FAILED));
    Py_RETURN_NONE;
}

/* ---- Module -------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"send", py_send, METH_VARARGS, NULL},
    {"receive", py_receive, METH_VARARGS, NULL},
    {"blob", py_blob, METH_VARARGS, NULL},
    {"unblob", py_unblob, METH_VARARGS, NULL},
    {"spawn", py_spawn, METH_VARARGS, NULL},
    {"lock", py_lock, METH_VARARGS, NULL},
    {"watch_faults", py_watch_faults, METH_NOARGS, NULL},
    {"device_open", py_device_open, METH_VARARGS, NULL},
    {"region_new", py_region_new, METH_VARARGS, NULL},
    {"region_export", py_region_export, METH_VARARGS, NULL},
    {"region_import", py_region_import, METH_VARARGS, NULL},
    {"region_free", py_region_free, METH_VARARGS, NULL},
    {"fill", py_fill, METH_VARARGS, NULL},
    {"check_fill", py_check_fill, METH_VARARGS, NULL},
    {"hash", py_hash, METH_VARARGS, NULL},
    {"compare", py_compare, METH_VARARGS, NULL},
    {"flush", py_flush, METH_NOARGS, NULL},
    {"synchronize", py_synchronize, METH_NOARGS, NULL},
    {"memory", py_memory, METH_NOARGS, NULL},
    {"dlpack", py_dlpack, METH_VARARGS, NULL},
    {"guard_enable", py_guard_enable, METH_VARARGS, NULL},
    {"guard_check", py_guard_check, METH_NOARGS, NULL},
    {"guard_counts", py_guard_counts, METH_VARARGS, NULL},
    {"page_map", py_page_map, METH_VARARGS, NULL},
    {"page_next", py_page_next, METH_VARARGS, NULL},
    {"page_call", py_page_call, METH_VARARGS, NULL},
    {"page_copied", py_page_copied, METH_VARARGS, NULL},
    {"page_failed", py_page_failed, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "_kbv", "The C half of a kbv worker; see module.c.", -1, methods,
    NULL,                  NULL,   NULL,                                        NULL,
};

/* Py_LIMITED_API declares PyInit_ functions with default visibility through PyMODINIT_FUNC. */
PyMODINIT_FUNC PyInit__kbv(void);
PyMODINIT_FUNC PyInit__kbv(void)
{
    static const struct {
        const char *name;
        int value;
    } constants[] = {
#define X(name) {"MESSAGE_" #name, MESSAGE_##name},
        MESSAGE_LIST(X)
#undef X
#define X(name) {"FAIL_" #name, FAIL_##name},
            FAIL_LIST(X)
#undef X
                {"MODEL_PLAIN", MODEL_PLAIN},
        {"MODEL_PERTURBED", MODEL_PERTURBED},
        {"MODEL_REINITIALISED", MODEL_REINITIALISED},
        {"ROLE_REFERENCE", ROLE_REFERENCE},
        {"ROLE_CANDIDATE", ROLE_CANDIDATE},
        {"ROLE_BUILDER", ROLE_BUILDER},
        {"JOB_GUARD", JOB_GUARD},
        {"JOB_COUNT_MEMORY", JOB_COUNT_MEMORY},
        {"GUARD_ZONES", GUARD_ZONES},
        {"GUARD_POISON", GUARD_POISON},
        {"GUARD_COUNT", GUARD_COUNT},
        {"PAGE_GO_PREPARE", PAGE_GO_PREPARE},
        {"PAGE_GO_LEAVE", PAGE_GO_LEAVE},
        {"ERROR_UNFIT", ERROR_UNFIT},
    };
    PyObject *module = PyModule_Create(&module_def);

    if (!module)
        return NULL;
    failure = PyErr_NewException("_kbv.Error", NULL, NULL);
    if (!failure || PyModule_AddObject(module, "Error", Py_NewRef(failure)) < 0)
        goto fail;
    for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            goto fail;
    }
    return module;
fail:
    Py_DECREF(module);
    return NULL;
}
