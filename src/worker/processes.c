/* Forking a job into its sandbox, taking its rights away, telling where it faulted. */
#define PY_SSIZE_T_CLEAN
#include "worker/module.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/sandbox.h"
#include "wire/page.h"

#define READABLE_MAX 64

struct policy_args {
    struct sandbox_policy policy;
    const char *readable[READABLE_MAX + 1];
    PyObject *strings; /* keeps the UTF-8 alive */
};

/* (mode, scratch, [readable], worker_device, memory_bytes, processes) into a policy. */
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
PyObject *py_spawn(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    PyObject *policy_tuple, *keep;
    struct policy_args policy;
    size_t keep_count;
    int report_fd, keep_fds[16];
    pid_t pid;

    if (!PyArg_ParseTuple(args, "OiO", &policy_tuple, &report_fd, &keep) ||
        parse_policy(policy_tuple, &policy) < 0 ||
        worker_get_fds(keep, keep_fds, ARRAY_SIZE(keep_fds), &keep_count) < 0)
        return NULL;
    PyOS_BeforeFork();
    pid = sandbox_fork(&policy.policy, report_fd, keep_fds, keep_count, &err);
    if (pid == 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    if (pid < 0)
        return worker_raise(&err);
    return PyLong_FromLong(pid);
}

/* lock(policy) -> active layers */
PyObject *py_lock(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    struct policy_args policy;
    PyObject *policy_tuple;
    unsigned layers;

    if (!PyArg_ParseTuple(args, "O", &policy_tuple) || parse_policy(policy_tuple, &policy) < 0)
        return NULL;
    if (sandbox_lock(&policy.policy, &layers, &err) < 0)
        return worker_raise(&err);
    return PyLong_FromUnsignedLong(layers);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (worker_page) {
        atomic_store(&worker_page->fault_address, (uint64_t)(uintptr_t)info->si_addr);
        atomic_store(&worker_page->fault_signal, (uint32_t)signal);
    }
    /* SA_RESETHAND: the faulting instruction runs again and ends the process. */
}

/* watch_faults(): tells the judge where a fault happened before the process dies of it. */
PyObject *py_watch_faults(PyObject *self, PyObject *unused)
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
