/*
 * The CUDA driver, opened at run time.
 *
 * Every entry point that kbv ever calls is looked up once, by cuda_driver_open(), before candidate
 * code is loaded, and kept in one page that is then made read-only: later changes to symbols,
 * imports or Python modules do not reach these calls.
 */
#ifndef KBV_DEVICE_CUDA_DRIVER_H
#define KBV_DEVICE_CUDA_DRIVER_H

#include "base/error.h"
#include "device/cuda_api.h"

struct cuda_driver {
#define CUDA_DRIVER_MEMBER(member, name, parameters) cu_result(*member) parameters;
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_MEMBER)
#undef CUDA_DRIVER_MEMBER
};

#if defined(__aarch64__)
#define CUDA_DRIVER_PAGE 65536 /* the largest page that kernels for it use */
#else
#define CUDA_DRIVER_PAGE 4096
#endif

union cuda_driver_page {
    struct cuda_driver driver;
    unsigned char bytes[CUDA_DRIVER_PAGE];
};

extern union cuda_driver_page cuda_driver_page;

/* Loads libcuda, fills the table and calls cuInit(). May be called again from any thread; what the
 * first call found holds. ERROR_UNFIT where there is no usable driver. */
int cuda_driver_open(struct error *err);

/* The table; valid after cuda_driver_open(). */
static inline const struct cuda_driver *cuda(void)
{
    return &cuda_driver_page.driver;
}

/* Sets `err` to "<what>: <name of result> (<its explanation>)"; always returns -1. */
int cuda_error(struct error *err, enum error_kind kind, cu_result result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
