#include "build/cache.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

bool cache_name_valid(const char *name)
{
    size_t length = strlen(name);

    return length > 3 && length < 200 && strcmp(name + length - 3, ".so") == 0 && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") ==
               length;
}

bool cache_fetch(const char *cache, const char *key, const char *directory, char *ret_path,
                 size_t path_size)
{
    char entry[PATH_MAX], from[PATH_MAX + 256], to[PATH_MAX + 256];
    struct error ignored = ERROR_INIT;
    struct dirent *item;
    bool found = false;
    DIR *listing;

    snprintf(entry, sizeof(entry), "%s/builds/%s", cache, key);
    listing = opendir(entry);
    if (!listing)
        return false;
    while (!found && (item = readdir(listing))) {
        if (!cache_name_valid(item->d_name))
            continue;
        snprintf(from, sizeof(from), "%s/%s", entry, item->d_name);
        snprintf(to, sizeof(to), "%s/%s", directory, item->d_name);
        if (file_copy(from, to, 0, &ignored) == 0 && strlen(to) < path_size) {
            strcpy(ret_path, to);
            found = true;
        }
    }
    closedir(listing);
    return found;
}

int cache_keep(const char *cache, const char *key, const char *library, struct error *err)
{
    char entry[PATH_MAX], temporary[PATH_MAX + 64], to[PATH_MAX + 320];
    const char *name = strrchr(library, '/');

    snprintf(entry, sizeof(entry), "%s/builds/%s", cache, key);
    snprintf(temporary, sizeof(temporary), "%s.%d", entry, (int)getpid());
    snprintf(to, sizeof(to), "%s/%s", temporary, name ? name + 1 : library);
    if (directory_make(temporary, err) < 0 || file_copy(library, to, 0, err) < 0) {
        directory_remove(temporary);
        return -1;
    }
    if (rename(temporary, entry) < 0)
        directory_remove(temporary); /* another judge was first, with the same content */
    return 0;
}
