/* The same bits over any number of ranks: for every algorithm that is listed. */
#include "ranked.h"

#include "algo/algo.h"

static void every_algorithm(void **state)
{
    (void)state;
    for (const fli_algo *const *a = fli_algo_list; *a; a++) {
        static const char *const models[] = {"softmax", "{kind: mlp, hidden: [9, 5]}"};
        for (size_t m = 0; m < 2; m++) {
            char text[512];
            snprintf(text, sizeof text, "algorithm=%s;participation=%s;model=%s;precision=%s;threads=2%s", (*a)->name,
                     (*a)->traits & FLI_ALGO_EVERYONE ? "everyone" : "{kind: uniform, count: 7}", models[m],
                     m ? "f64" : "f32", levels_for(*a, models[m]));
            same_over_ranks(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
