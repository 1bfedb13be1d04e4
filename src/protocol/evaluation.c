#include "protocol/evaluation.h"

#include <stdlib.h>

static const char *const status_names[] = {
    [FAMILY_NOT_RUN] = "not_run",
    [FAMILY_PASS] = "pass",
    [FAMILY_FAIL] = "fail",
    [FAMILY_NOT_APPLICABLE] = "not_applicable",
};

static const char *const control_names[CONTROL_COUNT] = {
    [CONTROL_ZERO_OUTPUT] = "zero_output",
    [CONTROL_MEAN_OUTPUT] = "mean_output",
    [CONTROL_INPUT_RETURNED] = "input_returned",
};

const char *family_status_name(enum family_status status)
{
    return status_names[status];
}

const char *control_name(enum control control)
{
    return control_names[control];
}

unsigned evaluation_family_count(const struct evaluation *evaluation, enum family_status status)
{
    unsigned count = 0;

    for (int i = 0; i < FAMILY_COUNT; i++)
        count += evaluation->families[i].status == status;
    return count;
}

struct evaluation *evaluation_new(void)
{
    return calloc(1, sizeof(struct evaluation));
}

void evaluation_free(struct evaluation *evaluation)
{
    free(evaluation);
}
