#include "report/layout.h"

#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

/* Longer than any string of an evaluation. */
#define LINE_SIZE 8192
#define ELLIPSIS  "..."

static const char *const paint_codes[PAINT_COUNT] = {
    [PAINT_PLAIN] = "",          [PAINT_BOLD] = "\033[1m",   [PAINT_DIM] = "\033[2m",
    [PAINT_GOOD] = "\033[1;32m", [PAINT_BAD] = "\033[1;31m", [PAINT_WARN] = "\033[1;33m",
};

static const enum paint verdict_paints[VERDICT_COUNT] = {
    [VERDICT_PROBLEM_UNFIT] = PAINT_WARN,   [VERDICT_BUILD_FAILED] = PAINT_BAD,
    [VERDICT_LOAD_FAILED] = PAINT_BAD,      [VERDICT_CRASHED] = PAINT_BAD,
    [VERDICT_TIMED_OUT] = PAINT_BAD,        [VERDICT_OUT_OF_MEMORY] = PAINT_BAD,
    [VERDICT_TAMPERED] = PAINT_BAD,         [VERDICT_WRONG] = PAINT_BAD,
    [VERDICT_IMPOSSIBLE_SPEED] = PAINT_BAD, [VERDICT_NO_DEVICE_WORK] = PAINT_BAD,
    [VERDICT_VERIFIED] = PAINT_GOOD,
};

static const enum paint speed_paints[] = {
    [SPEED_NONE] = PAINT_PLAIN,
    [SPEED_FASTER] = PAINT_GOOD,
    [SPEED_ON_PAR] = PAINT_PLAIN,
    [SPEED_SLOWER] = PAINT_WARN,
};

static const enum paint memory_paints[] = {
    [MEMORY_NONE] = PAINT_PLAIN,
    [MEMORY_LEANER] = PAINT_GOOD,
    [MEMORY_SAME] = PAINT_PLAIN,
    [MEMORY_HEAVIER] = PAINT_WARN,
};

/* The main blocks that terminals draw over two columns, or over none. An approximation: the
 * system's own table depends on the locale, and kbv's output must not. */
static const struct breadth {
    uint32_t low, high;
    unsigned columns;
} breadths[] = {
    {0x0300, 0x036F, 0}, {0x200B, 0x200D, 0},   {0xFE00, 0xFE0F, 0},   {0x1100, 0x115F, 2},
    {0x2E80, 0xA4CF, 2}, {0xAC00, 0xD7A3, 2},   {0xF900, 0xFAFF, 2},   {0xFE30, 0xFE6F, 2},
    {0xFF00, 0xFF60, 2}, {0x1F300, 0x1FAFF, 2}, {0x20000, 0x3FFFD, 2},
};

static unsigned character_columns(uint32_t code)
{
    for (size_t i = 0; i < ARRAY_SIZE(breadths); i++) {
        if (code >= breadths[i].low && code <= breadths[i].high)
            return breadths[i].columns;
    }
    return 1;
}

size_t layout_fit(const char *text, unsigned columns, unsigned *ret_width)
{
    size_t length = strlen(text), used = 0;
    unsigned width = 0;

    while (used < length) {
        uint32_t code;
        size_t bytes = text_decode(text + used, length - used, &code);

        if (width + character_columns(code) > columns)
            break;
        width += character_columns(code);
        used += bytes;
    }
    if (ret_width)
        *ret_width = width;
    return used;
}

unsigned layout_width(const char *text)
{
    unsigned width;

    layout_fit(text, UINT32_MAX / 2, &width);
    return width;
}

static void print(const struct page *page, enum paint paint, const char *text, size_t length)
{
    bool painted = page->color && paint != PAINT_PLAIN && length > 0;

    if (painted)
        fputs(paint_codes[paint], page->out);
    fwrite(text, 1, length, page->out);
    if (painted)
        fputs("\033[0m", page->out);
}

void page_space(const struct page *page, unsigned columns)
{
    fprintf(page->out, "%*s", (int)columns, "");
}

void page_newline(const struct page *page, unsigned indent)
{
    fputc('\n', page->out);
    page_space(page, indent);
}

void page_text(const struct page *page, enum paint paint, const char *text)
{
    char line[LINE_SIZE];

    print(page, paint, line, text_clean_line(line, sizeof(line), text, strlen(text)));
}

enum align { ALIGN_NONE, ALIGN_LEFT, ALIGN_RIGHT };

/* Clean text in `width` columns, cut or padded. */
static void put_fitted(const struct page *page, enum paint paint, char *line, unsigned width,
                       enum align align)
{
    const unsigned dots = sizeof(ELLIPSIS) - 1;
    unsigned taken;
    size_t fits = layout_fit(line, width, &taken);
    bool cut = line[fits] != '\0' && width > dots;

    if (cut) {
        fits = layout_fit(line, width - dots, &taken);
        memcpy(line + fits, ELLIPSIS, dots);
        fits += dots;
        taken += dots;
    }
    if (align == ALIGN_RIGHT)
        page_space(page, width - taken);
    print(page, paint, line, fits);
    if (align == ALIGN_LEFT)
        page_space(page, width - taken);
}

static void put_cell(const struct page *page, enum paint paint, const char *text, unsigned width,
                     enum align align)
{
    char line[LINE_SIZE];

    text_clean_line(line, sizeof(line), text, strlen(text));
    put_fitted(page, paint, line, width, align);
}

void page_cell(const struct page *page, enum paint paint, const char *text, unsigned width)
{
    put_cell(page, paint, text, width, ALIGN_LEFT);
}

void page_cell_right(const struct page *page, enum paint paint, const char *text, unsigned width)
{
    put_cell(page, paint, text, width, ALIGN_RIGHT);
}

void page_cut(const struct page *page, enum paint paint, const char *text, unsigned width)
{
    put_cell(page, paint, text, width, ALIGN_NONE);
}

void page_quote(const struct page *page, enum paint paint, const char *text, unsigned width)
{
    char line[LINE_SIZE];

    text_clean(line, sizeof(line), text, strlen(text));
    for (char *at = line; *at; at++) {
        if (*at == '\t' || *at == '\n')
            *at = ' ';
    }
    put_fitted(page, paint, line, width, ALIGN_NONE);
}

/* Bytes of the next line: up to the last space that fits, or all that fits of a long word. */
static size_t line_length(const char *text, unsigned columns)
{
    size_t fits = layout_fit(text, columns, NULL);

    if (text[fits] == '\0' || text[fits] == ' ')
        return fits;
    for (size_t i = fits; i > 0; i--) {
        if (text[i - 1] == ' ')
            return i - 1;
    }
    return fits;
}

void page_wrap(const struct page *page, enum paint paint, unsigned at, unsigned indent,
               const char *text)
{
    /* Wide enough for one character of any script, however narrow the page. */
    unsigned least = 8;
    unsigned first = page->columns > at + least ? page->columns - at : least;
    unsigned rest = page->columns > indent + least ? page->columns - indent : least;
    char line[LINE_SIZE];
    const char *left = line;

    text_clean_line(line, sizeof(line), text, strlen(text));
    for (unsigned room = first; *left; room = rest) {
        size_t length = line_length(left, room);

        if (left != line)
            page_newline(page, indent);
        print(page, paint, left, length);
        left += length;
        left += *left == ' ';
    }
    fputc('\n', page->out);
}

int page_finish(const struct page *page, struct error *err)
{
    if (fflush(page->out) != 0 || ferror(page->out))
        return error_errno(err, ERROR_INTERNAL, "writing the report");
    return 0;
}

enum paint paint_verdict(enum verdict verdict)
{
    return verdict_paints[verdict];
}

enum paint paint_speed(enum speed_class class)
{
    return speed_paints[class];
}

enum paint paint_memory(enum memory_class class)
{
    return memory_paints[class];
}
