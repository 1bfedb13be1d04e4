#include "device/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS_MAX 4

struct batch {
    atomic_size_t next;
    size_t pieces;
    void (*piece)(void *context, size_t index);
    void *context;
};

static void *run_batch(void *argument)
{
    struct batch *batch = argument;
    size_t index;

    while ((index = atomic_fetch_add(&batch->next, 1)) < batch->pieces)
        batch->piece(batch->context, index);
    return NULL;
}

unsigned parallel_cores(void)
{
    cpu_set_t cores;
    int count;

    if (sched_getaffinity(0, sizeof(cores), &cores) < 0)
        return 1;
    count = CPU_COUNT(&cores);
    return count > 0 ? (unsigned)count : 1;
}

void parallel_run(size_t pieces, bool wide, void (*piece)(void *context, size_t index),
                  void *context)
{
    struct batch batch = {.pieces = pieces, .piece = piece, .context = context};
    pthread_t helpers[THREADS_MAX - 1];
    size_t wanted = wide ? parallel_cores() : 1;
    size_t started = 0;

    if (wanted > THREADS_MAX)
        wanted = THREADS_MAX;
    if (wanted > pieces)
        wanted = pieces;
    while (started + 1 < wanted && pthread_create(&helpers[started], NULL, run_batch, &batch) == 0)
        started++;
    run_batch(&batch);
    for (size_t i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
}
