/*
 * Where kbv finds what it needs beside its own executable: an interpreter, its worker's directory,
 * the problems and red-team fixtures that come with it. Results are absolute paths.
 *
 * Only the build tree, an installation and KBV_LIBDIR are looked at: never the working directory,
 * where a candidate's author may have put things.
 */
#ifndef KBV_CLI_LOCATE_H
#define KBV_CLI_LOCATE_H

#include "base/error.h"

#define LOCATE_PATH_MAX 4096

/*
 * The interpreter that has torch. The first of: `asked` (--python; NULL where it was not given),
 * $KBV_PYTHON, the virtual environment that kbv is installed into, the path recorded by
 * scripts/setup.sh in the file `python` beside the executable, python3 in PATH. A symbolic link is
 * not followed, because a virtual environment's python is one and knows itself by its own path.
 * ERROR_USAGE where `asked` is no program, ERROR_UNFIT where there is none at all.
 */
int locate_python(const char *asked, char ret_path[LOCATE_PATH_MAX], struct error *err)
    __attribute__((warn_unused_result));

/* The directory that holds the extension module and the Python files of the worker. */
int locate_library(char ret_path[LOCATE_PATH_MAX], struct error *err)
    __attribute__((warn_unused_result));

/* A directory of data that comes with kbv: `name` is "problems" or "redteam". */
int locate_data(const char *name, char ret_path[LOCATE_PATH_MAX], struct error *err)
    __attribute__((warn_unused_result));

/* A program by name, as execvp() would find it, or a path made absolute. Returns -1, without an
 * error text, where there is none. */
int locate_program(const char *name, char ret_path[LOCATE_PATH_MAX])
    __attribute__((warn_unused_result));

#endif
