#include "cli/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "protocol/verdict.h"

#define MANIFEST_MAX_BYTES (1u << 20)
#define ROWS_MAX           4096

enum column { ID, PROBLEM, CANDIDATE, EXPECTED, LABEL, DEVICES, QUICK, NOTE, COLUMN_COUNT };

static int take_verdicts(char *text, unsigned *ret_verdicts)
{
    unsigned verdicts = 0;
    char *rest = NULL;

    for (char *name = strtok_r(text, "|", &rest); name; name = strtok_r(NULL, "|", &rest)) {
        int verdict = verdict_find(name);

        if (verdict < 0)
            return -1;
        verdicts |= 1u << verdict;
    }
    *ret_verdicts = verdicts;
    return verdicts ? 0 : -1;
}

static int take_label(const char *text, unsigned *ret_label)
{
    if (strcmp(text, "-") == 0) {
        *ret_label = 0;
        return 0;
    }
    for (int i = 0; i < LABEL_COUNT; i++) {
        if (strcmp(text, label_name((enum label)(1 << i))) == 0) {
            *ret_label = 1u << i;
            return 0;
        }
    }
    return -1;
}

static int take_row(char *line, const char *root, struct manifest_row *row, const char **ret_wrong)
{
    char *columns[COLUMN_COUNT];
    const char *speed;

    for (int i = 0; i < COLUMN_COUNT; i++) {
        columns[i] = strsep(&line, "\t");
        if (!columns[i]) {
            *ret_wrong = "has fewer than 8 columns";
            return -1;
        }
    }
    *ret_wrong = "has a column that is too long";
    if ((size_t)snprintf(row->id, sizeof(row->id), "%s", columns[ID]) >= sizeof(row->id) ||
        (size_t)snprintf(row->problem, sizeof(row->problem), "%s/%s", root, columns[PROBLEM]) >=
            sizeof(row->problem) ||
        (size_t)snprintf(row->candidate, sizeof(row->candidate), "%s/%s", root,
                         columns[CANDIDATE]) >= sizeof(row->candidate))
        return -1;
    *ret_wrong = "names a verdict that does not exist";
    if (take_verdicts(columns[EXPECTED], &row->verdicts) < 0)
        return -1;
    *ret_wrong = "names a label that does not exist";
    if (take_label(columns[LABEL], &row->label) < 0)
        return -1;
    row->on_cpu = strstr(columns[DEVICES], "cpu") != NULL;
    row->on_cuda = strstr(columns[DEVICES], "cuda") != NULL;
    row->quick = strcmp(columns[QUICK], "yes") == 0;
    speed = strsep(&line, "\t");
    *ret_wrong = "has another speed than faster, !faster or -";
    if (!speed || strcmp(speed, "-") == 0)
        row->speed = SPEED_ANY;
    else if (strcmp(speed, "faster") == 0)
        row->speed = SPEED_MUST_GAIN;
    else if (strcmp(speed, "!faster") == 0)
        row->speed = SPEED_MUST_NOT_GAIN;
    else
        return -1;
    return 0;
}

int manifest_read(const char *path, const char *root, struct manifest *ret_manifest,
                  struct error *err)
{
    struct manifest manifest = MANIFEST_INIT;
    CLEANUP_FREE char *text = NULL;
    char *line, *rest;
    unsigned number = 0;
    size_t length;

    if (file_read(path, MANIFEST_MAX_BYTES, &text, &length, err) < 0)
        return -1;
    manifest.rows = calloc(ROWS_MAX, sizeof(*manifest.rows));
    if (!manifest.rows)
        return error_set(err, ERROR_INTERNAL, "out of memory");
    for (rest = text; (line = strsep(&rest, "\n"));) {
        const char *wrong = NULL;

        number++;
        if (number == 1 || line[0] == '\0' || line[0] == '#')
            continue;
        if (manifest.count == ROWS_MAX ||
            take_row(line, root, &manifest.rows[manifest.count], &wrong) < 0) {
            manifest_release(&manifest);
            return error_set(err, ERROR_USAGE, "%s:%u: %s", path, number,
                             manifest.count == ROWS_MAX ? "too many rows" : wrong);
        }
        manifest.count++;
    }
    *ret_manifest = manifest;
    return 0;
}

void manifest_release(struct manifest *manifest)
{
    free(manifest->rows);
    *manifest = (struct manifest)MANIFEST_INIT;
}
