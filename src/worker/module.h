/*
 * What the files of the extension module share: its state, its exception, and the functions that
 * Python sees. A process has one device and one page.
 */
#ifndef KBV_WORKER_MODULE_H
#define KBV_WORKER_MODULE_H

#include <Python.h>

#include <stdbool.h>

#include "device/device.h"

struct page;

/* The open device; NULL before device_open(). */
extern struct device *worker_device;
extern const struct device_ops *worker_ops;
/* The shared page; NULL before page_map(). */
extern struct page *worker_page;

/* Sets _kbv.Error(kind, text); returns NULL. */
PyObject *worker_raise(const struct error *err);
PyObject *worker_raise_text(const char *text);
/* None, or the exception where `status` is negative. */
PyObject *worker_finish(int status, const struct error *err);
/* A sequence of descriptors into an array of `max`; -1 with a Python exception. */
int worker_get_fds(PyObject *sequence, int *fds, size_t max, size_t *ret_count);

/* Each is documented where it stands. */

/* frames.c */
PyObject *py_send(PyObject *self, PyObject *args);
PyObject *py_receive(PyObject *self, PyObject *args);
PyObject *py_blob(PyObject *self, PyObject *args);
PyObject *py_unblob(PyObject *self, PyObject *args);

/* processes.c */
PyObject *py_spawn(PyObject *self, PyObject *args);
PyObject *py_lock(PyObject *self, PyObject *args);
PyObject *py_watch_faults(PyObject *self, PyObject *args);

/* devices.c */
PyObject *py_device_open(PyObject *self, PyObject *args);
PyObject *py_region_new(PyObject *self, PyObject *args);
PyObject *py_region_export(PyObject *self, PyObject *args);
PyObject *py_region_import(PyObject *self, PyObject *args);
PyObject *py_region_free(PyObject *self, PyObject *args);
PyObject *py_fill(PyObject *self, PyObject *args);
PyObject *py_check_fill(PyObject *self, PyObject *args);
PyObject *py_hash(PyObject *self, PyObject *args);
PyObject *py_compare(PyObject *self, PyObject *args);
PyObject *py_flush(PyObject *self, PyObject *args);
PyObject *py_synchronize(PyObject *self, PyObject *args);
PyObject *py_memory(PyObject *self, PyObject *args);
PyObject *py_dlpack(PyObject *self, PyObject *args);
PyObject *py_guard_enable(PyObject *self, PyObject *args);
PyObject *py_guard_check(PyObject *self, PyObject *args);
PyObject *py_guard_counts(PyObject *self, PyObject *args);

/* pages.c */
PyObject *py_page_map(PyObject *self, PyObject *args);
PyObject *py_page_next(PyObject *self, PyObject *args);
PyObject *py_page_call(PyObject *self, PyObject *args);
PyObject *py_page_copied(PyObject *self, PyObject *args);
PyObject *py_page_failed(PyObject *self, PyObject *args);

#endif
