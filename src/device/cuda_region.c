/*
 * Regions of device memory: a physical allocation with a handle that travels as a descriptor, and
 * one mapping of it in each process. The mapping's access is what the GPU's own page tables hold,
 * so a kernel that writes through a read-only mapping faults.
 */
#include <stdlib.h>

#include "device/cuda_device.h"

struct cuda_region {
    struct region_head head;
    cu_memory memory;
    size_t mapped_bytes; /* whole granules */
};

static struct cuda_region *cuda_region(struct region *region)
{
    return (struct cuda_region *)(void *)region;
}

static struct cu_allocation describe(const struct cuda_device *device)
{
    return (struct cu_allocation){
        .type = CU_ALLOCATION_PINNED,
        .handle_types = CU_HANDLE_DESCRIPTOR,
        .location = {.type = CU_LOCATION_DEVICE, .id = device->number},
    };
}

/* Owner and importer round alike: both ask the driver about the same kind of memory. */
static int whole_granules(const struct cuda_device *device, size_t bytes, size_t *ret_bytes,
                          struct error *err)
{
    struct cu_allocation allocation = describe(device);
    size_t granule = 0;
    cu_result result = cuda()->mem_granularity(&granule, &allocation, CU_GRANULARITY_RECOMMENDED);

    if (result || granule == 0)
        return cuda_error(err, ERROR_INTERNAL, result, "asking how memory can be shared");
    if (bytes == 0 || bytes > SIZE_MAX / 2)
        return error_set(err, ERROR_INTERNAL, "a region of %zu bytes", bytes);
    *ret_bytes = (bytes + granule - 1) / granule * granule;
    return 0;
}

/* Maps `memory`. On failure `memory` stays the caller's. */
static int map(struct cuda_device *device, cu_memory memory, size_t bytes, size_t mapped_bytes,
               enum region_access access, struct region **ret_region, struct error *err)
{
    struct cu_access rights = {
        .location = {.type = CU_LOCATION_DEVICE, .id = device->number},
        .flags = access == REGION_READ_ONLY ? CU_ACCESS_READ : CU_ACCESS_READ_WRITE,
    };
    struct cuda_region *region = calloc(1, sizeof(*region));
    cu_address address = 0;
    cu_result result;

    if (!region)
        return error_set(err, ERROR_INTERNAL, "mapping a region: out of memory");
    result = cuda()->mem_address_reserve(&address, mapped_bytes, 0, 0, 0);
    if (result)
        goto fail_reserve;
    result = cuda()->mem_map(address, mapped_bytes, 0, memory, 0);
    if (result)
        goto fail_map;
    result = cuda()->mem_set_access(address, mapped_bytes, &rights, 1);
    if (result)
        goto fail_access;

    region->head.device = (struct device *)(void *)device;
    region->head.address = address;
    region->head.bytes = bytes;
    region->memory = memory;
    region->mapped_bytes = mapped_bytes;
    *ret_region = (struct region *)(void *)region;
    return 0;

fail_access:
    cuda()->mem_unmap(address, mapped_bytes);
fail_map:
    cuda()->mem_address_free(address, mapped_bytes);
fail_reserve:
    free(region);
    return cuda_error(err, ERROR_INTERNAL, result, "mapping a region of %zu bytes", bytes);
}

static int clear(struct region *region, struct error *err)
{
    cu_result result = cuda()->memset_d8(region_address(region), 0,
                                         cuda_region(region)->mapped_bytes, CU_STREAM_LEGACY);

    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "clearing a region");
    return cuda_wait("clearing a region", err);
}

int cuda_region_new(struct device *base, size_t bytes, struct region **ret_region,
                    struct error *err)
{
    struct cuda_device *device = cuda_device(base);
    struct cu_allocation allocation = describe(device);
    struct region *region;
    size_t mapped_bytes = 0;
    cu_memory memory;
    cu_result result;

    if (whole_granules(device, bytes, &mapped_bytes, err) < 0)
        return -1;
    result = cuda()->mem_create(&memory, mapped_bytes, &allocation, 0);
    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "a region of %zu bytes", bytes);
    if (map(device, memory, bytes, mapped_bytes, REGION_READ_WRITE, &region, err) < 0) {
        cuda()->mem_release(memory);
        return -1;
    }
    if (clear(region, err) < 0) {
        cuda_region_free(region);
        return -1;
    }
    *ret_region = region;
    return 0;
}

int cuda_region_export(struct region *region, enum region_access access, int *ret_fd,
                       struct error *err)
{
    int fd = -1;
    cu_result result =
        cuda()->mem_export(&fd, cuda_region(region)->memory, CU_HANDLE_DESCRIPTOR, 0);

    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "exporting a region");
    *ret_fd = fd;
    return 0;
}

int cuda_region_import(struct device *base, int fd, size_t bytes, enum region_access access,
                       struct region **ret_region, struct error *err)
{
    struct cuda_device *device = cuda_device(base);
    size_t mapped_bytes = 0;
    cu_memory memory;
    cu_result result;

    if (whole_granules(device, bytes, &mapped_bytes, err) < 0)
        return -1;
    result = cuda()->mem_import(&memory, (void *)(uintptr_t)fd, CU_HANDLE_DESCRIPTOR);
    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "importing a region");
    /* The driver refuses to map more than the memory has. */
    if (map(device, memory, bytes, mapped_bytes, access, ret_region, err) < 0) {
        cuda()->mem_release(memory);
        return -1;
    }
    return 0;
}

/* Unmapping while work is under way would fault that work. */
void cuda_region_free(struct region *base)
{
    struct cuda_region *region = cuda_region(base);

    cuda()->ctx_synchronize();
    cuda()->mem_unmap(region->head.address, region->mapped_bytes);
    cuda()->mem_address_free(region->head.address, region->mapped_bytes);
    cuda()->mem_release(region->memory);
    free(region);
}
