/*
 * Finished builds, kept by content.
 *
 * A build is named by the hash of all that it is made from: the specification (sources and flags),
 * torch, the compiler's identity, the device's architecture. Entries appear whole (written beside
 * and renamed) and never change, so that any number of judges may share one cache without a lock;
 * what a dead one left behind is a stray temporary file, never a broken entry.
 */
#ifndef KBV_BUILD_CACHE_H
#define KBV_BUILD_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Copies the entry's library to `directory`/`key`/ (its file name kept) and stores its path. True
 * when there was one. A library that is there already stays untouched: a process may have it
 * loaded, and another extension may have the same name.
 */
bool cache_fetch(const char *cache, const char *key, const char *directory, char *ret_path,
                 size_t path_size);

/* Keeps `library` (a path) under `key`. */
int cache_keep(const char *cache, const char *key, const char *library, struct error *err);

/* A name from an untrusted builder that may become a file's: letters, digits, '_', '-' and '.',
 * ending in ".so". */
bool cache_name_valid(const char *name);

#endif
