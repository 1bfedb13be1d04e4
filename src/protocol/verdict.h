/* Verdicts, classes and labels: the names that every report and every schema uses. */
#ifndef KBV_PROTOCOL_VERDICT_H
#define KBV_PROTOCOL_VERDICT_H

/* In order of precedence: the first that applies is the verdict. */
enum verdict {
    VERDICT_PROBLEM_UNFIT,
    VERDICT_BUILD_FAILED,
    VERDICT_LOAD_FAILED,
    VERDICT_CRASHED,
    VERDICT_TIMED_OUT,
    VERDICT_OUT_OF_MEMORY,
    VERDICT_TAMPERED,
    VERDICT_WRONG,
    VERDICT_IMPOSSIBLE_SPEED,
    VERDICT_NO_DEVICE_WORK,
    VERDICT_VERIFIED,
    VERDICT_COUNT,
};

enum speed_class { SPEED_NONE, SPEED_FASTER, SPEED_ON_PAR, SPEED_SLOWER };
enum memory_class { MEMORY_NONE, MEMORY_LEANER, MEMORY_SAME, MEMORY_HEAVIER };

enum label {
    LABEL_REDUCED_PRECISION = 1 << 0,
    LABEL_DELEGATED = 1 << 1,
    LABEL_NONDETERMINISTIC = 1 << 2,
    LABEL_STALE_PARAMETERS = 1 << 3,
    LABEL_GROWS_MEMORY = 1 << 4,
    /* The problem's, not the candidate's: a control passes everywhere. */
    LABEL_INSENSITIVE = 1 << 5,
};
#define LABEL_COUNT 6

const char *verdict_name(enum verdict verdict);         /* "problem_unfit", ... */
const char *verdict_meaning(enum verdict verdict);      /* one line for people */
int verdict_find(const char *name);                     /* or -1 */
const char *speed_class_name(enum speed_class class);   /* "faster"; NULL for SPEED_NONE */
const char *memory_class_name(enum memory_class class); /* "leaner"; NULL for MEMORY_NONE */
const char *label_name(enum label label);               /* "reduced_precision"; of one bit */

#endif
