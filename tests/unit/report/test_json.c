/* The document: its core fields, its null rules, and that nothing a candidate says breaks it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "base/cleanup.h"
#include "report/report.h"
#include "sample.h"

/* Frees the evaluation. Returns the text, which the caller frees. */
static char *render(struct evaluation *evaluation)
{
    char *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);
    struct error err = ERROR_INIT;

    assert_non_null(evaluation);
    assert_non_null(out);
    assert_int_equal(report_json(evaluation, out, &err), 0);
    fclose(out);
    evaluation_free(evaluation);
    return result;
}

static json_t *parse(const char *document)
{
    json_error_t error;
    json_t *root = json_loads(document, JSON_REJECT_DUPLICATES, &error);

    assert_non_null(root);
    assert_int_equal(document[strlen(document) - 1], '\n');
    return root;
}

static json_t *parse_sample(struct evaluation *evaluation)
{
    CLEANUP_FREE char *document = render(evaluation);

    return parse(document);
}

/* The value at "a.b.0.c". */
static json_t *at(json_t *root, const char *path)
{
    char copy[128];
    json_t *value = root;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *part = strtok(copy, "."); part; part = strtok(NULL, "."))
        value = json_is_array(value) ? json_array_get(value, strtoul(part, NULL, 10))
                                     : json_object_get(value, part);
    if (!value)
        fail_msg("no %s in the document", path);
    return value;
}

static void check_text(json_t *root, const char *path, const char *expected)
{
    assert_string_equal(json_string_value(at(root, path)), expected);
}

static void check_integer(json_t *root, const char *path, json_int_t expected)
{
    assert_true(json_is_integer(at(root, path)));
    assert_true(json_integer_value(at(root, path)) == expected);
}

static void check_real(json_t *root, const char *path, double expected)
{
    assert_true(json_is_real(at(root, path)));
    assert_true(fabs(json_real_value(at(root, path)) - expected) <= 1e-8 * fabs(expected));
}

static void check_null(json_t *root, const char *path)
{
    if (!json_is_null(at(root, path)))
        fail_msg("%s is not null", path);
}

static void test_core(void **state)
{
    json_t *root = parse_sample(sample_verified());

    check_text(root, "schema", "kbv.evaluation/1");
    check_text(root, "kbv", KBV_VERSION);
    check_integer(root, "protocol", EVALUATION_PROTOCOL);
    check_text(root, "verdict", "verified");
    check_text(root, "reason",
               "right on every family that applies; faster and leaner than PyTorch");
    assert_int_equal(json_array_size(at(root, "labels")), 1);
    check_text(root, "labels.0", "nondeterministic");
    check_integer(root, "seed", 4211538120345077);
    check_text(root, "speed.class", "faster");
    check_real(root, "speed.ratio", 1.83971);
    check_real(root, "speed.low", 1.81248);
    check_real(root, "speed.high", 1.86913);
    check_real(root, "speed.baseline_ms", 2.3142);
    check_real(root, "speed.candidate_ms", 1.2579);
    check_text(root, "memory.class", "leaner");
    check_real(root, "memory.ratio", 1.3101);
    check_integer(root, "memory.baseline_bytes", 536870912);
    check_integer(root, "memory.candidate_bytes", 409790464);
    assert_int_equal(json_array_size(at(root, "families")), FAMILY_COUNT);
    check_text(root, "families.0.id", "D1");
    check_text(root, "families.0.status", "pass");
    check_text(root, "families.0.reason", "");
    check_real(root, "families.0.s", 2.4e-7);
    check_real(root, "families.0.n", 3.1e-8);
    check_text(root, "families.12.id", "P2");
    check_text(root, "families.12.status", "not_applicable");
    check_text(root, "families.12.reason", "the model has no parameters");
    check_real(root, "seconds.build", 25.12);
    check_real(root, "seconds.correctness", 3.24);
    check_real(root, "seconds.timing", 10.08);
    check_real(root, "seconds.memory", 1.96);
    check_real(root, "seconds.total", 45.13);
    json_decref(root);
}

static void test_details(void **state)
{
    json_t *root = parse_sample(sample_verified());

    check_text(root, "problem.path", "problems/softmax_rows.py");
    assert_int_equal(json_string_length(at(root, "candidate.hash")), 64);
    check_text(root, "environment.device", "cuda:0");
    check_text(root, "environment.device_name", "NVIDIA H200");
    check_text(root, "environment.oracle", "float64");
    assert_int_equal(json_array_size(at(root, "environment.sandbox")), 9);
    check_text(root, "environment.sandbox.1", "landlock");
    check_real(root, "speed.wall_ratio", 1.8312);
    check_real(root, "speed.floor_ms", 0.4128);
    check_integer(root, "speed.calls", 240);
    check_integer(root, "speed.checked_calls", 7);
    check_text(root, "speed.baseline_matmul", "high");
    check_text(root, "speed.other_baseline.matmul", "highest");
    check_real(root, "speed.other_baseline.ratio", 1.8402);
    check_integer(root, "memory.candidate_above_bytes", 7340032);
    check_text(root, "memory.method", "allocator+driver");
    check_text(root, "controls.0.id", "zero_output");
    assert_true(json_is_false(at(root, "controls.0.passes")));
    check_text(root, "candidate_output.tail", "autotune: block 256 chosen\n");
    check_integer(root, "candidate_output.bytes", 27);
    assert_int_equal(json_array_size(at(root, "blocks.side")), 4);
    check_text(root, "blocks.side.0", "baseline");
    check_text(root, "blocks.side.1", "candidate");
    check_integer(root, "blocks.calls.3", 30);
    check_real(root, "blocks.own_ms.1", 1.2581);
    check_real(root, "blocks.judge_ms.1", 1.2802);
    check_real(root, "blocks.counted_ms.3", 2.3163);
    json_decref(root);
}

/* What was not measured, or is not finite, is null; texts that always exist stay texts. */
static void test_nulls(void **state)
{
    static const char *const nulls[] = {
        "speed.class",
        "speed.ratio",
        "speed.low",
        "speed.high",
        "speed.baseline_ms",
        "speed.candidate_ms",
        "speed.wall_ratio",
        "speed.floor_ms",
        "speed.baseline_matmul",
        "speed.other_baseline",
        "memory.class",
        "memory.ratio",
        "memory.baseline_bytes",
        "memory.candidate_bytes",
        "memory.baseline_above_bytes",
        "memory.method",
        "families.0.s",
        "families.0.n",
        "families.0.s_limit",
        "families.0.baseline_n",
        "controls.2.passes",
        "seconds.correctness",
        "seconds.timing",
        "environment.driver",
        "environment.cuda",
        "environment.oracle",
    };
    json_t *root = parse_sample(sample_build_failed());

    for (size_t i = 0; i < ARRAY_SIZE(nulls); i++)
        check_null(root, nulls[i]);
    check_text(root, "families.0.status", "not_run");
    check_text(root, "families.0.reason", "");
    check_text(root, "candidate_output.tail", "");
    assert_int_equal(json_array_size(at(root, "labels")), 0);
    assert_int_equal(json_array_size(at(root, "blocks.own_ms")), 0);
    json_decref(root);
    root = parse_sample(sample_wrong());
    check_text(root, "families.5.status", "fail");
    check_null(root, "families.5.s"); /* infinite */
    check_null(root, "families.5.n"); /* NaN */
    assert_true(json_is_true(at(root, "controls.0.passes")));
    json_decref(root);
}

static void test_hostile_text(void **state)
{
    json_t *root = parse_sample(sample_crashed());

    check_text(root, "candidate.path", "candidates/[2J[1;32mverified[0m.py");
    check_text(root, "candidate_output.tail",
               "[2J[Hverified  right on every family\n\xEF\xBF\xBD\xEF\xBF\xBD\nreversed\n"
               "Traceback (most recent call last):\n"
               "  File \"online.py\", line 31, in forward\n"
               "RuntimeError: expected scalar type Float but found Half\n");
    check_integer(root, "candidate_output.bytes", 1234567890123);
    json_decref(root);
}

static void test_empty_evaluation(void **state)
{
    json_t *root = parse_sample(evaluation_new());

    check_text(root, "verdict", "problem_unfit");
    check_null(root, "seconds.total");
    check_null(root, "problem.hash");
    json_decref(root);
}

static void test_largest_fits(void **state)
{
    CLEANUP_FREE char *document = render(sample_largest());
    json_t *root = parse(document);

    /* Every array is full, so the size is the worst one and not an accident. */
    assert_int_equal(json_array_size(at(root, "blocks.own_ms")), EVALUATION_BLOCKS_MAX);
    assert_int_equal(json_string_length(at(root, "build_log")), EVALUATION_OUTPUT_MAX);
    assert_in_range(strlen(document), 400000, REPORT_JSON_MAX_BYTES * 6 / 10);
    check_integer(root, "seed", 9007199254740991);
    check_integer(root, "memory.baseline_bytes", -9007199254740991);
    json_decref(root);
}

/* Ill-formed bytes grow threefold when they are cleaned; the field's bound holds all the same. */
static void test_ill_formed_everywhere(void **state)
{
    struct evaluation *evaluation = sample_largest();
    CLEANUP_FREE char *document = NULL;
    json_t *root;

    assert_non_null(evaluation);
    memset(evaluation->build_log, 0xFF, EVALUATION_OUTPUT_MAX);
    memset(evaluation->candidate_output, 0xFF, EVALUATION_OUTPUT_MAX);
    for (int i = 0; i < FAMILY_COUNT; i++)
        memset(evaluation->families[i].reason, 0xFF, EVALUATION_TEXT_MAX - 1);
    document = render(evaluation);
    root = parse(document);
    assert_in_range(json_string_length(at(root, "build_log")), 4000, EVALUATION_OUTPUT_MAX);
    assert_int_equal(json_string_length(at(root, "families.0.reason")),
                     3 * (EVALUATION_TEXT_MAX - 1));
    assert_in_range(strlen(document), 1, REPORT_JSON_MAX_BYTES * 6 / 10);
    json_decref(root);
}

/* Both have the same fields; of lists, the first elements are looked at. */
static void check_same_fields(json_t *documented, json_t *written)
{
    const char *key;
    json_t *value;

    if (json_is_object(written)) {
        json_object_foreach(written, key, value)
        {
            if (!json_object_get(documented, key))
                fail_msg("%s is not documented", key);
            check_same_fields(json_object_get(documented, key), value);
        }
        json_object_foreach(documented, key, value)
        {
            if (!json_object_get(written, key))
                fail_msg("%s is documented and not written", key);
        }
    } else if (json_is_array(written) && json_array_size(written) > 0) {
        check_same_fields(json_array_get(documented, 0), json_array_get(written, 0));
    }
}

/* The page's example is what kbv writes, and its text names every field. */
static void test_documented(void **state)
{
    static const char fence[] = "```json\n";
    CLEANUP_FREE char *page = calloc(1, 1 << 16);
    FILE *file;
    json_t *written = parse_sample(sample_verified()), *documented, *value;
    const char *example, *key;
    json_error_t error;

    assert_non_null(page);
    assert_non_null(getenv("KBV_TEST_SCHEMA_PAGE"));
    file = fopen(getenv("KBV_TEST_SCHEMA_PAGE"), "r");
    assert_non_null(file);
    assert_in_range(fread(page, 1, (1 << 16) - 1, file), 1000, (1 << 16) - 2);
    fclose(file);
    example = strstr(page, fence);
    assert_non_null(example);
    documented = json_loads(example + strlen(fence), JSON_DISABLE_EOF_CHECK, &error);
    assert_non_null(documented);
    check_same_fields(documented, written);
    json_object_foreach(written, key, value)
    {
        char name[64];

        snprintf(name, sizeof(name), "`%s`", key);
        if (!strstr(page, name))
            fail_msg("the page does not explain %s", name);
    }
    json_decref(documented);
    json_decref(written);
}

static void check_refused(struct evaluation *evaluation, const char *why)
{
    char *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);
    struct error err = ERROR_INIT;

    assert_non_null(out);
    assert_int_equal(report_json(evaluation, out, &err), -1);
    assert_int_equal(err.kind, ERROR_INTERNAL);
    assert_non_null(strstr(err.text, why));
    fclose(out);
    assert_int_equal(size, 0);
    free(result);
    evaluation_free(evaluation);
}

static void test_refused(void **state)
{
    struct evaluation *evaluation = evaluation_new();

    assert_non_null(evaluation);
    evaluation->seed = EVALUATION_SEED_BOUND;
    check_refused(evaluation, "53 bits");
    evaluation = evaluation_new();
    assert_non_null(evaluation);
    evaluation->speed.block_count = EVALUATION_BLOCKS_MAX + 1;
    check_refused(evaluation, "timing blocks");
}

static void test_write_error(void **state)
{
    struct evaluation *evaluation = sample_verified();
    FILE *out = fopen("/dev/full", "w");
    struct error err = ERROR_INIT;

    assert_non_null(evaluation);
    assert_non_null(out);
    assert_int_equal(report_json(evaluation, out, &err), -1);
    assert_non_null(strstr(err.text, "No space left"));
    fclose(out);
    evaluation_free(evaluation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_core),
        cmocka_unit_test(test_details),
        cmocka_unit_test(test_nulls),
        cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_empty_evaluation),
        cmocka_unit_test(test_largest_fits),
        cmocka_unit_test(test_ill_formed_everywhere),
        cmocka_unit_test(test_documented),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_write_error),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
