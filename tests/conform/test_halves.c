/* The two halves of a federation, with nothing between them but bytes, give the bits of a simulation: every method,
 * every row of metrics, whatever the order of answers, with any number of threads, with clients that are made anew
 * from their state before every ask, with turns that are dropped and asked for again, and with uploads in a file. */
#include "halves.h"
#include "own.h"
#include "own_methods.h"
#include "outcome.h"

#include "algo/algo.h"
#include "base/bytes.h"
#include "base/digest.h"
typedef enum { IN_ORDER, BACKWARDS, ANEW, AGAIN, THREADS, FROM_A_FILE, WAYS } way;

/* ---- a federation in halves -------------------------------------------------------------------------------- */

/* Turns that a client has taken, and what it answered. */
enum { MOST_TURNS = 128 };
typedef struct {
    fl_bytes ask[MOST_TURNS], answer[MOST_TURNS];
    size_t n;
} taken;

static taken *took; /* of each client, where they are asked again */
static fli_rng rng;
static way now;

static void open_all(halves *h, const char *assignments)
{
    open_halves(h, assignments);
    took = calloc(h->clients, sizeof *took);
    fli_rng_init(&rng, 3, FLI_RNG_TEST, 0, 0);
}

static void close_all(halves *h)
{
    for (size_t i = 0; i < h->clients; i++)
        for (size_t k = 0; k < took[i].n; k++) {
            fl_bytes_free(&took[i].ask[k]);
            fl_bytes_free(&took[i].answer[k]);
        }
    free(took);
    close_halves(h);
}

/* ---- turns that do not count, and asks that come again ------------------------------------------------------ */

enum { HEADER = 80, NUMBER_AT = 16, STREAM_AT = HEADER + 8, STEPS_AT = HEADER + 16 };

static fl_ask said(const fl_bytes *packet)
{
    fl_ask ask;
    fli_ask_read(packet->data + HEADER, &ask);
    return ask;
}

static void more_by(fl_bytes *b, size_t at, uint64_t more)
{
    uint64_t v;
    fli_get_u64(b->data + at, &v, 8);
    fli_put_u64(b->data + at, v + more, 8);
}

static fl_bytes copy_of(const fl_bytes *b) { return (fl_bytes){memcpy(malloc(b->n), b->data, b->n), b->n}; }

/* Another turn than the one that counts in the end: its answer is lost. */
static void take_in_vain(halves *h, uint32_t i, const fl_bytes *ask)
{
    fl_bytes other = copy_of(ask), answer;
    more_by(&other, NUMBER_AT, 1000);
    more_by(&other, STEPS_AT, 1);
    if (!said(ask).phase) more_by(&other, STREAM_AT, 777);
    uint32_t crc = fli_crc32c_more(0, other.data, 12);
    fli_put_u64(other.data + 12, fli_crc32c_more(crc, other.data + 16, other.n - 16), 4);
    assert_ok(h->ctx[i], fl_client_work(h->client[i], other.data, other.n, &answer));
    free(other.data);
    fl_bytes_free(&answer);
}

/* The turns of the last round once more, or all there were, or the last one. */
static void take_again(halves *h, uint32_t i, uint32_t which)
{
    taken *t = &took[i];
    size_t from = which == 2 ? 0 : t->n - 1;
    for (fl_ask last = said(&t->ask[t->n - 1]); which == 1 && from; from--) {
        fl_ask before = said(&t->ask[from - 1]);
        if (before.stream != last.stream || before.warm_up != last.warm_up) break;
    }
    for (size_t k = from; k < t->n; k++) {
        fl_bytes answer;
        assert_ok(h->ctx[i], fl_client_work(h->client[i], t->ask[k].data, t->ask[k].n, &answer));
        assert_int_equal(answer.n, t->answer[k].n);
        assert_memory_equal(answer.data, t->answer[k].data, answer.n);
        fl_bytes_free(&answer);
        if (!fli_rng_below(&rng, 3)) replace(h, i);
    }
}

static void work_again(halves *h, uint32_t i, const fl_bytes *ask, fl_bytes *answer)
{
    int turn = said(ask).kind == FLI_ASK_TURN;
    taken *t = &took[i];
    if (turn && !fli_rng_below(&rng, 3)) take_in_vain(h, i, ask);
    if (!fli_rng_below(&rng, 3)) replace(h, i);
    assert_ok(h->ctx[i], fl_client_work(h->client[i], ask->data, ask->n, answer));
    if (!turn) return;
    assert_true(t->n < MOST_TURNS);
    t->ask[t->n] = copy_of(ask);
    t->answer[t->n++] = copy_of(answer);
    uint32_t which = (uint32_t)fli_rng_below(&rng, 8);
    if (which < 3) take_again(h, i, which);
}

static void work(halves *h, uint32_t i, fl_bytes *ask, fl_bytes *answer)
{
    if (now == ANEW) replace(h, i);
    pthread_mutex_lock(&h->lock[i]);
    assert_true(ask->n <= fl_client_ask_bytes(h->client[i]));
    if (now == AGAIN)
        work_again(h, i, ask, answer);
    else
        assert_ok(h->ctx[i], fl_client_work(h->client[i], ask->data, ask->n, answer));
    pthread_mutex_unlock(&h->lock[i]);
    fl_bytes_free(ask);
}

static void hand_in(halves *h, uint32_t i, fl_bytes *answer)
{
    assert_int_equal(fl_server_answer(h->server, i, answer->data, answer->n), FL_OK);
    fl_bytes_free(answer);
}

/* All asks that are there, then their answers from the last to the first. */
static void backwards(halves *h)
{
    for (fl_status s = FL_OK; !s;) {
        uint32_t who[MOST];
        fl_bytes ask[MOST], answer;
        size_t n = 0;
        while (n < MOST && !(s = fl_server_next(h->server, n ? 0.002 : 10, &who[n], &ask[n])) && ask[n].n) n++;
        if (s) assert_int_equal(s, FL_EDONE);
        while (n--) {
            work(h, who[n], &ask[n], &answer);
            hand_in(h, who[n], &answer);
        }
    }
}

static void *carry(void *arg)
{
    halves *h = arg;
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    while (!(s = fl_server_next(h->server, 10, &who, &ask))) {
        if (!ask.n) continue;
        work(h, who, &ask, &answer);
        hand_in(h, who, &answer);
    }
    assert_int_equal(s, FL_EDONE);
    return NULL;
}

static void run_halves(halves *h)
{
    pthread_t thread[3];
    if (now == BACKWARDS) {
        backwards(h);
    } else if (now == THREADS) {
        for (size_t i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, carry, h), 0);
        for (size_t i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    } else {
        carry(h);
    }
}

static void agree(fixture *f, const char *assignments)
{
    static const char *const names[] = {"in order",
                                        "backwards",
                                        "with clients made anew",
                                        "with turns taken again",
                                        "by threads",
                                        "with uploads in a file"};
    halves h;
    char filed[1024];
    snprintf(filed, sizeof filed, "%s;server.memory=1", assignments);
    like_simulated(f, assignments, &h);
    for (now = IN_ORDER; now < WAYS; now++) {
        open_all(&h, now == FROM_A_FILE ? filed : assignments);
        if (!now) assert_ok(f->ctx, fl_run_go(h.like, NULL, NULL));
        outcome want = outcome_of(h.like);
        run_halves(&h);
        assert_non_null(fl_server_run(h.server));
        outcome got = outcome_of(fl_server_run(h.server));
        if (!same(&want, &got)) fail_msg("%s: halves %s give other bits", assignments, names[now]);
        outcome_free(&want);
        outcome_free(&got);
        close_all(&h);
    }
    fl_run_free(h.like);
}

/* Uploads that are clipped have the same norm, to the bit, wherever they are. */
static void clipping_gives_the_same_bits_everywhere(void **state)
{
    static const char *const precision[] = {"f32", "f64"};
    fixture *f = *state;
    for (int k = 0; k < 4; k++) {
        static outcome want;
        halves h;
        char text[512];
        snprintf(text, sizeof text,
                 "model={kind: mlp, hidden: [903]};participation=everyone;rounds=2;precision=%s;"
                 "server={largest_norm: 0.0125, beyond: clip, memory: %s}",
                 precision[k / 2], k % 2 ? "1" : "auto");
        like_simulated(f, text, &h);
        now = IN_ORDER;
        open_all(&h, text);
        carry(&h);
        outcome got = outcome_of(fl_server_run(h.server));
        if (k % 2) {
            assert_true(same(&want, &got));
            outcome_free(&want);
            outcome_free(&got);
        } else {
            want = got;
        }
        close_all(&h);
        fl_run_free(h.like);
    }
}

/* Random changes are drawn by the numbers that samples have, so clients with lower numbers must have the lower ones. */
static void augmentation_follows_the_sample_numbers(void **state)
{
    fixture *f = *state;
    char path[300];
    snprintf(path, sizeof path, "%s",
             fixture_write(f, "who.json", "{\"clients\": [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9, 10, 11], [12, 13, 14]]}"));
    char text[600];
    snprintf(text, sizeof text,
             "data={kind: digits, samples: 15, test_samples: 20, augment: cifar};partition={kind: file, path: %s};"
             "model={kind: cnn, layers: \"conv 4x5 stride 2, fc 5\"};participation=everyone;rounds=2",
             path);
    agree(f, text);
}

static void sparse_data(void **state)
{
    fixture *f = *state;
    char file[6000], *p = file, text[700];
    fli_rng r;
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (int i = 0; i < 60; i++) {
        p += sprintf(p, "%d", i % 3 ? 1 : 0);
        for (int j = 1; j <= 12; j++)
            if (fli_rng_uniform(&r) < 0.3 || j == 12) p += sprintf(p, " %d:%.4f", j, fli_rng_normal(&r));
        p += sprintf(p, "\n");
    }
    snprintf(
        text, sizeof text,
        "data={kind: libsvm, train: %s, test_fraction: 0.25};model=logistic;algorithm=scaffold;participation={kind: "
        "uniform, count: 4}",
        fixture_write(f, "s.libsvm", file));
    agree(f, text);
    strcat(text, ";precision=f64");
    agree(f, text);
}

/* A run that diverges says the same. */
static void divergence_has_the_simulations_error(void **state)
{
    fixture *f = *state;
    static const char settings[] =
        "model={kind: softmax, weight_decay: 1};local.lr=1e30;participation=everyone;stop.diverged=0;"
        "metrics.train=false;metrics.gradient=false;metrics.test=false";
    char want[512];
    halves h;
    like_simulated(f, settings, &h);
    open_all(&h, settings);
    assert_int_equal(fl_run_go(h.like, NULL, NULL), FL_EDIVERGED);
    snprintf(want, sizeof want, "%s", fl_ctx_error(f->ctx));
    uint32_t who;
    fl_bytes ask, answer;
    fl_status s;
    while (!(s = fl_server_next(h.server, 10, &who, &ask))) {
        work(&h, who, &ask, &answer);
        hand_in(&h, who, &answer);
    }
    assert_int_equal(s, FL_EDIVERGED);
    assert_string_equal(fl_ctx_error(f->ctx), want);
    close_all(&h);
    fl_run_free(h.like);
}

static void every_algorithm(void **state)
{
    fixture *f = *state;
    for (const fl_method *const *a = fli_algo_list; *a; a++)
        for (int k = 0; k < 2; k++) {
            char text[512];
            const char *model = k ? "{kind: mlp, hidden: [5], weight_decay: 0.01}" : "softmax";
            snprintf(text, sizeof text, "algorithm=%s;participation=%s;model=%s;precision=%s%s", (*a)->name,
                     (*a)->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 4}", model,
                     k ? "f64" : "f32", levels_for(*a, model));
            agree(f, text);
        }
}

/* Phases, pseudo labels, clients' own models, images, regression, sizes that decide who takes part, arrivals. */
static void other_settings(void **state)
{
    fixture *f = *state;
    agree(f, "model=softmax;participation={kind: weighted, count: 3};local.momentum=0.9;local.schedule=sqrt");
    agree(f, "model=softmax;participation=everyone;algorithm={kind: fedpd, skip: 0.5}");
    agree(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
             "3};algorithm={kind: fednest, inner_rounds: 3, neumann: 4, estimate: random}");
    agree(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
             "3};algorithm={kind: lfednest, inner_rounds: 2, outer_epochs: 2, anchor: full, cohort: level}");
    agree(f, "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;metrics.hypergradient=true;rounds=2;"
             "participation={kind: uniform, count: 3};algorithm=simfbo;metrics.potential=true;"
             "local={batch: 4, uneven: speeds}");
    agree(f, "model=softmax;participation=everyone;metrics.local=true;algorithm={kind: fedcpsl, freeze_after: 2};"
             "data.unlabelled=0.6;semi={labels: closed_form, alpha_p: 0.5, alpha_r: 0.4}");
    agree(f, "model=softmax;data.unlabelled=0.7;semi={labels: projected, label_steps: 3, label_batch: 2};"
             "algorithm=fedvra-u;metrics.every=2");
    agree(f, "model=softmax;data.unlabelled=0.7;semi={labels: projected, label_steps: 3};algorithm=fedvra-u;"
             "metrics={gradient: true, potential: true};participation={kind: uniform, count: 3}");
    agree(f, "model={kind: mlp, hidden: [6]};algorithm={kind: feddr, eta: 0.5, alpha: 1, solver: accurate, "
             "relative: 0.1, accuracy: 1, most_steps: 30};rounds=3");
    agree(f, "data={kind: digits, samples: 120, test_samples: 20, crop: 17, normalize: image};"
             "model={kind: cnn, layers: \"conv 6x5 same, pool 2, fc 8\"};algorithm=scaffold;rounds=2");
    agree(f, "data={kind: linreg, clients: 8, features: 20, min_size: 10, max_size: 30};partition={};"
             "model={kind: least_squares, weight_decay: 0.01};regularizer={kind: l1, weight: 0.05};"
             "algorithm={kind: feddr, eta: 0.1, init: exact, solver: exact}");
    agree(f, "algorithm={kind: fedbuff, buffer: 3, tau: 4};model=softmax;participation=everyone;rounds=20;"
             "system={kind: lognormal, sigma: 1, jitter: 0.5, step_seconds: 1}");
    agree(f, "algorithm={kind: asyncfeddr, eta: 0.5, alpha: 0.8, tau: 9};model=softmax;participation={kind: uniform, "
             "count: 3};rounds=20;precision=f64;metrics={every: 7, potential: true}");
}

/* Methods and objectives of the user's own, which both halves have registered. */
static void own_things(void **state)
{
    static const fl_method *const methods[] = {&own_scaffold, &own_feddyn, &own_fedlin};
    static own_arg arg;
    fixture *f = *state;
    own_register(f, &arg);
    for (size_t i = 0; i < 3; i++) {
        char text[300];
        assert_ok(f->ctx, fl_method_register(f->ctx, methods[i]));
        snprintf(
            text, sizeof text,
            "algorithm=%s;model=own_softmax;data={kind: blobs, classes: 3, features: 4, samples: 90, test_samples: "
            "20};participation=everyone",
            methods[i]->name);
        agree(f, text);
        assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", methods[i]->name));
    }
    own_forget(f);
}

/* Something of the user's fails at a client, once everybody has begun. */
static void fails_at_client(fixture *f, const char *settings, own_arg *arg, const char *sentence)
{
    halves h;
    like_simulated(f, settings, &h);
    open_all(&h, settings);
    if (arg) arg->fail_batch = atomic_load(&arg->calls) + 30;
    uint32_t who;
    fl_bytes ask, answer;
    char start[32];
    fl_status s;
    while (!(s = fl_server_next(h.server, 10, &who, &ask))) {
        work(&h, who, &ask, &answer);
        hand_in(&h, who, &answer);
    }
    snprintf(start, sizeof start, "client %u: ", (unsigned)who);
    assert_int_equal(s, FL_ECALLBACK);
    if (strncmp(fl_ctx_error(f->ctx), start, strlen(start)) || !strstr(fl_ctx_error(f->ctx), sentence))
        fail_msg("'%s' does not begin with '%s' and have '%s'", fl_ctx_error(f->ctx), start, sentence);
    close_all(&h);
    fl_run_free(h.like);
}

static int lame_pose(const fl_turn *t, fl_problem *p)
{
    if (t->ask.client == 3 && t->ask.round == 1) return fl_failed(t->failure, "one leg is missing"), 1;
    return own_scaffold.pose(t, p);
}

static int lame_solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    (void)arg, (void)p, (void)z, (void)out;
    if (l->client == 3 && l->round == 1) return fl_failed(f, "one arm is missing"), 1;
    return 0;
}

/* An objective, a method or a solver that fails at a client ends the server's run in its words, where that is the
 * rule. */
static void own_failure(void **state)
{
    static own_arg arg;
    fixture *f = *state;
    static const char settings[] =
        "model=own_softmax;data={kind: blobs, classes: 3, features: 4, samples: 90};participation=everyone;"
        "server.failed=end";
    own_register(f, &arg);
    fails_at_client(f, settings, &arg, "objective own_softmax failed at client ");
    arg.fail_batch = 0;
    fails_at_client(f, settings, &arg, ": no more paper");
    own_forget(f);

    fl_method lame = own_scaffold;
    lame.name = "lame";
    lame.pose = lame_pose;
    assert_ok(f->ctx, fl_method_register(f->ctx, &lame));
    fails_at_client(f, "algorithm=lame;model=softmax;participation=everyone;server.failed=end", NULL,
                    "client 3: method lame failed in pose, client 3, round 2: one leg is missing");
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "lame"));

    fl_solver solver = {.size = sizeof solver, .name = "lame", .solve = lame_solve};
    assert_ok(f->ctx, fl_solver_register(f->ctx, &solver));
    fails_at_client(f, "local.solver=lame;model=softmax;participation=everyone;server.failed=end", NULL,
                    "client 3: solver lame failed at client 3, round 2: one arm is missing");
    assert_ok(f->ctx, fl_forget(f->ctx, "solver", "lame"));
}

/* Who does not know a method cannot take part. */
static void unknown_method(void **state)
{
    fixture *f = *state;
    fl_bytes terms;
    static const char settings[] = "model=softmax;algorithm=own_scaffold;participation=everyone";
    assert_ok(f->ctx, fl_method_register(f->ctx, &own_scaffold));
    halves h;
    like_simulated(f, settings, &h);
    open_all(&h, settings);
    assert_ok(f->ctx, fl_server_terms(h.server, 0, &terms));
    close_all(&h);
    fl_run_free(h.like);
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "own_scaffold"));
    fl_client *c;
    fli_dataset *ds;
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F64, 5, 6, 4, &ds));
    assert_ok(f->ctx, fli_client_with(f->ctx, ds, 0, &c));
    assert_fails(f->ctx, fl_client_accept(c, terms.data, terms.n), FL_ECONFIG, "own_scaffold, which is not known");
    fl_client_free(c);
    fl_bytes_free(&terms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(every_algorithm),
                                       FIXTURE_TEST(other_settings),
                                       FIXTURE_TEST(clipping_gives_the_same_bits_everywhere),
                                       FIXTURE_TEST(augmentation_follows_the_sample_numbers),
                                       FIXTURE_TEST(sparse_data),
                                       FIXTURE_TEST(divergence_has_the_simulations_error),
                                       FIXTURE_TEST(own_things),
                                       FIXTURE_TEST(own_failure),
                                       FIXTURE_TEST(unknown_method)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
