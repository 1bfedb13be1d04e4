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

/* The library in `directory`, by its name; false where there is none. */
static bool find_library(const char *directory, char *ret_name, size_t name_size)
{
    struct dirent *item;
    bool found = false;
    DIR *listing = opendir(directory);

    while (listing && !found && (item = readdir(listing))) {
        if (cache_name_valid(item->d_name) && strlen(item->d_name) < name_size) {
            strcpy(ret_name, item->d_name);
            found = true;
        }
    }
    if (listing)
        closedir(listing);
    return found;
}

bool cache_fetch(const char *cache, const char *key, const char *directory, char *ret_path,
                 size_t path_size)
{
    char entry[PATH_MAX], place[PATH_MAX], from[PATH_MAX + 256], name[256];
    struct error ignored = ERROR_INIT;

    snprintf(place, sizeof(place), "%s/%s", directory, key);
    if (find_library(place, name, sizeof(name)))
        return (size_t)snprintf(ret_path, path_size, "%s/%s", place, name) < path_size;
    snprintf(entry, sizeof(entry), "%s/builds/%s", cache, key);
    if (!find_library(entry, name, sizeof(name)))
        return false;
    snprintf(from, sizeof(from), "%s/%s", entry, name);
    return (size_t)snprintf(ret_path, path_size, "%s/%s", place, name) < path_size &&
           directory_make(place, &ignored) == 0 && file_copy(from, ret_path, 0, &ignored) == 0;
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
