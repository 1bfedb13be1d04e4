/* The shared page: one timed call. */
#define PY_SSIZE_T_CLEAN
#include "worker/module.h"

#include <unistd.h>

#include "base/clock.h"
#include "wire/page.h"

/* page_map(fd); closes fd */
PyObject *py_page_map(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    int fd, status;

    if (!PyArg_ParseTuple(args, "i", &fd))
        return NULL;
    status = page_map(fd, &worker_page, &err);
    close(fd);
    return worker_finish(status, &err);
}

static PyObject *no_page(void)
{
    return worker_raise_text("no page is mapped");
}

/* page_next(sequence) -> (go code, set, generator seed): waits for the judge's word of call
 * `sequence` to be PREPARE or LEAVE. */
PyObject *py_page_next(PyObject *self, PyObject *args)
{
    uint32_t sequence, word;

    if (!PyArg_ParseTuple(args, "I", &sequence))
        return NULL;
    if (!worker_page)
        return no_page();
    Py_BEGIN_ALLOW_THREADS
    while ((word = atomic_load_explicit(&worker_page->go, memory_order_acquire)) >> 8 != sequence)
        page_wait(&worker_page->go, word, worker_page->spin_ns, NS_PER_S);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(IIK)", (unsigned)(word & 0xff), (unsigned)worker_page->set,
                         (unsigned long long)worker_page->generator_seed);
}

/* page_call(sequence, callable, args, rouse) -> what callable returned. Tells the judge READY,
 * waits for START, times the call with the device's own clock, waits for the whole device, tells
 * RETURNED. When the call raises, the exception passes on and nothing is told. */
PyObject *py_page_call(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    PyObject *callable, *call_args, *rouse, *result;
    uint32_t sequence, word;
    uint64_t own_ns;
    int status;

    if (!PyArg_ParseTuple(args, "IOOO", &sequence, &callable, &call_args, &rouse))
        return NULL;
    if (!worker_page)
        return no_page();
    page_post(&worker_page->state, page_word(sequence, PAGE_READY));
    Py_BEGIN_ALLOW_THREADS
    while ((word = atomic_load_explicit(&worker_page->go, memory_order_acquire)) ==
           page_word(sequence, PAGE_GO_PREPARE))
        page_wait(&worker_page->go, word, worker_page->spin_ns, NS_PER_S);
    Py_END_ALLOW_THREADS
    /* On the judge's clock, and not on this one: both sides do it. */
    if (rouse != Py_None) {
        result = PyObject_CallNoArgs(rouse);
        if (!result)
            return NULL;
        Py_DECREF(result);
    }
    if (worker_ops->mark_start(worker_device, &err) < 0)
        return worker_raise(&err);
    result = PyObject_CallObject(callable, call_args);
    if (!result)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = worker_ops->mark_stop(worker_device, &own_ns, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        Py_DECREF(result);
        return worker_raise(&err);
    }
    atomic_store(&worker_page->own_ns, own_ns);
    page_post(&worker_page->state, page_word(sequence, PAGE_RETURNED));
    return result;
}

/* page_copied(sequence): the output of the call stands in the output region. */
PyObject *py_page_copied(PyObject *self, PyObject *args)
{
    uint32_t sequence;

    if (!PyArg_ParseTuple(args, "I", &sequence))
        return NULL;
    if (!worker_page)
        return no_page();
    page_post(&worker_page->state, page_word(sequence, PAGE_COPIED));
    Py_RETURN_NONE;
}

/* page_failed(sequence): a frame on the channel says why. */
PyObject *py_page_failed(PyObject *self, PyObject *args)
{
    uint32_t sequence;

    if (!PyArg_ParseTuple(args, "I", &sequence))
        return NULL;
    if (!worker_page)
        return no_page();
    page_post(&worker_page->state, page_word(sequence, PAGE_FAILED));
    Py_RETURN_NONE;
}
