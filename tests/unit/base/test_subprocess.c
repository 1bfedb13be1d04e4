/* Helpers of every temper: loud, slow, stubborn, missing. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/subprocess.h"

#define SHELL(script) ((const char *const[]){"/bin/sh", "-c", script, NULL})

static struct subprocess_result run(struct subprocess what)
{
    struct subprocess_result result = SUBPROCESS_RESULT_INIT;
    struct error err = ERROR_INIT;

    if (!what.deadline_ns)
        what.deadline_ns = 30 * NS_PER_S;
    if (!what.output_max)
        what.output_max = 4096;
    if (subprocess_run(&what, &result, &err) < 0)
        fail_msg("%s", err.text);
    return result;
}

static void collects_both_streams_and_the_status(void **state)
{
    struct subprocess_result result =
        run((struct subprocess){.argv = SHELL("echo out; echo err >&2; exit 7")});

    assert_string_equal(result.output, "out\n");
    assert_string_equal(result.errors, "err\n");
    assert_true(WIFEXITED(result.wait_status));
    assert_int_equal(WEXITSTATUS(result.wait_status), 7);
    assert_false(subprocess_succeeded(&result));
    subprocess_result_release(&result);
    assert_null(result.output);
}

static void reads_nothing_and_finds_programs_in_path(void **state)
{
    struct subprocess_result result =
        run((struct subprocess){.argv = (const char *const[]){"cat", NULL}});

    assert_true(subprocess_succeeded(&result));
    assert_int_equal(result.output_bytes, 0);
    subprocess_result_release(&result);
}

static void takes_environment_and_directory(void **state)
{
    const char *env[] = {"ONLY=this", "PATH=/usr/bin:/bin", NULL};
    struct subprocess_result result = run((struct subprocess){
        .argv = SHELL("pwd; echo $ONLY; echo ${HOME-none}"), .env = env, .directory = "/usr"});

    assert_string_equal(result.output, "/usr\nthis\nnone\n");
    subprocess_result_release(&result);
}

static void keeps_the_beginning_of_a_flood_and_counts_the_rest(void **state)
{
    struct subprocess_result result = run((struct subprocess){
        .argv = SHELL("head -c 3000000 /dev/zero | tr '\\0' x; head -c 500000 /dev/zero >&2"),
        .output_max = 1000});

    assert_int_equal(result.output_bytes, 3000000);
    assert_int_equal(result.errors_bytes, 500000);
    assert_int_equal(result.output_length, 1000);
    assert_int_equal(strlen(result.output), 1000);
    subprocess_result_release(&result);
}

static void kills_at_the_deadline(void **state)
{
    uint64_t start_ns = clock_now_ns();
    struct subprocess_result result = run((struct subprocess){
        .argv = SHELL("trap '' TERM INT; echo begun; sleep 60"), .deadline_ns = NS_PER_S / 2});

    assert_true(result.timed_out);
    assert_true(WIFSIGNALED(result.wait_status));
    assert_string_equal(result.output, "begun\n");
    assert_true(clock_seconds_since(start_ns) < 20.0);
    subprocess_result_release(&result);
}

/* Gone, or dead and waiting for whoever inherited it. */
static bool has_ended(pid_t pid)
{
    char path[64], stat[256] = "";
    CLEANUP_FILE FILE *file = NULL;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    return !file || !fgets(stat, sizeof(stat), file) || strstr(stat, ") Z ");
}

/* A grandchild that keeps the pipe open neither delays the return nor survives it. */
static void leaves_no_grandchild(void **state)
{
    uint64_t start_ns = clock_now_ns();
    struct subprocess_result result = run((struct subprocess){.argv = SHELL("sleep 60 & echo $!")});
    pid_t grandchild = (pid_t)strtol(result.output, NULL, 10);

    assert_true(subprocess_succeeded(&result));
    assert_true(clock_seconds_since(start_ns) < 20.0);
    assert_true(grandchild > 1);
    for (int turn = 0; turn < 500 && !has_ended(grandchild); turn++)
        usleep(10000);
    assert_true(has_ended(grandchild));
    subprocess_result_release(&result);
}

static void inherits_no_descriptor(void **state)
{
    int open_end[2];
    struct subprocess_result result;

    assert_int_equal(pipe(open_end), 0); /* on purpose without O_CLOEXEC */
    /* ls itself holds one more, for the directory. */
    result = run((struct subprocess){.argv = SHELL("exec ls /proc/self/fd")});
    assert_string_equal(result.output, "0\n1\n2\n3\n");
    subprocess_result_release(&result);
    close(open_end[0]);
    close(open_end[1]);
}

static void says_what_cannot_be_run(void **state)
{
    static const struct {
        const char *program, *directory, *says;
    } cases[] = {
        {"/nonexistent/program", NULL, "/nonexistent/program"},
        {"kbv-no-such-program", NULL, "kbv-no-such-program"},
        {"/dev/null", NULL, "Permission denied"},
        {"/bin/true", "/nonexistent", "/nonexistent: No such file"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *argv[] = {cases[i].program, NULL};
        struct subprocess what = {.argv = argv, .directory = cases[i].directory, .output_max = 64};
        struct subprocess_result result = {.wait_status = 1234};
        struct error err = ERROR_INIT;

        assert_int_equal(subprocess_run(&what, &result, &err), -1);
        assert_int_equal(err.kind, ERROR_UNFIT);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_int_equal(result.wait_status, 1234);
        assert_null(result.output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collects_both_streams_and_the_status),
        cmocka_unit_test(reads_nothing_and_finds_programs_in_path),
        cmocka_unit_test(takes_environment_and_directory),
        cmocka_unit_test(keeps_the_beginning_of_a_flood_and_counts_the_rest),
        cmocka_unit_test(kills_at_the_deadline),
        cmocka_unit_test(leaves_no_grandchild),
        cmocka_unit_test(inherits_no_descriptor),
        cmocka_unit_test(says_what_cannot_be_run),
    };

    return cmocka_run_group_tests_name("subprocess", tests, NULL, NULL);
}
