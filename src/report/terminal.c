/*
 * The summary of one evaluation for a terminal: the verdict first, then the three figures, then
 * the evidence by family, then what one needs to repeat or explain it.
 */
#include "report/report.h"

#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "report/format.h"
#include "report/layout.h"
#include "sandbox/sandbox.h"

#define DEFAULT_COLUMNS 80

/* Columns of the table of families; with the gaps they fill 78 of 80. */
#define GAP               2
#define ID_COLUMNS        2
#define TRANSFORM_COLUMNS 30
#define STATUS_COLUMNS    4
#define ERROR_COLUMNS     7

/* Where the text beside a name begins. */
#define NAME_COLUMNS 11
#define TEXT_COLUMN  (GAP + NAME_COLUMNS + GAP)

#define BUILD_LOG_LINES 12
#define OUTPUT_LINES    8

static const struct status_look {
    const char *name;
    enum paint paint;
} status_looks[] = {
    [FAMILY_NOT_RUN] = {"not run", PAINT_DIM},
    [FAMILY_PASS] = {"pass", PAINT_GOOD},
    [FAMILY_FAIL] = {"fail", PAINT_BAD},
    [FAMILY_NOT_APPLICABLE] = {"n/a", PAINT_DIM},
};

/* Verdicts after which the end of the candidate's output may say why. */
static const bool output_explains[VERDICT_COUNT] = {
    [VERDICT_LOAD_FAILED] = true,
    [VERDICT_CRASHED] = true,
    [VERDICT_TIMED_OUT] = true,
    [VERDICT_OUT_OF_MEMORY] = true,
};

/* A paragraph beside `name`, or under the last one where that is "". */
static void put_line(const struct page *page, const char *name, enum paint paint,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

static void put_line(const struct page *page, const char *name, enum paint paint,
                     const char *format, ...)
{
    char text[4096 + EVALUATION_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    page_space(page, GAP);
    page_cell(page, PAINT_DIM, name, NAME_COLUMNS + GAP);
    page_wrap(page, paint, TEXT_COLUMN, TEXT_COLUMN, text);
}

static void put_verdict(const struct page *page, const struct evaluation *evaluation)
{
    const char *name = verdict_name(evaluation->verdict);
    unsigned indent = layout_width(name) + GAP;

    page_text(page, paint_verdict(evaluation->verdict), name);
    page_space(page, GAP);
    page_wrap(page, PAINT_PLAIN, indent, indent,
              evaluation->reason[0] ? evaluation->reason : verdict_meaning(evaluation->verdict));
}

static void put_correctness(const struct page *page, const struct evaluation *evaluation)
{
    unsigned passed = evaluation_family_count(evaluation, FAMILY_PASS);
    unsigned failed = evaluation_family_count(evaluation, FAMILY_FAIL);
    unsigned not_run = evaluation_family_count(evaluation, FAMILY_NOT_RUN);

    if (not_run == FAMILY_COUNT) {
        put_line(page, "correctness", PAINT_PLAIN, "not judged");
        return;
    }
    if (not_run > 0) {
        put_line(page, "correctness", PAINT_PLAIN,
                 "%u passed, %u failed; %u of %d families were not run", passed, failed, not_run,
                 FAMILY_COUNT);
        return;
    }
    put_line(page, "correctness", PAINT_PLAIN, "%u of %u applicable families passed, %d in all",
             passed, passed + failed, FAMILY_COUNT);
}

/* "1.840x  faster   <detail>": the class in its colour, the rest plain. */
static void put_ratio(const struct page *page, const char *name, struct figure ratio,
                      const char *class, enum paint paint, const char *detail)
{
    char text[FORMAT_SIZE];
    unsigned at;

    page_space(page, GAP);
    page_cell(page, PAINT_DIM, name, NAME_COLUMNS + GAP);
    page_text(page, PAINT_BOLD, format_ratio(text, ratio));
    at = TEXT_COLUMN + layout_width(text);
    if (class) {
        page_space(page, GAP);
        page_text(page, paint, class);
        at += GAP + layout_width(class);
    }
    page_space(page, GAP);
    page_wrap(page, PAINT_PLAIN, at + GAP, TEXT_COLUMN, detail);
}

static void put_speed(const struct page *page, const struct speed_evidence *speed)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE], c[FORMAT_SIZE], d[FORMAT_SIZE], detail[256];

    if (!speed->ratio.measured) {
        put_line(page, "speed", PAINT_PLAIN, "not measured");
        return;
    }
    snprintf(detail, sizeof(detail), "95%% interval %s to %s", format_ratio(a, speed->low),
             format_ratio(b, speed->high));
    put_ratio(page, "speed", speed->ratio, speed_class_name(speed->class),
              paint_speed(speed->class), detail);
    put_line(page, "", PAINT_PLAIN, "baseline %s%s%s%s, candidate %s",
             format_ms(a, speed->baseline_ms), speed->baseline_matmul[0] ? " (matmul " : "",
             speed->baseline_matmul, speed->baseline_matmul[0] ? ")" : "",
             format_ms(b, speed->candidate_ms));
    if (speed->other_matmul[0] && speed->other_ratio.measured) {
        put_line(page, "", PAINT_PLAIN, "%s (%s to %s) at matmul %s, baseline %s",
                 format_ratio(a, speed->other_ratio), format_ratio(b, speed->other_low),
                 format_ratio(c, speed->other_high), speed->other_matmul,
                 format_ms(d, speed->other_baseline_ms));
    }
}

static void put_memory(const struct page *page, const struct memory_evidence *memory)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE], detail[256];

    if (!memory->ratio.measured) {
        put_line(page, "memory", PAINT_PLAIN, "not measured");
        return;
    }
    snprintf(detail, sizeof(detail), "peak: baseline %s, candidate %s",
             format_bytes(a, memory->baseline_bytes), format_bytes(b, memory->candidate_bytes));
    put_ratio(page, "memory", memory->ratio, memory_class_name(memory->class),
              paint_memory(memory->class), detail);
    if (memory->baseline_above_bytes.measured || memory->candidate_above_bytes.measured) {
        put_line(page, "", PAINT_PLAIN, "above the call's start: baseline %s, candidate %s",
                 format_bytes(a, memory->baseline_above_bytes),
                 format_bytes(b, memory->candidate_above_bytes));
    }
}

static void put_error(const struct page *page, struct figure error, enum paint paint)
{
    char text[FORMAT_SIZE];

    page_space(page, GAP);
    page_cell_right(page, paint, format_error(text, error), ERROR_COLUMNS);
}

/* Beyond its limit, or not a number. */
static enum paint error_paint(struct figure error, struct figure limit)
{
    return error.measured && limit.measured && !(error.value <= limit.value) ? PAINT_BAD
                                                                             : PAINT_PLAIN;
}

static void put_family(const struct page *page, enum family family,
                       const struct family_evidence *evidence)
{
    const struct status_look *look = &status_looks[evidence->status];
    unsigned indent = GAP + ID_COLUMNS + GAP;

    page_space(page, GAP);
    page_cell(page, PAINT_PLAIN, family_table[family].id, ID_COLUMNS + GAP);
    page_cell(page, PAINT_PLAIN, family_table[family].transform, TRANSFORM_COLUMNS + GAP);
    if (evidence->s.measured || evidence->n.measured) {
        page_cell(page, look->paint, look->name, STATUS_COLUMNS);
        put_error(page, evidence->s, error_paint(evidence->s, evidence->s_limit));
        put_error(page, evidence->s_limit, PAINT_DIM);
        put_error(page, evidence->n, error_paint(evidence->n, evidence->n_limit));
        put_error(page, evidence->n_limit, PAINT_DIM);
    } else {
        page_text(page, look->paint, look->name);
    }
    fputc('\n', page->out);
    if (evidence->status == FAMILY_PASS)
        return;
    if (evidence->reason[0]) {
        page_space(page, indent);
        page_wrap(page, evidence->status == FAMILY_FAIL ? PAINT_PLAIN : PAINT_DIM, indent, indent,
                  evidence->reason);
    }
    /* Reasons often name the element already. */
    if (evidence->worst[0] && !strstr(evidence->reason, evidence->worst)) {
        page_space(page, indent);
        page_wrap(page, PAINT_PLAIN, indent, indent, evidence->worst);
    }
}

static void put_families(const struct page *page, const struct evaluation *evaluation)
{
    static const char *const headings[] = {"s", "limit", "n", "limit"};

    if (evaluation_family_count(evaluation, FAMILY_NOT_RUN) == FAMILY_COUNT)
        return;
    page_newline(page, GAP);
    page_cell(page, PAINT_DIM, "family", ID_COLUMNS + GAP + TRANSFORM_COLUMNS + GAP);
    page_cell(page, PAINT_DIM, "", STATUS_COLUMNS);
    for (size_t i = 0; i < ARRAY_SIZE(headings); i++) {
        page_space(page, GAP);
        page_cell_right(page, PAINT_DIM, headings[i], ERROR_COLUMNS);
    }
    fputc('\n', page->out);
    for (int i = 0; i < FAMILY_COUNT; i++)
        put_family(page, (enum family)i, &evaluation->families[i]);
}

/* The last `count` lines of clean multi-line text. */
static const char *last_lines(const char *text, unsigned count)
{
    const char *at = text + strlen(text);

    while (at > text) {
        if (at[-1] == '\n' && *at != '\0' && --count == 0)
            break;
        at--;
    }
    return at;
}

/* Somebody else's words stand behind a bar, so that they cannot pass for kbv's. */
static void put_quote(const struct page *page, const char *heading, const char *raw, unsigned lines)
{
    char text[EVALUATION_OUTPUT_MAX + 1];
    const char *at;

    text_clean_tail(text, sizeof(text), raw, strlen(raw));
    page_newline(page, GAP);
    page_wrap(page, PAINT_DIM, GAP, GAP, heading);
    for (at = last_lines(text, lines); *at;) {
        size_t length = strcspn(at, "\n");
        char line[EVALUATION_OUTPUT_MAX + 1];

        memcpy(line, at, length);
        line[length] = '\0';
        page_space(page, GAP);
        page_text(page, PAINT_DIM, "|");
        fputc(' ', page->out);
        page_quote(page, PAINT_PLAIN, line, page->columns - GAP - 2);
        fputc('\n', page->out);
        at += length + (at[length] == '\n');
    }
}

static void put_quotes(const struct page *page, const struct evaluation *evaluation)
{
    char heading[128];

    if (evaluation->verdict == VERDICT_BUILD_FAILED && evaluation->build_log[0])
        put_quote(page, "the end of the build", evaluation->build_log, BUILD_LOG_LINES);
    if (output_explains[evaluation->verdict] && evaluation->candidate_output[0]) {
        snprintf(heading, sizeof(heading), "the end of what the candidate printed (%llu bytes)",
                 (unsigned long long)evaluation->candidate_output_bytes);
        put_quote(page, heading, evaluation->candidate_output, OUTPUT_LINES);
    }
}

/* "a, b, c" of the names of the bits that are set. */
static void append_name(char *to, size_t size, const char *name)
{
    size_t used = strlen(to);

    snprintf(to + used, size - used, "%s%s", used ? ", " : "", name);
}

static void put_labels(const struct page *page, unsigned labels)
{
    char text[256] = "";

    for (unsigned bit = 0; bit < LABEL_COUNT; bit++) {
        if (labels & 1u << bit)
            append_name(text, sizeof(text), label_name((enum label)(1u << bit)));
    }
    if (text[0])
        put_line(page, "labels", PAINT_WARN, "%s", text);
}

static void put_controls(const struct page *page, const struct evaluation *evaluation)
{
    char text[256] = "";

    for (int i = 0; i < CONTROL_COUNT; i++) {
        if (evaluation->controls[i].run && evaluation->controls[i].passes)
            append_name(text, sizeof(text), control_name((enum control)i));
    }
    if (text[0])
        put_line(page, "controls", PAINT_WARN, "this problem would also accept: %s", text);
}

static void put_sandbox(const struct page *page, unsigned layers)
{
    char text[256] = "";

    for (unsigned bit = 0; bit < SANDBOX_LAYER_COUNT; bit++) {
        if (layers & 1u << bit)
            append_name(text, sizeof(text), sandbox_layer_name((enum sandbox_layer)(1u << bit)));
    }
    put_line(page, "sandbox", text[0] ? PAINT_PLAIN : PAINT_WARN, "%s",
             text[0] ? text : "none was active");
}

static void put_seconds(const struct page *page, const struct stage_seconds *seconds)
{
    const struct {
        const char *name;
        struct figure figure;
    } stages[] = {
        {"start", seconds->startup}, {"build", seconds->build},   {"check", seconds->correctness},
        {"time", seconds->timing},   {"memory", seconds->memory},
    };
    char text[256] = "", total[FORMAT_SIZE];

    for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
        char number[FORMAT_SIZE], item[64];

        if (!stages[i].figure.measured)
            continue;
        snprintf(item, sizeof(item), "%s %s", stages[i].name,
                 format_seconds(number, stages[i].figure));
        append_name(text, sizeof(text), item);
    }
    format_seconds(total, seconds->total);
    if (text[0])
        put_line(page, "seconds", PAINT_PLAIN, "%s (%s)", total, text);
    else
        put_line(page, "seconds", PAINT_PLAIN, "%s", total);
}

static void put_environment(const struct page *page, const struct evaluation *evaluation)
{
    char text[1024] = "", item[256];

    append_name(text, sizeof(text),
                evaluation->device_name[0] ? evaluation->device_name : evaluation->device);
    if (evaluation->torch_version[0]) {
        snprintf(item, sizeof(item), "torch %s", evaluation->torch_version);
        append_name(text, sizeof(text), item);
    }
    if (evaluation->dtype[0])
        append_name(text, sizeof(text), evaluation->dtype);
    if (evaluation->oracle[0]) {
        snprintf(item, sizeof(item), "oracle in %s", evaluation->oracle);
        append_name(text, sizeof(text), item);
    }
    if (text[0])
        put_line(page, "device", PAINT_PLAIN, "%s", text);
}

int report_terminal(const struct evaluation *evaluation, FILE *out, bool color, unsigned columns,
                    struct error *err)
{
    struct page page = {
        .out = out,
        .color = color,
        /* Narrower than the table is no use to anybody; lines then wrap by the terminal. */
        .columns = columns == 0   ? DEFAULT_COLUMNS
                   : columns < 40 ? 40
                                  : columns,
    };

    put_verdict(&page, evaluation);
    fputc('\n', out);
    put_correctness(&page, evaluation);
    put_speed(&page, &evaluation->speed);
    put_memory(&page, &evaluation->memory);
    put_families(&page, evaluation);
    put_quotes(&page, evaluation);
    fputc('\n', out);
    put_labels(&page, evaluation->labels);
    put_controls(&page, evaluation);
    put_line(&page, "candidate", PAINT_PLAIN, "%s", evaluation->candidate_path);
    put_line(&page, "problem", PAINT_PLAIN, "%s", evaluation->problem_path);
    put_environment(&page, evaluation);
    put_sandbox(&page, evaluation->sandbox_layers);
    put_seconds(&page, &evaluation->seconds);
    put_line(&page, "seed", PAINT_PLAIN, "%llu", (unsigned long long)evaluation->seed);
    return page_finish(&page, err);
}
