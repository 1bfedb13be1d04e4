/* The kbv.evaluation/1 document as a value, for whoever puts it into one of their own. */
#ifndef KBV_REPORT_DOCUMENT_H
#define KBV_REPORT_DOCUMENT_H

#include <jansson.h>

#include "base/error.h"
#include "protocol/evaluation.h"

/* A new reference, or NULL with `err`; the errors of report_json(). */
json_t *report_document(const struct evaluation *evaluation, struct error *err);

#endif
