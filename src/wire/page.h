/*
 * The shared page: the hot hand-shake between judge and worker during timed calls.
 *
 * The judge makes one page (a memfd) for each job and maps it; the worker maps the same. One call:
 *
 *   judge                               worker
 *   set, generator_seed; go = PREPARE ->
 *                                       flushes caches, waits; own clock off
 *                                    <- state = READY
 *   t0; go = START                   ->
 *                                       forward, waits for the device
 *                                    <- own_ns; state = RETURNED
 *   t1                                  copies its output out, waits
 *                                    <- state = COPIED (or FAILED)
 *
 * `sequence` numbers calls: words of an older call are never taken for those of this one. Each of
 * `go` and `state` is (sequence << 8) | code, so that one atomic word carries both. What the worker
 * writes is hostile to the judge: it reads each word once and checks it.
 *
 * Waiting: futex on the word after a short spin (page->spin_ns; 0 on the CPU device, where a
 * spinning judge would take a core from what it measures).
 */
#ifndef KBV_WIRE_PAGE_H
#define KBV_WIRE_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define PAGE_BYTES 4096

enum page_go { PAGE_GO_NONE, PAGE_GO_PREPARE, PAGE_GO_START, PAGE_GO_LEAVE };
enum page_state { PAGE_IDLE, PAGE_READY, PAGE_RETURNED, PAGE_COPIED, PAGE_FAILED };

struct page {
    /* The judge's words. */
    _Atomic uint32_t go;
    uint32_t set;            /* which input set */
    uint64_t generator_seed; /* state of torch's generators before the call */
    uint64_t spin_ns;
    uint8_t gap[64 - 24];
    /* The worker's words, on a cache line of their own. */
    _Atomic uint32_t state;
    uint32_t reserved;
    _Atomic uint64_t own_ns; /* the worker's own clock of the call */
    /* Where a fault happened, if the worker's handler saw one: signal and address. */
    _Atomic uint32_t fault_signal;
    uint32_t reserved2;
    _Atomic uint64_t fault_address;
};
_Static_assert(sizeof(struct page) <= PAGE_BYTES, "one page");

static inline uint32_t page_word(uint32_t sequence, unsigned code)
{
    return (sequence << 8) | code;
}

/* Stores `value` and wakes who waits for that word. */
void page_post(_Atomic uint32_t *word, uint32_t value);

/*
 * Waits until *word differs from `old`, for up to `timeout_ns`, spinning for the first `spin_ns`.
 * Returns the new value, or `old` when the time is over.
 */
uint32_t page_wait(_Atomic uint32_t *word, uint32_t old, uint64_t spin_ns, uint64_t timeout_ns);

/* Creates the page's memfd, sealed against resizing, and maps it. */
int page_create(int *ret_fd, struct page **ret_page, struct error *err);
/* Maps a page that another process made. */
int page_map(int fd, struct page **ret_page, struct error *err);
void page_unmap(struct page *page);

#endif
