/* Settings of many kinds, each of which must give the same bits whatever the number of threads, the executor, and the
 * number of ranks. They are assignments to many_base, separated by ';'. */
#ifndef TESTS_MANY_SETTINGS_H
#define TESTS_MANY_SETTINGS_H

#include "fixture.h"

#include "algo/algo.h"

static const char many_base[] =
    "rounds: 4\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 12}\nsystem: {kind: lognormal, jitter: 0.3}\n"
    "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\n"
    "metrics: {gradient: true}\n";

/* Called with one after the other. */
typedef void look_fn(void *arg, const char *assignments);

/* Momentum, schedules, the other ways of taking part, data made on demand, exact local solutions: 20 features and 10 to
 * 30 samples, so that either factor is among them. */
UNUSED static void each_other(look_fn *look, void *arg)
{
    static const char *const all[] = {
        "model=softmax;participation={kind: bernoulli, probability: 0.4};local.momentum=0.9;local.schedule=sqrt",
        "model=softmax;participation={kind: weighted, count: 4};local.uneven=speeds;local.schedule=exponential",
        "model=softmax;participation={kind: cyclic, count: 5};local.batch=0;local.steps=3;algorithm=scaffold",
        "model={kind: softmax, weight_decay: 0.5, weight_decay_by: batch};partition={kind: cuts, clients: "
        "12};local.schedule=log2;local.schedule_by=step;local.uneven=range;local.momentum=0.5",
        "model=softmax;participation=everyone;local.batch=1000;algorithm={kind: fedpd, skip: 0.5}",
        "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
        "5};algorithm={kind: fednest, inner_rounds: 3, neumann: 4, estimate: random}",
        "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
        "5};algorithm={kind: fednest, inner_rounds: 2, inner_epochs: 2, anchor: full, cohort: each}",
        "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
        "5};algorithm={kind: lfednest, inner_rounds: 2, outer_epochs: 2, anchor: full, cohort: level}",
        "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;participation={kind: uniform, count: "
        "5};algorithm={kind: fbo-aggitd, inner_rounds: 4}",
        "model={kind: mlp, hidden: [5]};bilevel=hyper_representation;metrics.hypergradient=true;rounds=3;"
        "participation={kind: uniform, count: 5};algorithm=simfbo",
        "model=softmax;participation=everyone;metrics.local=true;algorithm={kind: fedcpsl, freeze_after: 2}",
        "model=softmax;participation=everyone;metrics.local=true;"
        "algorithm={kind: fedcpsl, mix: dissimilarity, freeze_after: 2}",
        "model=softmax;participation={kind: bernoulli, probability: 0.3, factors: [1, 2, 0.5]};"
        "algorithm={kind: fedvra, gamma: 0.1, a: auto, d: auto}",
        "model=softmax;data.unlabelled=0.7;semi={labels: projected, label_steps: 3, label_batch: 2};"
        "algorithm=fedvra-u",
        "model={kind: factorization, rank: 4, membership_batch: 3};regularizer=nonnegative;"
        "algorithm=fedvra-u;local.lr=0.01",
        "model={kind: factorization, rank: 4};regularizer=nonnegative;algorithm=fedvra-u;local.lr=0.01",
        "model=softmax;participation={kind: uniform, count: 3};algorithm=fedgia;rounds=6",
        "data={kind: digits, samples: 240, test_samples: 40, augment: cifar};model={kind: cnn, layers: "
        "\"conv 5x5 stride 2, pool 2, conv 6x3 same, fc 8\"};algorithm=scaffold;metrics.gradient=false",
        "data={kind: digits, samples: 240, test_samples: 40, crop: 17, augment: crop, normalize: image};"
        "model={kind: cnn, layers: \"conv 6x5 same, pool 2, fc 8\"};algorithm=scaffold",
        "data={kind: digits, samples: 240, test_samples: 40, crop: 20, augment: crop, augment_share: 0.5};"
        "model=softmax;algorithm=fedvra",
        "data={kind: digits, samples: 240, test_samples: 40, augment: cifar, augment_once: true, test_fraction: 0.2};"
        "model=softmax;metrics.local=true;algorithm=fedavg",
        "data={kind: synthetic, on_demand: true};partition={};model=softmax;algorithm=scaffold;rounds=2",
        "data={kind: linreg, clients: 100, features: 20, min_size: 10, max_size: 30};partition={};"
        "model={kind: least_squares, weight_decay: 0.01};regularizer={kind: l1, weight: 0.05};"
        "algorithm={kind: feddr, eta: 0.1, init: exact, solver: exact}",
        "data={kind: linreg, clients: 100, features: 20, min_size: 10, max_size: 30};partition={};"
        "model={kind: least_squares, weight_decay: 0.01};algorithm={kind: fedgia, variant: gram, k0: 9}",
        "model={kind: mlp, hidden: [6]};algorithm={kind: feddr, eta: 0.5, alpha: 1, solver: accurate, "
        "relative: 0.1, accuracy: 1, most_steps: 30};rounds=3"};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) look(arg, all[k]);
}

/* Whether the method, as it is by default, can work with pseudo labels. */
UNUSED static int takes_labels(fixture *f, const fl_method *a)
{
    fli_arena arena;
    fli_arena_init(&arena, f->ctx);
    const void *params = bound(f->ctx, &arena, a->keys, a->params_size, "");
    int takes = 1;
    const fli_model plain = {.latent = NULL};
    const fli_solvers all = fli_algo_solvers(a, params, &plain, NULL);
    for (size_t i = 0; i < all.count; i++) {
        const fl_solver *s = all.at[i];
        takes &= fli_solver_engine_of(s)->latent || s->traits & FLI_SOLVER_SECOND_BLOCK;
    }
    fli_arena_fini(&arena);
    return takes;
}

/* Pseudo labels of either kind, in both precisions, and what clients have of their own. */
UNUSED static void each_pseudo(fixture *f, look_fn *look, void *arg)
{
    static const char *const ways[] = {
        "model=softmax;semi={labels: closed_form, alpha_p: 0.5, alpha_r: 0.4}",
        "model={kind: mlp, hidden: [6]};precision=f64;semi={labels: projected, label_lr: 9, batch: 3}",
        "model=softmax;local.batch=0;local.momentum=0.8;semi={labels: closed_form, alpha_r: 0, confidence: 0.4}"};
    size_t count = 0;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        if (!takes_labels(f, *a)) continue;
        count++;
        for (size_t k = 0; k < 3; k++)
            for (int own = 0; own <= ((*a)->personal.mix != NULL); own++) {
                char text[400];
                snprintf(text, sizeof text,
                         "algorithm={kind: %s%s};participation=%s;data.unlabelled=0.6;metrics.local=%s;%s", (*a)->name,
                         own ? ", mix: auto" : "",
                         (*a)->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 7}",
                         fli_algo_is_async(*a) ? "false" : "true", ways[k]);
                look(arg, text);
            }
    }
    assert_true(count >= 15);
}

#define SPEEDS "system={kind: lognormal, sigma: 1, jitter: 0.5};system.step_seconds=1;"

/* Arrivals in the order of simulated time: all or some at work, buffers, bounds on ages, both precisions, state and
 * none; and rounds that leave clients behind. */
UNUSED static void each_simulated(look_fn *look, void *arg)
{
    static const char *const methods[] = {"fedasync", "{kind: fedasync, staleness: hinge, tau: 11}",
                                          "{kind: fedbuff, buffer: 3, tau: 4}", "asyncfeddr",
                                          "{kind: asyncfeddr, eta: 0.5, alpha: 0.8, tau: 11}"};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        char text[400];
        snprintf(text, sizeof text, SPEEDS "algorithm=%s;model=softmax;participation=everyone;rounds=60", methods[k]);
        look(arg, text);
        snprintf(text, sizeof text,
                 SPEEDS "algorithm=%s;model={kind: mlp, hidden: [4]};participation={kind: uniform, count: 5};rounds=60;"
                        "precision=f64;metrics.every=7",
                 methods[k]);
        look(arg, text);
    }
    look(arg, "data={kind: linreg, clients: 30, features: 20, min_size: 10, max_size: 30};partition={};rounds=90;"
              "model={kind: least_squares, weight_decay: 0.01};regularizer={kind: l1, weight: 0.05};"
              "system={kind: linear, slowest: 20};algorithm={kind: asyncfeddr, eta: 0.1, solver: exact}");
    look(arg, SPEEDS "algorithm=scaffold;model=softmax;system.wait_for=0.5;system.deadline=9");
    /* dropped clients are shown the start model anew; bytes take time, so that decides who is dropped */
    look(arg, SPEEDS "algorithm=feddr;model=softmax;system.wait_for=0.5;system.down_rate=100;rounds=8");
}

/* More clients than are taken at a time. */
UNUSED static void each_large(look_fn *look, void *arg)
{
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char text[256];
        snprintf(text, sizeof text, "algorithm=%s;model=softmax;participation=everyone;partition.clients=150%s",
                 (*a)->name, levels_for(*a, "softmax"));
        look(arg, text);
    }
}

/* 1300 samples, about a tenth of 40 features each, in a file of this name. */
UNUSED static void write_libsvm(fixture *f, char path[512])
{
    fli_rng r;
    char *text = malloc(1 << 18), *p = text;
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (int i = 0; i < 1300; i++) {
        p += sprintf(p, "%d", fli_rng_uniform(&r) < 0.4 ? 1 : -1);
        for (int j = 1; j <= 40; j++)
            if (fli_rng_uniform(&r) < 0.1) p += sprintf(p, " %d:%.5f", j, fli_rng_normal(&r));
        p += sprintf(p, "\n");
    }
    snprintf(path, 512, "%s", fixture_write(f, "s.libsvm", text));
    free(text);
}

/* Every model on those; the batches are small, or all 520 training samples of a client: more than are computed at a
 * time. */
enum { SPARSE = 8 };
UNUSED static void sparse_settings(char *out, size_t size, const char *path, const char *storage, size_t k)
{
    static const char *const models[] = {"logistic", "softmax", "{kind: mlp, hidden: [5]}", "least_squares"};
    static const char *const more[] = {"local.batch=7;algorithm=scaffold", "local.batch=0;local.steps=3;local.lr=20"};
    snprintf(out, size,
             "data={kind: libsvm, train: %s, storage: %s, normalize: %s, test_fraction: 0.2%s};"
             "partition={kind: iid, clients: 2};participation=everyone;model=%s;precision=f64;%s",
             path, storage, k % 2 ? "columns" : "unit", k / 2 == 3 ? ", task: regression" : "", models[k / 2],
             more[k % 2]);
}

#endif
