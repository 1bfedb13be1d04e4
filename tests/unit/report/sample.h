/* Evaluations as the judge would fill them, for the tests of every report. */
#ifndef KBV_TESTS_REPORT_SAMPLE_H
#define KBV_TESTS_REPORT_SAMPLE_H

#include "protocol/evaluation.h"

/* All are freed with evaluation_free(). */
struct evaluation *sample_verified(void);     /* faster, leaner, every figure there */
struct evaluation *sample_wrong(void);        /* two families fail, one does not apply; not timed */
struct evaluation *sample_build_failed(void); /* nothing was run */
struct evaluation *sample_crashed(void);      /* in its third family, with hostile output */
/* Every text full of what takes most room, every figure of the most digits, all blocks. */
struct evaluation *sample_largest(void);

#endif
