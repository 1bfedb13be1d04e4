/* The one clock: CLOCK_MONOTONIC_RAW, which neither NTP nor a candidate can bend. */
#ifndef KBV_BASE_CLOCK_H
#define KBV_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

/* Nanoseconds since an arbitrary start. */
static inline uint64_t clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline double clock_seconds_since(uint64_t start_ns)
{
    return (double)(clock_now_ns() - start_ns) / 1e9;
}

#endif
