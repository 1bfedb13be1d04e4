/*
 * Text on a page of a known width: columns, wrapped paragraphs, colours.
 *
 * Widths are in terminal columns: a character of the wide scripts takes two, a combining one none.
 * Whatever is printed through this passes text_clean_line() first, so a name or a message of a
 * candidate cannot steer the terminal.
 */
#ifndef KBV_REPORT_LAYOUT_H
#define KBV_REPORT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "protocol/evaluation.h"

enum paint { PAINT_PLAIN, PAINT_BOLD, PAINT_DIM, PAINT_GOOD, PAINT_BAD, PAINT_WARN, PAINT_COUNT };

struct page {
    FILE *out;
    bool color;
    unsigned columns;
};

void page_space(const struct page *page, unsigned columns);
void page_newline(const struct page *page, unsigned indent);

/* Prints `text` as one line's part. */
void page_text(const struct page *page, enum paint paint, const char *text);

/* Prints `text` in exactly `width` columns: padded on the right (or left), or cut with "...". */
void page_cell(const struct page *page, enum paint paint, const char *text, unsigned width);
void page_cell_right(const struct page *page, enum paint paint, const char *text, unsigned width);

/* Prints `text` in at most `width` columns, cut with "..." where it is longer, without padding. */
void page_cut(const struct page *page, enum paint paint, const char *text, unsigned width);

/* The same for a line of a log, whose spaces mean something: they stay, a tab becomes one. */
void page_quote(const struct page *page, enum paint paint, const char *text, unsigned width);

/* Prints `text` in lines that fit the page and ends the last one. The first begins at column `at`,
 * where the page stands; the others are indented by `indent`. A word that is longer than a line is
 * broken. */
void page_wrap(const struct page *page, enum paint paint, unsigned at, unsigned indent,
               const char *text);

/* Ends the page: reports what could not be written. */
int page_finish(const struct page *page, struct error *err);

/* Columns that clean text takes. */
unsigned layout_width(const char *text);

/* How many bytes of clean text fit in `columns`, and (where not NULL) the columns they take. */
size_t layout_fit(const char *text, unsigned columns, unsigned *ret_width);

/* The colour of a verdict. */
enum paint paint_verdict(enum verdict verdict);
enum paint paint_speed(enum speed_class class);
enum paint paint_memory(enum memory_class class);

#endif
