/* Golden cases: trajectories computed by an independent float64 implementation. A case names an objective, the clients' data, a
 * method with its parameters, and for every round who takes part and how many full-batch steps each takes; the global model
 * after every round must agree. The case runs through the same executor as any other run. */
#include "exec/exec.h"
#include "base/number.h"
#include "model/semi.h"
#include "run/registry.h"
#include "run/verify.h"
#include "run/verify_bilevel.h"

#include "data/stream.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { CASE_MAX = 64 << 20 };

typedef struct {
    fl_ctx *ctx;
    const char *path;
    json_t *json;
    fli_arena arena;
    fli_exec_spec spec;
    fli_semi semi;
    fli_fed *fed;
    fli_model *model;
    fli_exec *exec;
    double *expected; /* one model */
} golden;

static fl_status bad(const golden *g, const char *what)
{
    return fli_fail(g->ctx, FL_EFORMAT, "%s: %s", g->path, what);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static fl_status read_case(golden *g)
{
    fli_stream *in = NULL;
    char *text = NULL;
    size_t n = 0;
    json_error_t e;
    fl_status s = fli_stream_open(g->ctx, g->path, &in);
    if (!s) s = fli_stream_all(in, CASE_MAX, &text, &n);
    fli_stream_close(in);
    if (s) return s;
    g->json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    fli_free(text);
    if (!g->json) return fli_fail(g->ctx, FL_EFORMAT, "%s:%d:%d: %s", g->path, e.line, e.column, e.text);
    const char *format = json_string_value(json_object_get(g->json, "format"));
    if (!format || strcmp(format, "golden-1")) return bad(g, "\"format\" is not \"golden-1\"");
    return FL_OK;
}

/* A list of n numbers into out. */
static int numbers(const json_t *list, size_t n, double *out)
{
    if (!json_is_array(list) || json_array_size(list) != n) return 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_number(v)) return 0;
        out[i] = json_number_value(v);
    }
    return 1;
}

/* A client's samples: labelled ones in A, unlabelled ones in U; the columns of D. */
static size_t client_size(const json_t *client)
{
    const json_t *d = json_object_get(client, "D");
    if (d) return json_array_size(json_array_get(d, 0));
    return json_array_size(json_object_get(client, "A")) + json_array_size(json_object_get(client, "U"));
}

/* A client's unlabelled rows, written from sample `at` on; the labels are to be taken away. */
static int unlabelled_rows(const json_t *client, fli_dataset *ds, size_t *at)
{
    const json_t *u = json_object_get(client, "U");
    size_t n = json_array_size(u);
    if (*at + n > ds->n || (n && !ds->label)) return 0;
    for (size_t i = 0; i < n; i++, (*at)++)
        if (!numbers(json_array_get(u, i), ds->dim, (double *)ds->x + *at * ds->dim)) return 0;
    return 1;
}

/* The columns of a client's D, which have no answers, written from sample `at` on. */
static int client_columns(const json_t *d, fli_dataset *ds, size_t *at)
{
    size_t n = json_array_size(json_array_get(d, 0));
    if (json_array_size(d) != ds->dim || !n || *at + n > ds->n) return 0;
    for (size_t j = 0; j < ds->dim; j++) {
        const json_t *row = json_array_get(d, j);
        if (json_array_size(row) != n) return 0;
        for (size_t i = 0; i < n; i++) {
            if (!json_is_number(json_array_get(row, i))) return 0;
            ((double *)ds->x)[(*at + i) * ds->dim + j] = json_number_value(json_array_get(row, i));
        }
    }
    *at += n;
    return 1;
}

/* One client's rows A and answers b, written from sample `at` on. */
static int client_rows(const json_t *client, fli_dataset *ds, size_t *at)
{
    const json_t *a = json_object_get(client, "A"), *b = json_object_get(client, "b");
    if (json_object_get(client, "D")) return client_columns(json_object_get(client, "D"), ds, at);
    if (!b) b = json_object_get(client, "y");
    size_t n = json_array_size(a);
    if (!n || json_array_size(b) != n || *at + n > ds->n) return 0;
    for (size_t i = 0; i < n; i++, (*at)++) {
        double answer = json_number_value(json_array_get(b, i));
        if (!json_is_number(json_array_get(b, i))) return 0;
        if (!numbers(json_array_get(a, i), ds->dim, (double *)ds->x + *at * ds->dim)) return 0;
        if (!ds->label) {
            ds->target[*at] = answer;
            continue;
        }
        if (answer < 0 || answer >= (double)ds->classes) return 0;
        ds->label[*at] = (int32_t)answer;
    }
    return 1;
}

static fl_status partition_new(golden *g, const json_t *clients, fli_partition *part, size_t total)
{
    size_t count = json_array_size(clients), at = 0;
    *part = (fli_partition){.clients = count};
    part->start = fli_alloc(g->ctx, count + 1, sizeof *part->start);
    part->index = fli_alloc(g->ctx, total, sizeof *part->index);
    if (!part->start || !part->index) {
        fli_partition_fini(part);
        return FL_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) part->start[i + 1] = at += client_size(json_array_get(clients, i));
    for (size_t i = 0; i < total; i++) part->index[i] = (uint32_t)i;
    return FL_OK;
}

static fl_status hide_labels(golden *g, const json_t *clients)
{
    size_t count = json_array_size(clients), total = 0;
    uint32_t *hidden = fli_arena_alloc(&g->arena, count, sizeof *hidden);
    if (!hidden) return FL_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        hidden[i] = (uint32_t)json_array_size(json_object_get(json_array_get(clients, i), "U"));
        total += hidden[i];
    }
    return total ? fli_fed_hide(g->ctx, g->fed, hidden) : FL_OK;
}

static fl_status make_fed(golden *g, size_t features, size_t classes)
{
    const json_t *clients = json_object_get(g->json, "clients");
    size_t count = json_array_size(clients), total = 0, at = 0;
    fli_dataset *ds = NULL;
    fli_partition part;
    for (size_t i = 0; i < count; i++) total += client_size(json_array_get(clients, i));
    if (total && features > CASE_MAX / total) return bad(g, "\"features\" is more than the file can hold");
    if (!count || !features || !total) return bad(g, "\"clients\" or \"features\" is missing");
    fl_status s = fli_dataset_new(g->ctx, FLI_X_F64, total, features, classes, &ds);
    if (s) return s;
    for (size_t i = 0; i < count; i++)
        if (!client_rows(json_array_get(clients, i), ds, &at) ||
            !unlabelled_rows(json_array_get(clients, i), ds, &at)) {
            fli_dataset_free(ds);
            return fli_fail(g->ctx, FL_EFORMAT, "%s: client %zu: A and b do not fit together", g->path, i);
        }
    if ((s = partition_new(g, clients, &part, total))) {
        fli_dataset_free(ds);
        return s;
    }
    s = fli_fed_take(g->ctx, ds, NULL, &part, &g->fed);
    return s ? s : hide_labels(g, clients);
}

/* ---- building ------------------------------------------------------------------------------------------ */

/* A JSON object as settings, so that parameters pass the same tables as a configuration file. */
static fli_node *node_of(golden *g, const char *key, const json_t *v)
{
    char text[64] = "";
    const char *name;
    size_t i;
    json_t *child;
    fli_node *n;
    if (json_is_object(v) || json_is_array(v)) {
        n = fli_node_new(&g->arena, json_is_object(v) ? FLI_NODE_MAP : FLI_NODE_LIST, key, NULL);
        if (json_is_object(v)) json_object_foreach((json_t *)v, name, child)
            {
                fli_node *c = n ? node_of(g, name, child) : NULL;
                if (!c) return NULL;
                fli_node_append(n, c);
            }
        else
            json_array_foreach(v, i, child)
            {
                fli_node *c = n ? node_of(g, NULL, child) : NULL;
                if (!c) return NULL;
                fli_node_append(n, c);
            }
    } else {
        if (json_is_number(v)) fli_snprintf(text, sizeof text, "%.17g", json_number_value(v));
        if (json_is_boolean(v)) fli_snprintf(text, sizeof text, json_is_true(v) ? "true" : "false");
        n = fli_node_new(&g->arena, FLI_NODE_SCALAR, key, json_is_string(v) ? json_string_value(v) : text);
    }
    if (n) n->origin = g->path;
    return n;
}

/* Finds a descriptor and binds its parameters; `skip` names the key that is not the descriptor's. */
static fl_status choose(golden *g, const char *section, const char *name, const json_t *params, const char *skip,
                        const void **desc, const void **bound)
{
    fli_item item;
    void *out;
    fl_status s;
    if (!name || !fli_item_find(fli_kind_find(section), name, &item))
        return fli_fail(g->ctx, FL_ECONFIG, "%s: %s %s is not known", g->path, section, name ? name : "(none)");
    fli_node *map = node_of(g, NULL, params);
    out = fli_arena_alloc(&g->arena, 1, item.params_size + 1);
    if (!map || !out) return FL_ENOMEM;
    if ((s = fli_bind(g->ctx, &g->arena, section, map, skip, &(fli_table){item.keys, out}, 1))) return s;
    *desc = item.desc;
    *bound = out;
    return FL_OK;
}

/* What the objective and the method's parameters say of pseudo labels. */
static fl_status use_semi(golden *g, const json_t *o)
{
    const json_t *p = json_object_get(g->json, "params");
    const char *how = json_string_value(json_object_get(p, "y_update"));
    g->semi = (fli_semi){
        .labels = how && !strcmp(how, "projected_gradient") ? FLI_SEMI_PROJECTED : FLI_SEMI_CLOSED_FORM,
        .alpha_p = json_number_value(json_object_get(o, "alpha_p")),
        .alpha_r = json_number_value(json_object_get(o, "alpha_r")),
        .label_lr = json_number_value(json_object_get(p, "y_lr")),
        .label_steps = json_integer_value(json_object_get(p, "y_steps")),
    };
    return fli_model_use_semi(g->ctx, g->model, &g->semi);
}

/* The model's settings. Of a factorisation they are spread over the objective and the method's parameters. */
static json_t *model_settings(const golden *g, const json_t *o)
{
    const json_t *p = json_object_get(g->json, "params");
    json_t *out = json_object();
    if (!json_object_get(o, "rank")) return out;
    json_object_set(out, "rank", json_object_get(o, "rank"));
    json_object_set(out, "membership_lr", json_object_get(p, "y_lr"));
    json_object_set(out, "membership_steps", json_object_get(p, "y_steps"));
    return out;
}

static fl_status make_model(golden *g)
{
    if (fli_golden_is_bilevel(g->json))
        return fli_golden_bilevel_new(g->ctx, g->path, g->json, &g->arena, &g->fed, &g->model);
    const json_t *o = json_object_get(g->json, "objective");
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const void *desc, *params;
    json_t *own = model_settings(g, o);
    fl_status s =
        choose(g, "model", kind && !strcmp(kind, "semi_softmax") ? "softmax" : kind, own, NULL, &desc, &params);
    json_decref(own);
    if (s) return s;
    const fli_model_desc *d = desc;
    size_t classes = d->traits & FLI_MODEL_BINARY       ? 2
                     : d->traits & FLI_MODEL_CLASSIFIER ? (size_t)json_integer_value(json_object_get(o, "classes"))
                                                        : 0;
    const json_t *width = json_object_get(o, d->traits & FLI_MODEL_UNSUPERVISED ? "rows" : "features");
    size_t features = (size_t)json_integer_value(width);
    if (features > 1000000 || classes > 1000000) return bad(g, "\"features\" or \"classes\" is out of range");
    if ((s = make_fed(g, features, classes))) return s;
    return fli_model_new(g->ctx, d, params, &fli_ops_f64, features, classes,
                         json_number_value(json_object_get(o, "l2")), &g->model);
}

/* The method's own parameters: without what belongs to other sections, and with the exact solver where there is no step size. */
static fl_status choose_algorithm(golden *g, const void **desc)
{
    const char *name = json_string_value(json_object_get(g->json, "algorithm"));
    json_t *own = json_deep_copy(json_object_get(g->json, "params"));
    if (!own) return bad(g, "\"params\" is missing");
    if (json_object_get(own, "eta") && !json_object_get(own, "lr"))
        json_object_set_new(own, "solver", json_string("exact"));
    fl_status s = fli_golden_bilevel_params(g->ctx, own);
    static const char *const elsewhere[] = {"lr", "regularizer", "momentum", "y_update", "y_lr", "y_steps"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) json_object_del(own, elsewhere[i]);
    if (!s) s = choose(g, "algorithm", name, own, NULL, desc, &g->spec.params);
    json_decref(own);
    return s;
}

static fl_status choose_regularizer(golden *g)
{
    const json_t *r = json_object_get(json_object_get(g->json, "params"), "regularizer");
    int clusters = g->model->desc->traits & FLI_MODEL_UNSUPERVISED; /* W >= 0 goes without saying */
    const void *desc;
    if (!r && !clusters) return FL_OK;
    json_t *none = json_object();
    fl_status s = choose(g, "regularizer", r ? json_string_value(json_object_get(r, "kind")) : "nonnegative",
                         r ? r : none, "kind", &desc, &g->spec.regularizer_params);
    json_decref(none);
    if (!s) g->spec.regularizer = desc;
    return s;
}

static fl_status make_exec(golden *g)
{
    const void *desc;
    fl_status s = choose_algorithm(g, &desc);
    if (!s) s = choose_regularizer(g);
    if (s) return s;
    const fli_algo *algo = desc;
    if ((s = fli_keys_check_clients(g->ctx, "params", algo->keys, g->spec.params, g->fed->clients))) return s;
    if (algo->validate && (s = algo->validate(g->ctx, g->spec.params, g->fed->clients))) return s;
    const json_t *objective = json_object_get(g->json, "objective");
    if (json_object_get(objective, "alpha_p") && !(algo->traits & FLI_ALGO_LABELLED) && (s = use_semi(g, objective)))
        return s;
    g->spec.sgd.momentum = json_number_value(json_object_get(json_object_get(g->json, "params"), "momentum"));
    if (((algo->traits & FLI_ALGO_BILEVEL) != 0) != (g->model->bilevel != NULL))
        return bad(g, "the objective has not as many levels as the method wants");
    fli_solvers solvers = fli_algo_solvers(algo, g->spec.params, g->model);
    for (size_t i = 0; i < solvers.count; i++)
        if ((s = fli_solver_fits(g->ctx, solvers.at[i], g->model))) return s;
    double *weights = fli_arena_alloc(&g->arena, g->fed->clients, sizeof *weights);
    if (!weights) return FL_ENOMEM;
    if (!numbers(json_object_get(g->json, "weights"), g->fed->clients, weights))
        return bad(g, "\"weights\" do not fit");
    g->spec.algo = desc;
    g->spec.model = g->model;
    g->spec.fed = g->fed;
    g->spec.weights = weights;
    g->spec.threads = 1;
    if ((s = fli_exec_new(g->ctx, &g->spec, &g->exec))) return s;
    g->expected = fli_arena_alloc(&g->arena, g->model->space.n, sizeof *g->expected);
    if (!g->expected) return FL_ENOMEM;
    if (g->model->bilevel) return fli_golden_bilevel_start(g->ctx, g->path, g->json, &g->spec, g->exec);
    if (!numbers(json_object_get(g->json, "x0"), g->model->space.n, fli_exec_server(g->exec)[0]))
        return bad(g, "\"x0\" does not fit the model");
    return FL_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static double lr_of(const golden *g, size_t client)
{
    const json_t *lr = json_object_get(json_object_get(g->json, "params"), "lr");
    return json_number_value(json_is_array(lr) ? json_array_get(lr, client) : lr);
}

/* What the case says of one client's turn. */
static fl_status read_ask(golden *g, json_int_t client, json_int_t steps, int steps_matter, fli_ask *out)
{
    if (client < 0 || (size_t)client >= g->fed->clients || steps < 1 || steps > 1000000)
        return bad(g, "a round names a client or a number of steps that cannot be");
    out->client = (uint32_t)client;
    out->steps = (uint64_t)steps;
    out->lr = lr_of(g, (size_t)client);
    if (!(out->lr > 0) && steps_matter) return bad(g, "\"params.lr\" is missing, or not one per client");
    return FL_OK;
}

static fl_status read_round(golden *g, const json_t *round, fli_round *r)
{
    const json_t *clients = json_object_get(round, "clients"), *steps = json_object_get(round, "steps");
    const json_t *talk = json_object_get(round, "communicate");
    size_t m = json_array_size(clients);
    fli_ask *asks = fli_arena_alloc(&g->arena, m, sizeof *asks);
    if (!asks) return FL_ENOMEM;
    const fli_algo *a = g->spec.algo;
    fli_solvers solvers = fli_algo_solvers(a, g->spec.params, g->model);
    int steps_matter = 0;
    for (size_t i = 0; i < solvers.count; i++) steps_matter |= solvers.at[i]->counts_steps;
    if (!m || ((steps || steps_matter) && json_array_size(steps) != m))
        return bad(g, "a round's \"clients\" and \"steps\" do not fit together");
    for (size_t i = 0; i < m; i++) {
        asks[i] = (fli_ask){.stream = r->round, .probability = (double)m / (double)g->fed->clients};
        fl_status s = read_ask(g, json_integer_value(json_array_get(clients, i)),
                               steps ? json_integer_value(json_array_get(steps, i)) : 1, steps_matter, &asks[i]);
        if (s) return s;
    }
    r->asks = asks;
    r->count = m;
    r->phases = a->rounds.phases ? a->rounds.phases(g->spec.params, 0) : 1;
    r->flags = (r->flags & FLI_ASK_CHANGED) | (!talk || json_is_true(talk) ? FLI_ASK_REPLY : 0);
    return FL_OK;
}

/* The turns of all clients before the first round; the exact solver takes no steps. */
static fl_status warm_up(golden *g)
{
    size_t n = g->fed->clients;
    fli_ask *asks = fli_arena_alloc(&g->arena, n, sizeof *asks);
    if (!asks) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) asks[i] = (fli_ask){.client = (uint32_t)i, .steps = 1, .probability = 1};
    return fli_exec_round(
        g->exec, &(fli_round){.flags = FLI_ASK_CHANGED | FLI_ASK_REPLY | FLI_ASK_WARM_UP, .asks = asks, .count = n});
}

/* A server step that takes a single upload. */
static void begin_step(golden *g, size_t step)
{
    fli_step next = {.round = step, .cohort = 1, .cohort_weight = 1 / (double)g->fed->clients};
    fli_coordinator_begin(fli_exec_coordinator(g->exec), &next);
}

/* An event of an asynchronous case: one client, working from the model of `delay` server steps before the newest. `history` has the
 * start model and the model after every step so far, one after the other. */
static fl_status run_event(golden *g, const json_t *event, size_t step, void **history, fli_exchange *x)
{
    fli_coordinator *server = fli_exec_coordinator(g->exec);
    const json_t *delay = json_object_get(event, "delay"), *steps = json_object_get(event, "steps");
    json_int_t client =
        json_is_integer(json_object_get(event, "client")) ? json_integer_value(json_object_get(event, "client")) : -1;
    json_int_t late = json_is_integer(delay) ? json_integer_value(delay) : -1;
    if (client < 0 || (size_t)client >= g->fed->clients || late < 0 || (size_t)late > step ||
        json_integer_value(steps) < 1 || json_integer_value(steps) > 1000000)
        return bad(g, "an event's \"client\", \"delay\" or \"steps\" cannot be");
    fli_message down = {.vec = &history[step - (size_t)late], .start = fli_coordinator_broadcast(server)->start};
    x->ask = (fli_ask){
        .round = step,
        .stream = step,
        .client = (uint32_t)client,
        .cohort = 1,
        .steps = (uint64_t)json_integer_value(steps),
        .lr = json_number_value(json_object_get(json_object_get(g->json, "params"), "lr")),
        .probability = 1 / (double)g->fed->clients,
        .phases = 1,
        .flags = FLI_ASK_CHANGED | FLI_ASK_REPLY,
    };
    x->down = &down;
    fli_coordinator_address(server, &x->ask);
    fli_coordinator_note(server, &x->ask);
    fli_exec_run(g->exec, &x, 1);
    if (x->status) return fli_coordinator_failed(server, x);
    fli_coordinator_absorb(server, x, (size_t)late);
    fl_status s = fli_coordinator_advance(server, NULL);
    if (s) return s;
    begin_step(g, step + 1);
    fli_copy(&g->model->space, fli_exec_server(g->exec)[0], history[step + 1]);
    return FL_OK;
}

/* The largest difference, relative to the largest expected entry. */
static double difference(size_t n, const double *x, const double *expected)
{
    double worst = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) return INFINITY;
        if (fabs(x[i] - expected[i]) > worst) worst = fabs(x[i] - expected[i]);
        if (fabs(expected[i]) > top) top = fabs(expected[i]);
    }
    return worst > 0 ? worst / top : 0;
}

static void note_difference(golden *g, double d, const char *which, size_t number, double tolerance, double *error)
{
    if (d > tolerance && *error <= tolerance)
        fli_fail(g->ctx, FL_EMISMATCH, "%s: differs by %.3g (relative) %s %zu", g->path, d, which, number);
    if (d > *error) *error = d;
}

/* Compares a model, named for messages, with what is expected of it. */
static fl_status compare_model(golden *g, const json_t *expect, const void *x, const char *which, size_t number,
                               double tolerance, double *error)
{
    if (!numbers(expect, g->model->space.n, g->expected))
        return bad(g, "\"expect.x\" does not fit the model, or \"expect.localized\" does not");
    note_difference(g, difference(g->model->space.n, x, g->expected), which, number, tolerance, error);
    return FL_OK;
}

/* The same for both levels, and v. */
static fl_status compare_levels(golden *g, size_t round, double tolerance, double *error)
{
    double also = 0;
    fl_status s = fli_golden_bilevel_expect(g->ctx, g->path, g->json, &g->spec, g->exec, round, g->expected, &also);
    if (s) return s;
    double d = difference(g->model->space.n, fli_exec_server(g->exec)[0], g->expected);
    note_difference(g, fmax(d, also), "after round", round + 1, tolerance, error);
    return FL_OK;
}

static fl_status compare(golden *g, size_t round, double tolerance, double *error)
{
    const json_t *expect = json_object_get(json_object_get(g->json, "expect"), "x");
    if (g->model->bilevel) return compare_levels(g, round, tolerance, error);
    return compare_model(g, json_array_get(expect, round), fli_exec_server(g->exec)[0], "after round", round + 1,
                         tolerance, error);
}

/* The clients' own models at the end, where the case has them. */
static fl_status compare_own(golden *g, double tolerance, double *error)
{
    const json_t *expect = json_object_get(json_object_get(g->json, "expect"), "localized");
    fl_status s = FL_OK;
    if (expect && json_array_size(expect) != g->fed->clients)
        return bad(g, "\"expect.localized\" has not one model per client");
    void *own = fli_arena_alloc(&g->arena, 1, fli_bytes(&g->model->space));
    if (!own) return FL_ENOMEM;
    for (size_t i = 0; expect && !s && i < g->fed->clients; i++) {
        s = fli_exec_own_model(g->exec, (uint32_t)i, own, NULL);
        if (!s) s = compare_model(g, json_array_get(expect, i), own, "in the own model of client", i, tolerance, error);
    }
    return s;
}

static fl_status run_rounds(golden *g, const json_t *rounds, double tolerance, double *error)
{
    fli_round r = {.flags = FLI_ASK_CHANGED};
    fl_status s = fli_exec_warms_up(g->exec) ? warm_up(g) : FL_OK;
    for (r.round = 0; !s && r.round < json_array_size(rounds); r.round++) {
        s = read_round(g, json_array_get(rounds, r.round), &r);
        if (!s) s = fli_exec_round(g->exec, &r);
        if (!s) s = compare(g, r.round, tolerance, error);
        r.flags = r.flags & FLI_ASK_REPLY ? FLI_ASK_CHANGED : 0;
    }
    return s;
}

static fl_status run_events(golden *g, const json_t *events, double tolerance, double *error)
{
    size_t count = json_array_size(events);
    if (g->spec.algo->async.pace(g->spec.params).buffer > 1)
        return bad(g, "events are server steps, so a buffer must be 1");
    fli_exchange x = {0};
    void **history = fli_arena_alloc(&g->arena, count + 1, sizeof *history);
    fl_status s = history ? fli_exec_upload_new(g->exec, &x.up) : FL_ENOMEM;
    for (size_t i = 0; !s && i <= count; i++)
        if (!(history[i] = fli_arena_alloc(&g->arena, 1, fli_bytes(&g->model->space)))) s = FL_ENOMEM;
    if (!s) {
        fli_copy(&g->model->space, fli_exec_server(g->exec)[0], history[0]);
        begin_step(g, 0);
    }
    for (size_t i = 0; !s && i < count; i++) {
        s = run_event(g, json_array_get(events, i), i, history, &x);
        if (!s) s = compare(g, i, tolerance, error);
    }
    fli_message_fini(&x.up);
    return s;
}

static fl_status run_case(golden *g, double tolerance, double *error)
{
    const json_t *rounds = json_object_get(g->json, "rounds");
    const json_t *expect = json_object_get(json_object_get(g->json, "expect"), "x");
    size_t count = json_array_size(rounds);
    if (!count || json_array_size(expect) != count) return bad(g, "\"rounds\" and \"expect.x\" do not fit together");
    fl_status s =
        g->spec.algo->async.pace ? run_events(g, rounds, tolerance, error) : run_rounds(g, rounds, tolerance, error);
    if (!s) s = compare_own(g, tolerance, error);
    return s ? s : *error <= tolerance ? FL_OK : FL_EMISMATCH;
}

fl_status fl_verify(fl_ctx *ctx, const char *path, double tolerance, double *error)
{
    return fli_verify_on(ctx, NULL, path, tolerance, error);
}

fl_status fli_verify_on(fl_ctx *ctx, const fli_executor *executor, const char *path, double tolerance, double *error)
{
    golden g = {.ctx = ctx, .path = path, .spec = {.executor = executor}};
    fli_clear(ctx);
    fli_arena_init(&g.arena, ctx);
    *error = NAN;
    fl_status s = read_case(&g);
    if (!s) s = make_model(&g);
    if (!s) s = make_exec(&g);
    if (!s) {
        *error = 0;
        s = run_case(&g, tolerance, error);
    }
    fli_exec_free(g.exec);
    fli_model_free(g.model);
    fli_fed_free(g.fed);
    json_decref(g.json);
    fli_arena_fini(&g.arena);
    return s;
}
