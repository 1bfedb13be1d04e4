/* Names are a contract: every report, schema and script uses them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "protocol/evaluation.h"
#include "protocol/tensor.h"

static void test_verdict_names(void **state)
{
    /* In order of precedence, which is part of the contract. */
    static const char *const names[] = {
        "problem_unfit",    "build_failed",   "load_failed", "crashed",
        "timed_out",        "out_of_memory",  "tampered",    "wrong",
        "impossible_speed", "no_device_work", "verified",
    };

    assert_int_equal(ARRAY_SIZE(names), VERDICT_COUNT);
    for (int i = 0; i < VERDICT_COUNT; i++) {
        assert_string_equal(verdict_name((enum verdict)i), names[i]);
        assert_int_equal(verdict_find(names[i]), i);
        assert_in_range(strlen(verdict_meaning((enum verdict)i)), 10, 72);
        assert_null(strchr(verdict_meaning((enum verdict)i), '\n'));
    }
    assert_int_equal(verdict_find("Verified"), -1);
    assert_int_equal(verdict_find(""), -1);
}

static void test_class_names(void **state)
{
    assert_null(speed_class_name(SPEED_NONE));
    assert_string_equal(speed_class_name(SPEED_FASTER), "faster");
    assert_string_equal(speed_class_name(SPEED_ON_PAR), "on_par");
    assert_string_equal(speed_class_name(SPEED_SLOWER), "slower");
    assert_null(memory_class_name(MEMORY_NONE));
    assert_string_equal(memory_class_name(MEMORY_LEANER), "leaner");
    assert_string_equal(memory_class_name(MEMORY_SAME), "same");
    assert_string_equal(memory_class_name(MEMORY_HEAVIER), "heavier");
}

static void test_labels(void **state)
{
    static const char *const names[] = {
        "reduced_precision", "delegated",    "nondeterministic",
        "stale_parameters",  "grows_memory", "insensitive",
    };

    assert_int_equal(ARRAY_SIZE(names), LABEL_COUNT);
    for (unsigned bit = 0; bit < LABEL_COUNT; bit++)
        assert_string_equal(label_name((enum label)(1u << bit)), names[bit]);
    assert_null(label_name((enum label)(1u << LABEL_COUNT)));
    assert_null(label_name((enum label)(LABEL_REDUCED_PRECISION | LABEL_DELEGATED)));
}

static void test_families(void **state)
{
    static const char *const ids[] = {
        "D1", "D2", "D3", "D4", "E1", "E2", "E3", "E4", "E5", "E6", "E7", "P1", "P2",
    };

    assert_int_equal(ARRAY_SIZE(ids), FAMILY_COUNT);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct family_info *info = &family_table[i];

        assert_string_equal(info->id, ids[i]);
        assert_int_equal(family_find(ids[i]), i);
        assert_int_equal(info->kind, ids[i][0] == 'P' ? FAMILY_PARAMETERS : FAMILY_INPUTS);
        /* The terminal's column for it. */
        assert_in_range(strlen(info->transform), 1, 30);
        assert_true(strlen(info->finds) > 0);
    }
    assert_int_equal(family_find("d1"), -1);
    assert_int_equal(family_find("D"), -1);
    assert_int_equal(family_find("D11"), -1);
}

static void test_dtypes(void **state)
{
    static const struct {
        const char *name;
        enum dtype dtype;
        size_t size;
        bool floating;
    } rows[] = {
        {"float64", DTYPE_FLOAT64, 8, true}, {"float32", DTYPE_FLOAT32, 4, true},
        {"float16", DTYPE_FLOAT16, 2, true}, {"bfloat16", DTYPE_BFLOAT16, 2, true},
        {"int64", DTYPE_INT64, 8, false},    {"int32", DTYPE_INT32, 4, false},
        {"int16", DTYPE_INT16, 2, false},    {"int8", DTYPE_INT8, 1, false},
        {"uint8", DTYPE_UINT8, 1, false},    {"bool", DTYPE_BOOL, 1, false},
    };

    assert_int_equal(ARRAY_SIZE(rows), DTYPE_COUNT);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(dtype_parse(rows[i].name), rows[i].dtype);
        assert_string_equal(dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(dtype_size(rows[i].dtype), rows[i].size);
        assert_int_equal(dtype_is_floating(rows[i].dtype), rows[i].floating);
    }
    assert_int_equal(dtype_parse("complex64"), -1);
    assert_int_equal(dtype_parse("torch.float32"), -1);
}

static void test_evaluation(void **state)
{
    struct evaluation *evaluation = evaluation_new();

    assert_non_null(evaluation);
    assert_false(evaluation->speed.ratio.measured);
    assert_false(evaluation->memory.baseline_bytes.measured);
    assert_int_equal(evaluation->speed.class, SPEED_NONE);
    assert_int_equal(evaluation_family_count(evaluation, FAMILY_NOT_RUN), FAMILY_COUNT);
    evaluation->families[FAMILY_D1].status = FAMILY_PASS;
    evaluation->families[FAMILY_P2].status = FAMILY_PASS;
    evaluation->families[FAMILY_E5].status = FAMILY_NOT_APPLICABLE;
    assert_int_equal(evaluation_family_count(evaluation, FAMILY_PASS), 2);
    assert_int_equal(evaluation_family_count(evaluation, FAMILY_NOT_APPLICABLE), 1);
    assert_int_equal(evaluation_family_count(evaluation, FAMILY_FAIL), 0);
    assert_string_equal(family_status_name(FAMILY_NOT_RUN), "not_run");
    assert_string_equal(family_status_name(FAMILY_PASS), "pass");
    assert_string_equal(family_status_name(FAMILY_FAIL), "fail");
    assert_string_equal(family_status_name(FAMILY_NOT_APPLICABLE), "not_applicable");
    assert_string_equal(control_name(CONTROL_ZERO_OUTPUT), "zero_output");
    assert_string_equal(control_name(CONTROL_MEAN_OUTPUT), "mean_output");
    assert_string_equal(control_name(CONTROL_INPUT_RETURNED), "input_returned");
    evaluation_free(evaluation);
    evaluation_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdict_names), cmocka_unit_test(test_class_names),
        cmocka_unit_test(test_labels),        cmocka_unit_test(test_families),
        cmocka_unit_test(test_dtypes),        cmocka_unit_test(test_evaluation),
    };

    return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
