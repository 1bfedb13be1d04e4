/*
 * NVRTC, CUDA's run-time compiler, opened when first needed. It comes with every CUDA build of
 * torch; it needs no driver and no device. Looked for, in this order:
 * the directory in the environment variable KBV_NVRTC_DIR; where the system looks for
 * libnvrtc.so.13, .12 and libnvrtc.so; beside the libraries that this process has loaded
 * (a toolkit's or torch's own), and in the `nvidia` packages of their site-packages directory.
 */
#ifndef KBV_DEVICE_CUDA_NVRTC_H
#define KBV_DEVICE_CUDA_NVRTC_H

#include <stddef.h>

#include "base/error.h"

/* Loads it and stores its version; ERROR_UNFIT where there is none. */
int cuda_nvrtc_open(int *ret_major, int *ret_minor, struct error *err);

/*
 * Compiles `source` (CUDA C++, no includes) with macros `defines` ("NAME=value", NULL-terminated)
 * into a module for devices of compute capability major.minor: machine code, or where this NVRTC is
 * older than the device PTX for the newest one that it knows. `ret_image` is the caller's to free.
 */
int cuda_nvrtc_compile(const char *name, const char *source, const char *const *defines,
                       int compute_major, int compute_minor, void **ret_image, size_t *ret_bytes,
                       struct error *err);

#endif
