/* fill() and check_fill() over host memory. */
#ifndef KBV_DEVICE_FILL_H
#define KBV_DEVICE_FILL_H

#include <stddef.h>
#include <stdint.h>

/* Byte at address a becomes byte (a mod 8) of `pattern`, least significant first. */
void fill_host(void *to, uint64_t pattern, size_t bytes);

/* How many bytes are not what fill_host() of the same range wrote; stores the offset of the first
 * such byte in `ret_first_offset`, which stays untouched where there is none. */
uint64_t fill_host_check(const void *from, uint64_t pattern, size_t bytes,
                         uint64_t *ret_first_offset);

#endif
