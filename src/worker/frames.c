/* Frames and blobs as Python values. */
#define PY_SSIZE_T_CLEAN
#include "worker/module.h"

#include <unistd.h>

#include "base/clock.h"
#include "wire/blob.h"
#include "wire/frame.h"

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

int worker_get_fds(PyObject *sequence, int *fds, size_t max, size_t *ret_count)
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
PyObject *py_send(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    PyObject *values, *fd_list = NULL;
    int fds[FRAME_FDS_MAX], socket, type;
    enum frame_status status;
    struct frame frame;
    size_t fd_count;
    Py_ssize_t count;

    if (!PyArg_ParseTuple(args, "iiO|O", &socket, &type, &values, &fd_list) ||
        worker_get_fds(fd_list, fds, FRAME_FDS_MAX, &fd_count) < 0)
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
        return worker_raise_text(status == FRAME_CLOSED    ? "the judge is gone"
                                 : status == FRAME_TIMEOUT ? "the judge does not read"
                                                           : err.text);
    Py_RETURN_NONE;
}

/* receive(socket) -> (type, [values], [fds]); None when the judge closed the socket. */
PyObject *py_receive(PyObject *self, PyObject *args)
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
        return worker_raise(&err);
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
PyObject *py_blob(PyObject *self, PyObject *args)
{
    struct error err = ERROR_INIT;
    Py_ssize_t length;
    const char *bytes;
    int fd;

    if (!PyArg_ParseTuple(args, "y#", &bytes, &length))
        return NULL;
    if (blob_new(bytes, (size_t)length, &fd, &err) < 0)
        return worker_raise(&err);
    return PyLong_FromLong(fd);
}

/* unblob(fd, max_bytes) -> bytes; closes fd */
PyObject *py_unblob(PyObject *self, PyObject *args)
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
        return worker_raise(&err);
    }
    close(fd);
    result = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)length);
    free(bytes);
    return result;
}
