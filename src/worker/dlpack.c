#include "worker/dlpack.h"

#include <stdlib.h>

/* Layouts as the specification fixes them. */
struct dl_tensor {
    void *data;
    struct {
        int32_t type; /* 1: CPU, 2: CUDA */
        int32_t index;
    } device;
    int32_t dimensions;
    struct {
        uint8_t code; /* 1: unsigned integer */
        uint8_t bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* NULL: contiguous */
    uint64_t byte_offset;
};

struct dl_managed_tensor {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed_tensor *self);
};

struct holder {
    struct dl_managed_tensor managed;
    int64_t shape[1];
    int64_t strides[1];
};

static void delete_managed(struct dl_managed_tensor *self)
{
    free(self->context);
}

/* Runs when nobody consumed the capsule; a consumer renames it to "used_dltensor". */
static void delete_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct dl_managed_tensor *managed = PyCapsule_GetPointer(capsule, "dltensor");

        managed->deleter(managed);
    }
}

PyObject *dlpack_capsule(uint64_t address, uint64_t bytes, bool cuda, int index)
{
    struct holder *holder = calloc(1, sizeof(*holder));
    PyObject *capsule;

    if (!holder)
        return PyErr_NoMemory();
    holder->shape[0] = (int64_t)bytes;
    holder->strides[0] = 1;
    holder->managed = (struct dl_managed_tensor){
        .tensor = {.data = (void *)(uintptr_t)address,
                   .device = {.type = cuda ? 2 : 1, .index = cuda ? index : 0},
                   .dimensions = 1,
                   .dtype = {.code = 1, .bits = 8, .lanes = 1},
                   .shape = holder->shape,
                   .strides = holder->strides},
        .context = holder,
        .deleter = delete_managed,
    };
    capsule = PyCapsule_New(&holder->managed, "dltensor", delete_capsule);
    if (!capsule)
        free(holder);
    return capsule;
}
