#include "run/verify_bilevel.h"
#include "base/number.h"

#include "bilevel/bilevel.h"

#include <math.h>
#include <string.h>

enum { MOST = 1000 }; /* parameters of a level */

static const json_t *objective(const json_t *json) { return json_object_get(json, "objective"); }

int fli_golden_is_bilevel(const json_t *json)
{
    const char *kind = json_string_value(json_object_get(objective(json), "kind"));
    return kind && !strcmp(kind, fli_model_quadratic_bilevel.name);
}

static fl_status bad(fl_ctx *ctx, const char *path, const char *what)
{
    return fli_fail(ctx, FL_EFORMAT, "%s: %s", path, what);
}

/* n numbers, from a list or from the rows of a matrix, appended to *out. */
static int take(const json_t *v, size_t n, double **out)
{
    if (json_is_number(v)) {
        if (n != 1) return 0;
        *(*out)++ = json_number_value(v);
        return 1;
    }
    size_t rows = json_array_size(v);
    if (!rows || n % rows) return 0;
    for (size_t i = 0; i < rows; i++)
        if (!take(json_array_get(v, i), n / rows, out)) return 0;
    return 1;
}

static int take_client(const json_t *client, size_t p, size_t q, double *row)
{
    const struct {
        const char *name;
        size_t n;
    } parts[] = {{"A", q * q}, {"B", q * p}, {"c", q}, {"t", q}, {"s", p}, {"E", p * q}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!take(json_object_get(client, parts[i].name), parts[i].n, &row)) return 0;
    return 1;
}

/* One sample per client, in order. */
static fl_status make_fed(fl_ctx *ctx, const char *path, const json_t *clients, size_t p, size_t q, fli_fed **fed)
{
    size_t n = json_array_size(clients), dim = q * q + 2 * p * q + 2 * q + p;
    fli_dataset *ds = NULL;
    fli_partition part = {.clients = n};
    fl_status s = n ? fli_dataset_new(ctx, FLI_X_F64, n, dim, 0, &ds) : bad(ctx, path, "\"clients\" is missing");
    for (size_t i = 0; !s && i < n; i++)
        if (!take_client(json_array_get(clients, i), p, q, (double *)ds->x + i * dim))
            s = fli_fail(ctx, FL_EFORMAT, "%s: client %zu: A, B, c, t, s, E do not fit together", path, i);
    if (!s) {
        part.start = fli_alloc(ctx, n + 1, sizeof *part.start);
        part.index = fli_alloc(ctx, n, sizeof *part.index);
        if (!part.start || !part.index) s = FL_ENOMEM;
    }
    if (s) {
        fli_partition_fini(&part);
        fli_dataset_free(ds);
        return s;
    }
    for (size_t i = 0; i < n; i++) part.start[i + 1] = i + 1, part.index[i] = (uint32_t)i;
    return fli_fed_take(ctx, ds, NULL, &part, fed);
}

/* The model's own keys, from the objective. */
static fli_node *model_node(fli_arena *a, size_t p, size_t q, double rho)
{
    fli_node *map = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    const char *const names[] = {"upper", "lower", "rho"};
    const double values[] = {(double)p, (double)q, rho};
    for (size_t i = 0; map && i < 3; i++) {
        char text[64];
        fli_snprintf(text, sizeof text, "%.17g", values[i]);
        fli_node *n = fli_node_new(a, FLI_NODE_SCALAR, names[i], text);
        if (!n) return NULL;
        fli_node_append(map, n);
    }
    return map;
}

fl_status fli_golden_bilevel_new(fl_ctx *ctx, const char *path, const json_t *json, fli_arena *a, fli_fed **fed,
                                 fli_model **model)
{
    const fli_model_desc *d = &fli_model_quadratic_bilevel;
    const json_t *o = objective(json);
    json_int_t p = json_integer_value(json_object_get(o, "upper")), q = json_integer_value(json_object_get(o, "lower"));
    if (p < 1 || q < 1 || p > MOST || q > MOST) return bad(ctx, path, "\"upper\" or \"lower\" is out of range");
    void *params = fli_arena_alloc(a, 1, d->params_size);
    fli_node *map = model_node(a, (size_t)p, (size_t)q, json_number_value(json_object_get(o, "rho")));
    if (!params || !map) return FL_ENOMEM;
    fl_status s = fli_bind(ctx, a, "objective", map, NULL, &(fli_table){d->keys, params}, 1);
    if (!s) s = make_fed(ctx, path, json_object_get(json, "clients"), (size_t)p, (size_t)q, fed);
    if (!s) s = fli_model_new(ctx, d, params, &fli_ops_f64, (*fed)->dim, 0, 0, model);
    return s ? s : fli_bilevel_give(ctx, *model, &fli_bilevel_quadratic, NULL, &(fli_bilevel_common){0});
}

fl_status fli_golden_bilevel_params(fl_ctx *ctx, json_t *params)
{
    static const char *const maps[] = {"lr", "server_lr"};
    const char *which;
    json_t *v;
    char name[32];
    (void)ctx;
    for (size_t i = 0; i < 2; i++) {
        json_t *map = json_object_get(params, maps[i]);
        if (!json_is_object(map)) continue;
        json_object_foreach(map, which, v)
        {
            fli_snprintf(name, sizeof name, "%s_%.8s", maps[i], which);
            if (json_object_set(params, name, v)) return FL_ENOMEM;
        }
        json_object_del(params, maps[i]);
    }
    return FL_OK;
}

/* A list of n numbers. */
static int take_list(const json_t *v, size_t n, double *out) { return json_is_array(v) && take(v, n, &out); }

/* Methods with a v keep it in their second vector. */
static int has_v(const fli_algo *a) { return fli_names_count(a->server) > 1 && !strcmp(a->server[1], "v"); }

fl_status fli_golden_bilevel_start(fl_ctx *ctx, const char *path, const json_t *json, const fli_exec_spec *spec,
                                   fli_exec *exec)
{
    size_t p = spec->model->bilevel->upper, q = spec->model->space.n - p;
    void *const *server = fli_exec_server(exec);
    const json_t *v0 = json_object_get(json, "v0");
    if (!take_list(json_object_get(json, "x0"), p, server[0]) ||
        !take_list(json_object_get(json, "y0"), q, (double *)server[0] + p))
        return bad(ctx, path, "\"x0\" or \"y0\" does not fit the problem");
    if (v0 && (!has_v(spec->algo) || !take_list(v0, q, (double *)server[1] + p)))
        return bad(ctx, path, "\"v0\" does not fit the problem");
    return FL_OK;
}

fl_status fli_golden_bilevel_expect(fl_ctx *ctx, const char *path, const json_t *json, const fli_exec_spec *spec,
                                    fli_exec *exec, size_t round, double *xy, double *v_error)
{
    size_t p = spec->model->bilevel->upper, q = spec->model->space.n - p;
    const json_t *expect = json_object_get(json, "expect"), *vs = json_object_get(expect, "v");
    double v[MOST], top = 0;
    if (!take_list(json_array_get(json_object_get(expect, "x"), round), p, xy) ||
        !take_list(json_array_get(json_object_get(expect, "y"), round), q, xy + p))
        return bad(ctx, path, "\"expect.x\" or \"expect.y\" does not fit the problem");
    *v_error = 0;
    if (!vs) return FL_OK;
    if (!has_v(spec->algo) || !take_list(json_array_get(vs, round), q, v))
        return bad(ctx, path, "\"expect.v\" does not fit the problem");
    const double *have = (const double *)fli_exec_server(exec)[1] + p;
    for (size_t i = 0; i < q; i++) {
        double d = fabs(have[i] - v[i]);
        *v_error = isnan(d) ? INFINITY : fmax(*v_error, d);
        top = fmax(top, fabs(v[i]));
    }
    if (*v_error > 0) *v_error /= top;
    return FL_OK;
}
