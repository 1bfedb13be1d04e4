#include "cli/locate.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* What only the worker's directory holds. */
#define LIBRARY_MARK "_kbv.abi3.so"

/* Relative to the executable's directory: the build tree, an installation with a prefix, a wheel
 * (whose tools map no directory but share/). */
static const char *const library_places[] = {"src/worker", "../lib/kbv", "../share/kbv/lib"};
static const char *const data_places[] = {"../share/kbv", ".."};

static bool is_program(const char *path)
{
    struct stat what;

    return stat(path, &what) == 0 && S_ISREG(what.st_mode) && access(path, X_OK) == 0;
}

static bool is_directory(const char *path)
{
    struct stat what;

    return stat(path, &what) == 0 && S_ISDIR(what.st_mode);
}

/* Joins with a slash; false where the result does not fit. */
static bool join(char to[LOCATE_PATH_MAX], const char *directory, const char *name)
{
    int length = snprintf(to, LOCATE_PATH_MAX, "%s/%s", directory, name);

    return length > 0 && length < LOCATE_PATH_MAX;
}

static int executable_directory(char to[LOCATE_PATH_MAX], struct error *err)
{
    ssize_t length = readlink("/proc/self/exe", to, LOCATE_PATH_MAX - 1);
    char *slash;

    if (length < 0)
        return error_errno(err, ERROR_UNFIT, "/proc/self/exe");
    to[length] = '\0';
    slash = strrchr(to, '/');
    if (!slash)
        return error_set(err, ERROR_INTERNAL, "/proc/self/exe: no path: %s", to);
    *slash = '\0';
    return 0;
}

int locate_program(const char *name, char ret_path[LOCATE_PATH_MAX])
{
    const char *path = getenv("PATH");
    char candidate[LOCATE_PATH_MAX], here[LOCATE_PATH_MAX];

    if (!name[0])
        return -1;
    if (strchr(name, '/')) {
        if (!is_program(name))
            return -1;
        if (name[0] == '/') {
            if (strlen(name) >= LOCATE_PATH_MAX)
                return -1;
            strcpy(ret_path, name);
            return 0;
        }
        return getcwd(here, sizeof(here)) && join(ret_path, here, name) ? 0 : -1;
    }
    for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *path;) {
        size_t length = strcspn(path, ":");

        /* A relative entry means the working directory, which is not to be trusted. */
        if (path[0] == '/' && length < sizeof(here)) {
            memcpy(here, path, length);
            here[length] = '\0';
            if (join(candidate, here, name) && is_program(candidate)) {
                strcpy(ret_path, candidate);
                return 0;
            }
        }
        path += length;
        path += *path == ':';
    }
    return -1;
}

/* The interpreter of the virtual environment whose bin/ holds kbv. An ordinary prefix such as
 * /usr/local does not count: its python3 need not be the one that the user meant. */
static bool environment_python(const char *exe, char to[LOCATE_PATH_MAX])
{
    char mark[LOCATE_PATH_MAX];

    if (!join(mark, exe, "../pyvenv.cfg") || access(mark, R_OK) != 0) {
        if (!join(mark, exe, "../conda-meta") || !is_directory(mark))
            return false;
    }
    return join(to, exe, "python3") && is_program(to);
}

/* The path that scripts/setup.sh recorded: a text file of one line. */
static bool recorded_python(const char *exe, char to[LOCATE_PATH_MAX])
{
    char record[LOCATE_PATH_MAX];
    CLEANUP_FILE FILE *file = NULL;

    if (!join(record, exe, "python") || is_program(record))
        return false;
    file = fopen(record, "re");
    if (!file || !fgets(to, LOCATE_PATH_MAX, file))
        return false;
    to[strcspn(to, "\n")] = '\0';
    return to[0] == '/' && is_program(to);
}

int locate_python(const char *asked, char ret_path[LOCATE_PATH_MAX], struct error *err)
{
    char exe[LOCATE_PATH_MAX], found[LOCATE_PATH_MAX];
    const char *configured = getenv("KBV_PYTHON");

    if (asked) {
        if (locate_program(asked, ret_path) < 0)
            return error_set(err, ERROR_USAGE, "--python %s: no such program", asked);
        return 0;
    }
    if (configured && configured[0]) {
        if (locate_program(configured, ret_path) < 0)
            return error_set(err, ERROR_USAGE, "KBV_PYTHON=%s: no such program", configured);
        return 0;
    }
    if (executable_directory(exe, err) < 0)
        return -1;
    if (environment_python(exe, found) || recorded_python(exe, found)) {
        strcpy(ret_path, found);
        return 0;
    }
    if (locate_program("python3", ret_path) < 0)
        return error_set(err, ERROR_UNFIT,
                         "there is no python3 in PATH; give --python PATH or set "
                         "KBV_PYTHON to one that has torch");
    return 0;
}

int locate_library(char ret_path[LOCATE_PATH_MAX], struct error *err)
{
    char exe[LOCATE_PATH_MAX], place[LOCATE_PATH_MAX], mark[LOCATE_PATH_MAX];
    const char *configured = getenv("KBV_LIBDIR");

    if (configured && configured[0]) {
        if (!join(mark, configured, LIBRARY_MARK) || access(mark, R_OK) != 0 ||
            !realpath(configured, place))
            return error_set(err, ERROR_USAGE, "KBV_LIBDIR=%s: no %s there", configured,
                             LIBRARY_MARK);
        strcpy(ret_path, place);
        return 0;
    }
    if (executable_directory(exe, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(library_places); i++) {
        if (join(place, exe, library_places[i]) && join(mark, place, LIBRARY_MARK) &&
            access(mark, R_OK) == 0 && realpath(place, mark)) {
            strcpy(ret_path, mark);
            return 0;
        }
    }
    return error_set(err, ERROR_UNFIT,
                     "no %s beside %s: build it (make build), install all of kbv, or set "
                     "KBV_LIBDIR to the directory that holds it",
                     LIBRARY_MARK, exe);
}

int locate_data(const char *name, char ret_path[LOCATE_PATH_MAX], struct error *err)
{
    char exe[LOCATE_PATH_MAX], base[LOCATE_PATH_MAX], place[LOCATE_PATH_MAX];

    if (executable_directory(exe, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(data_places); i++) {
        if (join(base, exe, data_places[i]) && join(place, base, name) && is_directory(place) &&
            realpath(place, base)) {
            strcpy(ret_path, base);
            return 0;
        }
    }
    return error_set(err, ERROR_UNFIT, "no directory %s beside %s: install all of kbv", name, exe);
}
