/*
 * The CUDA device: opening, facts, copies, flushing, waiting, timing.
 *
 * Everything is submitted to the legacy default stream, which waits for, and is waited for by,
 * every other stream that was not created as non-blocking; torch's current stream is this one
 * unless told otherwise. What synchronize(), flush(), copy() and the marks call goes through the
 * read-only table of cuda_driver.h and nothing else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cuda_device.h"

int cuda_wait(const char *what, struct error *err)
{
    cu_result result = cuda()->stream_synchronize(CU_STREAM_LEGACY);

    return result ? cuda_error(err, ERROR_INTERNAL, result, "%s", what) : 0;
}

static int attribute(struct cuda_device *device, enum cu_device_attribute which, int *ret_value,
                     struct error *err)
{
    cu_result result = cuda()->device_get_attribute(ret_value, which, device->number);

    return result ? cuda_error(err, ERROR_UNFIT, result, "CUDA device %d, attribute %d",
                               device->head.index, which)
                  : 0;
}

static int read_attributes(struct cuda_device *device, struct error *err)
{
    int mapping = 0, exporting = 0, l2_bytes = 0;

    if (attribute(device, CU_COMPUTE_MAJOR, &device->compute_major, err) < 0 ||
        attribute(device, CU_COMPUTE_MINOR, &device->compute_minor, err) < 0 ||
        attribute(device, CU_MULTIPROCESSOR_COUNT, &device->multiprocessors, err) < 0 ||
        attribute(device, CU_L2_CACHE_BYTES, &l2_bytes, err) < 0 ||
        attribute(device, CU_VIRTUAL_MEMORY_SUPPORTED, &mapping, err) < 0 ||
        attribute(device, CU_EXPORT_AS_DESCRIPTOR_SUPPORTED, &exporting, err) < 0)
        return -1;
    if (!mapping || !exporting)
        return error_set(err, ERROR_UNFIT,
                         "CUDA device %d cannot share memory between processes by descriptor",
                         device->head.index);
    device->l2_bytes = (size_t)l2_bytes;
    return 0;
}

static void release(struct cuda_device *device)
{
    if (device->context) {
        cuda_compute_close(device);
        if (device->flush_buffer)
            cuda()->mem_free(device->flush_buffer);
        if (device->start)
            cuda()->event_destroy(device->start);
        if (device->stop)
            cuda()->event_destroy(device->stop);
        cuda()->primary_ctx_release(device->number);
    }
    free(device);
}

/* The primary context is the one that torch uses, so both see the same memory and streams. */
static int enter_context(struct cuda_device *device, struct error *err)
{
    cu_result result = cuda()->primary_ctx_retain(&device->context, device->number);

    if (result) {
        device->context = NULL;
        return cuda_error(err, ERROR_UNFIT, result, "entering CUDA device %d", device->head.index);
    }
    result = cuda()->ctx_set_current(device->context);
    if (!result)
        result = cuda()->event_create(&device->start, 0);
    if (!result)
        result = cuda()->event_create(&device->stop, 0);
    return result
               ? cuda_error(err, ERROR_UNFIT, result, "entering CUDA device %d", device->head.index)
               : 0;
}

static int cuda_open(int index, struct device **ret_device, struct error *err)
{
    struct cuda_device *device;
    cu_result result;
    int count = 0;

    if (cuda_driver_open(err) < 0)
        return -1;
    if (cuda()->device_get_count(&count) || index >= count)
        return error_set(err, ERROR_UNFIT, "no CUDA device %d: the driver shows %d", index, count);
    device = calloc(1, sizeof(*device));
    if (!device)
        return error_set(err, ERROR_INTERNAL, "opening CUDA device %d: out of memory", index);
    device->head.ops = &device_cuda;
    device->head.index = index;
    result = cuda()->device_get(&device->number, index);
    if (result)
        cuda_error(err, ERROR_UNFIT, result, "CUDA device %d", index);
    if (result || read_attributes(device, err) < 0 || enter_context(device, err) < 0) {
        release(device);
        return -1;
    }
    *ret_device = (struct device *)(void *)device;
    return 0;
}

static void cuda_close(struct device *device)
{
    if (device)
        release(cuda_device(device));
}

/* The driver's own version where the system tells it ("NVRM version: NVIDIA UNIX Open Kernel Module
 * for x86_64  580.95.05  Release Build ..."), else the CUDA version it offers. */
static void read_driver_version(char *to, size_t size)
{
    CLEANUP_FILE FILE *file = fopen("/proc/driver/nvidia/version", "re");
    char line[512], *rest = line, *token;
    int cuda_version = 0;

    if (file && fgets(line, sizeof(line), file)) {
        while ((token = strsep(&rest, " \t\n"))) {
            if (token[0] >= '0' && token[0] <= '9' && strchr(token, '.')) {
                snprintf(to, size, "%.32s", token);
                return;
            }
        }
    }
    cuda()->driver_get_version(&cuda_version);
    snprintf(to, size, "CUDA %d.%d", cuda_version / 1000, cuda_version % 1000 / 10);
}

static int cuda_facts(struct device *base, struct device_facts *ret_facts, struct error *err)
{
    struct cuda_device *device = cuda_device(base);
    struct device_facts facts = {0};
    size_t memory_bytes = 0;
    int clock_khz = 0, bus_bits = 0;
    cu_result result;

    result = cuda()->device_get_name(facts.name, sizeof(facts.name), device->number);
    if (!result)
        result = cuda()->device_total_mem(&memory_bytes, device->number);
    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "facts about CUDA device %d",
                          device->head.index);
    if (attribute(device, CU_MEMORY_CLOCK_KHZ, &clock_khz, err) < 0 ||
        attribute(device, CU_MEMORY_BUS_BITS, &bus_bits, err) < 0)
        return -1;
    read_driver_version(facts.driver, sizeof(facts.driver));
    facts.compute_major = device->compute_major;
    facts.compute_minor = device->compute_minor;
    facts.multiprocessors = device->multiprocessors;
    facts.memory_bytes = memory_bytes;
    facts.l2_bytes = device->l2_bytes;
    /* Two transfers each clock, bits to bytes. */
    facts.bandwidth_bytes_per_s = 2.0 * clock_khz * 1e3 * bus_bits / 8;
    *ret_facts = facts;
    return 0;
}

static int cuda_copy(struct device *device, uint64_t to, uint64_t from, size_t bytes,
                     struct error *err)
{
    cu_result result = cuda()->memcpy_dtod(to, from, bytes, CU_STREAM_LEGACY);

    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "copying %zu bytes", bytes);
    return cuda_wait("copying on the device", err);
}

static int cuda_upload(struct device *device, uint64_t to, const void *from, size_t bytes,
                       struct error *err)
{
    cu_result result = cuda()->memcpy_htod(to, from, bytes, CU_STREAM_LEGACY);

    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "copying %zu bytes to the device", bytes);
    return cuda_wait("copying to the device", err);
}

static int cuda_download(struct device *device, void *to, uint64_t from, size_t bytes,
                         struct error *err)
{
    cu_result result = cuda()->memcpy_dtoh(to, from, bytes, CU_STREAM_LEGACY);

    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "copying %zu bytes from the device", bytes);
    return cuda_wait("copying from the device", err);
}

static int cuda_flush(struct device *base, struct error *err)
{
    struct cuda_device *device = cuda_device(base);
    size_t bytes = device->l2_bytes * 2 / sizeof(uint32_t) * sizeof(uint32_t);
    cu_result result;

    if (!device->flush_buffer) {
        result = cuda()->mem_alloc(&device->flush_buffer, bytes);
        if (result) {
            device->flush_buffer = 0;
            return cuda_error(err, ERROR_INTERNAL, result, "a buffer of %zu bytes to flush L2",
                              bytes);
        }
    }
    result = cuda()->ctx_reset_persisting_l2();
    if (!result)
        result = cuda()->memset_d32(device->flush_buffer, 0x5a5a5a5a, bytes / sizeof(uint32_t),
                                    CU_STREAM_LEGACY);
    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "flushing L2");
    return cuda_wait("flushing L2", err);
}

static int cuda_synchronize(struct device *device, struct error *err)
{
    cu_result result = cuda()->ctx_synchronize();

    return result ? cuda_error(err, ERROR_INTERNAL, result, "waiting for the device") : 0;
}

static int cuda_mark_start(struct device *device, struct error *err)
{
    cu_result result = cuda()->event_record(cuda_device(device)->start, CU_STREAM_LEGACY);

    return result ? cuda_error(err, ERROR_INTERNAL, result, "starting the clock") : 0;
}

/* Waits for the whole device before the second event: the default stream does not wait for streams
 * that were created as non-blocking. */
static int cuda_mark_stop(struct device *base, uint64_t *ret_elapsed_ns, struct error *err)
{
    struct cuda_device *device = cuda_device(base);
    float milliseconds = 0;
    cu_result result = cuda()->ctx_synchronize();

    if (!result)
        result = cuda()->event_record(device->stop, CU_STREAM_LEGACY);
    if (!result)
        result = cuda()->event_synchronize(device->stop);
    if (!result)
        result = cuda()->event_elapsed(&milliseconds, device->start, device->stop);
    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "stopping the clock");
    *ret_elapsed_ns = (uint64_t)((double)milliseconds * 1e6);
    return 0;
}

static int cuda_memory(struct device *device, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes,
                       struct error *err)
{
    size_t free_bytes, total_bytes;
    cu_result result = cuda()->mem_get_info(&free_bytes, &total_bytes);

    if (result)
        return cuda_error(err, ERROR_INTERNAL, result, "asking for free memory");
    *ret_free_bytes = free_bytes;
    *ret_total_bytes = total_bytes;
    return 0;
}

const struct device_ops device_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .facts = cuda_facts,
    .region_new = cuda_region_new,
    .region_export = cuda_region_export,
    .region_import = cuda_region_import,
    .region_free = cuda_region_free,
    .copy = cuda_copy,
    .upload = cuda_upload,
    .download = cuda_download,
    .fill = cuda_fill,
    .check_fill = cuda_check_fill,
    .hash = cuda_hash,
    .compare = cuda_compare,
    .flush = cuda_flush,
    .synchronize = cuda_synchronize,
    .mark_start = cuda_mark_start,
    .mark_stop = cuda_mark_stop,
    .memory = cuda_memory,
};
