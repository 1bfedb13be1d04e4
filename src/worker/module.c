/*
 * _kbv: the C half of a worker process.
 *
 * Loaded by the user's own python3 in warm parents and the jobs forked from them. It does what
 * must be exact or trusted: forking into a sandbox, frames, device memory shared across processes,
 * the clock of a call, comparing. What is natural in Python (constructing a model, walking nested
 * inputs) stands in the .py files beside it.
 *
 * Limited API, so one binary serves every CPython from 3.10 on.
 */
#define PY_SSIZE_T_CLEAN
#include "worker/module.h"

#include "base/cleanup.h"
#include "device/guard.h"
#include "wire/message.h"
#include "wire/page.h"

struct device *worker_device;
const struct device_ops *worker_ops;
struct page *worker_page;

static PyObject *failure; /* _kbv.Error(kind, text) */

PyObject *worker_raise(const struct error *err)
{
    PyObject *args = Py_BuildValue("(is)", (int)err->kind, err->text);

    if (args) {
        PyErr_SetObject(failure, args);
        Py_DECREF(args);
    }
    return NULL;
}

PyObject *worker_raise_text(const char *text)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERROR_INTERNAL, "%s", text);
    return worker_raise(&err);
}

PyObject *worker_finish(int status, const struct error *err)
{
    if (status < 0)
        return worker_raise(err);
    Py_RETURN_NONE;
}

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
    PyModuleDef_HEAD_INIT,
    "_kbv",
    "The C half of a kbv worker; see module.c.",
    -1,
    methods,
    NULL,
    NULL,
    NULL,
    NULL,
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
