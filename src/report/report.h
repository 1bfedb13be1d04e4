/*
 * Evaluations for people and for programs. Every text is cleaned on the way out (base/text.h), so
 * that neither a candidate's message nor a file's name can break a document or steer a terminal.
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

#define REPORT_JSON_SCHEMA    "kbv.evaluation/1"
#define REPORT_JSON_MAX_BYTES (1u << 20)

/* Writes the document and a newline. ERROR_INTERNAL for an evaluation that the schema cannot hold
 * (a seed of EVALUATION_SEED_BOUND or above, too many blocks), or where writing fails. */
int report_json(const struct evaluation *evaluation, FILE *out, struct error *err);

/* Summary for a terminal: verdict first, then correctness, speed and memory, then families. `color`
 * switches ANSI colours on; `columns` is the terminal's width (0: 80). */
int report_terminal(const struct evaluation *evaluation, FILE *out, bool color, unsigned columns,
                    struct error *err);

/* One line of a table of many: call with NULL first for the heading. It is laid out for the width
 * of the terminal that `out` is (132 where it is none). Under 105 columns the reason of what was
 * not verified has a line of its own. */
int report_row(const struct evaluation *evaluation, FILE *out, bool color, struct error *err);

/* The same for a width that the caller knows; 0: 132. */
int report_row_at(const struct evaluation *evaluation, FILE *out, bool color, unsigned columns,
                  struct error *err);

/* The width of the terminal that `out` is, 0 where it is none. */
unsigned report_columns(FILE *out);

#endif
