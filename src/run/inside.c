/* What others may see of a run, and the start model, which is all that they may change. */
#include "run/run.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- what it is, and how far ---------------------------------------------------------------------------- */

const char *fl_run_name(const fl_run *run) { return run->plan.settings.top.name; }
const char *fl_run_output(const fl_run *run) { return run->plan.settings.top.output; }
const char *fl_run_algorithm(const fl_run *run) { return run->plan.algo->name; }
size_t fl_run_rounds(const fl_run *run) { return (size_t)run->plan.settings.top.rounds; }
size_t fl_run_round(const fl_run *run) { return run->round; }
int fl_run_checkpointed(const fl_run *run) { return run->checkpoint && run->checkpoint_round == run->round; }
size_t fl_run_clients(const fl_run *run) { return run->plan.fed->clients; }
double fl_run_memory(const fl_run *run) { return run->plan.memory; }
size_t fl_run_parameters(const fl_run *run) { return run->plan.model->space.n; }
fl_stop fl_run_stopped_by(const fl_run *run) { return run->stopped; }

const char *fl_stop_text(fl_stop stop)
{
    static const char *const text[] = {"not finished", "rounds", "target", "gradient", "time", "asked"};
    return (size_t)stop < sizeof text / sizeof *text ? text[stop] : "unknown";
}

const fl_row *fl_run_row(const fl_run *run) { return run->row_count ? &run->rows[run->row_count - 1] : NULL; }

size_t fl_run_rows(const fl_run *run, const fl_row **rows)
{
    *rows = run->rows;
    return run->row_count;
}

int fl_run_target(const fl_run *run, size_t k, double *accuracy, size_t *round)
{
    const fli_reals *targets = &run->plan.settings.metrics.targets;
    if (k >= targets->n) return 0;
    *accuracy = targets->v[k];
    *round = run->target_round[k];
    return 1;
}

/* ---- vectors --------------------------------------------------------------------------------------------- */

size_t fl_run_model(const fl_run *run, double *out, size_t capacity)
{
    const fli_space *s = &run->plan.model->space;
    size_t n = s->n < capacity ? s->n : capacity;
    if (out) s->ops->to_f64(n, fli_exec_server(run->exec)[0], out);
    return s->n;
}

fl_status fl_run_start(fl_run *run, const double *x, size_t n)
{
    const fli_space *space = &run->plan.model->space;
    void *model = fli_exec_server(run->exec)[0];
    fli_clear(run->ctx);
    if (run->begun || run->round || run->warm)
        return fli_fail(run->ctx, FL_ECONFIG, "fl_run_start: the run has begun, its start model is no longer needed");
    if (!x || n != space->n)
        return fli_fail(run->ctx, FL_ECONFIG, "fl_run_start: the model has %zu parameters, not %zu", space->n,
                        x ? n : 0);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]) || (space->ops->size == sizeof(float) && fabs(x[i]) > (double)FLT_MAX))
            return fli_fail(run->ctx, FL_ECONFIG, "fl_run_start: parameter %zu is %g, which precision %s does not hold",
                            i, x[i], space->ops->size == sizeof(float) ? "f32" : "f64");
    space->ops->from_f64(n, x, model);
    fli_exec_server_changed(run->exec);
    return FL_OK;
}

static fl_vector vector_of(const fl_run *run, const char *name, const void *data)
{
    const fli_space *s = &run->plan.model->space;
    return (fl_vector){.name = name, .data = data, .n = s->n, .real = s->ops->size};
}

int fl_run_vector(const fl_run *run, size_t k, fl_vector *out)
{
    const fli_algo *a = run->plan.algo;
    if (k >= fli_names_count(a->server)) return 0;
    *out = vector_of(run, a->server[k], fli_exec_server(run->exec)[k]);
    return 1;
}

int fl_run_client_vector(fl_run *run, size_t client, size_t k, fl_vector *out)
{
    const fli_algo *a = run->plan.algo;
    const fli_space *s = &run->plan.model->space;
    int there = 0;
    fli_clear(run->ctx);
    if (k >= fli_names_count(a->client)) return 0;
    if (!run->seen && !(run->seen = fli_alloc(run->ctx, s->n, s->ops->size))) return -1;
    if (fli_exec_peek(run->exec, client, k, run->seen, NULL, &there)) return -1;
    *out = vector_of(run, a->client[k], there ? run->seen : NULL);
    return 1;
}

size_t fl_run_client_scalars(fl_run *run, size_t client, double *out, size_t capacity)
{
    size_t n = run->plan.algo->client_scalars;
    int there = 0;
    fli_clear(run->ctx);
    double *all = fli_alloc(run->ctx, n, sizeof *all);
    fl_status s = all ? fli_exec_peek(run->exec, client, 0, NULL, all, &there) : FL_ENOMEM;
    if (!s && there && out) memcpy(out, all, (n < capacity ? n : capacity) * sizeof *out);
    fli_free(all);
    return s ? SIZE_MAX : there ? n : 0;
}

int fl_run_tensor(const fl_run *run, size_t k, fl_tensor *out)
{
    const fli_model *m = run->plan.model;
    if (k >= m->tensor_count) return 0;
    const fli_tensor *t = &m->tensors[k];
    *out = (fl_tensor){.name = t->name, .offset = t->offset};
    out->dims = fli_tensor_shape(t, out->shape);
    return 1;
}
