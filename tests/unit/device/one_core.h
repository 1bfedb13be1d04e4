/* Confines the calling thread to one core, on which parallel_run() starts no threads. */
#ifndef KBV_TESTS_UNIT_DEVICE_ONE_CORE_H
#define KBV_TESTS_UNIT_DEVICE_ONE_CORE_H

#include <sched.h>

#include "device/parallel.h"
#include "unit.h"

static inline void one_core_enter(cpu_set_t *before)
{
    cpu_set_t one;
    int core = sched_getcpu();

    CPU_ZERO(&one);
    CPU_SET(core < 0 ? 0 : (size_t)core, &one);
    assert_int_equal(sched_getaffinity(0, sizeof(*before), before), 0);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(parallel_cores(), 1);
}

static inline void one_core_leave(const cpu_set_t *before)
{
    assert_int_equal(sched_setaffinity(0, sizeof(*before), before), 0);
}

#endif
