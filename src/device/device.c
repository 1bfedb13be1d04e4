#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const struct device_ops *const kinds[] = {&device_cpu, &device_cuda};

static int parse_index(const char *text, int *ret_index)
{
    char *end;
    long value;

    if (text[0] < '0' || text[0] > '9')
        return -1;
    value = strtol(text, &end, 10);
    if (*end || value > 1023)
        return -1;
    *ret_index = (int)value;
    return 0;
}

const struct device_ops *device_ops_find(const char *spec, int *ret_index, struct error *err)
{
    const char *colon = strchr(spec, ':');
    size_t length = colon ? (size_t)(colon - spec) : strlen(spec);
    int index = 0;

    if (colon && parse_index(colon + 1, &index) < 0) {
        error_set(err, ERROR_USAGE, "device '%s': no number from 0 to 1023 after ':'", spec);
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (strlen(kinds[i]->name) == length && memcmp(kinds[i]->name, spec, length) == 0) {
            *ret_index = index;
            return kinds[i];
        }
    }
    error_set(err, ERROR_USAGE, "no kind of device '%.*s'; there are cpu and cuda", (int)length,
              spec);
    return NULL;
}

void region_free(struct region *region)
{
    const struct region_head *head = (const void *)region;

    if (region)
        ((const struct device_head *)(const void *)head->device)->ops->region_free(region);
}
