/* A server that is killed at any moment and started again goes on from its checkpoints, with the same clients: the bits
 * of a run that was never stopped, for every method. */
#include "halves.h"
#include "outcome.h"
#include "own_methods.h"

#include "algo/algo.h"

enum { KILLS = 6 };

/* The server is gone, and another one begins where it was. Some clients were restarted, too. */
static void restart(halves *h, const char *assignments, fli_rng *rng)
{
    fl_server_free(h->server);
    assert_ok(h->f->ctx, open_server(h, assignments));
    for (uint32_t i = 0; i < h->clients; i++) {
        accept(h, i);
        if (!fli_rng_below(rng, 3)) replace(h, i);
    }
}

/* How far an ask comes before the server is killed: nobody knows of it, the client has worked, the answer was given. */
typedef enum { FETCHED, WORKED, ANSWERED, WAYS } moment;

static void carry_one(halves *h, uint32_t who, fl_bytes *ask, moment until)
{
    fl_bytes answer = {NULL, 0};
    if (until > FETCHED) assert_ok(h->ctx[who], fl_client_work(h->client[who], ask->data, ask->n, &answer));
    if (until > WORKED) assert_int_equal(fl_server_answer(h->server, who, answer.data, answer.n), FL_OK);
    fl_bytes_free(ask);
    fl_bytes_free(&answer);
}

/* Some of the asks that are out at that moment were not even fetched. */
static fl_status carry_until_killed(halves *h, size_t asks, fli_rng *rng)
{
    uint32_t who;
    fl_bytes ask;
    fl_status s;
    while (!(s = fl_server_next(h->server, 10, &who, &ask)))
        if (ask.n && asks) {
            carry_one(h, who, &ask, ANSWERED);
            asks--;
        } else if (ask.n) {
            carry_one(h, who, &ask, (moment)fli_rng_below(rng, WAYS));
            break;
        }
    return s;
}

static void go_through_kills(halves *h, const char *assignments, uint32_t seed)
{
    fli_rng rng;
    fl_status s = FL_OK;
    fli_rng_init(&rng, 7, FLI_RNG_TEST, seed, 0);
    for (int kills = 0; !s && kills < KILLS; kills++) {
        s = carry_until_killed(h, (size_t)fli_rng_below(&rng, 25), &rng);
        if (!s) restart(h, assignments, &rng);
    }
    if (!s) s = carry_until_killed(h, SIZE_MAX, &rng);
    assert_int_equal(s, FL_EDONE);
}

static void survives(fixture *f, const char *assignments)
{
    static uint32_t seed;
    char server[1024], name[32];
    halves h;
    snprintf(name, sizeof name, "run%u", seed++);
    snprintf(server, sizeof server, "%s;output=%s;checkpoint_every=1", assignments, fixture_path(f, name));
    like_simulated(f, assignments, &h);
    assert_ok(f->ctx, fl_run_go(h.like, NULL, NULL));
    open_halves(&h, server);
    go_through_kills(&h, server, seed);
    assert_non_null(fl_server_run(h.server));
    outcome want = outcome_of(h.like), got = outcome_of(fl_server_run(h.server));
    if (!same(&want, &got)) fail_msg("%s: a server that was killed gives other bits", assignments);
    outcome_free(&want);
    outcome_free(&got);
    assert_ok(f->ctx, fl_run_save(fl_server_run(h.server)));
    fl_server_free(h.server);
    assert_int_equal(open_server(&h, server), FL_EDONE);
    close_halves(&h);
    fl_run_free(h.like);
}

static void every_algorithm(void **state)
{
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char text[512];
        const char *model = "{kind: mlp, hidden: [5], weight_decay: 0.01}";
        snprintf(text, sizeof text, "algorithm=%s;participation=%s;model=%s%s", (*a)->name,
                 (*a)->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 4}", model,
                 levels_for(*a, model));
        survives(*state, text);
    }
}

/* Rounds without an exchange, several cohorts in a round, what clients keep of a round, buffers larger than the number
 * of clients at work, rare measurements. */
static void other_settings(void **state)
{
    fixture *f = *state;
    survives(f, "model=softmax;participation=everyone;algorithm={kind: fedpd, skip: 0.5}");
    survives(f, "model=softmax;participation={kind: uniform, count: 3};algorithm={kind: fedbuff, buffer: 7};rounds=5");
    survives(f, "model=softmax;algorithm=asyncfeddr;rounds=12;metrics.every=5;participation={kind: uniform, count: 3}");
    survives(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
                "3};algorithm={kind: fednest, inner_rounds: 3, neumann: 4, cohort: each};metrics.every=3");
    survives(f, "model=softmax;participation=everyone;metrics.local=true;algorithm={kind: fedcpsl, freeze_after: 2};"
                "data.unlabelled=0.6;semi={labels: closed_form, alpha_p: 0.5, alpha_r: 0.4}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(every_algorithm), FIXTURE_TEST(other_settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
