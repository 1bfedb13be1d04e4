/*
 * The document of schema kbv.evaluation/1; docs/evaluation.md describes every field, and a change
 * to one is a change to the other.
 */
#include "report/document.h"
#include "report/report.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

/* As many as float32 ever needs, and more than any clock is good for. */
#define REAL_DIGITS 9

/* Byte counts stay exact integers up to here. */
#define EXACT_INTEGER_MAX 0x1p53

/* jansson tolerates NULL everywhere and reports it, so a failed allocation anywhere below ends in
 * `failed`, and building needs no unwinding. */
struct writer {
    bool failed;
};

static void put(struct writer *writer, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) < 0)
        writer->failed = true;
}

static void add(struct writer *writer, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) < 0)
        writer->failed = true;
}

/* Texts are cleaned here although the judge cleans what candidates say: paths come from elsewhere,
 * and one bad byte would cost the whole document. The end of a log is what says why. */
static json_t *make_text(const char *from)
{
    char clean[EVALUATION_OUTPUT_MAX + 1];

    text_clean_tail(clean, sizeof(clean), from, strlen(from));
    return json_string(clean);
}

static json_t *make_text_or_null(const char *from)
{
    return from && from[0] ? make_text(from) : json_null();
}

static json_t *make_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *make_figure(struct figure figure)
{
    return figure.measured ? make_real(figure.value) : json_null();
}

static json_t *make_byte_count(struct figure figure)
{
    if (!figure.measured || !(fabs(figure.value) < EXACT_INTEGER_MAX))
        return json_null();
    return json_integer((json_int_t)llround(figure.value));
}

static json_t *make_name(const char *name)
{
    return name ? json_string(name) : json_null();
}

static json_t *make_labels(struct writer *writer, unsigned bits)
{
    json_t *array = json_array();

    for (unsigned bit = 0; bit < LABEL_COUNT; bit++) {
        if (bits & 1u << bit)
            add(writer, array, json_string(label_name((enum label)(1u << bit))));
    }
    return array;
}

static json_t *make_sandbox(struct writer *writer, unsigned bits)
{
    json_t *array = json_array();

    for (unsigned bit = 0; bit < SANDBOX_LAYER_COUNT; bit++) {
        if (bits & 1u << bit)
            add(writer, array, json_string(sandbox_layer_name((enum sandbox_layer)(1u << bit))));
    }
    return array;
}

static json_t *make_source(struct writer *writer, const char *path, const char *hash)
{
    json_t *object = json_object();

    put(writer, object, "path", make_text(path));
    put(writer, object, "hash", make_text_or_null(hash));
    return object;
}

static json_t *make_other_baseline(struct writer *writer, const struct speed_evidence *speed)
{
    json_t *object;

    if (!speed->other_matmul[0])
        return json_null();
    object = json_object();
    put(writer, object, "matmul", make_text(speed->other_matmul));
    put(writer, object, "ratio", make_figure(speed->other_ratio));
    put(writer, object, "low", make_figure(speed->other_low));
    put(writer, object, "high", make_figure(speed->other_high));
    put(writer, object, "baseline_ms", make_figure(speed->other_baseline_ms));
    return object;
}

static json_t *make_speed(struct writer *writer, const struct speed_evidence *speed)
{
    json_t *object = json_object();

    put(writer, object, "class", make_name(speed_class_name(speed->class)));
    put(writer, object, "ratio", make_figure(speed->ratio));
    put(writer, object, "low", make_figure(speed->low));
    put(writer, object, "high", make_figure(speed->high));
    put(writer, object, "baseline_ms", make_figure(speed->baseline_ms));
    put(writer, object, "candidate_ms", make_figure(speed->candidate_ms));
    put(writer, object, "baseline_matmul", make_text_or_null(speed->baseline_matmul));
    put(writer, object, "other_baseline", make_other_baseline(writer, speed));
    put(writer, object, "wall_ratio", make_figure(speed->wall_ratio));
    put(writer, object, "floor_ms", make_figure(speed->floor_ms));
    put(writer, object, "calls", json_integer(speed->calls));
    put(writer, object, "checked_calls", json_integer(speed->checked_calls));
    return object;
}

static json_t *make_memory(struct writer *writer, const struct memory_evidence *memory)
{
    json_t *object = json_object();

    put(writer, object, "class", make_name(memory_class_name(memory->class)));
    put(writer, object, "ratio", make_figure(memory->ratio));
    put(writer, object, "baseline_bytes", make_byte_count(memory->baseline_bytes));
    put(writer, object, "candidate_bytes", make_byte_count(memory->candidate_bytes));
    put(writer, object, "baseline_above_bytes", make_byte_count(memory->baseline_above_bytes));
    put(writer, object, "candidate_above_bytes", make_byte_count(memory->candidate_above_bytes));
    put(writer, object, "method", make_text_or_null(memory->method));
    return object;
}

static json_t *make_families(struct writer *writer, const struct evaluation *evaluation)
{
    json_t *array = json_array();

    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct family_evidence *evidence = &evaluation->families[i];
        json_t *object = json_object();

        put(writer, object, "id", json_string(family_table[i].id));
        put(writer, object, "status", json_string(family_status_name(evidence->status)));
        put(writer, object, "reason", make_text(evidence->reason));
        put(writer, object, "s", make_figure(evidence->s));
        put(writer, object, "n", make_figure(evidence->n));
        put(writer, object, "s_limit", make_figure(evidence->s_limit));
        put(writer, object, "n_limit", make_figure(evidence->n_limit));
        put(writer, object, "baseline_s", make_figure(evidence->baseline_s));
        put(writer, object, "baseline_n", make_figure(evidence->baseline_n));
        put(writer, object, "worst", make_text(evidence->worst));
        add(writer, array, object);
    }
    return array;
}

static json_t *make_controls(struct writer *writer, const struct evaluation *evaluation)
{
    json_t *array = json_array();

    for (int i = 0; i < CONTROL_COUNT; i++) {
        const struct control_evidence *control = &evaluation->controls[i];
        json_t *object = json_object();

        put(writer, object, "id", json_string(control_name((enum control)i)));
        put(writer, object, "passes", control->run ? json_boolean(control->passes) : json_null());
        add(writer, array, object);
    }
    return array;
}

static json_t *make_seconds(struct writer *writer, const struct stage_seconds *seconds)
{
    json_t *object = json_object();

    put(writer, object, "startup", make_figure(seconds->startup));
    put(writer, object, "build", make_figure(seconds->build));
    put(writer, object, "correctness", make_figure(seconds->correctness));
    put(writer, object, "timing", make_figure(seconds->timing));
    put(writer, object, "memory", make_figure(seconds->memory));
    put(writer, object, "total", make_figure(seconds->total));
    return object;
}

static json_t *make_environment(struct writer *writer, const struct evaluation *evaluation)
{
    json_t *object = json_object();

    put(writer, object, "device", make_text_or_null(evaluation->device));
    put(writer, object, "device_name", make_text_or_null(evaluation->device_name));
    put(writer, object, "driver", make_text_or_null(evaluation->driver));
    put(writer, object, "dtype", make_text_or_null(evaluation->dtype));
    put(writer, object, "torch", make_text_or_null(evaluation->torch_version));
    put(writer, object, "python", make_text_or_null(evaluation->python_version));
    put(writer, object, "cuda", make_text_or_null(evaluation->cuda_version));
    put(writer, object, "oracle", make_text_or_null(evaluation->oracle));
    put(writer, object, "sandbox", make_sandbox(writer, evaluation->sandbox_layers));
    return object;
}

/* One array for each column rather than an object for each block: a quarter of the size. */
static json_t *make_blocks(struct writer *writer, const struct speed_evidence *speed)
{
    json_t *object = json_object();
    json_t *side = json_array(), *calls = json_array(), *own = json_array();
    json_t *judge = json_array(), *counted = json_array();

    for (size_t i = 0; i < speed->block_count; i++) {
        const struct timing_block *block = &speed->blocks[i];

        add(writer, side, json_string(side_name(block->side)));
        add(writer, calls, json_integer(block->calls));
        add(writer, own, make_real(block->own_ms));
        add(writer, judge, make_real(block->judge_ms));
        add(writer, counted, make_real(block->counted_ms));
    }
    put(writer, object, "side", side);
    put(writer, object, "calls", calls);
    put(writer, object, "own_ms", own);
    put(writer, object, "judge_ms", judge);
    put(writer, object, "counted_ms", counted);
    return object;
}

static json_t *make_candidate_output(struct writer *writer, const struct evaluation *evaluation)
{
    json_t *object = json_object();

    put(writer, object, "bytes", json_integer((json_int_t)evaluation->candidate_output_bytes));
    put(writer, object, "tail", make_text(evaluation->candidate_output));
    return object;
}

static json_t *make_document(struct writer *writer, const struct evaluation *evaluation)
{
    json_t *root = json_object();

    put(writer, root, "schema", json_string(REPORT_JSON_SCHEMA));
    put(writer, root, "kbv", json_string(KBV_VERSION));
    put(writer, root, "protocol", json_integer(EVALUATION_PROTOCOL));
    put(writer, root, "verdict", json_string(verdict_name(evaluation->verdict)));
    put(writer, root, "reason", make_text(evaluation->reason));
    put(writer, root, "labels", make_labels(writer, evaluation->labels));
    put(writer, root, "seed", json_integer((json_int_t)evaluation->seed));
    put(writer, root, "problem",
        make_source(writer, evaluation->problem_path, evaluation->problem_hash));
    put(writer, root, "candidate",
        make_source(writer, evaluation->candidate_path, evaluation->candidate_hash));
    put(writer, root, "speed", make_speed(writer, &evaluation->speed));
    put(writer, root, "memory", make_memory(writer, &evaluation->memory));
    put(writer, root, "families", make_families(writer, evaluation));
    put(writer, root, "controls", make_controls(writer, evaluation));
    put(writer, root, "seconds", make_seconds(writer, &evaluation->seconds));
    put(writer, root, "environment", make_environment(writer, evaluation));
    put(writer, root, "build_log", make_text(evaluation->build_log));
    put(writer, root, "candidate_output", make_candidate_output(writer, evaluation));
    put(writer, root, "blocks", make_blocks(writer, &evaluation->speed));
    return root;
}

static int check(const struct evaluation *evaluation, struct error *err)
{
    if (evaluation->seed >= EVALUATION_SEED_BOUND)
        return error_set(err, ERROR_INTERNAL, "seed %llu has more than 53 bits",
                         (unsigned long long)evaluation->seed);
    if (evaluation->speed.block_count > EVALUATION_BLOCKS_MAX)
        return error_set(err, ERROR_INTERNAL, "%zu timing blocks are more than %d",
                         evaluation->speed.block_count, EVALUATION_BLOCKS_MAX);
    return 0;
}

json_t *report_document(const struct evaluation *evaluation, struct error *err)
{
    struct writer writer = {0};
    json_t *root;

    if (check(evaluation, err) < 0)
        return NULL;
    root = make_document(&writer, evaluation);
    if (root && !writer.failed)
        return root;
    json_decref(root);
    error_set(err, ERROR_INTERNAL, "building the JSON document failed: out of memory");
    return NULL;
}

int report_json(const struct evaluation *evaluation, FILE *out, struct error *err)
{
    CLEANUP_FREE char *rendered = NULL;
    json_t *root = report_document(evaluation, err);
    size_t length;

    if (!root)
        return -1;
    rendered = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(REAL_DIGITS));
    json_decref(root);
    if (!rendered)
        return error_set(err, ERROR_INTERNAL, "building the JSON document failed: out of memory");
    length = strlen(rendered);
    if (length + 1 >= REPORT_JSON_MAX_BYTES)
        return error_set(err, ERROR_INTERNAL, "the JSON document would take %zu bytes", length);
    if (fwrite(rendered, 1, length, out) != length || fputc('\n', out) == EOF || fflush(out) != 0)
        return error_errno(err, ERROR_INTERNAL, "writing the JSON document");
    return 0;
}
