/* Cleaning of text: cases worked out by hand, then properties over random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text.h"

#define CANARY 0x5A

/* A literal with its length, so that it may hold NUL bytes. */
#define BYTES(literal) literal, sizeof(literal) - 1

#define FFFD "\xEF\xBF\xBD"

struct clean_case {
    const char *from;
    size_t length;
    const char *expected;
};

static const struct clean_case clean_cases[] = {
    {BYTES(""), ""},
    {BYTES("plain"), "plain"},
    {BYTES("tab\tline\nend"), "tab\tline\nend"},
    {BYTES("a\0b\rc\x1B[31md\x7F"), "abc[31md"},
    {BYTES("1 \xC2\xB5s, 2 \xE2\x89\xA5 1, \xF0\x9F\x98\x80"),
     "1 \xC2\xB5s, 2 \xE2\x89\xA5 1, \xF0\x9F\x98\x80"},
    {BYTES("\xC2\x9B"
           "31m"),
     "31m"}, /* C1 control sequence introducer */
    {BYTES("a\xE2\x80\xAE"
           "b\xE2\x81\xA6"
           "c"),
     "abc"}, /* right-to-left override, isolate */
    {BYTES("a\xE2\x80\xA8"
           "b"),
     "ab"},                /* line separator */
    {BYTES("\x80"), FFFD}, /* continuation without a start */
    {BYTES("\xFF\xFE"), FFFD FFFD},
    {BYTES("\xC0\x80"), FFFD FFFD},                   /* overlong NUL */
    {BYTES("\xE0\x80\x80"), FFFD FFFD FFFD},          /* overlong in three bytes */
    {BYTES("\xED\xA0\x80"), FFFD FFFD FFFD},          /* a surrogate */
    {BYTES("\xF4\x90\x80\x80"), FFFD FFFD FFFD FFFD}, /* U+110000 */
    {BYTES("\xE2\x82"), FFFD},                        /* cut short: one maximal subpart */
    {BYTES("\xF0\x9F\x98x"), FFFD "x"},
    {BYTES("\xE2\x82\xE2\x82\xAC"), FFFD "\xE2\x82\xAC"},
    {BYTES("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF"}, /* U+10FFFF, the last one */
};

static void test_cases(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(clean_cases); i++) {
        const struct clean_case *c = &clean_cases[i];
        char to[64];

        assert_int_equal(text_clean(to, sizeof(to), c->from, c->length), strlen(c->expected));
        assert_string_equal(to, c->expected);
        assert_int_equal(text_clean_tail(to, sizeof(to), c->from, c->length), strlen(c->expected));
        assert_string_equal(to, c->expected);
    }
}

static void test_limits(void **state)
{
    char to[8];

    assert_int_equal(text_clean(to, 1, BYTES("abc")), 0);
    assert_string_equal(to, "");
    assert_int_equal(text_clean(to, 4, BYTES("abcdef")), 3);
    assert_string_equal(to, "abc");
    assert_int_equal(text_clean_tail(to, 4, BYTES("abcdef")), 3);
    assert_string_equal(to, "def");
    /* A character is kept whole or not at all: the euro sign takes three bytes. */
    assert_int_equal(text_clean(to, 5, BYTES("ab\xE2\x82\xAC")), 2);
    assert_string_equal(to, "ab");
    assert_int_equal(text_clean_tail(to, 5,
                                     BYTES("\xE2\x82\xAC"
                                           "ab")),
                     2);
    assert_string_equal(to, "ab");
    assert_int_equal(text_clean_tail(to, 6,
                                     BYTES("\xE2\x82\xAC"
                                           "ab")),
                     5);
    assert_string_equal(to, "\xE2\x82\xAC"
                            "ab");
    /* Once a character does not fit, no later one may slip in. */
    assert_int_equal(text_clean(to, 4,
                                BYTES("ab\xE2\x82\xAC"
                                      "c")),
                     2);
    assert_int_equal(text_clean(to, sizeof(to), NULL, 0), 0);
    assert_int_equal(text_clean_tail(to, sizeof(to), NULL, 0), 0);
    assert_string_equal(to, "");
}

static void test_line(void **state)
{
    char to[64];

    text_clean_line(to, sizeof(to), BYTES("  RuntimeError:\n\n\tshape  mismatch\n"));
    assert_string_equal(to, "RuntimeError: shape mismatch");
    text_clean_line(to, sizeof(to), BYTES(" \n\t "));
    assert_string_equal(to, "");
    text_clean_line(to, 5, BYTES("ab  cdef"));
    assert_string_equal(to, "ab c");
    text_clean_line(to, 4, BYTES("ab  cdef")); /* no space at the end */
    assert_string_equal(to, "ab");
    text_clean_line(to, sizeof(to), BYTES("a\x1B \x1B b"));
    assert_string_equal(to, "a b");
}

static void test_decode(void **state)
{
    uint32_t code = 0;

    assert_int_equal(text_decode("\xF0\x9F\x98\x80", 4, &code), 4);
    assert_int_equal(code, 0x1F600);
    assert_int_equal(text_decode("\xF0\x9F\x98\x80", 3, &code), 3);
    assert_int_equal(code, 0xFFFD);
    assert_int_equal(text_decode("\x00", 1, &code), 1);
    assert_int_equal(code, 0);
}

/*
 * Properties. The validator shares nothing with the code under test: it decodes by arithmetic and
 * then asks whether a shorter form would have done.
 */
static bool is_clean(const char *text, size_t length)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

    for (size_t i = 0; i < length;) {
        unsigned char first = (unsigned char)text[i];
        size_t bytes = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : 4;
        uint32_t code = bytes == 1 ? first : first & (0xFFu >> (bytes + 1));

        if (first >> 6 == 2 || first >= 0xF8 || i + bytes > length)
            return false;
        for (size_t j = 1; j < bytes; j++) {
            if (((unsigned char)text[i + j] & 0xC0) != 0x80)
                return false;
            code = code * 64 + ((unsigned char)text[i + j] & 0x3F);
        }
        if (code < least[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            return false;
        if ((code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0) ||
            code == 0x200E || code == 0x202E || code == 0x2029 || code == 0x2066)
            return false;
        i += bytes;
    }
    return true;
}

static bool is_start(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

static uint32_t random_state;

static uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* Bytes at the edges of the well-formedness table come often, so that sequences do form. */
static size_t random_bytes(unsigned char *to, size_t max)
{
    static const unsigned char likely[] = {
        'a',  ' ',  '\n', 0x1B, 0x7F, 0x80, 0x8F, 0x90, 0x9B, 0x9F, 0xA0, 0xA8, 0xAE, 0xBF,
        0xC1, 0xC2, 0xDF, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF, 0x81, 0xA6,
    };
    size_t length = next_random() % (max + 1);

    for (size_t i = 0; i < length; i++) {
        to[i] = next_random() % 4 ? likely[next_random() % ARRAY_SIZE(likely)]
                                  : (unsigned char)next_random();
    }
    return length;
}

/* Largest possible beginning (or end) of `whole` in `size` bytes. */
static void check_cut(const char *whole, size_t whole_length, const char *cut, size_t size,
                      bool tail)
{
    size_t length = strlen(cut);

    assert_true(length < size && length <= whole_length);
    assert_true(is_clean(cut, length));
    if (tail) {
        size_t start = whole_length - length;

        assert_memory_equal(cut, whole + start, length);
        if (start > 0) { /* one character more would not have fitted */
            size_t before = start - 1;

            while (!is_start(whole[before]))
                before--;
            assert_true(whole_length - before >= size);
        }
    } else {
        size_t after = length + 1;

        assert_memory_equal(cut, whole, length);
        if (length < whole_length) {
            while (after < whole_length && !is_start(whole[after]))
                after++;
            assert_true(after >= size);
        }
    }
}

static void test_random(void **state)
{
    random_state = 20251201;
    for (int round = 0; round < 60000; round++) {
        unsigned char from[48];
        char whole[4 * sizeof(from)], again[sizeof(whole)], cut[sizeof(whole) + 1];
        size_t length = random_bytes(from, sizeof(from));
        size_t whole_length = text_clean(whole, sizeof(whole), from, length);
        size_t size = 1 + next_random() % (whole_length + 4);

        assert_true(whole_length == strlen(whole) && is_clean(whole, whole_length));
        assert_int_equal(text_clean(again, sizeof(again), whole, whole_length), whole_length);
        assert_string_equal(again, whole);
        for (int tail = 0; tail < 2; tail++) {
            memset(cut, CANARY, sizeof(cut));
            if (tail)
                assert_in_range(text_clean_tail(cut, size, from, length), 0, size - 1);
            else
                assert_in_range(text_clean(cut, size, from, length), 0, size - 1);
            check_cut(whole, whole_length, cut, size, tail);
            assert_int_equal(cut[size], CANARY);
        }
        text_clean_line(cut, size, from, length);
        assert_true(is_clean(cut, strlen(cut)) && strlen(cut) < size);
        assert_null(strpbrk(cut, "\n\t"));
        assert_null(strstr(cut, "  "));
        if (cut[0])
            assert_true(cut[0] != ' ' && cut[strlen(cut) - 1] != ' ');
    }
}

/* Every code point alone: it comes back as itself, as nothing, or (surrogates) ill-formed. */
static void test_every_code_point(void **state)
{
    size_t kept = 0;

    for (uint32_t code = 0x80; code < 0x120000; code++) {
        unsigned char from[4];
        uint32_t read = 0;
        size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        bool well_formed = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        char to[16];

        for (size_t i = bytes - 1; i > 0; i--)
            from[i] = (unsigned char)(0x80 | (code >> 6 * (bytes - 1 - i) & 0x3F));
        from[0] = (unsigned char)((0xF0u << (4 - bytes)) | code >> 6 * (bytes - 1));
        if (text_decode(from, bytes, &read) == bytes) {
            assert_true(well_formed && read == code);
            text_clean(to, sizeof(to), from, bytes);
            assert_true(to[0] == '\0' || memcmp(to, from, bytes) == 0);
            kept += to[0] != '\0';
        } else {
            assert_true(!well_formed && read == 0xFFFD);
        }
    }
    /* All but ASCII, surrogates, 32 C1 controls, 7 separators and overrides, 4 isolates, 3 marks.
     */
    assert_int_equal(kept, 0x110000 - 0x80 - 0x800 - 32 - 7 - 4 - 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_line),   cmocka_unit_test(test_decode),
        cmocka_unit_test(test_random), cmocka_unit_test(test_every_code_point),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
