/*
 * Summaries and rows: against kept output, and by properties. After a deliberate change run with
 * KBV_TEST_UPDATE=1 in the environment, and read the difference before you commit it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pty.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "report/layout.h"
#include "report/report.h"
#include "sample.h"

typedef struct evaluation *sample_function(void);

static const struct sample {
    const char *name;
    sample_function *make;
} samples[] = {
    {"verified", sample_verified},         {"wrong", sample_wrong},
    {"build_failed", sample_build_failed}, {"crashed", sample_crashed},
    {"largest", sample_largest},
};

static char *summary(sample_function *make, bool color, unsigned columns)
{
    char *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);
    struct evaluation *evaluation = make();
    struct error err = ERROR_INIT;

    assert_non_null(out);
    assert_non_null(evaluation);
    assert_int_equal(report_terminal(evaluation, out, color, columns, &err), 0);
    fclose(out);
    evaluation_free(evaluation);
    return result;
}

/* The heading and a row for each sample. */
static char *table(bool color, unsigned columns)
{
    char *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);
    struct error err = ERROR_INIT;

    assert_non_null(out);
    assert_int_equal(report_row_at(NULL, out, color, columns, &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        struct evaluation *evaluation = samples[i].make();

        assert_non_null(evaluation);
        assert_int_equal(report_row_at(evaluation, out, color, columns, &err), 0);
        evaluation_free(evaluation);
    }
    fclose(out);
    return result;
}

static void check_kept(const char *name, const char *got)
{
    const char *directory = getenv("KBV_TEST_EXPECTED");
    char path[4096], *kept;
    FILE *file;
    size_t length;

    assert_non_null(directory);
    snprintf(path, sizeof(path), "%s/%s.txt", directory, name);
    if (getenv("KBV_TEST_UPDATE")) {
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(got, file) >= 0);
        assert_int_equal(fclose(file), 0);
        return;
    }
    file = fopen(path, "r");
    assert_non_null(file);
    kept = test_calloc(1, 1 << 16);
    length = fread(kept, 1, (1 << 16) - 1, file);
    fclose(file);
    assert_int_equal(length, strlen(got));
    assert_string_equal(got, kept);
    test_free(kept);
}

static void test_kept(void **state)
{
    for (size_t i = 0; i < 4; i++) {
        CLEANUP_FREE char *got = summary(samples[i].make, false, 0);

        check_kept(samples[i].name, got);
    }
}

static void test_kept_tables(void **state)
{
    CLEANUP_FREE char *narrow = table(false, 80);
    CLEANUP_FREE char *wide = table(false, 0);

    check_kept("table_80", narrow);
    check_kept("table", wide);
}

/* No line is wider than the page or ends in a space, and no control character comes through. */
static void check_lines(const char *text, unsigned columns)
{
    CLEANUP_FREE char *copy = strdup(text);

    assert_non_null(copy);
    assert_true(text[0] && text[strlen(text) - 1] == '\n');
    for (const char *c = text; *c; c++)
        assert_true(*c == '\n' || (unsigned char)*c >= 0x20);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        assert_in_range(layout_width(line), 1, columns);
        assert_true(line[strlen(line) - 1] != ' ');
    }
}

static void test_lines(void **state)
{
    static const unsigned widths[] = {80, 81, 100, 101, 120, 132, 200};

    for (size_t w = 0; w < ARRAY_SIZE(widths); w++) {
        CLEANUP_FREE char *rows = table(false, widths[w]);

        check_lines(rows, widths[w]);
        for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
            CLEANUP_FREE char *got = summary(samples[i].make, false, widths[w]);

            check_lines(got, widths[w]);
        }
    }
}

/* Removes kbv's own colours, and nothing else. */
static void strip(char *text)
{
    static const char *const codes[] = {"\033[0m",    "\033[1m",    "\033[2m",
                                        "\033[1;31m", "\033[1;32m", "\033[1;33m"};
    char *to = text;

    for (char *from = text; *from;) {
        size_t skip = 0;

        for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
            if (strncmp(from, codes[i], strlen(codes[i])) == 0)
                skip = strlen(codes[i]);
        }
        if (!skip)
            *to++ = *from++;
        from += skip;
    }
    *to = '\0';
}

/* Colours are only put around what is there without them; every one is switched off again. */
static void check_colors(const char *plain, char *colored)
{
    assert_non_null(strstr(colored, "\033["));
    for (char *c = colored; (c = strstr(c, "\033[")); c += 2) {
        char *end = strstr(c + 2, "\033[");

        assert_non_null(end);
        assert_int_equal(strncmp(end, "\033[0m", 4), 0);
        c = end;
    }
    strip(colored);
    assert_string_equal(colored, plain);
}

static void test_colors(void **state)
{
    CLEANUP_FREE char *plain_rows = table(false, 80);
    CLEANUP_FREE char *colored_rows = table(true, 80);

    check_colors(plain_rows, colored_rows);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        CLEANUP_FREE char *plain = summary(samples[i].make, false, 80);
        CLEANUP_FREE char *colored = summary(samples[i].make, true, 80);

        check_colors(plain, colored);
    }
}

/* What is beyond its limit stands out; NaN is beyond every limit. */
static void test_errors_stand_out(void **state)
{
    CLEANUP_FREE char *wrong = summary(sample_wrong, true, 80);
    CLEANUP_FREE char *verified = summary(sample_verified, true, 80);

    assert_non_null(strstr(wrong, "\033[1;31mnan\033[0m"));
    assert_non_null(strstr(wrong, "\033[1;31minf\033[0m"));
    assert_non_null(strstr(wrong, "\033[1;31m3.1e+00\033[0m"));
    assert_null(strstr(wrong, "\033[1;31m2.4e-07\033[0m"));
    assert_null(strstr(verified, "\033[1;31m"));
}

/* Of a long log the last twelve lines are shown, whether or not the last one is complete. */
static void test_long_log(void **state)
{
    for (int complete = 0; complete < 2; complete++) {
        struct evaluation *evaluation = sample_build_failed();
        char *result = NULL;
        size_t size, used = 0;
        FILE *out = open_memstream(&result, &size);
        struct error err = ERROR_INIT;

        assert_non_null(out);
        assert_non_null(evaluation);
        for (int line = 1; line <= 30; line++)
            used +=
                (size_t)snprintf(evaluation->build_log + used, sizeof(evaluation->build_log) - used,
                                 "line %d%s", line, line < 30 || complete ? "\n" : "");
        assert_int_equal(report_terminal(evaluation, out, false, 80, &err), 0);
        fclose(out);
        assert_null(strstr(result, "| line 18\n"));
        assert_non_null(strstr(result, "the end of the build\n  | line 19\n"));
        assert_non_null(strstr(result, "| line 30\n\n"));
        evaluation_free(evaluation);
        free(result);
    }
}

/* Each verdict has a line of its own, first, with its meaning where the judge gave no reason. */
static void test_every_verdict(void **state)
{
    for (int i = 0; i < VERDICT_COUNT; i++) {
        char *result = NULL, expected[256];
        size_t size;
        FILE *out = open_memstream(&result, &size);
        struct evaluation *evaluation = evaluation_new();
        struct error err = ERROR_INIT;

        assert_non_null(out);
        assert_non_null(evaluation);
        evaluation->verdict = (enum verdict)i;
        assert_int_equal(report_terminal(evaluation, out, false, 120, &err), 0);
        fclose(out);
        snprintf(expected, sizeof(expected), "%s  %s\n", verdict_name(evaluation->verdict),
                 verdict_meaning(evaluation->verdict));
        assert_int_equal(strncmp(result, expected, strlen(expected)), 0);
        assert_non_null(strstr(result, "none was active"));
        evaluation_free(evaluation);
        free(result);
    }
}

/* The row asks the terminal for its width, and finds none in a file. */
static void test_terminal_width(void **state)
{
    struct winsize size = {.ws_row = 25, .ws_col = 93};
    int terminal, process;
    FILE *out, *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(report_columns(file), 0);
    fclose(file);
    if (openpty(&terminal, &process, NULL, NULL, &size) < 0)
        skip(); /* no pseudo-terminals in this container */
    out = fdopen(process, "w");
    assert_non_null(out);
    assert_int_equal(report_columns(out), 93);
    fclose(out);
    close(terminal);
}

static void test_write_error(void **state)
{
    struct evaluation *evaluation = sample_verified();
    FILE *out = fopen("/dev/full", "w");
    struct error err = ERROR_INIT;

    assert_non_null(evaluation);
    assert_non_null(out);
    assert_int_equal(report_terminal(evaluation, out, false, 80, &err), -1);
    assert_non_null(strstr(err.text, "No space left"));
    assert_int_equal(report_row(evaluation, out, false, &err), -1);
    fclose(out);
    evaluation_free(evaluation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),          cmocka_unit_test(test_kept_tables),
        cmocka_unit_test(test_lines),         cmocka_unit_test(test_colors),
        cmocka_unit_test(test_every_verdict), cmocka_unit_test(test_errors_stand_out),
        cmocka_unit_test(test_long_log),      cmocka_unit_test(test_terminal_width),
        cmocka_unit_test(test_write_error),
    };

    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
