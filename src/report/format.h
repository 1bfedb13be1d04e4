/*
 * Figures as people read them: three or four significant digits, the unit that fits, "-" for what
 * was not measured. Each writes into `to` (FORMAT_SIZE bytes) and returns it.
 */
#ifndef KBV_REPORT_FORMAT_H
#define KBV_REPORT_FORMAT_H

#include "protocol/evaluation.h"

#define FORMAT_SIZE 32

const char *format_ratio(char *to, struct figure ratio);     /* "1.840x" */
const char *format_ms(char *to, struct figure ms);           /* "12.3 us", "2.31 ms", "1.20 s" */
const char *format_bytes(char *to, struct figure bytes);     /* "512 MiB", "1.50 GiB" */
const char *format_seconds(char *to, struct figure seconds); /* "6.2", without the unit */
const char *format_error(char *to, struct figure error);     /* "1.2e-07", "0", "inf" */

#endif
