#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_text(struct error *err, enum error_kind kind, const char *format, va_list args)
{
    err->kind = kind;
    vsnprintf(err->text, sizeof(err->text), format, args);
}

int error_set(struct error *err, enum error_kind kind, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_text(err, kind, format, args);
    va_end(args);
    return -1;
}

int error_errno(struct error *err, enum error_kind kind, const char *format, ...)
{
    int saved = errno;
    va_list args;
    size_t used;

    va_start(args, format);
    set_text(err, kind, format, args);
    va_end(args);
    used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %s", strerror(saved));
    errno = saved;
    return -1;
}

int error_context(struct error *err, const char *format, ...)
{
    char inner[sizeof(err->text)];
    va_list args;
    size_t used;

    memcpy(inner, err->text, sizeof(inner));
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %s", inner);
    return -1;
}
