#include "protocol/verdict.h"

#include <stddef.h>
#include <string.h>

static const struct verdict_info {
    const char *name;
    const char *meaning;
} verdict_table[VERDICT_COUNT] = {
    [VERDICT_PROBLEM_UNFIT] = {"problem_unfit",
                               "the problem cannot be judged here: its reference fails"},
    [VERDICT_BUILD_FAILED] = {"build_failed", "the candidate does not compile"},
    [VERDICT_LOAD_FAILED] = {"load_failed", "the candidate cannot be loaded or constructed"},
    [VERDICT_CRASHED] = {"crashed", "the candidate raised an error or its process died"},
    [VERDICT_TIMED_OUT] = {"timed_out", "the candidate ran past its time limit"},
    [VERDICT_OUT_OF_MEMORY] = {"out_of_memory", "the candidate exhausted the memory"},
    [VERDICT_TAMPERED] = {"tampered",
                          "the candidate touched what is not its own, or its accounts disagree"},
    [VERDICT_WRONG] = {"wrong", "an output differs from the true one by more than allowed"},
    [VERDICT_IMPOSSIBLE_SPEED] = {"impossible_speed",
                                  "faster than its inputs and outputs can be moved"},
    [VERDICT_NO_DEVICE_WORK] = {"no_device_work", "the candidate gave the device nothing to do"},
    [VERDICT_VERIFIED] = {"verified", "right on every family of inputs that applies"},
};

static const char *const speed_names[] = {
    [SPEED_NONE] = NULL,
    [SPEED_FASTER] = "faster",
    [SPEED_ON_PAR] = "on_par",
    [SPEED_SLOWER] = "slower",
};

static const char *const memory_names[] = {
    [MEMORY_NONE] = NULL,
    [MEMORY_LEANER] = "leaner",
    [MEMORY_SAME] = "same",
    [MEMORY_HEAVIER] = "heavier",
};

static const struct label_info {
    enum label label;
    const char *name;
} label_table[LABEL_COUNT] = {
    {LABEL_REDUCED_PRECISION, "reduced_precision"}, {LABEL_DELEGATED, "delegated"},
    {LABEL_NONDETERMINISTIC, "nondeterministic"},   {LABEL_STALE_PARAMETERS, "stale_parameters"},
    {LABEL_GROWS_MEMORY, "grows_memory"},           {LABEL_INSENSITIVE, "insensitive"},
};

const char *verdict_name(enum verdict verdict)
{
    return verdict_table[verdict].name;
}

const char *verdict_meaning(enum verdict verdict)
{
    return verdict_table[verdict].meaning;
}

int verdict_find(const char *name)
{
    for (int i = 0; i < VERDICT_COUNT; i++) {
        if (strcmp(name, verdict_table[i].name) == 0)
            return i;
    }
    return -1;
}

const char *speed_class_name(enum speed_class class)
{
    return speed_names[class];
}

const char *memory_class_name(enum memory_class class)
{
    return memory_names[class];
}

const char *label_name(enum label label)
{
    for (size_t i = 0; i < LABEL_COUNT; i++) {
        if (label_table[i].label == label)
            return label_table[i].name;
    }
    return NULL;
}
