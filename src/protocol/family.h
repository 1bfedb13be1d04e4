/*
 * Families: the ways in which inputs and parameters are drawn. The table is the one place that
 * lists them; the transforms themselves are torch code in src/worker/families.py, found by id.
 */
#ifndef KBV_PROTOCOL_FAMILY_H
#define KBV_PROTOCOL_FAMILY_H

enum family {
    FAMILY_D1,
    FAMILY_D2,
    FAMILY_D3,
    FAMILY_D4,
    FAMILY_E1,
    FAMILY_E2,
    FAMILY_E3,
    FAMILY_E4,
    FAMILY_E5,
    FAMILY_E6,
    FAMILY_E7,
    FAMILY_P1,
    FAMILY_P2,
    FAMILY_COUNT,
};

enum family_kind { FAMILY_INPUTS, FAMILY_PARAMETERS };

struct family_info {
    const char *id; /* "D1" */
    enum family_kind kind;
    const char *transform; /* one line: "x3" */
    const char *finds;     /* one line: "overflow, unstable sums" */
};

extern const struct family_info family_table[FAMILY_COUNT];

/* The family with that id, or -1. */
int family_find(const char *id);

#endif
