/* Figures and lines as people read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/cleanup.h"
#include "report/format.h"
#include "report/layout.h"

typedef const char *format_function(char *to, struct figure figure);

static const struct format_case {
    format_function *format;
    double value;
    const char *expected;
} format_cases[] = {
    {format_ratio, 1, "1.000x"},
    {format_ratio, 1.83971, "1.840x"},
    {format_ratio, 9.9994, "9.999x"},
    {format_ratio, 9.9996, "10.00x"}, /* not 10.000x: rounding adds a digit */
    {format_ratio, 99.996, "100.0x"},
    {format_ratio, 523.44, "523.4x"},
    {format_ratio, 999.96, "1000x"},
    {format_ratio, 54321.7, "54322x"},
    {format_ratio, 2.5e7, "2.5e+07x"},
    {format_ratio, 0.5, "0.500x"},
    {format_ratio, 0.0123, "0.0123x"},
    {format_ratio, 0, "0.000x"},
    {format_ms, 0.0000321, "32.1 ns"},
    {format_ms, 0.0123, "12.3 us"},
    {format_ms, 0.99949, "999 us"},
    {format_ms, 0.9996, "1.00 ms"},
    {format_ms, 2.3142, "2.31 ms"},
    {format_ms, 5, "5.00 ms"},
    {format_ms, 45.67, "45.7 ms"},
    {format_ms, 999.4, "999 ms"},
    {format_ms, 999.6, "1.00 s"},
    {format_ms, 12345, "12.3 s"},
    {format_bytes, 0, "0 B"},
    {format_bytes, 1023, "1023 B"},
    {format_bytes, 1024, "1.00 KiB"},
    {format_bytes, 536870912, "512 MiB"},
    {format_bytes, 0x1.8p30, "1.50 GiB"},
    {format_bytes, 0x1p47, "131072 GiB"},
    {format_seconds, 6.24, "6.2"},
    {format_seconds, 0, "0.0"},
    {format_error, 0, "0"},
    {format_error, 1.23e-7, "1.2e-07"},
    {format_error, 3.14, "3.1e+00"},
    {format_error, INFINITY, "inf"},
    {format_error, NAN, "nan"},
    {format_ratio, INFINITY, "inf"},
};

static void test_format(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(format_cases); i++) {
        char to[FORMAT_SIZE];

        format_cases[i].format(to, FIGURE(format_cases[i].value));
        assert_string_equal(to, format_cases[i].expected);
        format_cases[i].format(to, FIGURE_NONE);
        assert_string_equal(to, "-");
    }
}

static void test_width(void **state)
{
    unsigned width = 99;

    assert_int_equal(layout_width(""), 0);
    assert_int_equal(layout_width("abc"), 3);
    assert_int_equal(layout_width("\xC2\xB5s"), 2);
    assert_int_equal(layout_width("\xE6\xA0\xB8\xE5\xBF\x83"), 4); /* two wide characters */
    assert_int_equal(layout_width("e\xCC\x81"), 1);                /* combining accent */
    /* Half a wide character does not fit. */
    assert_int_equal(layout_fit("a\xE6\xA0\xB8z", 2, &width), 1);
    assert_int_equal(width, 1);
    assert_int_equal(layout_fit("a\xE6\xA0\xB8z", 3, NULL), 4);
}

typedef void draw_function(const struct page *page, const char *text, unsigned number);

/* What `draw` prints on a page of `columns`; the caller frees it. */
static char *drawn(draw_function *draw, const char *text, unsigned number, unsigned columns)
{
    char *result = NULL;
    size_t size;
    struct page page = {.columns = columns, .out = open_memstream(&result, &size)};
    struct error err = ERROR_INIT;

    assert_non_null(page.out);
    draw(&page, text, number);
    assert_int_equal(page_finish(&page, &err), 0);
    fclose(page.out);
    return result;
}

static void draw_cell(const struct page *page, const char *text, unsigned width)
{
    page_cell(page, PAINT_GOOD, text, width);
}

static void draw_right(const struct page *page, const char *text, unsigned width)
{
    page_cell_right(page, PAINT_PLAIN, text, width);
}

static void draw_cut(const struct page *page, const char *text, unsigned width)
{
    page_cut(page, PAINT_PLAIN, text, width);
}

static void draw_quote(const struct page *page, const char *text, unsigned width)
{
    page_quote(page, PAINT_PLAIN, text, width);
}

static void draw_wrap(const struct page *page, const char *text, unsigned indent)
{
    page_wrap(page, PAINT_PLAIN, 0, indent, text);
}

static const struct draw_case {
    draw_function *draw;
    const char *text;
    unsigned number, columns;
    const char *expected;
} draw_cases[] = {
    {draw_cell, "abc", 5, 80, "abc  "},
    {draw_cell, "abcde", 5, 80, "abcde"},
    {draw_cell, "abcdefg", 6, 80, "abc..."},
    {draw_cell, "\xE6\xA0\xB8\xE6\xA0\xB8\xE6\xA0\xB8", 5, 80, "\xE6\xA0\xB8..."},
    {draw_cell, "a\033[31m\nb", 8, 80, "a[31m b "},
    {draw_right, "abc", 5, 80, "  abc"},
    {draw_cut, "abc", 5, 80, "abc"},
    {draw_cut, "abcdefg", 6, 80, "abc..."},
    {draw_quote, "  a  b\tc", 20, 80, "  a  b c"},
    {draw_wrap, "", 2, 20, "\n"},
    {draw_wrap, "one two three four", 2, 20, "one two three four\n"},
    {draw_wrap, "one two three four five", 2, 20, "one two three four\n  five\n"},
    {draw_wrap, "one two three  fourxx", 2, 20, "one two three fourxx\n"},
    {draw_wrap, "0123456789012345678901234567890", 4, 20,
     "01234567890123456789\n    01234567890\n"},
    {draw_wrap, "a\nb", 2, 20, "a b\n"},
    /* However narrow, it goes on. */
    {draw_wrap, "0123456789", 30, 20, "0123456789\n"},
};

static void test_draw(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(draw_cases); i++) {
        const struct draw_case *c = &draw_cases[i];
        CLEANUP_FREE char *got = drawn(c->draw, c->text, c->number, c->columns);

        assert_string_equal(got, c->expected);
    }
}

/* No line of a wrapped text is wider than the page, and no word is lost. */
static void test_wrap_any_width(void **state)
{
    static const char text[] = "the quick brown fox jumps over averyveryverylongwordindeed and "
                               "\xE6\xA0\xB8\xE5\xBF\x83\xE6\xA0\xB8\xE5\xBF\x83 again";

    for (unsigned columns = 20; columns < 90; columns++) {
        CLEANUP_FREE char *got = drawn(draw_wrap, text, 3, columns);
        char joined[sizeof(text) * 2] = "", wanted[sizeof(text)] = "";

        for (char *line = strtok(got, "\n"); line; line = strtok(NULL, "\n")) {
            assert_in_range(layout_width(line), 1, columns);
            strcat(joined, line);
        }
        for (char *at = joined, *to = joined; (*to = *at); at++)
            to += *to != ' ';
        strcpy(wanted, text);
        for (char *at = wanted, *to = wanted; (*to = *at); at++)
            to += *to != ' ';
        assert_string_equal(joined, wanted);
    }
}

static void test_write_error(void **state)
{
    struct page page = {.out = fopen("/dev/full", "w"), .columns = 80};
    struct error err = ERROR_INIT;

    assert_non_null(page.out);
    page_text(&page, PAINT_PLAIN, "lost");
    assert_int_equal(page_finish(&page, &err), -1);
    assert_int_equal(err.kind, ERROR_INTERNAL);
    assert_non_null(strstr(err.text, "No space left"));
    fclose(page.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),      cmocka_unit_test(test_width),
        cmocka_unit_test(test_draw),        cmocka_unit_test(test_wrap_any_width),
        cmocka_unit_test(test_write_error),
    };

    return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
