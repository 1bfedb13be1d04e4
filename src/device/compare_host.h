/* compare() over host memory, on a few threads. */
#ifndef KBV_DEVICE_COMPARE_HOST_H
#define KBV_DEVICE_COMPARE_HOST_H

#include "base/error.h"
#include "protocol/tensor.h"

/* As device_ops.compare, with pointers. */
int compare_host(const void *expected, enum dtype expected_dtype, const void *got,
                 enum dtype got_dtype, uint64_t count, struct compare_result *ret_result,
                 struct error *err);

#endif
