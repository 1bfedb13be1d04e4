/*
 * DLPack, the part that a worker needs: handing a piece of shared device memory to torch.
 * Source: the DLPack specification, version 0.8 (unversioned capsule "dltensor").
 */
#ifndef KBV_WORKER_DLPACK_H
#define KBV_WORKER_DLPACK_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

/* A capsule for torch.utils.dlpack.from_dlpack(): `bytes` elements of uint8 at `address`. The
 * memory is not owned: it must outlive every tensor made from the capsule. */
PyObject *dlpack_capsule(uint64_t address, uint64_t bytes, bool cuda, int index);

#endif
