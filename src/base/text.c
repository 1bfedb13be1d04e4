#include "base/text.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

#define REPLACEMENT 0xFFFDu
#define ENCODED_MAX 4

/*
 * Well-formed sequences by their first byte (table 3-7 of the Unicode standard). Only the second
 * byte's range depends on the first; that is what keeps out overlong forms, surrogates and what
 * lies above U+10FFFF.
 */
static const struct sequence {
    unsigned char first_low, first_high;
    unsigned char second_low, second_high;
    unsigned char length;
    unsigned char payload; /* mask of the first byte's bits of the code point */
} sequences[] = {
    {0x00, 0x7F, 0x00, 0x00, 1, 0x7F}, {0xC2, 0xDF, 0x80, 0xBF, 2, 0x1F},
    {0xE0, 0xE0, 0xA0, 0xBF, 3, 0x0F}, {0xE1, 0xEC, 0x80, 0xBF, 3, 0x0F},
    {0xED, 0xED, 0x80, 0x9F, 3, 0x0F}, {0xEE, 0xEF, 0x80, 0xBF, 3, 0x0F},
    {0xF0, 0xF0, 0x90, 0xBF, 4, 0x07}, {0xF1, 0xF3, 0x80, 0xBF, 4, 0x07},
    {0xF4, 0xF4, 0x80, 0x8F, 4, 0x07},
};

/* What clean text does not contain, as ranges of code points. */
static const struct range {
    uint32_t low, high;
} dropped[] = {
    {0x0000, 0x0008}, /* C0 without '\t' and '\n' */
    {0x000B, 0x001F},
    {0x007F, 0x009F}, /* DEL and C1: 0x9B opens an escape sequence on 8-bit terminals */
    {0x061C, 0x061C}, /* Arabic letter mark */
    {0x200E, 0x200F}, /* left-to-right and right-to-left marks */
    {0x2028, 0x202E}, /* separators, embeddings and overrides */
    {0x2066, 0x2069}, /* isolates */
};

static const struct sequence *find_sequence(unsigned char first)
{
    for (size_t i = 0; i < ARRAY_SIZE(sequences); i++) {
        if (first >= sequences[i].first_low && first <= sequences[i].first_high)
            return &sequences[i];
    }
    return NULL;
}

size_t text_decode(const void *from, size_t length, uint32_t *ret_code)
{
    const unsigned char *bytes = from;
    const struct sequence *sequence;
    uint32_t code;

    assert(length > 0);
    sequence = find_sequence(bytes[0]);
    if (!sequence) {
        *ret_code = REPLACEMENT;
        return 1;
    }
    code = bytes[0] & sequence->payload;
    for (size_t i = 1; i < sequence->length; i++) {
        unsigned char low = i == 1 ? sequence->second_low : 0x80;
        unsigned char high = i == 1 ? sequence->second_high : 0xBF;

        if (i >= length || bytes[i] < low || bytes[i] > high) {
            *ret_code = REPLACEMENT;
            return i;
        }
        code = code << 6 | (bytes[i] & 0x3F);
    }
    *ret_code = code;
    return sequence->length;
}

static size_t encode(uint32_t code, char to[ENCODED_MAX])
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xC0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xE0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3F));
        to[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3F));
    to[2] = (char)(0x80 | (code >> 6 & 0x3F));
    to[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

static bool is_dropped(uint32_t code)
{
    for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
        if (code >= dropped[i].low && code <= dropped[i].high)
            return true;
    }
    return false;
}

/* The next character of the clean text, encoded; 0 at the end. */
static size_t next_clean(const unsigned char **from, const unsigned char *end, char to[ENCODED_MAX])
{
    while (*from < end) {
        uint32_t code;

        *from += text_decode(*from, (size_t)(end - *from), &code);
        if (!is_dropped(code))
            return encode(code, to);
    }
    return 0;
}

size_t text_clean(char *to, size_t size, const void *from, size_t length)
{
    const unsigned char *at = from;
    const unsigned char *end = length ? at + length : at;
    char character[ENCODED_MAX];
    size_t used = 0, bytes;

    assert(size > 0);
    while ((bytes = next_clean(&at, end, character)) > 0 && used + bytes < size) {
        memcpy(to + used, character, bytes);
        used += bytes;
    }
    to[used] = '\0';
    return used;
}

size_t text_clean_tail(char *to, size_t size, const void *from, size_t length)
{
    const unsigned char *at = from;
    const unsigned char *end = length ? at + length : at;
    char character[ENCODED_MAX];
    size_t used = 0, left = 0, bytes;

    assert(size > 0);
    /* Ill-formed bytes grow and dropped ones vanish, so where the tail begins is known only after
     * a look at everything. */
    while ((bytes = next_clean(&at, end, character)) > 0)
        left += bytes;
    at = from;
    while ((bytes = next_clean(&at, end, character)) > 0) {
        if (left < size) {
            memcpy(to + used, character, bytes);
            used += bytes;
        }
        left -= bytes;
    }
    to[used] = '\0';
    return used;
}

size_t text_clean_line(char *to, size_t size, const void *from, size_t length)
{
    const unsigned char *at = from;
    const unsigned char *end = length ? at + length : at;
    char character[ENCODED_MAX];
    size_t used = 0, bytes;
    bool space = false;

    assert(size > 0);
    while ((bytes = next_clean(&at, end, character)) > 0) {
        if (character[0] == ' ' || character[0] == '\n' || character[0] == '\t') {
            space = used > 0;
            continue;
        }
        if (used + space + bytes >= size)
            break;
        if (space)
            to[used++] = ' ';
        space = false;
        memcpy(to + used, character, bytes);
        used += bytes;
    }
    to[used] = '\0';
    return used;
}

bool text_is_utf8(const void *from, size_t length)
{
    static const unsigned char replacement[] = {0xEF, 0xBF, 0xBD};
    const unsigned char *bytes = from;

    while (length) {
        uint32_t code;
        size_t took = text_decode(bytes, length, &code);

        /* U+FFFD stands for an error, unless it is what is written there. */
        if (code == REPLACEMENT && (took != 3 || memcmp(bytes, replacement, 3) != 0))
            return false;
        bytes += took;
        length -= took;
    }
    return true;
}
