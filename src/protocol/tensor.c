#include "protocol/tensor.h"

#include <string.h>

static const struct dtype_info {
    const char *name;
    size_t size;
    bool floating;
} dtype_table[DTYPE_COUNT] = {
    [DTYPE_FLOAT64] = {"float64", 8, true}, [DTYPE_FLOAT32] = {"float32", 4, true},
    [DTYPE_FLOAT16] = {"float16", 2, true}, [DTYPE_BFLOAT16] = {"bfloat16", 2, true},
    [DTYPE_INT64] = {"int64", 8, false},    [DTYPE_INT32] = {"int32", 4, false},
    [DTYPE_INT16] = {"int16", 2, false},    [DTYPE_INT8] = {"int8", 1, false},
    [DTYPE_UINT8] = {"uint8", 1, false},    [DTYPE_BOOL] = {"bool", 1, false},
};

size_t dtype_size(enum dtype dtype)
{
    return dtype_table[dtype].size;
}

const char *dtype_name(enum dtype dtype)
{
    return dtype_table[dtype].name;
}

int dtype_parse(const char *name)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_table[i].name) == 0)
            return i;
    }
    return -1;
}

bool dtype_is_floating(enum dtype dtype)
{
    return dtype_table[dtype].floating;
}
