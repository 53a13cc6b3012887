/* The same bits over any number of ranks: for every algorithm that is listed. */
#include "ranked.h"

#include "algo/algo.h"

static void every_algorithm(void **state)
{
    (void)state;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        static const char *const models[] = {"softmax", "{kind: mlp, hidden: [9, 5]}"};
        for (size_t m = 0; m < 2; m++) {
            char text[512];
            snprintf(text, sizeof text, "algorithm=%s;participation=%s;model=%s;precision=%s;threads=2%s", (*a)->name,
                     (*a)->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 7}", models[m],
                     m ? "f64" : "f32", levels_for(*a, models[m]));
            same_over_ranks(text);
        }
    }
}

/* ---- ranks work at the same time ------------------------------------------------------------------------------- */

/* What a rank was sent, and how often it waited until all of its own had left. */
typedef struct {
    const fl_ranks *below;
    task task;
    size_t bytes, lists;
    size_t messages, longest, shortest; /* of what it was sent */
} watched;

static fl_status watched_expect(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark)
{
    watched *w = arg;
    w->bytes += n;
    w->longest = n > w->longest ? n : w->longest;
    w->shortest = !w->messages++ || n < w->shortest ? n : w->shortest;
    return w->below->expect(w->below->arg, from, number, bytes, n, mark);
}

static fl_status watched_flush(void *arg)
{
    watched *w = arg;
    w->lists++;
    return w->below->flush(w->below->arg);
}

static fl_status watched_gather(void *arg, void *all, const size_t *at)
{
    watched *w = arg;
    return w->below->gather(w->below->arg, all, at);
}

static fl_status watched_add(void *arg, void *v, size_t n, size_t real)
{
    watched *w = arg;
    return w->below->add(w->below->arg, v, n, real);
}

static fl_status watched_send(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n)
{
    watched *w = arg;
    return w->below->send(w->below->arg, to, number, bytes, n);
}

static fl_status watched_arrived(void *arg, int wait, size_t *mark, int *there)
{
    watched *w = arg;
    return w->below->arrived(w->below->arg, wait, mark, there);
}

static void make_watched_run(const fl_ranks *ranks, void *arg)
{
    watched *w = arg;
    fl_ranks table = *ranks;
    w->below = ranks;
    table.arg = w;
    table.gather = watched_gather;
    table.add = watched_add;
    table.send = watched_send;
    table.expect = watched_expect;
    table.arrived = watched_arrived;
    table.flush = watched_flush;
    make_run(&table, &w->task);
}

enum { RANKS = 4, ROUNDS = 4 };

static void watch(const char *settings, watched *of)
{
    void *args[RANKS];
    for (size_t i = 0; i < RANKS; i++) {
        of[i] = (watched){.task.settings = settings};
        args[i] = &of[i];
    }
    team_run(RANKS, make_watched_run, args);
    for (size_t i = 0; i < RANKS; i++) {
        if (of[i].task.status) fail_msg("%s", of[i].task.why);
        outcome_free(&of[i].task.out);
    }
}

#define ROUNDS_ALONE ";metrics={every: 100, train: false, test: false, clients: false, gradient: false}"

/* Ranks wait for each other at the end of a block, so that is the cohort. And where a model is small, the uploads must
 * not all go to one rank. */
static void a_large_cohort_keeps_all_ranks_at_work(void **state)
{
    watched of[RANKS];
    size_t all = 0, most = 0;
    (void)state;
    watch("algorithm=scaffold;participation=everyone;data.samples=1000;partition.clients=200;"
          "model={kind: mlp, hidden: [32]};threads=1" ROUNDS_ALONE,
          of);
    for (size_t i = 0; i < RANKS; i++) {
        all += of[i].bytes;
        most = of[i].bytes > most ? of[i].bytes : most;
        assert_int_equal(of[i].lists, ROUNDS);
    }
    assert_true(2 * most < all);
}

/* ---- long vectors -------------------------------------------------------------------------------------------- */

/* Of 17,000 entries. */
#define LONG_VECTORS "model={kind: mlp, hidden: [150, 100]};precision=f64;rounds=3;threads=2;local.lr=0.01"

/* Two of an upload, the gradients that are measured, and a step that looks at all entries. */
static void long_vectors(void **state)
{
    (void)state;
    same_over_ranks(LONG_VECTORS ";algorithm=scaffold;participation={kind: uniform, count: 7}");
    same_over_ranks(LONG_VECTORS ";algorithm=fedasync;rounds=6");
    same_over_ranks(LONG_VECTORS ";algorithm=feddr;participation=everyone;regularizer={kind: l1, weight: 0.01}");
}

/* They are not packed: a parcel says how a turn went, and the vectors follow, each of which is a rank's slice. */
static void long_vectors_travel_by_themselves(void **state)
{
    enum { TURNS = 12, VECTORS = 2, ENTRIES = 6 * 150 + 150 + 150 * 100 + 100 + 100 * 4 + 4 };
    watched of[RANKS];
    size_t messages = 0, bytes = 0;
    (void)state;
    watch(LONG_VECTORS ";algorithm=scaffold;participation=everyone" ROUNDS_ALONE, of);
    for (size_t i = 0; i < RANKS; i++) {
        assert_true(of[i].shortest < 100);
        assert_int_equal(of[i].longest % sizeof(double), 0);
        messages += of[i].messages;
        bytes += of[i].bytes;
    }
    assert_int_equal(messages, 3 * TURNS * (RANKS - 1) * (1 + VECTORS));
    assert_in_range(bytes, 3 * TURNS * VECTORS * ENTRIES * sizeof(double) * 3 / 4,
                    3 * TURNS * VECTORS * ENTRIES * sizeof(double));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_cohort_keeps_all_ranks_at_work),
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(long_vectors),
        cmocka_unit_test(long_vectors_travel_by_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
