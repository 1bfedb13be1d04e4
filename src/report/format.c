#include "report/format.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

struct unit {
    double below; /* used for values that round to less than this */
    double scale;
    const char *name;
    bool whole; /* what is counted in it has no decimals */
};

static const struct unit time_units[] = {
    {0.9995e-3, 1e6, "ns"},
    {0.9995, 1e3, "us"},
    {999.5, 1, "ms"},
    {INFINITY, 1e-3, "s"},
};

static const struct unit byte_units[] = {
    {1023.5, 1, "B", true},
    {1023.5 * 0x1p10, 0x1p-10, "KiB"},
    {1023.5 * 0x1p20, 0x1p-20, "MiB"},
    {INFINITY, 0x1p-30, "GiB"},
};

/* What no unit can be put to. True if it wrote something. */
static bool format_odd(char *to, struct figure figure)
{
    const char *text = NULL;

    if (!figure.measured)
        text = "-";
    else if (isnan(figure.value))
        text = "nan";
    else if (isinf(figure.value))
        text = figure.value > 0 ? "inf" : "-inf";
    if (text)
        snprintf(to, FORMAT_SIZE, "%s", text);
    return text != NULL;
}

/* `digits` significant digits without an exponent, as long as that is readable. The bounds are
 * where printf() rounds up to one digit more. */
static void format_digits(char *to, double value, int digits)
{
    int decimals = digits - 1;

    if (value >= 1e6 || (value < 0.0995 && value > 0)) {
        snprintf(to, FORMAT_SIZE, "%.*g", digits - 1, value);
        return;
    }
    for (double bound = 10; decimals > 0 && value >= bound - 0.5 * pow(10, -decimals); bound *= 10)
        decimals--;
    snprintf(to, FORMAT_SIZE, "%.*f", decimals, value);
}

static void append(char *to, const char *suffix)
{
    size_t used = strlen(to);

    snprintf(to + used, FORMAT_SIZE - used, "%s", suffix);
}

static const char *format_in_units(char *to, struct figure figure, const struct unit *units,
                                   size_t count)
{
    size_t i = 0;

    if (format_odd(to, figure))
        return to;
    while (i + 1 < count && figure.value >= units[i].below)
        i++;
    if (units[i].whole)
        snprintf(to, FORMAT_SIZE, "%.0f", figure.value);
    else
        format_digits(to, figure.value * units[i].scale, 3);
    append(to, " ");
    append(to, units[i].name);
    return to;
}

const char *format_ratio(char *to, struct figure ratio)
{
    if (format_odd(to, ratio))
        return to;
    format_digits(to, ratio.value, 4);
    append(to, "x");
    return to;
}

const char *format_ms(char *to, struct figure ms)
{
    return format_in_units(to, ms, time_units, ARRAY_SIZE(time_units));
}

const char *format_bytes(char *to, struct figure bytes)
{
    return format_in_units(to, bytes, byte_units, ARRAY_SIZE(byte_units));
}

const char *format_seconds(char *to, struct figure seconds)
{
    if (!format_odd(to, seconds))
        snprintf(to, FORMAT_SIZE, "%.1f", seconds.value);
    return to;
}

const char *format_error(char *to, struct figure error)
{
    if (!format_odd(to, error))
        snprintf(to, FORMAT_SIZE, error.value == 0 ? "0" : "%.1e", error.value);
    return to;
}
