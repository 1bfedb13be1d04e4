/* A number that may not have been measured, and how one family of evidence came out. */
#ifndef KBV_PROTOCOL_FIGURE_H
#define KBV_PROTOCOL_FIGURE_H

#include <stdbool.h>

struct figure {
    bool measured;
    double value;
};

#define FIGURE_NONE ((struct figure){.measured = false})
#define FIGURE(x)   ((struct figure){.measured = true, .value = (x)})

enum family_status { FAMILY_NOT_RUN, FAMILY_PASS, FAMILY_FAIL, FAMILY_NOT_APPLICABLE };
const char *family_status_name(enum family_status status); /* "not_run", "pass", ... */
int family_status_find(const char *name);                  /* or -1 */

#endif
