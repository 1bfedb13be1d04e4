#include "device/cuda_nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/cuda_api.h"

#define DEFINES_MAX  8
#define OPTION_BYTES 64
#define ARCHS_MAX    64

static struct {
#define CUDA_NVRTC_MEMBER(member, name, parameters) nvrtc_result(*member) parameters;
    CUDA_NVRTC_FUNCTIONS(CUDA_NVRTC_MEMBER)
#undef CUDA_NVRTC_MEMBER
    const char *(*error_string)(nvrtc_result result);
} nvrtc;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct error open_error;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
#define CUDA_NVRTC_SYMBOL(member, name, parameters) {#name, &nvrtc.member},
    CUDA_NVRTC_FUNCTIONS(CUDA_NVRTC_SYMBOL)
#undef CUDA_NVRTC_SYMBOL
        {"nvrtcGetErrorString", &nvrtc.error_string},
};

/* Opens the first file that fits `pattern` and loads; NULL if none does. */
static void *open_matching(const char *pattern)
{
    void *library = NULL;
    glob_t found;

    if (glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    /* Names are sorted: the highest version comes last. */
    for (size_t i = found.gl_pathc; i-- > 0 && !library;)
        if (!strstr(found.gl_pathv[i], "builtins"))
            library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return library;
}

/* `directory` of `length` bytes, then `rest`. */
static void *open_under(const char *directory, size_t length, const char *rest)
{
    char pattern[PATH_MAX];
    int used = snprintf(pattern, sizeof(pattern), "%.*s%s", (int)length, directory, rest);

    return used > 0 && (size_t)used < sizeof(pattern) ? open_matching(pattern) : NULL;
}

/* Called for each object that the process has loaded, until one yields a library. */
static int look_beside(struct dl_phdr_info *info, size_t size, void *context)
{
    static const char *const parents[] = {"/site-packages/", "/dist-packages/"};
    void **library = context;
    const char *path = info->dlpi_name;
    const char *slash = path ? strrchr(path, '/') : NULL;

    if (!slash)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(parents) && !*library; i++) {
        const char *parent = strstr(path, parents[i]);

        if (parent)
            *library = open_under(path, (size_t)(parent - path) + strlen(parents[i]),
                                  "nvidia/*/lib/libnvrtc.so.*");
    }
    if (!*library && (strstr(slash, "torch") || strstr(slash, "libcu")))
        *library = open_under(path, (size_t)(slash - path) + 1, "libnvrtc*.so*");
    return *library != NULL;
}

static void *find_library(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *directory = getenv("KBV_NVRTC_DIR");
    void *library = NULL;

    if (directory && directory[0])
        library = open_under(directory, strlen(directory), "/libnvrtc.so*");
    for (size_t i = 0; i < ARRAY_SIZE(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        dl_iterate_phdr(look_beside, &library);
    return library;
}

static void open_once(void)
{
    void *library = find_library();

    if (!library) {
        error_set(&open_error, ERROR_UNFIT,
                  "no NVRTC (libnvrtc.so): install a CUDA build of torch or set KBV_NVRTC_DIR");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
        void *function = dlsym(library, symbols[i].name);

        if (!function) {
            error_set(&open_error, ERROR_UNFIT, "NVRTC is too old: it has no %s", symbols[i].name);
            return;
        }
        memcpy(symbols[i].slot, &function, sizeof(function));
    }
}

int cuda_nvrtc_open(int *ret_major, int *ret_minor, struct error *err)
{
    int major, minor;

    pthread_once(&once, open_once);
    if (open_error.kind != ERROR_NONE)
        return error_set(err, open_error.kind, "%s", open_error.text);
    if (nvrtc.version(&major, &minor))
        return error_set(err, ERROR_UNFIT, "NVRTC does not tell its version");
    *ret_major = major;
    *ret_minor = minor;
    return 0;
}

/* The newest architecture (90 for 9.0) that NVRTC knows and that is not above `wanted`; 0 if none.
 */
static int newest_known(int wanted)
{
    int count = 0, known[ARCHS_MAX], best = 0;

    if (nvrtc.arch_count(&count) || count < 1 || count > ARCHS_MAX || nvrtc.archs(known))
        return 0;
    for (int i = 0; i < count; i++)
        if (known[i] <= wanted && known[i] > best)
            best = known[i];
    return best;
}

static int report_failure(nvrtc_program program, const char *name, nvrtc_result result,
                          struct error *err)
{
    CLEANUP_FREE char *log = NULL;
    size_t size = 0;

    if (nvrtc.log_size(program, &size) == 0 && size > 1)
        log = malloc(size + 1);
    if (!log || nvrtc.log(program, log))
        return error_set(err, ERROR_INTERNAL, "compiling %s: %s", name, nvrtc.error_string(result));
    log[size] = '\0';
    for (char *c = log; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return error_set(err, ERROR_INTERNAL, "compiling %s: %s", name, log);
}

static int take_image(nvrtc_program program, nvrtc_result (*get_size)(nvrtc_program, size_t *),
                      nvrtc_result (*get)(nvrtc_program, char *), void **ret_image,
                      size_t *ret_bytes, struct error *err)
{
    CLEANUP_FREE char *image = NULL;
    size_t size = 0;

    if (get_size(program, &size) || size == 0)
        return error_set(err, ERROR_INTERNAL, "NVRTC made no code");
    image = malloc(size);
    if (!image || get(program, image))
        return error_set(err, ERROR_INTERNAL, "NVRTC's code could not be read");
    *ret_image = pointer_steal(&image);
    *ret_bytes = size;
    return 0;
}

int cuda_nvrtc_compile(const char *name, const char *source, const char *const *defines,
                       int compute_major, int compute_minor, void **ret_image, size_t *ret_bytes,
                       struct error *err)
{
    char options[DEFINES_MAX + 2][OPTION_BYTES];
    const char *option_list[DEFINES_MAX + 2];
    int wanted = compute_major * 10 + compute_minor, major = 0, minor = 0, option_count = 0;
    nvrtc_program program;
    nvrtc_result result;
    bool machine_code;
    int arch, status;

    if (cuda_nvrtc_open(&major, &minor, err) < 0)
        return -1;
    arch = newest_known(wanted);
    machine_code = arch == wanted;
    if (arch == 0)
        return error_set(err, ERROR_UNFIT,
                         "NVRTC %d.%d cannot compile for compute capability %d.%d", major, minor,
                         compute_major, compute_minor);
    snprintf(options[option_count++], OPTION_BYTES, "--gpu-architecture=%s_%d",
             machine_code ? "sm" : "compute", arch);
    snprintf(options[option_count++], OPTION_BYTES, "--std=c++17");
    for (; *defines; defines++) {
        if (option_count == DEFINES_MAX + 2 || strlen(*defines) > OPTION_BYTES - 3)
            return error_set(err, ERROR_INTERNAL, "compiling %s: too many macros", name);
        snprintf(options[option_count++], OPTION_BYTES, "-D%s", *defines);
    }
    for (int i = 0; i < option_count; i++)
        option_list[i] = options[i];

    result = nvrtc.create(&program, source, name, 0, NULL, NULL);
    if (result)
        return error_set(err, ERROR_INTERNAL, "compiling %s: %s", name, nvrtc.error_string(result));
    result = nvrtc.compile(program, option_count, option_list);
    if (result)
        status = report_failure(program, name, result, err);
    else if (machine_code)
        status = take_image(program, nvrtc.cubin_size, nvrtc.cubin, ret_image, ret_bytes, err);
    else
        status = take_image(program, nvrtc.ptx_size, nvrtc.ptx, ret_image, ret_bytes, err);
    nvrtc.destroy(&program);
    return status;
}
