#include "protocol/evaluation.h"

#include <stdlib.h>
#include <string.h>

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

static const char *const side_names[SIDE_COUNT] = {
    [SIDE_BASELINE] = "baseline",
    [SIDE_CANDIDATE] = "candidate",
    [SIDE_OTHER_BASELINE] = "other_baseline",
};

static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

const char *side_name(enum side side)
{
    return side_names[side];
}

int side_find(const char *name)
{
    return find(side_names, SIDE_COUNT, name);
}

int family_status_find(const char *name)
{
    return find(status_names, FAMILY_NOT_APPLICABLE + 1, name);
}

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
    if (evaluation)
        free(evaluation->speed.blocks);
    free(evaluation);
}

void evaluation_clear(struct evaluation *evaluation)
{
    free(evaluation->speed.blocks);
    memset(evaluation, 0, sizeof(*evaluation));
}

int evaluation_add_block(struct evaluation *evaluation, const struct timing_block *block)
{
    struct speed_evidence *speed = &evaluation->speed;

    if (speed->block_count >= EVALUATION_BLOCKS_MAX)
        return -1;
    /* Grows at powers of two. */
    if ((speed->block_count & (speed->block_count - 1)) == 0) {
        size_t room = speed->block_count ? 2 * speed->block_count : 1;
        struct timing_block *blocks = realloc(speed->blocks, room * sizeof(*blocks));

        if (!blocks)
            return -1;
        speed->blocks = blocks;
    }
    speed->blocks[speed->block_count++] = *block;
    return 0;
}
