/*
 * The part of the CUDA driver's and NVRTC's binary interface that kbv calls, declared here so that
 * building kbv needs no CUDA toolkit. Numbers and layouts are fixed by NVIDIA's compatibility
 * promise; functions that changed are called by their versioned names (cuMemAlloc_v2).
 */
#ifndef KBV_DEVICE_CUDA_API_H
#define KBV_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result; /* 0 is success */
typedef int cu_device;
typedef uint64_t cu_address;
typedef uint64_t cu_memory; /* handle of physical memory */
typedef struct cu_context *cu_context;
typedef struct cu_stream *cu_stream;
typedef struct cu_event *cu_event;
typedef struct cu_module *cu_module;
typedef struct cu_function *cu_function;

/* The default stream that waits for others, whatever a thread's own default is. */
#define CU_STREAM_LEGACY ((cu_stream)(uintptr_t)1)

#define CU_ERROR_INVALID_VALUE 1
#define CU_ERROR_OUT_OF_MEMORY 2

enum cu_device_attribute {
    CU_MULTIPROCESSOR_COUNT = 16,
    CU_MEMORY_CLOCK_KHZ = 36,
    CU_MEMORY_BUS_BITS = 37,
    CU_L2_CACHE_BYTES = 38,
    CU_COMPUTE_MAJOR = 75,
    CU_COMPUTE_MINOR = 76,
    CU_VIRTUAL_MEMORY_SUPPORTED = 102,
    CU_EXPORT_AS_DESCRIPTOR_SUPPORTED = 103,
};

enum cu_constants {
    CU_ALLOCATION_PINNED = 1,
    CU_HANDLE_DESCRIPTOR = 1,
    CU_LOCATION_DEVICE = 1,
    CU_ACCESS_READ = 1,
    CU_ACCESS_READ_WRITE = 3,
    CU_GRANULARITY_RECOMMENDED = 1,
};

struct cu_location {
    int type;
    int id;
};

struct cu_allocation {
    int type;
    int handle_types;
    struct cu_location location;
    void *windows;
    struct {
        unsigned char compression;
        unsigned char rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};

struct cu_access {
    struct cu_location location;
    int flags;
};

_Static_assert(sizeof(struct cu_allocation) == 32, "layout of CUmemAllocationProp");
_Static_assert(sizeof(struct cu_access) == 12, "layout of CUmemAccessDesc");

/* member, exported name, parameters */
#define CUDA_DRIVER_FUNCTIONS(F)                                                                   \
    F(init, cuInit, (unsigned flags))                                                              \
    F(driver_get_version, cuDriverGetVersion, (int *version))                                      \
    F(get_error_name, cuGetErrorName, (cu_result error, const char **name))                        \
    F(get_error_string, cuGetErrorString, (cu_result error, const char **text))                    \
    F(device_get, cuDeviceGet, (cu_device * device, int ordinal))                                  \
    F(device_get_count, cuDeviceGetCount, (int *count))                                            \
    F(device_get_name, cuDeviceGetName, (char *name, int length, cu_device device))                \
    F(device_get_attribute, cuDeviceGetAttribute, (int *value, int attribute, cu_device device))   \
    F(device_total_mem, cuDeviceTotalMem_v2, (size_t * bytes, cu_device device))                   \
    F(primary_ctx_retain, cuDevicePrimaryCtxRetain, (cu_context * context, cu_device device))      \
    F(primary_ctx_release, cuDevicePrimaryCtxRelease_v2, (cu_device device))                       \
    F(ctx_set_current, cuCtxSetCurrent, (cu_context context))                                      \
    F(ctx_get_current, cuCtxGetCurrent, (cu_context * context))                                    \
    F(ctx_synchronize, cuCtxSynchronize, (void))                                                   \
    F(ctx_reset_persisting_l2, cuCtxResetPersistingL2Cache, (void))                                \
    F(stream_synchronize, cuStreamSynchronize, (cu_stream stream))                                 \
    F(event_create, cuEventCreate, (cu_event * event, unsigned flags))                             \
    F(event_destroy, cuEventDestroy_v2, (cu_event event))                                          \
    F(event_record, cuEventRecord, (cu_event event, cu_stream stream))                             \
    F(event_synchronize, cuEventSynchronize, (cu_event event))                                     \
    F(event_elapsed, cuEventElapsedTime, (float *milliseconds, cu_event start, cu_event stop))     \
    F(mem_get_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                              \
    F(mem_alloc, cuMemAlloc_v2, (cu_address * address, size_t bytes))                              \
    F(mem_free, cuMemFree_v2, (cu_address address))                                                \
    F(memcpy_dtod, cuMemcpyDtoDAsync_v2,                                                           \
      (cu_address to, cu_address from, size_t bytes, cu_stream stream))                            \
    F(memcpy_htod, cuMemcpyHtoDAsync_v2,                                                           \
      (cu_address to, const void *from, size_t bytes, cu_stream stream))                           \
    F(memcpy_dtoh, cuMemcpyDtoHAsync_v2,                                                           \
      (void *to, cu_address from, size_t bytes, cu_stream stream))                                 \
    F(memset_d8, cuMemsetD8Async,                                                                  \
      (cu_address to, unsigned char value, size_t count, cu_stream stream))                        \
    F(memset_d32, cuMemsetD32Async,                                                                \
      (cu_address to, unsigned value, size_t count, cu_stream stream))                             \
    F(mem_granularity, cuMemGetAllocationGranularity,                                              \
      (size_t * bytes, const struct cu_allocation *allocation, int option))                        \
    F(mem_create, cuMemCreate,                                                                     \
      (cu_memory * memory, size_t bytes, const struct cu_allocation *allocation,                   \
       unsigned long long flags))                                                                  \
    F(mem_release, cuMemRelease, (cu_memory memory))                                               \
    F(mem_address_reserve, cuMemAddressReserve,                                                    \
      (cu_address * address, size_t bytes, size_t alignment, cu_address wish,                      \
       unsigned long long flags))                                                                  \
    F(mem_address_free, cuMemAddressFree, (cu_address address, size_t bytes))                      \
    F(mem_map, cuMemMap,                                                                           \
      (cu_address address, size_t bytes, size_t offset, cu_memory memory,                          \
       unsigned long long flags))                                                                  \
    F(mem_unmap, cuMemUnmap, (cu_address address, size_t bytes))                                   \
    F(mem_set_access, cuMemSetAccess,                                                              \
      (cu_address address, size_t bytes, const struct cu_access *access, size_t count))            \
    F(mem_export, cuMemExportToShareableHandle,                                                    \
      (void *handle, cu_memory memory, int type, unsigned long long flags))                        \
    F(mem_import, cuMemImportFromShareableHandle, (cu_memory * memory, void *handle, int type))    \
    F(module_load_data, cuModuleLoadData, (cu_module * module, const void *image))                 \
    F(module_unload, cuModuleUnload, (cu_module module))                                           \
    F(module_get_function, cuModuleGetFunction,                                                    \
      (cu_function * function, cu_module module, const char *name))                                \
    F(launch_kernel, cuLaunchKernel,                                                               \
      (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,  \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream,                \
       void **arguments, void **extra))

typedef int nvrtc_result; /* 0 is success */
typedef struct nvrtc_program *nvrtc_program;

#define NVRTC_ERROR_INVALID_OPTION 5

#define CUDA_NVRTC_FUNCTIONS(F)                                                                    \
    F(version, nvrtcVersion, (int *major, int *minor))                                             \
    F(arch_count, nvrtcGetNumSupportedArchs, (int *count))                                         \
    F(archs, nvrtcGetSupportedArchs, (int *archs))                                                 \
    F(create, nvrtcCreateProgram,                                                                  \
      (nvrtc_program * program, const char *source, const char *name, int header_count,            \
       const char *const *headers, const char *const *header_names))                               \
    F(destroy, nvrtcDestroyProgram, (nvrtc_program * program))                                     \
    F(compile, nvrtcCompileProgram,                                                                \
      (nvrtc_program program, int option_count, const char *const *options))                       \
    F(log_size, nvrtcGetProgramLogSize, (nvrtc_program program, size_t * size))                    \
    F(log, nvrtcGetProgramLog, (nvrtc_program program, char *log))                                 \
    F(cubin_size, nvrtcGetCUBINSize, (nvrtc_program program, size_t * size))                       \
    F(cubin, nvrtcGetCUBIN, (nvrtc_program program, char *cubin))                                  \
    F(ptx_size, nvrtcGetPTXSize, (nvrtc_program program, size_t * size))                           \
    F(ptx, nvrtcGetPTX, (nvrtc_program program, char *ptx))

#endif
