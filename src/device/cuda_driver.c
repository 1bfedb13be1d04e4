#include "device/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(sizeof(struct cuda_driver) <= CUDA_DRIVER_PAGE, "the table fits its page");

union cuda_driver_page cuda_driver_page __attribute__((aligned(CUDA_DRIVER_PAGE)));

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct error open_error; /* kind is ERROR_NONE where it went well */

static const struct {
    const char *name;
    size_t offset; /* of the member in struct cuda_driver */
} symbols[] = {
#define CUDA_DRIVER_SYMBOL(member, name, parameters) {#name, offsetof(struct cuda_driver, member)},
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_SYMBOL)
#undef CUDA_DRIVER_SYMBOL
};

/* The library stays open until the process ends: a driver cannot be unloaded safely. */
static void open_once(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    cu_result result;

    if (!library) {
        error_set(&open_error, ERROR_UNFIT, "no CUDA driver: %s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *function = dlsym(library, symbols[i].name);

        if (!function) {
            error_set(&open_error, ERROR_UNFIT, "the CUDA driver is too old: it has no %s",
                      symbols[i].name);
            return;
        }
        memcpy(cuda_driver_page.bytes + symbols[i].offset, &function, sizeof(function));
    }
    if (mprotect(&cuda_driver_page, sizeof(cuda_driver_page), PROT_READ) < 0) {
        error_errno(&open_error, ERROR_INTERNAL, "making the CUDA driver's table read-only");
        return;
    }
    result = cuda()->init(0);
    if (result)
        cuda_error(&open_error, ERROR_UNFIT, result, "starting the CUDA driver");
}

int cuda_driver_open(struct error *err)
{
    pthread_once(&once, open_once);
    if (open_error.kind == ERROR_NONE)
        return 0;
    return error_set(err, open_error.kind, "%s", open_error.text);
}

int cuda_error(struct error *err, enum error_kind kind, cu_result result, const char *format, ...)
{
    char what[512];
    const char *name = NULL, *text = NULL;
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    if (cuda()->get_error_name(result, &name) || !name)
        return error_set(err, kind, "%s: CUDA error %d", what, result);
    cuda()->get_error_string(result, &text);
    return error_set(err, kind, "%s: %s (%s)", what, name, text ? text : "");
}
