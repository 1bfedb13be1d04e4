/*
 * Text that somebody else wrote: what a candidate, a compiler or a file name says, made fit for a
 * terminal and for JSON.
 *
 * Clean text is valid UTF-8. Each ill-formed sequence has become one U+FFFD (a maximal subpart, as
 * the Unicode standard recommends). Characters that steer a terminal or reorder a line are gone:
 * the C0 and C1 controls and DEL but for '\n' and '\t', the line and paragraph separators, and the
 * bidirectional controls, with which a candidate's output could dress up as a verdict.
 * Surrogates and code points above U+10FFFF are ill-formed. Cleaning clean text changes nothing.
 *
 * All functions write at most `size` > 0 bytes to `to`, the terminating NUL included, never split a
 * character, and return the number of bytes before the NUL. `from` may hold NUL bytes, and may not
 * overlap `to`; it may be NULL where `length` is 0.
 */
#ifndef KBV_BASE_TEXT_H
#define KBV_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest beginning of the clean text that fits. */
size_t text_clean(char *to, size_t size, const void *from, size_t length);

/* The longest end of the clean text that fits: for logs, whose last lines say what went wrong. */
size_t text_clean_tail(char *to, size_t size, const void *from, size_t length);

/* The longest beginning that fits, as one line: every run of spaces, tabs and line ends has become
 * one space, and there is none at either end. */
size_t text_clean_line(char *to, size_t size, const void *from, size_t length);

/* Whether all of it is well-formed UTF-8. */
bool text_is_utf8(const void *from, size_t length);

/*
 * Reads one character of `length` > 0 bytes. Returns how many bytes it took (at least 1) and stores
 * its code point; U+FFFD stands for an ill-formed sequence.
 */
size_t text_decode(const void *from, size_t length, uint32_t *ret_code);

#endif
