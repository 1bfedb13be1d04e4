/* Finished builds: kept by content, handed out without touching what is loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the four above first. */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "build/cache.h"

static char root[] = "/tmp/kbv-test-cache-XXXXXX";

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    directory_remove(root);
    return access(root, F_OK) == 0 ? -1 : 0;
}

static void test_fetch_gives_what_was_kept_once(void **state)
{
    char library[4200], cache[4200], jobs[4200], path[4200], again[4200];
    struct error err = ERROR_INIT;
    struct stat before, after;

    (void)state;
    snprintf(library, sizeof(library), "%s/ext.so", root);
    snprintf(cache, sizeof(cache), "%s/cache", root);
    snprintf(jobs, sizeof(jobs), "%s/jobs", root);
    assert_int_equal(directory_make(jobs, &err), 0);
    assert_false(cache_fetch(cache, "key", jobs, path, sizeof(path)));
    write_text(library, "first");
    assert_int_equal(cache_keep(cache, "key", library, &err), 0);
    /* An entry never changes, whoever keeps another under its key. */
    write_text(library, "second");
    assert_int_equal(cache_keep(cache, "key", library, &err), 0);
    assert_true(cache_fetch(cache, "key", jobs, path, sizeof(path)));
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(before.st_size, 5);

    /* The second time: the same file, not written again, because a process may have it mapped. */
    usleep(20000);
    assert_true(cache_fetch(cache, "key", jobs, again, sizeof(again)));
    assert_string_equal(path, again);
    assert_int_equal(stat(again, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);

    /* Another extension of the same name has a place of its own. */
    assert_int_equal(cache_keep(cache, "other", library, &err), 0);
    assert_true(cache_fetch(cache, "other", jobs, again, sizeof(again)));
    assert_string_not_equal(path, again);
}

static void test_names_of_libraries(void **state)
{
    (void)state;
    assert_true(cache_name_valid("my_ext-2.so"));
    assert_false(cache_name_valid(".so"));
    assert_false(cache_name_valid(".hidden.so"));
    assert_false(cache_name_valid("../x.so"));
    assert_false(cache_name_valid("a b.so"));
    assert_false(cache_name_valid("ext.so.1"));
}

static void test_hostile_trees_go(void **state)
{
    char path[4200], deep[4300];
    struct error err = ERROR_INIT;

    (void)state;
    snprintf(path, sizeof(path), "%s/tree", root);
    snprintf(deep, sizeof(deep), "%s/a/b/c", path);
    assert_int_equal(directory_make(deep, &err), 0);
    snprintf(deep, sizeof(deep), "%s/outside", root);
    write_text(deep, "stays");
    snprintf(path, sizeof(path), "%s/tree/a/link", root);
    assert_int_equal(symlink(deep, path), 0);
    snprintf(path, sizeof(path), "%s/tree/a/b", root);
    assert_int_equal(chmod(path, 0), 0);
    snprintf(path, sizeof(path), "%s/tree", root);
    directory_remove(path);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(access(deep, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fetch_gives_what_was_kept_once),
        cmocka_unit_test(test_names_of_libraries),
        cmocka_unit_test(test_hostile_trees_go),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
