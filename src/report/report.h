/*
 * Evaluations for people and for programs.
 *
 * JSON: schema kbv.evaluation/1, documented in docs/evaluation.md. One document, under 1 MiB
 * whatever the candidate printed. Figures that were not measured, and those that are not finite,
 * are null.
 */
#ifndef KBV_REPORT_REPORT_H
#define KBV_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "protocol/evaluation.h"

/* Writes the document and a newline. */
int report_json(const struct evaluation *evaluation, FILE *out, struct error *err);

/* Summary for a terminal: verdict first, then speed, memory, correctness, then families. `color`
 * switches ANSI colours on; `columns` is the terminal's width (0: 80). */
int report_terminal(const struct evaluation *evaluation, FILE *out, bool color, unsigned columns,
                    struct error *err);

/* One line of a table of many: call with NULL first for the heading. */
int report_row(const struct evaluation *evaluation, FILE *out, bool color, struct error *err);

#endif
