/* Golden cases: trajectories computed by an independent float64 implementation. A case names an objective, the clients'
 * data, a method with its parameters, and for every round the clients with their numbers of full-batch steps; the
 * global model after every round must agree. A case is planned like any run and works on the same executors, but sets
 * the clients' weights, the start, and in each ask the client, its number of steps and its probability. */
#include "extend/verify.h"

#include "base/number.h"
#include "bilevel/bilevel.h"
#include "format/stream.h"
#include "format/yaml.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== a case as a configuration ============================================================================= */

enum { CASE_MAX = 64 << 20, MOST = 1000 /* parameters of a level */ };

/* FL_EFORMAT: names the file and its error. */
static fl_status bad_file(const fli_golden *g, const char *what)
{
    return fli_fail(g->ctx, FL_EFORMAT, "%s: %s", g->path, what);
}

static const json_t *objective(const fli_golden *g, const char *key)
{
    return json_object_get(json_object_get(g->json, "objective"), key);
}

static json_t *param(const fli_golden *g, const char *key)
{
    return json_object_get(json_object_get(g->json, "params"), key);
}

/* ---- settings -------------------------------------------------------------------------------------------- */

/* Adds a value to a map, unless it is NULL. */
static void put(json_t *map, const char *key, const json_t *value)
{
    if (value && !json_is_null(value)) json_object_set(map, key, (json_t *)value);
}

/* Collects the model's settings from the objective and, for a factorisation, from the method's parameters. */
static json_t *model_settings(const fli_golden *g, const char *kind)
{
    json_t *out = json_pack("{s:s}", "kind", kind);
    put(out, "weight_decay", objective(g, "l2"));
    for (const char *const *key = (const char *const[]){"rank", "upper", "lower", "rho", NULL}; *key; key++)
        put(out, *key, objective(g, *key));
    if (!objective(g, "rank")) return out;
    put(out, "membership_lr", param(g, "y_lr"));
    put(out, "membership_steps", param(g, "y_steps"));
    return out;
}

static json_t *semi_settings(const fli_golden *g)
{
    const char *how = json_string_value(param(g, "y_update"));
    if (!objective(g, "alpha_p")) return NULL;
    json_t *out = json_pack("{s:s}", "labels", how && !strcmp(how, "projected_gradient") ? "projected" : "closed_form");
    put(out, "alpha_p", objective(g, "alpha_p"));
    put(out, "alpha_r", objective(g, "alpha_r"));
    put(out, "label_lr", param(g, "y_lr"));
    put(out, "label_steps", param(g, "y_steps"));
    return out;
}

/* Every step is over all of a client's samples. A list of step sizes has one per client; for a map see flatten. */
static json_t *local_settings(const fli_golden *g)
{
    const json_t *lr = param(g, "lr");
    json_t *out = json_pack("{s:i}", "batch", 0);
    put(out, "momentum", param(g, "momentum"));
    if (json_is_array(lr)) {
        json_object_set_new(out, "lr", json_integer(1));
        put(out, "lr_factors", lr);
    } else if (!json_is_object(lr))
        put(out, "lr", lr);
    return out;
}

/* lr: {y, v, x} -> lr_y, lr_v, lr_x; the same for server_lr. */
static void flatten(json_t *params, const char *key)
{
    const char *which;
    json_t *map = json_object_get(params, key), *v;
    char name[32];
    if (!json_is_object(map)) return;
    json_object_foreach(map, which, v)
    {
        fli_snprintf(name, sizeof name, "%s_%.8s", key, which);
        json_object_set(params, name, v);
    }
    json_object_del(params, key);
}

/* The method's own parameters: without what belongs to other sections, and with the exact solver if there is no step
 * size. */
static json_t *method_settings(const fli_golden *g)
{
    static const char *const of_other_sections[] = {"lr", "regularizer", "momentum", "y_update", "y_lr", "y_steps"};
    json_t *out = json_deep_copy(json_object_get(g->json, "params"));
    if (param(g, "eta") && !param(g, "lr")) json_object_set_new(out, "solver", json_string("exact"));
    flatten(out, "lr");
    flatten(out, "server_lr");
    for (size_t i = 0; i < sizeof of_other_sections / sizeof *of_other_sections; i++)
        json_object_del(out, of_other_sections[i]);
    json_object_set(out, "kind", json_object_get(g->json, "algorithm"));
    return out;
}

/* Cases with clusters imply W >= 0. */
static json_t *regularizer_settings(const fli_golden *g, const char *kind)
{
    json_t *given = param(g, "regularizer");
    return given ? json_incref(given) : !strcmp(kind, "factorization") ? json_string("nonnegative") : NULL;
}

/* Everything that settings can express. The kind of data is required but unused, because the case has the samples. */
static json_t *settings_of(const fli_golden *g, const char *kind, const char *executor)
{
    int two = !strcmp(kind, "quadratic_bilevel"), semi = objective(g, "alpha_p") != NULL;
    return json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:{s:s, s:f}, s:{s:s, s:i, s:i}, s:o, s:o, s:o, s:o*, s:o*}",
                     "seed", 0, "precision", "f64", "threads", 1, "executor", executor, "participation", "everyone",
                     "system", "constant", "data", "kind", "blobs", "unlabelled", semi ? 0.5 : 0.0, "bilevel", "kind",
                     two ? "quadratic" : "none", "validation", 0, "l2", 0, "model",
                     model_settings(g, strcmp(kind, "semi_softmax") ? kind : "softmax"), "local", local_settings(g),
                     "algorithm", method_settings(g), "semi", semi_settings(g), "regularizer",
                     regularizer_settings(g, kind));
}

/* Removes the nodes' places, which are those of the generated text, not of the file. */
static void forget_places(fli_node *n)
{
    n->line = n->column = 0;
    for (fli_node *c = n->type == FLI_NODE_SCALAR ? NULL : n->first; c; c = c->next) forget_places(c);
}

/* JSON is YAML: the settings pass the same parser and the same tables as a configuration file. */
static fl_status make_config(fli_golden *g, const char *kind, const char *executor)
{
    json_t *settings = settings_of(g, kind, executor);
    char *text = settings ? json_dumps(settings, JSON_REAL_PRECISION(17)) : NULL;
    json_decref(settings);
    if (!text) return bad_file(g, "it cannot be said in settings");
    g->cfg = fl_config_new(g->ctx);
    fl_status s = g->cfg ? fl_config_text(g->cfg, text, g->path) : FL_ENOMEM;
    free(text);
    if (!s) forget_places(fli_config_change(g->cfg));
    return s;
}

/* ---- samples --------------------------------------------------------------------------------------------- */

/* Reads a list of n numbers; 0 if it is anything else. */
static int numbers_of(const json_t *list, size_t n, double *out)
{
    if (!json_is_array(list) || json_array_size(list) != n) return 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_number(v)) return 0;
        out[i] = json_number_value(v);
    }
    return 1;
}

/* n numbers, from a list or from the rows of a matrix, appended to *out. */
static int flat_numbers(const json_t *v, size_t n, double **out)
{
    size_t rows = json_array_size(v);
    if (!rows || n % rows) return 0;
    int list = json_is_number(json_array_get(v, 0));
    for (size_t i = 0; !list && i < rows; i++)
        if (!flat_numbers(json_array_get(v, i), n / rows, out)) return 0;
    if (!list) return 1;
    *out += n;
    return numbers_of(v, n, *out - n);
}

/* The shape of an objective's samples. */
typedef struct {
    size_t dim, classes;
    size_t upper, lower; /* of a two-level quadratic: a client has one sample, all its matrices; 0: another */
} shape;

/* A client's samples: labelled ones in A, unlabelled ones in U; the columns of D; or all its matrices. */
static size_t client_size(const json_t *client, const shape *s)
{
    const json_t *d = json_object_get(client, "D");
    if (s->upper) return 1;
    if (d) return json_array_size(json_array_get(d, 0));
    return json_array_size(json_object_get(client, "A")) + json_array_size(json_object_get(client, "U"));
}

/* From sample `at` on: the rows of a matrix, */
static int put_rows(const json_t *rows, fli_dataset *ds, size_t at)
{
    size_t n = json_array_size(rows);
    if (at + n > ds->n) return 0;
    for (size_t i = 0; i < n; i++)
        if (!numbers_of(json_array_get(rows, i), ds->dim, (double *)ds->x + (at + i) * ds->dim)) return 0;
    return 1;
}

/* its columns, */
static int put_columns(const json_t *d, fli_dataset *ds, size_t at)
{
    size_t n = json_array_size(json_array_get(d, 0));
    if (json_array_size(d) != ds->dim || !n || at + n > ds->n) return 0;
    for (size_t j = 0; j < ds->dim; j++) {
        const json_t *row = json_array_get(d, j);
        if (json_array_size(row) != n) return 0;
        for (size_t i = 0; i < n; i++) {
            if (!json_is_number(json_array_get(row, i))) return 0;
            ((double *)ds->x)[(at + i) * ds->dim + j] = json_number_value(json_array_get(row, i));
        }
    }
    return 1;
}

/* the matrices of two levels, as one sample, */
static int put_levels(const json_t *client, const shape *s, fli_dataset *ds, size_t at)
{
    size_t p = s->upper, q = s->lower;
    const struct {
        const char *name;
        size_t n;
    } parts[] = {{"A", q * q}, {"B", q * p}, {"c", q}, {"t", q}, {"s", p}, {"E", p * q}};
    double *row = (double *)ds->x + at * ds->dim;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!flat_numbers(json_object_get(client, parts[i].name), parts[i].n, &row)) return 0;
    return 1;
}

/* and the answers to n samples. */
static int put_answers(const json_t *b, size_t n, fli_dataset *ds, size_t at)
{
    if (!n || json_array_size(b) != n) return 0;
    for (size_t i = 0; i < n; i++) {
        double answer = json_number_value(json_array_get(b, i));
        if (!json_is_number(json_array_get(b, i))) return 0;
        if (!ds->label)
            ds->target[at + i] = answer;
        else if (answer < 0 || answer >= (double)ds->classes)
            return 0;
        else
            ds->label[at + i] = (int32_t)answer;
    }
    return 1;
}

static int put_client(const json_t *client, const shape *s, fli_dataset *ds, size_t at)
{
    const json_t *a = json_object_get(client, "A"), *u = json_object_get(client, "U"),
                 *d = json_object_get(client, "D"), *b = json_object_get(client, "b");
    size_t n = json_array_size(a);
    if (s->upper) return put_levels(client, s, ds, at);
    if (d) return put_columns(d, ds, at);
    if (json_array_size(u) && !ds->label) return 0; /* unlabelled samples need labels to take away */
    return put_rows(a, ds, at) && put_answers(b ? b : json_object_get(client, "y"), n, ds, at) &&
           put_rows(u, ds, at + n);
}

/* Assigns samples to clients in order; also counts the unlabelled ones. */
static fl_status make_partition(const fli_golden *g, const json_t *clients, const shape *s, fli_partition *part,
                                uint32_t *hidden, size_t *unlabelled)
{
    size_t count = json_array_size(clients), at = 0;
    *part = (fli_partition){.clients = count, .start = fli_alloc(g->ctx, count + 1, sizeof *part->start)};
    if (!part->start) return FL_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const json_t *client = json_array_get(clients, i);
        part->start[i + 1] = at += client_size(client, s);
        *unlabelled += hidden[i] = s->upper ? 0 : (uint32_t)json_array_size(json_object_get(client, "U"));
    }
    part->index = fli_alloc(g->ctx, at, sizeof *part->index);
    if (!part->index) return FL_ENOMEM;
    for (size_t i = 0; i < at; i++) part->index[i] = (uint32_t)i;
    return FL_OK;
}

static fl_status fill(const fli_golden *g, const json_t *clients, const shape *s, const fli_partition *part,
                      fli_dataset *ds)
{
    for (size_t i = 0; i < part->clients; i++)
        if (!put_client(json_array_get(clients, i), s, ds, part->start[i]))
            return fli_fail(g->ctx, FL_EFORMAT, "%s: client %zu: %s do not fit together", g->path, i,
                            s->upper ? "A, B, c, t, s, E" : "A and b");
    return FL_OK;
}

static fl_status make_fed(fli_golden *g, const shape *of)
{
    const json_t *clients = json_object_get(g->json, "clients");
    size_t count = json_array_size(clients), total = 0, unlabelled = 0;
    fli_dataset *ds = NULL;
    fli_partition part = {0};
    for (size_t i = 0; i < count; i++) total += client_size(json_array_get(clients, i), of);
    if (!count || !of->dim || !total) return bad_file(g, "\"clients\" or \"features\" is missing");
    if (of->dim > CASE_MAX / total) return bad_file(g, "\"features\" is more than the file can hold");
    uint32_t *hidden = fli_alloc(g->ctx, count, sizeof *hidden);
    fl_status s = hidden ? make_partition(g, clients, of, &part, hidden, &unlabelled) : FL_ENOMEM;
    if (!s) s = fli_dataset_new(g->ctx, FLI_X_F64, total, of->dim, of->classes, &ds);
    if (!s) s = fill(g, clients, of, &part, ds);
    if (!s)
        s = fli_fed_take(g->ctx, ds, NULL, &part, &g->fed);
    else {
        fli_partition_fini(&part);
        fli_dataset_free(ds);
    }
    if (!s && unlabelled) s = fli_fed_hide(g->ctx, g->fed, hidden);
    fli_free(hidden);
    return s;
}

static fl_status find_shape(const fli_golden *g, const fli_model_desc *d, shape *out)
{
    const json_t *width = objective(g, d->traits & FLI_MODEL_UNSUPERVISED ? "rows" : "features");
    json_int_t p = json_integer_value(objective(g, "upper")), q = json_integer_value(objective(g, "lower"));
    json_int_t dim = json_integer_value(width), classes = json_integer_value(objective(g, "classes"));
    if (d == &fli_model_quadratic_bilevel) {
        if (p < 1 || q < 1 || p > MOST || q > MOST) return bad_file(g, "\"upper\" or \"lower\" is out of range");
        *out = (shape){.dim = (size_t)(q * q + 2 * p * q + 2 * q + p), .upper = (size_t)p, .lower = (size_t)q};
        return FL_OK;
    }
    if (dim < 0 || dim > 1000000 || classes < 0 || classes > 1000000)
        return bad_file(g, "\"features\" or \"classes\" is out of range");
    *out = (shape){.dim = (size_t)dim,
                   .classes = d->traits & FLI_MODEL_BINARY       ? 2
                              : d->traits & FLI_MODEL_CLASSIFIER ? (size_t)classes
                                                                 : 0};
    return FL_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

static fl_status load(fli_golden *g)
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
    if (!format || strcmp(format, "golden-1")) return bad_file(g, "\"format\" is not \"golden-1\"");
    return FL_OK;
}

static fl_status read_case(fl_ctx *ctx, const char *path, const char *executor, fli_golden *g)
{
    fli_item item;
    shape of = {0};
    *g = (fli_golden){.ctx = ctx, .path = path};
    fl_status s = load(g);
    if (s) return s;
    const char *kind = json_string_value(objective(g, "kind"));
    if (!kind || !json_is_string(json_object_get(g->json, "algorithm")))
        return bad_file(g, "\"objective.kind\" or \"algorithm\" is missing");
    if (!json_is_object(json_object_get(g->json, "params"))) return bad_file(g, "\"params\" is missing");
    if ((s = make_config(g, kind, executor))) return s;
    if (!fli_item_find(fli_kind_find("model"), strcmp(kind, "semi_softmax") ? kind : "softmax", &item)) return FL_OK;
    s = find_shape(g, item.desc, &of);
    return s ? s : make_fed(g, &of);
}

/* Frees a case, also after a failure. */
static void golden_free(fli_golden *g)
{
    fli_fed_free(g->fed);
    fl_config_free(g->cfg);
    json_decref(g->json);
}

/* ==== running and comparing it ============================================================================== */

typedef struct {
    fli_golden golden;
    fli_plan plan;
    fli_exec *exec;
    double *weights;
    double *expected; /* one model, and room for v */
    fl_ask *asks;     /* of a round, at most one per client */
    double tolerance, *error;
} verifier;

static fl_status bad(const verifier *v, const char *what) { return bad_file(&v->golden, what); }
static const json_t *given(const verifier *v, const char *key) { return json_object_get(v->golden.json, key); }
static const json_t *expected(const verifier *v, const char *key) { return json_object_get(given(v, "expect"), key); }
static size_t clients(const verifier *v) { return v->plan.fed->clients; }
static size_t parameters(const verifier *v) { return v->plan.model->space.n; }
static size_t upper(const verifier *v) { return fli_model_upper(v->plan.model); }

/* ---- beginning ------------------------------------------------------------------------------------------- */

/* Reads a model; with two levels, the upper block and the lower one. */
static int read_model(const verifier *v, const json_t *x, const json_t *y, double *out)
{
    size_t n = parameters(v), p = upper(v);
    return numbers_of(x, p, out) && (p == n || numbers_of(y, n - p, out + p));
}

/* The lower block of v, if the method has a v. */
static double *lower_v(const verifier *v)
{
    size_t which = v->plan.setup.algo->levels.v;
    return which ? (double *)fli_exec_server(v->exec)[which - 1] + upper(v) : NULL;
}

static fl_status set_start(verifier *v)
{
    const json_t *v0 = given(v, "v0");
    if (!read_model(v, given(v, "x0"), given(v, "y0"), fli_exec_server(v->exec)[0]))
        return bad(v, "\"x0\" does not fit the model, or \"y0\" does not");
    if (v0 && (!lower_v(v) || !numbers_of(v0, parameters(v) - upper(v), lower_v(v))))
        return bad(v, "\"v0\" does not fit the problem");
    return FL_OK;
}

static int steps_matter(const verifier *v)
{
    const fli_solvers *all = &v->plan.setup.solvers;
    int any = 0;
    for (size_t i = 0; i < all->count; i++) any |= (all->at[i]->traits & FL_SOLVER_COUNTS_STEPS) != 0;
    return any;
}

static fl_status begin(verifier *v)
{
    fl_ctx *ctx = v->golden.ctx;
    const json_t *lr = json_object_get(given(v, "params"), "lr");
    fl_status s = fli_plan_data(v->golden.cfg, &(fli_plan){.fed = v->golden.fed}, &v->plan);
    if (!s) s = fli_plan_finish(&v->plan, v->golden.cfg);
    if (s) return s;
    if (steps_matter(v) && (!lr || json_is_null(lr) || json_is_object(lr))) return bad(v, "\"params.lr\" is missing");
    v->weights = fli_alloc(ctx, clients(v), sizeof *v->weights);
    v->asks = fli_alloc(ctx, clients(v), sizeof *v->asks);
    v->expected = fli_alloc(ctx, 2 * parameters(v), sizeof *v->expected);
    if (!v->weights || !v->asks || !v->expected) return FL_ENOMEM;
    if (!numbers_of(given(v, "weights"), clients(v), v->weights)) return bad(v, "\"weights\" do not fit");
    v->plan.setup.weights = v->weights;
    s = fli_exec_new(ctx, &v->plan.exec, &v->exec);
    return s ? s : set_start(v);
}

/* ---- asks, which a case defines beyond settings ---------------------------------------------------------- */

/* The plan's ask, but with the case's number of steps, if given, and its probability. */
static int make_ask(const verifier *v, json_int_t client, const json_t *steps, size_t round, double probability,
                    fl_ask *out)
{
    json_int_t count = json_integer_value(steps);
    if (client < 0 || (size_t)client >= clients(v) || (steps && (count < 1 || count > 1000000))) return 0;
    fli_card card = fli_exec_card(v->exec, (uint32_t)client);
    *out = fli_ask_for(&v->plan.ask_params, &card, round, round, (uint32_t)client);
    if (steps) out->steps = (uint64_t)count;
    out->probability = probability;
    return 1;
}

static fl_status read_round(verifier *v, const json_t *round, fli_round *r)
{
    const json_t *who = json_object_get(round, "clients"), *steps = json_object_get(round, "steps");
    const json_t *talk = json_object_get(round, "communicate");
    const fl_method *a = v->plan.setup.algo;
    size_t m = json_array_size(who);
    if (!m || m > clients(v) || ((steps || steps_matter(v)) && json_array_size(steps) != m))
        return bad(v, "a round's \"clients\" and \"steps\" do not fit together");
    for (size_t i = 0; i < m; i++)
        if (!make_ask(v, json_integer_value(json_array_get(who, i)), json_array_get(steps, i), r->round,
                      (double)m / (double)clients(v), &v->asks[i]))
            return bad(v, "a round names an impossible client or number of steps");
    r->asks = v->asks;
    r->count = m;
    r->phases = fli_algo_phases(a, v->plan.setup.params, 0);
    r->flags = (r->flags & FLI_ASK_HAS_BODY) | (!talk || json_is_true(talk) ? FLI_ASK_REPLY : 0);
    return FL_OK;
}

/* ---- comparing ------------------------------------------------------------------------------------------- */

/* The largest difference, relative to the largest expected entry. */
static double difference(size_t n, const double *x, const double *wanted)
{
    double worst = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) return INFINITY;
        if (fabs(x[i] - wanted[i]) > worst) worst = fabs(x[i] - wanted[i]);
        if (fabs(wanted[i]) > top) top = fabs(wanted[i]);
    }
    return worst > 0 ? worst / top : 0;
}

static void note_difference(verifier *v, double d, const char *which, size_t number)
{
    if (d > v->tolerance && *v->error <= v->tolerance)
        fli_fail(v->golden.ctx, FL_EMISMATCH, "%s: differs by %.3g (relative) %s %zu", v->golden.path, d, which,
                 number);
    if (d > *v->error) *v->error = d;
}

/* Compares the model after a round, and v if the case has it. */
static fl_status compare(verifier *v, size_t round)
{
    const json_t *vs = expected(v, "v");
    size_t n = parameters(v), lower = n - upper(v);
    if (!read_model(v, json_array_get(expected(v, "x"), round), json_array_get(expected(v, "y"), round), v->expected))
        return bad(v, "\"expect.x\" does not fit the model, or \"expect.y\" does not");
    double d = difference(n, fli_exec_server(v->exec)[0], v->expected);
    if (vs && (!lower_v(v) || !numbers_of(json_array_get(vs, round), lower, v->expected)))
        return bad(v, "\"expect.v\" does not fit the problem");
    if (vs) d = fmax(d, difference(lower, lower_v(v), v->expected));
    note_difference(v, d, "after round", round + 1);
    return FL_OK;
}

/* Compares the clients' own models at the end, if the case has them. */
static fl_status compare_own(verifier *v)
{
    const json_t *expect = expected(v, "localized");
    double *own = v->expected + parameters(v);
    if (expect && json_array_size(expect) != clients(v))
        return bad(v, "\"expect.localized\" does not have one model per client");
    for (size_t i = 0; expect && i < clients(v); i++) {
        fl_status s = fli_exec_own_model(v->exec, (uint32_t)i, own, NULL);
        if (s) return s;
        if (!read_model(v, json_array_get(expect, i), NULL, v->expected))
            return bad(v, "\"expect.localized\" does not fit the model");
        note_difference(v, difference(parameters(v), own, v->expected), "in the own model of client", i);
    }
    return FL_OK;
}

/* ---- rounds ---------------------------------------------------------------------------------------------- */

/* Makes the turns of all clients before the first round, with the plan's asks. */
static fl_status warm_up(verifier *v)
{
    for (size_t i = 0; i < clients(v); i++) make_ask(v, (json_int_t)i, NULL, 0, 1, &v->asks[i]);
    return fli_exec_round(
        v->exec,
        &(fli_round){.flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY, .warm_up = 1, .asks = v->asks, .count = clients(v)});
}

static fl_status run_rounds(verifier *v, const json_t *rounds)
{
    fli_round r = {.flags = FLI_ASK_HAS_BODY};
    fl_status s = FL_OK;
    for (r.round = 0; !s && r.round < json_array_size(rounds); r.round++) {
        s = read_round(v, json_array_get(rounds, r.round), &r);
        if (!s) s = fli_exec_round(v->exec, &r);
        if (!s) s = compare(v, r.round);
        r.flags = r.flags & FLI_ASK_REPLY ? FLI_ASK_HAS_BODY : 0;
    }
    return s;
}

/* ---- events of asynchronous methods ------------------------------------------------------------------------ */

/* Begins a server step with a single upload. */
static void begin_step(verifier *v, size_t step)
{
    fli_step next = {.round = step, .cohort = 1, .cohort_weight = 1 / (double)clients(v)};
    fli_server_state_begin(fli_exec_server_state(v->exec), &next);
}

/* Runs one client's turn from the model of `delay` server steps before the newest. `history` has the start model and
 * the model after every step so far, one after the other. */
static fl_status run_event(verifier *v, const json_t *event, size_t step, void **history, fli_exchange *x)
{
    fli_server_state *server = fli_exec_server_state(v->exec);
    const json_t *delay = json_object_get(event, "delay"), *steps = json_object_get(event, "steps"),
                 *who = json_object_get(event, "client");
    json_int_t client = json_is_integer(who) ? json_integer_value(who) : -1;
    json_int_t late = json_is_integer(delay) ? json_integer_value(delay) : -1;
    if (late < 0 || (size_t)late > step || !steps || !make_ask(v, client, steps, step, 1 / (double)clients(v), &x->ask))
        return bad(v, "an event's \"client\", \"delay\" or \"steps\" is impossible");
    fli_message down = {.vec = &history[step - (size_t)late], .start = fli_server_state_broadcast(server)->start};
    x->ask.cohort = x->ask.phases = 1;
    x->ask.flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY;
    x->down = &down;
    fli_server_state_address(server, &x->ask);
    fli_server_state_note(server, &x->ask);
    fli_exec_run(v->exec, &x, 1);
    if (x->status) return fli_server_state_failed(server, x);
    fli_server_state_absorb(server, x, (size_t)late);
    fl_status s = fli_server_state_advance(server, NULL);
    if (s) return s;
    begin_step(v, step + 1);
    fli_copy(&v->plan.model->space, fli_exec_server(v->exec)[0], history[step + 1]);
    return FL_OK;
}

static fl_status run_events(verifier *v, const json_t *events)
{
    size_t count = json_array_size(events);
    const fl_space *space = &v->plan.model->space;
    fli_arena arena;
    fli_exchange x = {0};
    if (v->plan.pace.buffer > 1) return bad(v, "events are server steps, so a buffer must be 1");
    fli_arena_init(&arena, v->golden.ctx);
    void **history = fli_arena_alloc(&arena, count + 1, sizeof *history);
    fl_status s = history ? fli_exec_upload_new(v->exec, &x.up) : FL_ENOMEM;
    for (size_t i = 0; !s && i <= count; i++)
        if (!(history[i] = fli_arena_alloc(&arena, 1, fli_bytes(space)))) s = FL_ENOMEM;
    if (!s) {
        fli_copy(space, fli_exec_server(v->exec)[0], history[0]);
        begin_step(v, 0);
    }
    for (size_t i = 0; !s && i < count; i++) {
        s = run_event(v, json_array_get(events, i), i, history, &x);
        if (!s) s = compare(v, i);
    }
    fli_message_fini(&x.up);
    fli_arena_fini(&arena);
    return s;
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

static fl_status run_case(verifier *v)
{
    const json_t *rounds = given(v, "rounds");
    size_t count = json_array_size(rounds);
    if (!count || json_array_size(expected(v, "x")) != count)
        return bad(v, "\"rounds\" and \"expect.x\" do not fit together");
    *v->error = 0;
    fl_status s = fli_exec_warms_up(v->exec) ? warm_up(v) : FL_OK; /* asynchronous methods may have this, too */
    if (!s) s = v->plan.pace.buffer ? run_events(v, rounds) : run_rounds(v, rounds);
    if (!s) s = compare_own(v);
    return s ? s : *v->error <= v->tolerance ? FL_OK : FL_EMISMATCH;
}

fl_status fl_verify(fl_ctx *ctx, const char *path, double tolerance, double *error)
{
    return fli_verify_on(ctx, &fli_executor_threads, path, tolerance, error);
}

fl_status fli_verify_on(fl_ctx *ctx, const fli_executor *executor, const char *path, double tolerance, double *error)
{
    verifier v = {.tolerance = tolerance, .error = error};
    fli_clear(ctx);
    *error = NAN;
    fl_status s = read_case(ctx, path, executor->name, &v.golden);
    if (!s) {
        s = begin(&v);
        if (!s) s = run_case(&v);
        fli_exec_free(v.exec);
        fli_plan_fini(&v.plan);
    }
    fli_free(v.weights);
    fli_free(v.asks);
    fli_free(v.expected);
    golden_free(&v.golden);
    return s;
}
