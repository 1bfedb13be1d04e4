/*
 * kbv's own device code: text in this binary, compiled for the device that is there and kept on
 * disk by content. The directory is the environment variable KBV_KERNEL_CACHE; where it is unset
 * or cannot be written nothing is kept, which costs a third of a second for each module.
 */
#ifndef KBV_DEVICE_CUDA_KERNELS_H
#define KBV_DEVICE_CUDA_KERNELS_H

#include <stddef.h>

#include "base/error.h"

struct kernel_source {
    const char *name; /* for messages: "compare.cu" */
    const char *text;
};

/* Made from kernels/ by embed.py. */
extern const struct kernel_source kernel_source_compare;
extern const struct kernel_source kernel_source_fill;
extern const struct kernel_source kernel_source_hash;

/* The image of a module (what cuModuleLoadData() takes), from disk or compiled. `ret_image` is the
 * caller's to free. A kept file that is not what was written is compiled again and replaced. */
int cuda_kernels_image(const struct kernel_source *source, const char *const *defines,
                       int compute_major, int compute_minor, void **ret_image, size_t *ret_bytes,
                       struct error *err);

#endif
