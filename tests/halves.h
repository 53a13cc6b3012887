/* The two halves of a federation in one process, with nothing between them but bytes, and the simulation of the same
 * federation beside them. */
#ifndef TESTS_HALVES_H
#define TESTS_HALVES_H

#include "fixture.h"

#include "fedloom_halves.h"
#include "half/client.h"
#include "run/state.h"

#include <pthread.h>

enum { MOST = 12 }; /* clients */

static const char base[] =
    "rounds: 4\nthreads: 2\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 6}\nsystem: {kind: lognormal, jitter: 0.3}\n"
    "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\n"
    "metrics: {gradient: true}\n";

UNUSED static fl_config *configure(fixture *f, const char *assignments)
{
    char text[1024], *save = NULL;
    fl_config *cfg = fixture_config(f, base);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    return cfg;
}

/* ---- what clients have ------------------------------------------------------------------------------------ */

/* Rows `mine` of a sparse set. */
UNUSED static fli_dataset *sparse_of(fixture *f, const fli_dataset *all, const unsigned char *mine, size_t n)
{
    size_t size = fli_xkind_size(all->kind), used = 0, k = 0;
    fli_dataset *ds = fli_alloc(f->ctx, 1, sizeof *ds);
    *ds = (fli_dataset){.n = n, .dim = all->dim, .kind = all->kind, .classes = all->classes, .shape = {1, 1, all->dim}};
    ds->row = fli_alloc(f->ctx, n + 1, sizeof *ds->row);
    ds->col = fli_alloc(f->ctx, all->row[all->n], sizeof *ds->col);
    ds->x = fli_alloc(f->ctx, all->row[all->n], size);
    ds->label = fli_alloc(f->ctx, n, sizeof *ds->label);
    for (size_t i = 0; i < all->n; i++) {
        size_t from = all->row[i], count = all->row[i + 1] - from;
        if (!mine[i]) continue;
        memcpy(ds->col + used, all->col + from, count * sizeof *ds->col);
        memcpy((char *)ds->x + used * size, (const char *)all->x + from * size, count * size);
        ds->label[k] = all->label[i];
        ds->row[++k] = used += count;
    }
    return ds;
}

/* The samples of a client in the simulation, in ascending order and with all their labels, as a set of their own. */
UNUSED static fli_dataset *samples_of(fixture *f, const fli_fed *fed, size_t client)
{
    const fli_dataset *all = fed->train;
    size_t from = fed->part.start[client], n = fed->part.start[client + 1] - from;
    size_t size = fli_xkind_size(all->kind), length = fli_dataset_length(all);
    unsigned char *mine = calloc(all->n, 1);
    fli_dataset *ds;
    for (size_t k = 0; k < n; k++) mine[fed->part.index[from + k]] = 1;
    if (fli_dataset_sparse(all)) {
        ds = sparse_of(f, all, mine, n);
        free(mine);
        return ds;
    }
    assert_ok(f->ctx, fli_dataset_new(f->ctx, all->kind, n, length, all->classes, &ds));
    for (size_t i = 0, k = 0; i < all->n; i++) {
        if (!mine[i]) continue;
        memcpy((char *)ds->x + k * length * size, (const char *)all->x + i * length * size, length * size);
        if (ds->label) ds->label[k] = fli_fed_truth(fed, (uint32_t)i);
        if (ds->target) ds->target[k] = all->target[i];
        k++;
    }
    memcpy(ds->shape, all->shape, sizeof ds->shape);
    for (int k = 0; k < 2 && all->frame[k]; k++) ds->shape[1 + k] = all->frame[k];
    free(mine);
    return ds;
}

/* ---- a federation in halves ------------------------------------------------------------------------------- */

typedef struct {
    fixture *f;
    fl_run *like; /* the simulation */
    fl_server *server;
    size_t clients;
    fl_ctx *ctx[MOST]; /* each client has its own, as it may be on any thread */
    fl_client *client[MOST];
    fl_bytes card[MOST];
    pthread_mutex_t lock[MOST];
} halves;

UNUSED static fl_client *join(halves *h, uint32_t i)
{
    fl_client *c;
    fli_dataset *ds = samples_of(h->f, h->like->plan.fed, i);
    assert_ok(h->ctx[i], fli_client_with(h->ctx[i], ds, h->like->plan.settings->top.precision != 0, &c));
    return c;
}

UNUSED static void accept(halves *h, uint32_t i)
{
    fl_bytes terms;
    assert_ok(h->f->ctx, fl_server_terms(h->server, i, &terms));
    assert_ok(h->ctx[i], fl_client_accept(h->client[i], terms.data, terms.n));
    assert_ok(h->ctx[i], fl_client_accept(h->client[i], terms.data, terms.n));
    fl_bytes_free(&terms);
}

/* The same settings for clients that are elsewhere. */
UNUSED static fl_config *joined(halves *h, const char *assignments)
{
    char data[512];
    const fli_settings *s = h->like->plan.settings;
    const fli_dataset *ds = h->like->plan.fed->train, *test = h->like->plan.fed->test;
    size_t rows = ds->frame[0] ? ds->frame[0] : ds->shape[1], cols = ds->frame[1] ? ds->frame[1] : ds->shape[2];
    fl_config *cfg = configure(h->f, assignments);
    static const char *const normalize[] = {"auto", "none", "unit", "standard", "columns", "given", "image"};
    static const char *const augment[] = {"none", "cifar", "crop"};
    snprintf(data, sizeof data,
             "data={kind: joined, shape: [%zu, %zu, %zu], classes: %zu, test_fraction: %.17g, unlabelled: %.17g, "
             "normalize: %s, crop: %d, augment: %s, augment_share: %.17g}",
             ds->shape[0], rows, cols, h->like->plan.fed->classes, s->data.test_fraction, s->data.unlabelled,
             normalize[s->data.normalize], (int)s->data.crop, augment[ds->augment],
             ds->augment ? s->data.augment_share : 1.0); /* drawn once: the samples are so already */
    assert_ok(h->f->ctx, fl_config_set(cfg, data));
    snprintf(data, sizeof data, "partition={clients: %zu}", h->clients);
    assert_ok(h->f->ctx, fl_config_set(cfg, data));
    if (!test) return cfg;
    fl_samples none = {.size = sizeof none},
               some = {.size = sizeof some, .n = test->n, .dim = fli_dataset_length(test)};
    some.label = test->label;
    some.target = test->target;
    some.classes = test->classes;
    if (test->kind == FLI_X_U8) some.u8 = test->x;
    if (test->kind == FLI_X_F32) some.f32 = test->x;
    if (test->kind == FLI_X_F64) some.f64 = test->x;
    if (rows > 1) some.shape[0] = ds->shape[0], some.shape[1] = rows, some.shape[2] = cols;
    assert_ok(h->f->ctx, fl_config_data(cfg, &none, &some, NULL));
    return cfg;
}

/* The same federation in one place, and as many clients as it has. */
UNUSED static void like_simulated(fixture *f, const char *assignments, halves *h)
{
    fl_config *cfg = configure(f, assignments);
    *h = (halves){.f = f};
    assert_ok(f->ctx, fl_config_set(cfg, "clock=virtual"));
    assert_ok(f->ctx, fl_run_new(cfg, &h->like));
    fl_config_free(cfg);
    h->clients = fl_run_clients(h->like);
    assert_true(h->clients <= MOST);
}

UNUSED static void open_clients(halves *h)
{
    for (uint32_t i = 0; i < h->clients; i++) {
        assert_non_null(h->ctx[i] = fl_ctx_new());
        pthread_mutex_init(&h->lock[i], NULL);
        h->client[i] = join(h, i);
        assert_ok(h->ctx[i], fl_client_card(h->client[i], i % 2, &h->card[i]));
    }
}

/* A server of the same clients, which have joined; how its beginning went. */
UNUSED static fl_status open_server(halves *h, const char *assignments)
{
    fl_config *cfg = joined(h, assignments);
    assert_ok(h->f->ctx, fl_server_new(cfg, &h->server));
    fl_config_free(cfg);
    for (uint32_t i = 0; i < h->clients; i++)
        assert_ok(h->f->ctx, fl_server_join(h->server, i, h->card[i].data, h->card[i].n));
    return fl_server_begin(h->server);
}

UNUSED static void open_halves(halves *h, const char *assignments)
{
    open_clients(h);
    assert_ok(h->f->ctx, open_server(h, assignments));
    for (uint32_t i = 0; i < h->clients; i++) accept(h, i);
}

UNUSED static void close_halves(halves *h)
{
    fl_server_free(h->server);
    for (size_t i = 0; i < h->clients; i++) {
        fl_client_free(h->client[i]);
        fl_ctx_free(h->ctx[i]);
        fl_bytes_free(&h->card[i]);
        pthread_mutex_destroy(&h->lock[i]);
    }
}

/* Another client takes the place of this one. */
UNUSED static void replace(halves *h, uint32_t i)
{
    fl_bytes state, again;
    assert_ok(h->ctx[i], fl_client_state(h->client[i], &state));
    fl_client_free(h->client[i]);
    h->client[i] = join(h, i);
    accept(h, i);
    assert_ok(h->ctx[i], fl_client_restore(h->client[i], state.data, state.n));
    assert_ok(h->ctx[i], fl_client_state(h->client[i], &again));
    assert_int_equal(state.n, again.n);
    assert_memory_equal(state.data, again.data, state.n);
    fl_bytes_free(&state);
    fl_bytes_free(&again);
}

#endif
