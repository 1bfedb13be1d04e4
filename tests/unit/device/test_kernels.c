/* Compiling device code and keeping it on disk; needs NVRTC, no device. Skipped without it. */
#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda_kernels.h"
#include "device/cuda_nvrtc.h"

static const char *const float_pair[] = {"EXPECTED=of_float64", "GOT=of_float32", NULL};
static const char *const no_defines[] = {NULL};

static char directory[] = "/tmp/kbv-test-kernels-XXXXXX";

static int make_directory(void **state)
{
    return mkdtemp(directory) && setenv("KBV_KERNEL_CACHE", directory, 1) == 0 ? 0 : -1;
}

/* Calls `visit` with the path of each file in the directory; returns how many there are. */
static int for_each_file(void (*visit)(const char *path))
{
    DIR *files = opendir(directory);
    struct dirent *entry;
    int count = 0;

    assert_non_null(files);
    while ((entry = readdir(files))) {
        char path[512];

        if (entry->d_name[0] == '.')
            continue;
        count++;
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        if (visit)
            visit(path);
    }
    closedir(files);
    return count;
}

static void remove_file(const char *path)
{
    unlink(path);
}

static int remove_directory(void **state)
{
    for_each_file(remove_file);
    return rmdir(directory);
}

static void compile(const struct kernel_source *source, const char *const *defines, int major,
                    void **ret_image, size_t *ret_bytes)
{
    struct error err = ERROR_INIT;

    if (cuda_kernels_image(source, defines, major, 0, ret_image, ret_bytes, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_all_sources(void **state)
{
    static const struct kernel_source *const plain[] = {&kernel_source_fill, &kernel_source_hash};
    void *image = NULL;
    size_t bytes = 0;

    for (size_t i = 0; i < 2; i++) {
        compile(plain[i], no_defines, 9, &image, &bytes);
        assert_true(bytes > 64 && memcmp(image, "\177ELF", 4) == 0);
        free(image);
    }
    assert_int_equal(for_each_file(NULL), 2);
    for_each_file(remove_file);
}

static long damage_at; /* where damage_file() flips a bit; -1: cuts the file off instead */

static void damage_file(const char *path)
{
    FILE *file = fopen(path, "r+");
    int byte;

    assert_non_null(file);
    if (damage_at < 0) {
        assert_int_equal(truncate(path, 50), 0);
    } else {
        fseek(file, damage_at, SEEK_SET);
        byte = fgetc(file);
        fseek(file, damage_at, SEEK_SET);
        fputc(byte ^ 1, file);
    }
    fclose(file);
}

/* What is kept is read back; what was changed on disk is never used, and is put right. */
static void test_keeping(void **state)
{
    static const long places[] = {-1, 0, 20, 5000};
    void *first = NULL, *again = NULL;
    size_t first_bytes = 0, again_bytes = 0;

    compile(&kernel_source_compare, float_pair, 9, &first, &first_bytes);
    assert_int_equal(for_each_file(NULL), 1);
    for (size_t i = 0; i < 4; i++) {
        damage_at = places[i];
        for_each_file(damage_file);
        compile(&kernel_source_compare, float_pair, 9, &again, &again_bytes);
        assert_int_equal(again_bytes, first_bytes);
        assert_memory_equal(again, first, first_bytes);
        free(again);
        assert_int_equal(for_each_file(NULL), 1);
    }
    free(first);
    for_each_file(remove_file);
}

/* One file for each text, set of macros and device; what is there is not written again. */
static void test_names(void **state)
{
    struct kernel_source source = {"f.cu", "extern \"C\" __global__ void f(int *x) { *x = 1; }"};
    struct kernel_source other = {"f.cu", "extern \"C\" __global__ void f(int *x) { *x = 2; }"};
    const struct {
        const struct kernel_source *source;
        const char *const *defines;
        int major, files; /* files there are afterwards */
    } steps[] = {
        {&source, no_defines, 9, 1}, {&other, no_defines, 9, 2},  {&source, float_pair, 9, 3},
        {&source, no_defines, 8, 4}, {&source, no_defines, 9, 4},
    };

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        void *image = NULL;
        size_t bytes = 0;

        compile(steps[i].source, steps[i].defines, steps[i].major, &image, &bytes);
        free(image);
        assert_int_equal(for_each_file(NULL), steps[i].files);
    }
    for_each_file(remove_file);
}

/* A device newer than NVRTC gets PTX, which its driver compiles. */
static void test_newer_device(void **state)
{
    void *image = NULL;
    size_t bytes = 0;

    compile(&kernel_source_fill, no_defines, 99, &image, &bytes);
    assert_true(bytes > 0 && ((char *)image)[bytes - 1] == '\0');
    assert_non_null(strstr(image, ".target sm_"));
    free(image);
    for_each_file(remove_file);
}

static void test_errors(void **state)
{
    struct kernel_source wrong = {"wrong.cu", "__global__ void f() { this is no C++; }"};
    struct error err = ERROR_INIT;
    void *image = NULL;
    size_t bytes = 0;

    assert_int_equal(cuda_kernels_image(&wrong, no_defines, 9, 0, &image, &bytes, &err), -1);
    assert_non_null(strstr(err.text, "wrong.cu"));
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(cuda_kernels_image(&wrong, no_defines, 1, 0, &image, &bytes, &err), -1);
    assert_int_equal(err.kind, ERROR_UNFIT);
    assert_null(image);
    assert_int_equal(for_each_file(NULL), 0);
}

/* A directory that is not there: nothing is kept, everything works. */
static void test_nowhere_to_keep(void **state)
{
    void *image = NULL;
    size_t bytes = 0;

    setenv("KBV_KERNEL_CACHE", "/nonexistent/kernels", 1);
    compile(&kernel_source_fill, no_defines, 9, &image, &bytes);
    free(image);
    unsetenv("KBV_KERNEL_CACHE");
    compile(&kernel_source_fill, no_defines, 9, &image, &bytes);
    free(image);
    setenv("KBV_KERNEL_CACHE", directory, 1);
    assert_int_equal(for_each_file(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sources), cmocka_unit_test(test_keeping),
        cmocka_unit_test(test_names),       cmocka_unit_test(test_newer_device),
        cmocka_unit_test(test_errors),      cmocka_unit_test(test_nowhere_to_keep),
    };

    struct error err = ERROR_INIT;
    int major, minor;

    if (cuda_nvrtc_open(&major, &minor, &err) < 0) {
        printf("1..0 # SKIP %s\n", err.text);
        return err.kind == ERROR_UNFIT ? 0 : 1;
    }
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
