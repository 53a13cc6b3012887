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

/* ---- sums instead of uploads ------------------------------------------------------------------------------- */

static double farthest(const outcome *a, const outcome *b)
{
    double largest = 0, apart = 0;
    assert_int_equal(a->parameters, b->parameters);
    for (size_t i = 0; i < a->parameters; i++) {
        largest = fmax(largest, fabs(a->model[i]));
        apart = fmax(apart, fabs(a->model[i] - b->model[i]));
    }
    return apart / largest;
}

/* With exact: false the same up to rounding, the same bits again whatever the number of threads, and less to send. */
static void sums_of(const fli_algo *a, const char *precision, double tolerance)
{
    char text[512], inexact[600], again[600];
    snprintf(text, sizeof text,
             "algorithm=%s;participation=%s;model={kind: mlp, hidden: [30, 9]};precision=%s;partition.clients=40;"
             "metrics={gradient: false, every: 100};rounds=3%s",
             a->name, a->traits & FLI_ALGO_EVERYONE ? "everyone" : "{kind: uniform, count: 30}", precision,
             levels_for(a, "mlp"));
    snprintf(inexact, sizeof inexact, "%s;exact=false;threads=1", text);
    snprintf(again, sizeof again, "%s;exact=false;threads=3", text);
    for (uint32_t ranks = 1; ranks <= 4; ranks += ranks < 3 ? 2 : 1) {
        task exact = run_of(text, ranks, 7), sums = run_of(inexact, ranks, 7), same_again = run_of(again, ranks, 0);
        if (exact.status || sums.status || same_again.status) fail_msg("%s: %s", text, sums.why);
        if (!same(&sums.out, &same_again.out)) fail_msg("%s: %u ranks, twice, give other bits", inexact, ranks);
        double apart = farthest(&exact.out, &sums.out);
        int adds = ranks > 1 && a->traits & FLI_ALGO_ADDS;
        if (apart > (adds ? tolerance : 0)) fail_msg("%s: %u ranks are %g apart", inexact, ranks, apart);
        if (adds && sums.bytes >= exact.bytes / 2)
            fail_msg("%s: %u ranks send %zu bytes, exactly %zu", inexact, ranks, sums.bytes, exact.bytes);
        outcome_free(&exact.out);
        outcome_free(&sums.out);
        outcome_free(&same_again.out);
    }
}

static void sums_instead_of_uploads(void **state)
{
    (void)state;
    for (const fli_algo *const *a = fli_algo_list; *a; a++) {
        sums_of(*a, "f64", 1e-10);
        sums_of(*a, "f32", 1e-4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(sums_instead_of_uploads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
