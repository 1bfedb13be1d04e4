/* The generator: published vectors, bounds, and evenness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stats/stats.h"

/* First outputs of splitmix64 from 1234567, which become the state. */
static void test_seed(void **state)
{
    struct stats_random random;

    stats_random_seed(&random, 1234567);
    assert_true(random.state[0] == 6457827717110365317u);
    assert_true(random.state[1] == 3203168211198807973u);
    assert_true(random.state[2] == 9817491932198370423u);
    assert_true(random.state[3] == 4593380528125082431u);
    /* All zeros would be a fixed point of the generator. */
    stats_random_seed(&random, 0);
    assert_true(random.state[0] != 0 && random.state[1] != 0);
}

/* xoshiro256** from the state 1, 2, 3, 4; the first three follow by hand from the definition. */
static void test_next(void **state)
{
    struct stats_random random = {{1, 2, 3, 4}};

    assert_true(stats_random_next(&random) == 11520);
    assert_true(stats_random_next(&random) == 0);
    assert_true(stats_random_next(&random) == 1509978240);
    assert_true(stats_random_next(&random) == 1215971899390074240);
}

static void test_below_bounds(void **state)
{
    static const uint64_t bounds[] = {1, 2, 3, 1000, 1ull << 53, (1ull << 63) + 1, UINT64_MAX};
    struct stats_random random;

    stats_random_seed(&random, 1);
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        for (int draw = 0; draw < 2000; draw++)
            assert_true(stats_random_below(&random, bounds[i]) < bounds[i]);
    }
}

/* A bound of 3 x 2^62: taking the remainder of 64 bits would hit the lowest third twice as often
 * as the others; without bias each third gets a third. */
static void test_below_is_even(void **state)
{
    const uint64_t third = 1ull << 62;
    unsigned count[3] = {0}, dice[6] = {0};
    struct stats_random random;

    stats_random_seed(&random, 2);
    for (int draw = 0; draw < 30000; draw++)
        count[stats_random_below(&random, 3 * third) / third]++;
    for (int i = 0; i < 3; i++)
        assert_in_range(count[i], 9600, 10400); /* 10000 +- 5 sigma */
    for (int draw = 0; draw < 60000; draw++)
        dice[stats_random_below(&random, 6)]++;
    for (int i = 0; i < 6; i++)
        assert_in_range(dice[i], 9540, 10460);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_below_bounds),
        cmocka_unit_test(test_below_is_even),
    };

    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
