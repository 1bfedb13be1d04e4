/* What the files of the CUDA device share; nobody else includes this. */
#ifndef KBV_DEVICE_CUDA_DEVICE_H
#define KBV_DEVICE_CUDA_DEVICE_H

#include <stdbool.h>

#include "device/cuda_api.h"
#include "device/cuda_driver.h"
#include "device/device.h"

/* The most blocks of a grid, for each multiprocessor: what one holds of 256 threads. */
#define CUDA_BLOCKS_PER_MULTIPROCESSOR 8

struct cuda_device {
    struct device_head head;
    cu_device number;
    cu_context context;
    int compute_major, compute_minor;
    int multiprocessors;
    size_t l2_bytes;
    cu_event start, stop;

    /* Made when first needed; 0 or NULL before. A process that only runs candidates never compiles.
     */
    cu_address flush_buffer;
    cu_address scratch; /* results of kernels: cuda_scratch_bytes() */
    cu_module fill, hash;
    cu_module compare[DTYPE_COUNT][DTYPE_COUNT]; /* expected, got */
};

static inline struct cuda_device *cuda_device(struct device *device)
{
    return (struct cuda_device *)(void *)device;
}

/* Waits for the default stream; `what` is for the message. */
int cuda_wait(const char *what, struct error *err);

/* cuda_region.c */
int cuda_region_new(struct device *device, size_t bytes, struct region **ret_region,
                    struct error *err);
int cuda_region_export(struct region *region, enum region_access access, int *ret_fd,
                       struct error *err);
int cuda_region_import(struct device *device, int fd, size_t bytes, enum region_access access,
                       struct region **ret_region, struct error *err);
void cuda_region_free(struct region *region);

/* cuda_compute.c */
int cuda_fill(struct device *device, uint64_t to, uint64_t pattern, size_t bytes,
              struct error *err);
int cuda_check_fill(struct device *device, uint64_t from, uint64_t pattern, size_t bytes,
                    uint64_t *ret_different_bytes, uint64_t *ret_first_offset, struct error *err);
int cuda_hash(struct device *device, uint64_t from, size_t bytes, uint64_t key,
              uint64_t ret_hash[2], struct error *err);
int cuda_compare(struct device *device, uint64_t expected, enum dtype expected_dtype, uint64_t got,
                 enum dtype got_dtype, uint64_t count, struct compare_result *ret_result,
                 struct error *err);
/* Gives back what these have made. */
void cuda_compute_close(struct cuda_device *device);

#endif
