/*
 * A table of many evaluations. Where the terminal is too narrow for a useful reason beside the
 * figures, the reason of what was not verified goes beneath its row.
 */
#include "report/report.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "report/format.h"
#include "report/layout.h"

#define GAP           2
#define PIPE_COLUMNS  132
#define LEAST_COLUMNS 80
#define LEAST_REASON  24
#define REASON_INDENT 2

static const struct column {
    const char *heading;
    unsigned columns;
    bool right;
} columns_of[] = {
    {"problem", 15, false}, {"candidate", 16, false}, {"verdict", 16, false},
    {"speed", 8, true},     {"memory", 7, true},      {"seconds", 7, true},
};

enum {
    COLUMN_PROBLEM,
    COLUMN_CANDIDATE,
    COLUMN_VERDICT,
    COLUMN_SPEED,
    COLUMN_MEMORY,
    COLUMN_SECONDS
};

unsigned report_columns(FILE *out)
{
    struct winsize size;
    int fd = fileno(out);

    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size) < 0)
        return 0;
    return size.ws_col;
}

static void put_cell(const struct page *page, size_t column, enum paint paint, const char *text)
{
    if (column > 0)
        page_space(page, GAP);
    if (columns_of[column].right)
        page_cell_right(page, paint, text, columns_of[column].columns);
    else
        page_cell(page, paint, text, columns_of[column].columns);
}

/* Columns that are left for the reason; 0 where that is too few. */
static unsigned reason_columns(const struct page *page)
{
    unsigned taken = GAP;

    for (size_t i = 0; i < ARRAY_SIZE(columns_of); i++)
        taken += columns_of[i].columns + (i > 0 ? GAP : 0);
    return page->columns >= taken + LEAST_REASON ? page->columns - taken : 0;
}

static void put_heading(const struct page *page)
{
    for (size_t i = 0; i < ARRAY_SIZE(columns_of); i++)
        put_cell(page, i, PAINT_DIM, columns_of[i].heading);
    if (reason_columns(page)) {
        page_space(page, GAP);
        page_text(page, PAINT_DIM, "reason");
    }
    fputc('\n', page->out);
}

/* The last part of a path without ".py": what tells one row from the next. */
static void short_name(char *to, size_t size, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = strlen(name);

    if (length > 3 && strcmp(name + length - 3, ".py") == 0)
        length -= 3;
    snprintf(to, size, "%.*s", (int)length, name);
}

static void put_reason(const struct page *page, const struct evaluation *evaluation)
{
    unsigned room = reason_columns(page);
    const char *reason = evaluation->reason;

    if (!reason[0] || (!room && evaluation->verdict == VERDICT_VERIFIED)) {
        fputc('\n', page->out);
        return;
    }
    if (room) {
        page_space(page, GAP);
    } else {
        room = page->columns - REASON_INDENT;
        page_newline(page, REASON_INDENT);
    }
    /* A reason that is shorter than its room is not padded: no line ends in spaces. */
    page_cut(page, PAINT_DIM, reason, room);
    fputc('\n', page->out);
}

static void put_row(const struct page *page, const struct evaluation *evaluation)
{
    char name[256], figure[FORMAT_SIZE];

    short_name(name, sizeof(name), evaluation->problem_path);
    put_cell(page, COLUMN_PROBLEM, PAINT_PLAIN, name);
    short_name(name, sizeof(name), evaluation->candidate_path);
    put_cell(page, COLUMN_CANDIDATE, PAINT_PLAIN, name);
    put_cell(page, COLUMN_VERDICT, paint_verdict(evaluation->verdict),
             verdict_name(evaluation->verdict));
    put_cell(page, COLUMN_SPEED, paint_speed(evaluation->speed.class),
             format_ratio(figure, evaluation->speed.ratio));
    put_cell(page, COLUMN_MEMORY, paint_memory(evaluation->memory.class),
             format_ratio(figure, evaluation->memory.ratio));
    put_cell(page, COLUMN_SECONDS, PAINT_PLAIN, format_seconds(figure, evaluation->seconds.total));
    put_reason(page, evaluation);
}

int report_row_at(const struct evaluation *evaluation, FILE *out, bool color, unsigned columns,
                  struct error *err)
{
    struct page page = {
        .out = out,
        .color = color,
        .columns = columns == 0              ? PIPE_COLUMNS
                   : columns < LEAST_COLUMNS ? LEAST_COLUMNS
                                             : columns,
    };

    if (evaluation)
        put_row(&page, evaluation);
    else
        put_heading(&page);
    return page_finish(&page, err);
}

int report_row(const struct evaluation *evaluation, FILE *out, bool color, struct error *err)
{
    return report_row_at(evaluation, out, color, report_columns(out), err);
}
