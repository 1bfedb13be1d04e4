/* Splitting host work over a few threads, without a runtime of its own. */
#ifndef KBV_DEVICE_PARALLEL_H
#define KBV_DEVICE_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

/* Below this many bytes starting threads costs more than it saves. */
#define PARALLEL_FROM_BYTES ((size_t)8 << 20)

/* Cores that this thread may run on. */
unsigned parallel_cores(void);

/*
 * Calls piece(context, i) for each i below `pieces` and returns when all are done. With `wide` it
 * uses up to min(4, cores) threads, the caller's included; where a thread cannot be started, fewer.
 * Which thread runs which piece is open: a result must not depend on it.
 */
void parallel_run(size_t pieces, bool wide, void (*piece)(void *context, size_t index),
                  void *context);

#endif
