/* The two functions that torch's CUDAPluggableAllocator calls; see guard.h. */
#ifndef KBV_DEVICE_CUDA_ALLOC_H
#define KBV_DEVICE_CUDA_ALLOC_H

#include <sys/types.h>

/* Device memory whose first use is on `stream`; NULL where `size` is not positive or there is no
 * memory left (which is counted: torch does not notice). */
__attribute__((visibility("default"))) void *kbv_cuda_allocate(ssize_t size, int device,
                                                               void *stream);

/* Waits for the device, checks the zones, frees. */
__attribute__((visibility("default"))) void kbv_cuda_release(void *pointer, ssize_t size,
                                                             int device, void *stream);

#endif
