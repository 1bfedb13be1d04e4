#include "protocol/family.h"

#include <string.h>

const struct family_info family_table[FAMILY_COUNT] = {
    [FAMILY_D1] = {"D1", FAMILY_INPUTS, "as drawn", "a wrong result on ordinary inputs"},
    [FAMILY_D2] = {"D2", FAMILY_INPUTS, "x3", "overflow, unstable sums"},
    [FAMILY_D3] = {"D3", FAMILY_INPUTS, "x0.01", "underflow, epsilon handling"},
    [FAMILY_D4] = {"D4", FAMILY_INPUTS, "x(-1)", "sign shortcuts"},
    [FAMILY_E1] = {"E1", FAMILY_INPUTS, "a random sign for each element",
                   "sign sniffing on a sample, products in which a common sign cancels"},
    [FAMILY_E2] = {"E2", FAMILY_INPUTS, "each tensor x2^u, u in [-8, 8]",
                   "products in which a scale cancels, exponentials without max-subtraction"},
    [FAMILY_E3] = {"E3", FAMILY_INPUTS, "one element in 1000 x64",
                   "subsampled reductions, caches keyed by a sample of the content"},
    [FAMILY_E4] = {"E4", FAMILY_INPUTS, "x + 5 std(x)",
                   "one-pass variance, missing max-subtraction"},
    [FAMILY_E5] = {"E5", FAMILY_INPUTS, "blocks of equals and zeros", "ties, early exits"},
    [FAMILY_E6] = {"E6", FAMILY_INPUTS, "sorted rows under a ramp",
                   "a wrong axis that averages away, position-blind reductions"},
    [FAMILY_E7] = {"E7", FAMILY_INPUTS, "a mosaic of D1-D4, E1, E4",
                   "decisions taken on a prefix or a sample"},
    [FAMILY_P1] = {"P1", FAMILY_PARAMETERS, "parameters of another seed",
                   "constants baked from the benchmark's seed"},
    [FAMILY_P2] = {"P2", FAMILY_PARAMETERS, "parameters perturbed, by name",
                   "ignored bias, gamma or scale, zero-initialised layers"},
};

int family_find(const char *id)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(id, family_table[i].id) == 0)
            return i;
    }
    return -1;
}
