/* Mini-batches of labelled and unlabelled samples: who comes up when, that gradients are means over each kind whatever
 * the number of samples, and what clients remember of their pseudo labels. */
#include "fixture.h"

#include "solver/minibatch.h"
#include "model/semi.h"
#include "solve.h"

enum { DIM = 6, C = 3 };

/* One client of a federation with a worker, and pseudo labels of its unlabelled samples. */
typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    fli_fed *fed;
    fli_view v;
    fli_semi semi;
    fli_model *m;
    solving pair;
    fli_worker *w; /* its instance */
    fli_rng rng;
    double *y, x[64], own[64];
    uint32_t epochs[2]; /* with augmentation: passes over labelled and other samples before the one under way */
} client;

static void client_init(client *c, fixture *f, const char *model, int labels, size_t labelled, size_t unlabelled,
                        fli_sgd_spec spec)
{
    const fli_model_desc *d = model_named(model);
    size_t size = labelled + unlabelled;
    memset(c, 0, sizeof *c);
    c->ctx = f->ctx;
    c->semi = (fli_semi){.labels = labels, .alpha_p = 0.6, .alpha_r = 0.3, .label_lr = 5, .label_steps = 2};
    c->fed = random_fed(f->ctx, 1, &size, DIM, C, 3);
    if (unlabelled) assert_ok(f->ctx, fli_fed_hide(f->ctx, c->fed, &(uint32_t){(uint32_t)unlabelled}));
    assert_ok(f->ctx, fli_view_open(f->ctx, c->fed, 0, &c->v));
    fli_arena_init(&c->arena, f->ctx);
    const void *params = bound(f->ctx, &c->arena, d->keys, d->params_size, strcmp(model, "mlp") ? "" : "hidden=[4]");
    assert_ok(f->ctx, fli_model_new(f->ctx, d, params, &fli_ops_f64, DIM, C, 0, &c->m));
    assert_ok(f->ctx, fli_model_use_semi(f->ctx, c->m, &c->semi));
    assert_ok(f->ctx, solving_init(f->ctx, &fli_solver_pair, c->m, &spec, size, &c->pair));
    c->w = c->pair.instance;
    assert_true(c->m->space.n <= 64);
    fli_rng_init(&c->rng, 9, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < c->m->space.n; i++) {
        c->x[i] = fli_rng_normal(&c->rng);
        c->own[i] = fli_rng_normal(&c->rng);
    }
    c->y = malloc((unlabelled + 1) * C * sizeof *c->y);
    for (size_t i = 0; i < unlabelled; i++) fli_rng_dirichlet(&c->rng, 1, C, c->y + i * C);
}

static void client_fini(client *c)
{
    free(c->y);
    solving_fini(&c->pair);
    fli_model_free(c->m);
    fli_view_close(&c->v);
    fli_fed_free(c->fed);
    fli_arena_fini(&c->arena);
}

/* ---- passes -------------------------------------------------------------------------------------------- */

/* `batches` batches of at most `size` are a pass: everyone once. */
static void check_pass(const uint32_t *const *at, const size_t *now, size_t batches, size_t size, size_t n,
                       const uint32_t *everyone)
{
    unsigned char *seen = calloc(n, 1);
    size_t total = 0;
    for (size_t k = 0; k < batches; k++) {
        assert_int_equal(now[k], k + 1 < batches ? size : n - size * (batches - 1));
        for (size_t i = 0; i < now[k]; i++, total++) {
            size_t who = 0;
            while (who < n && (everyone ? everyone[who] : who) != at[k][i]) who++;
            assert_true(who < n);
            assert_false(seen[who]++);
        }
    }
    assert_int_equal(total, n);
    free(seen);
}

/* Two passes over either kind, which have different lengths. */
static void passes_of(fixture *f, size_t labelled, size_t unlabelled, fli_sgd_spec spec, size_t plain, size_t rest)
{
    enum { MOST = 64 };
    client c;
    fli_minibatch d;
    static uint32_t kept[2][MOST][64];
    const uint32_t *at[2][MOST];
    size_t now[2][MOST], batches = (labelled + plain - 1) / plain, others = (unlabelled + rest - 1) / rest;
    client_init(&c, f, "softmax", FLI_SEMI_CLOSED_FORM, labelled, unlabelled, spec);
    fli_minibatch_init(c.w, &c.v, c.v.train, c.v.n_train, c.y, &c.rng, &d);
    for (size_t k = 0; k < 2 * batches || k < 2 * others; k++) {
        fli_minibatch_next(&d);
        assert_true(k < MOST && d.plain.count && d.plain.count <= 64 && d.rest.count && d.rest.count <= 64);
        now[0][k] = d.plain.count;
        now[1][k] = d.rest.count;
        memcpy(kept[0][k], d.plain.now, d.plain.count * sizeof *d.plain.now);
        memcpy(kept[1][k], d.rest.now, d.rest.count * sizeof *d.rest.now);
        at[0][k] = kept[0][k];
        at[1][k] = kept[1][k];
    }
    for (size_t pass = 0; pass < 2; pass++) {
        check_pass(at[0] + pass * batches, now[0] + pass * batches, batches, plain, labelled, c.v.train);
        check_pass(at[1] + pass * others, now[1] + pass * others, others, rest, unlabelled, NULL);
    }
    if (batches > 2)
        assert_memory_not_equal(kept[0][0], kept[0][batches], plain * sizeof(uint32_t)); /* a fresh order */
    client_fini(&c);
}

static void a_pass_has_every_sample_once(void **state)
{
    fixture *f = *state;
    passes_of(f, 23, 57, (fli_sgd_spec){.batch = 5}, 5, 5);
    passes_of(f, 23, 57, (fli_sgd_spec){.batch = 5, .latent = 12}, 5, 12);
    passes_of(f, 7, 57, (fli_sgd_spec){.batch = 10, .latent = 9}, 7, 9); /* all labelled ones in every step */
    passes_of(f, 40, 6, (fli_sgd_spec){.batch = 8, .latent = 50}, 8, 6); /* all unlabelled ones */
    passes_of(f, 20, 50, (fli_sgd_spec){.fraction = 0.1}, 2, 5);         /* a tenth of either */
    passes_of(f, 20, 50, (fli_sgd_spec){.fraction = 0.1, .latent = 7}, 2, 7);
    passes_of(f, 1, 1, (fli_sgd_spec){.batch = 3}, 1, 1);
    passes_of(f, 9, 30, (fli_sgd_spec){0}, 9, 30);
}

static void steps_of_an_epoch(void **state)
{
    static const struct {
        fli_sgd_spec spec;
        size_t labelled, unlabelled, steps;
    } cases[] = {
        {{.batch = 10}, 100, 250, 25},
        {{.batch = 10}, 101, 0, 11},
        {{.batch = 10}, 100, 3, 10},
        {{.batch = 10, .latent = 100}, 100, 250, 10},
        {{.batch = 10, .latent = 100}, 5, 250, 3},
        {{.batch = 0}, 100, 250, 1},
        {{.batch = 0, .latent = 50}, 100, 251, 6},
        {{.fraction = 0.1}, 100, 250, 10},
        {{.batch = 1}, 1, 1, 1},
        {{.batch = 10, .epoch = FLI_EPOCH_LABELLED}, 95, 250, 10},
        {{.batch = 10, .epoch = FLI_EPOCH_LABELLED}, 95, 0, 10},
        {{.batch = 10, .epoch = FLI_EPOCH_UNLABELLED}, 95, 250, 25},
        {{.batch = 10, .epoch = FLI_EPOCH_UNLABELLED}, 95, 31, 4}, /* fewer than the labelled ones take */
        {{.batch = 10, .epoch = FLI_EPOCH_UNLABELLED}, 95, 0, 10},
    };
    client semi, plain;
    client_init(&semi, *state, "softmax", FLI_SEMI_CLOSED_FORM, 3, 2, (fli_sgd_spec){0});
    client_init(&plain, *state, "softmax", FLI_SEMI_NONE, 3, 2, (fli_sgd_spec){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(fli_objective_steps(semi.m, &cases[i].spec, cases[i].labelled, cases[i].unlabelled),
                         cases[i].steps);
        /* without pseudo labels an epoch is over labelled samples, unless the others are asked for */
        size_t alone = fli_epoch_steps(&cases[i].spec, cases[i].labelled);
        assert_int_equal(fli_objective_steps(plain.m, &cases[i].spec, cases[i].labelled, cases[i].unlabelled),
                         cases[i].spec.epoch == FLI_EPOCH_UNLABELLED ? cases[i].steps : alone);
    }
    client_fini(&semi);
    client_fini(&plain);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* f_i's gradients over these samples in a single batch of the test's own, larger than a worker's. */
static void direct(client *c, const uint32_t *plain, size_t np, const uint32_t *rest, size_t nr, double mix, double *g,
                   double *own_g)
{
    fli_batch b;
    size_t n = np + nr;
    uint32_t *idx = malloc(n * sizeof *idx);
    double *y = malloc((nr + 1) * C * sizeof *y);
    void *scratch = fli_alloc(c->ctx, fli_model_scratch(c->m, n), 1);
    memcpy(idx, plain, np * sizeof *idx);
    for (size_t i = 0; i < nr; i++) {
        idx[np + i] = c->v.unlabelled[rest[i]];
        memcpy(y + i * C, c->y + rest[i] * C, C * sizeof *y);
    }
    assert_ok(c->ctx, fli_model_batch(c->ctx, c->m, n, &b));
    fli_batch_gather(&b, c->v.ds, idx, n);
    for (size_t i = 0; c->v.ds->augment && i < n; i++) {
        fli_batch one = b;
        one.x = (double *)b.x + i * DIM;
        one.n = 1;
        fli_batch_augment(&one, c->v.ds, &idx[i], &c->rng, c->epochs[i >= np]);
    }
    fli_pair_grad(c->m, c->x, c->own, mix, &b, np, y, g, own_g, scratch);
    fli_batch_fini(&b);
    fli_free(scratch);
    free(idx);
    free(y);
}

/* Some steps of a pass, by one model and by a pair. */
static void gradients_of(fixture *f, const char *model, int labels, size_t labelled, size_t unlabelled,
                         fli_sgd_spec spec)
{
    client c;
    fli_minibatch d;
    double g[64], own_g[64], alone[64], want[64], own_want[64];
    client_init(&c, f, model, labels, labelled, unlabelled, spec);
    fli_minibatch_init(c.w, &c.v, c.v.train, c.v.n_train, c.y, &c.rng, &d);
    fli_point pair = {c.x, c.own, 0.4, g, own_g, fli_worker_vector(c.w, 0)}, single = {.x = c.x, .g = alone};
    for (size_t step = 0; step < 4; step++) {
        c.x[step] += 0.1;
        fli_minibatch_next(&d);
        fli_minibatch_grad(&d, &pair);
        fli_minibatch_grad(&d, &single);
        direct(&c, d.plain.now, d.plain.count, d.rest.now, d.rest.count, 0.4, want, own_want);
        for (size_t j = 0; j < c.m->space.n; j++) {
            assert_near(g[j], want[j], 1e-13);
            assert_near(alone[j], want[j], 1e-13);
            assert_near(own_g[j], own_want[j], 1e-13);
        }
    }
    client_fini(&c);
}

static void batch_gradients_match_direct_ones(void **state)
{
    static const size_t sizes[][2] = {{9, 14}, {700, 1100}, {3, 600}, {600, 3}, {512, 1}, {300, 212}, {513, 512}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gradients_of(f, "softmax", FLI_SEMI_CLOSED_FORM, sizes[i][0], sizes[i][1], (fli_sgd_spec){0});
        gradients_of(f, "mlp", FLI_SEMI_PROJECTED, sizes[i][0], sizes[i][1], (fli_sgd_spec){0});
        gradients_of(f, "softmax", FLI_SEMI_CLOSED_FORM, sizes[i][0], sizes[i][1], (fli_sgd_spec){.batch = 4});
        gradients_of(f, "softmax", FLI_SEMI_CLOSED_FORM, sizes[i][0], sizes[i][1],
                     (fli_sgd_spec){.batch = 4, .latent = 550});
        gradients_of(f, "softmax", FLI_SEMI_CLOSED_FORM, sizes[i][0], 0, (fli_sgd_spec){.batch = 520});
        gradients_of(f, "mlp", FLI_SEMI_NONE, sizes[i][0], 0, (fli_sgd_spec){0});
        gradients_of(f, "mlp", FLI_SEMI_NONE, sizes[i][0], 0, (fli_sgd_spec){.batch = 100});
    }
}

/* Every sample is changed anew in each pass over its kind; y is found by the samples as they are. */
static void augmented_of(fixture *f, size_t labelled, size_t unlabelled, fli_sgd_spec spec, size_t batches,
                         size_t others)
{
    client c;
    fli_minibatch d;
    void *cache = NULL, *y, *again;
    double g[64], own_g[64], want[64], own_want[64], *before = malloc(unlabelled * C * sizeof *before);
    client_init(&c, f, "softmax", FLI_SEMI_CLOSED_FORM, labelled, unlabelled, spec);
    assert_ok(f->ctx, fli_latents_improve(f->ctx, c.w, &c.v, c.x, &c.rng, &cache, &y));
    memcpy(before, y, unlabelled * C * sizeof *before);
    memcpy(c.fed->train->shape, (size_t[]){1, 2, 3}, sizeof c.fed->train->shape);
    c.fed->train->augment = FLI_AUGMENT_CIFAR;
    assert_ok(f->ctx, fli_latents_improve(f->ctx, c.w, &c.v, c.x, &c.rng, &cache, &again));
    assert_memory_equal(again, before, unlabelled * C * sizeof *before);
    free(before);
    fli_minibatch_init(c.w, &c.v, c.v.train, c.v.n_train, c.y, &c.rng, &d);
    fli_point pair = {c.x, c.own, 0.4, g, own_g, fli_worker_vector(c.w, 0)};
    for (size_t step = 0; step < 7; step++) {
        c.epochs[0] = (uint32_t)(step / batches);
        c.epochs[1] = (uint32_t)(step / others);
        fli_minibatch_next(&d);
        fli_minibatch_grad(&d, &pair);
        direct(&c, d.plain.now, d.plain.count, d.rest.now, d.rest.count, 0.4, want, own_want);
        for (size_t j = 0; j < c.m->space.n; j++) {
            assert_near(g[j], want[j], 1e-13);
            assert_near(own_g[j], own_want[j], 1e-13);
        }
    }
    client_fini(&c);
}

static void each_pass_draws_new_changes(void **state)
{
    augmented_of(*state, 8, 15, (fli_sgd_spec){.batch = 4, .latent = 5}, 2, 3);
    augmented_of(*state, 8, 15, (fli_sgd_spec){0}, 1, 1);
    augmented_of(*state, 3, 1100, (fli_sgd_spec){.batch = 3, .latent = 600}, 1, 2); /* in pieces */
}

/* ---- the second block ---------------------------------------------------------------------------------- */

/* Pseudo labels of more samples than a worker holds: as for each alone. Those by steps are the client's and go on from
 * what they were. */
static void labels_of(fixture *f, int labels, size_t unlabelled)
{
    client c;
    void *cache = NULL, *y = NULL, *again = NULL;
    double *want = malloc(unlabelled * C * sizeof *want);
    fli_batch b;
    client_init(&c, f, "softmax", labels, 2, unlabelled, (fli_sgd_spec){0});
    void *scratch = fli_alloc(c.ctx, fli_model_scratch(c.m, 1), 1);
    assert_ok(c.ctx, fli_model_batch(c.ctx, c.m, 1, &b));
    for (size_t i = 0; i < unlabelled * C; i++) want[i] = 1.0 / C;
    for (size_t turn = 0; turn < 3; turn++) {
        assert_ok(c.ctx, fli_latents_improve(c.ctx, c.w, &c.v, c.x, &c.rng, &cache, &y));
        for (size_t i = 0; i < unlabelled; i++) {
            fli_batch_gather(&b, c.v.ds, c.v.unlabelled + i, 1);
            c.m->latent->improve(c.m, c.x, &b, unlabelled, want + i * C, scratch);
            for (size_t k = 0; k < C; k++) assert_near(((double *)y)[i * C + k], want[i * C + k], 1e-14);
        }
        assert_true((cache != NULL) == (labels == FLI_SEMI_PROJECTED)); /* only what is kept */
        if (turn) assert_ptr_equal(y, again);
        again = y;
        c.x[0] += 0.5;
    }
    fli_free(cache);
    fli_free(scratch);
    fli_batch_fini(&b);
    free(want);
    client_fini(&c);
}

static void pseudo_labels_match_single_samples(void **state)
{
    static const size_t sizes[] = {1, 20, 1100};
    for (size_t i = 0; i < 3; i++) {
        labels_of(*state, FLI_SEMI_CLOSED_FORM, sizes[i]);
        labels_of(*state, FLI_SEMI_PROJECTED, sizes[i]);
    }
}

/* Stochastic steps: mini-batches of 4 of 20 rows, drawn in passes, so that after 7 of them 8 rows have moved twice and
 * the others once, each as a step by itself would move it; with mini-batches longer than a worker holds, too. */
static void drawn_labels_of(fixture *f, size_t unlabelled, size_t batch, size_t steps)
{
    client c;
    void *cache = NULL, *y = NULL;
    size_t twice = 0, once = 0;
    fli_batch b;
    client_init(&c, f, "softmax", FLI_SEMI_PROJECTED, 2, unlabelled, (fli_sgd_spec){0});
    fli_semi semi = *(const fli_semi *)c.m->latent_params;
    semi.label_batch = (int64_t)batch;
    semi.label_steps = (int64_t)steps;
    semi.label_lr = 0.1 * (double)batch / (C * semi.alpha_r); /* short of the simplex's border */
    ((fli_model *)c.m)->latent_params = &semi;
    void *scratch = fli_alloc(c.ctx, fli_model_scratch(c.m, 1), 1);
    assert_ok(c.ctx, fli_model_batch(c.ctx, c.m, 1, &b));
    assert_ok(c.ctx, fli_latents_improve(c.ctx, c.w, &c.v, c.x, &c.rng, &cache, &y));
    for (size_t i = 0; i < unlabelled; i++) {
        double want[3][C];
        for (size_t k = 0; k < C; k++) want[0][k] = 1.0 / C;
        fli_batch_gather(&b, c.v.ds, c.v.unlabelled + i, 1);
        for (size_t t = 1; t < 3; t++) {
            memcpy(want[t], want[t - 1], sizeof want[t]);
            c.m->latent->step(c.m, c.x, &b, batch, want[t], scratch);
            assert_true(fabs(want[t][0] - want[t - 1][0]) > 1e-12);
        }
        const double *row = (double *)y + i * C;
        once += fabs(row[0] - want[1][0]) < 1e-14 && fabs(row[1] - want[1][1]) < 1e-14;
        twice += fabs(row[0] - want[2][0]) < 1e-14 && fabs(row[1] - want[2][1]) < 1e-14;
    }
    assert_int_equal(once + twice, steps * batch < unlabelled ? steps * batch : unlabelled);
    assert_int_equal(twice, steps * batch > unlabelled ? steps * batch - unlabelled : 0);
    fli_free(cache);
    fli_free(scratch);
    fli_batch_fini(&b);
    client_fini(&c);
}

static void drawn_labels(void **state)
{
    drawn_labels_of(*state, 20, 4, 3);
    drawn_labels_of(*state, 20, 4, 5);
    drawn_labels_of(*state, 20, 4, 7);
    drawn_labels_of(*state, 1200, 600, 1);
    drawn_labels_of(*state, 1200, 600, 3);
}

static void no_labels_to_find(void **state)
{
    for (int how = FLI_SEMI_NONE; how <= FLI_SEMI_PROJECTED; how++) {
        client c;
        void *cache = NULL, *y = &cache;
        client_init(&c, *state, "softmax", how, 4, how == FLI_SEMI_NONE ? 3 : 0, (fli_sgd_spec){0});
        assert_int_equal(fli_latents_of(c.m, &c.v).n, 0);
        assert_ok(c.ctx, fli_latents_improve(c.ctx, c.w, &c.v, c.x, &c.rng, &cache, &y));
        assert_null(y);
        assert_null(cache);
        client_fini(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_pass_has_every_sample_once),
        FIXTURE_TEST(steps_of_an_epoch),
        FIXTURE_TEST(batch_gradients_match_direct_ones),
        FIXTURE_TEST(each_pass_draws_new_changes),
        FIXTURE_TEST(pseudo_labels_match_single_samples),
        FIXTURE_TEST(drawn_labels),
        FIXTURE_TEST(no_labels_to_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
