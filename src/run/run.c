/* A run: making it, its device and kernels, and the accessors of the public header. Its loop is in rounds.c. */
#include "base/number.h"
#include "metric/metric.h"
#include "run/output.h"
#include "run/state.h"
#include "vec/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ==== the device ============================================================================================ */

/* If `memory` is auto and clients may keep more than half of the device's free memory, that half becomes the budget.
 * The rest goes to plain memory; otherwise the run would end when the device is full. */
static fl_status limit_client_state(const fl_run *run, const fli_device_spec *d, fli_exec_spec *spec)
{
    fli_engine_info now;
    double each = (double)(fli_algo_client_vectors(spec->setup->algo, spec->setup->measure_potential) *
                           fli_bytes(&spec->setup->model->space));
    if (spec->memory || each == 0) return FL_OK;
    fl_status s = d->backend->describe(run->ctx, d->which, &now);
    if (!s && each * (double)spec->setup->fed->clients > now.free / 2) spec->memory = (size_t)(now.free / 2);
    return s;
}

/* Opens the device of the plan and puts it into the spec; does nothing for device: cpu. */
static fl_status open_device(fl_run *run, fli_exec_spec *spec)
{
    const fli_plan *p = &run->plan;
    fli_device_spec d = {.tf32 = p->settings->top.precision == FLI_PRECISION_TF32,
                         .model = p->model,
                         .fed = p->fed,
                         .sgd = spec->setup->sgd,
                         .memory = p->bytes_on_device};
    if (!fli_settings_on_device(p->settings)) return FL_OK;
    if (p->setup.remote_queue)
        return fli_fail(
            run->ctx, FL_ECONFIG,
            "device is %s, but the clients are in other processes, and all turns are theirs; it must be cpu",
            p->settings->top.device);
    fl_status s = fli_device_find(run->ctx, p->settings->top.device, &d.backend, &d.which);
    if (!s && fli_ranked(&p->ranks))
        d.which = fli_device_of_rank(p->settings->top.device, d.backend, d.which, p->ranks.local);
    if (!s) s = fli_device_new(run->ctx, &d, &run->device);
    if (!s) s = limit_client_state(run, &d, spec);
    if (s) return s;
    run->site = fli_device_site(run->device);
    spec->site = &run->site;
    return FL_OK;
}

fl_status fli_run_same_kernels(fl_ctx *ctx, const fl_ranks *ranks, const char own[FLI_COMPUTED_WITH])
{
    if (!fli_ranked(ranks)) return FL_OK;
    char(*all)[FLI_COMPUTED_WITH] = fli_alloc(ctx, ranks->count, sizeof *all);
    size_t *at = fli_alloc(ctx, ranks->count + 1, sizeof *at);
    fl_status s = all && at ? FL_OK : FL_ENOMEM;
    if (!s) {
        for (uint32_t r = 0; r <= ranks->count; r++) at[r] = r * sizeof *all;
        memcpy(all[ranks->rank], own, sizeof *all);
        s = fli_ranks_gather(ctx, ranks, all, at);
    }
    for (uint32_t r = 1; !s && r < ranks->count; r++)
        if (strcmp(all[r], all[0]))
            s = fli_fail(ctx, FL_ECONFIG,
                         "rank %u computes with kernels for %s, but rank 0 with those for %s: the last digits would "
                         "depend on who has which client; FEDLOOM_KERNELS, such as v2, and OPENBLAS_CORETYPE in the "
                         "environment of all of them make processors alike",
                         r, all[r], all[0]);
    fli_free(all);
    fli_free(at);
    return s;
}

void fli_run_computed_with(const fl_run *run, char out[FLI_COMPUTED_WITH])
{
    if (run->device)
        fli_snprintf(out, FLI_COMPUTED_WITH, "%s on %s", fli_kernels_all(), fli_device_name(run->device));
    else
        fli_snprintf(out, FLI_COMPUTED_WITH, "%s", fli_kernels_all());
}

/* ==== accessors ============================================================================================= */

/* ---- properties and progress ------------------------------------------------------------------------------- */

const char *fl_run_name(const fl_run *run) { return run->plan.settings->top.name; }
const char *fl_run_output(const fl_run *run) { return run->plan.settings->top.output; }
const char *fl_run_algorithm(const fl_run *run) { return run->plan.setup.algo->name; }
size_t fl_run_rounds(const fl_run *run) { return (size_t)run->plan.settings->top.rounds; }
size_t fl_run_round(const fl_run *run) { return run->round; }
int fl_run_checkpointed(const fl_run *run) { return run->checkpoints.newest && run->checkpoints.round == run->round; }
size_t fl_run_clients(const fl_run *run) { return run->plan.fed->clients; }
double fl_run_memory(const fl_run *run) { return run->plan.memory; }
size_t fl_run_parameters(const fl_run *run) { return run->plan.model->space.n; }
fl_stop fl_run_stopped_by(const fl_run *run) { return run->stop.why; }

const char *fl_stop_text(fl_stop stop)
{
    static const char *const text[] = {"not finished", "rounds", "target", "gradient", "time", "asked"};
    return (size_t)stop < sizeof text / sizeof *text ? text[stop] : "unknown";
}

const fl_row *fl_run_row(const fl_run *run) { return run->rows.count ? &run->rows.at[run->rows.count - 1] : NULL; }

size_t fl_run_rows(const fl_run *run, const fl_row **rows)
{
    *rows = run->rows.at;
    return run->rows.count;
}

int fl_run_target(const fl_run *run, size_t k, double *accuracy, size_t *round)
{
    const fl_reals *targets = &run->plan.settings->metrics.targets;
    if (k >= targets->n) return 0;
    *accuracy = targets->v[k];
    *round = run->target_round[k];
    return 1;
}

/* ---- vectors --------------------------------------------------------------------------------------------- */

size_t fl_run_model(const fl_run *run, double *out, size_t capacity)
{
    const fl_space *s = &run->plan.model->space;
    size_t n = s->n < capacity ? s->n : capacity;
    if (out) s->ops->to_f64(n, fli_exec_server(run->exec)[0], out);
    return s->n;
}

fl_status fl_run_start(fl_run *run, const double *x, size_t n)
{
    const fl_space *space = &run->plan.model->space;
    void *model = fli_exec_server(run->exec)[0];
    fli_clear(run->ctx);
    if (run->started || run->round || run->warm_up_done)
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
    const fl_space *s = &run->plan.model->space;
    return (fl_vector){.name = name, .data = data, .n = s->n, .real = s->ops->size};
}

int fl_run_vector(const fl_run *run, size_t k, fl_vector *out)
{
    const fl_method *a = run->plan.setup.algo;
    if (k >= fli_names_count(a->server)) return 0;
    *out = vector_of(run, a->server[k], fli_exec_server(run->exec)[k]);
    return 1;
}

int fl_run_client_vector(fl_run *run, size_t client, size_t k, fl_vector *out)
{
    const fl_method *a = run->plan.setup.algo;
    const fl_space *s = &run->plan.model->space;
    int there = 0;
    fli_clear(run->ctx);
    if (k >= fli_names_count(a->client)) return 0;
    if (!run->peek_buffer && !(run->peek_buffer = fli_alloc(run->ctx, s->n, s->ops->size))) return -1;
    if (fli_exec_peek(run->exec, client, k, run->peek_buffer, NULL, &there)) return -1;
    *out = vector_of(run, a->client[k], there ? run->peek_buffer : NULL);
    return 1;
}

size_t fl_run_client_scalars(fl_run *run, size_t client, double *out, size_t capacity)
{
    size_t n = run->plan.setup.algo->client_scalars;
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
    *out = m->tensors[k];
    return 1;
}

/* ==== the run =============================================================================================== */

/* Sets all changing state to that before the first round. */
static fl_status set_up(fl_run *run)
{
    const fli_plan *p = &run->plan;
    size_t targets = p->settings->metrics.targets.n;
    fli_exec_spec spec = p->exec;
    fl_status status = fli_ranks_agree(run->ctx, &p->ranks, open_device(run, &spec));
    fli_run_computed_with(run, run->kernels);
    if (!status) status = fli_run_same_kernels(run->ctx, &p->ranks, run->kernels);
    if (!status) status = fli_exec_new(run->ctx, &spec, &run->exec);
    if (!status) status = fli_measure_new(run->ctx, run->exec, &p->settings->metrics, &p->ask_params, &run->measure);
    if (status) return status;
    run->target_round = fli_alloc(run->ctx, targets, sizeof *run->target_round);
    if (!run->target_round) return FL_ENOMEM;
    for (size_t i = 0; i < targets; i++) run->target_round[i] = SIZE_MAX;
    run->counts.staleness = run->counts.staleness_max = run->counts.potential_rise = NAN;
    run->counts.idle = run->counts.idle_most = NAN;
    /* Asynchronous methods may begin with turns of all clients, too. */
    if (!p->pace.buffer || fli_exec_warms_up(run->exec)) status = fli_rounds_prepare(run);
    if (!status && p->pace.buffer) status = fli_arrivals_prepare(run);
    if (status) return status;
    void *x = fli_exec_server(run->exec)[0];
    if (p->start)
        fli_copy(&p->model->space, p->start, x);
    else
        status = fli_model_start_from(run->ctx, p->model, p->fed, p->setup.seed, x);
    fli_exec_server_changed(run->exec);
    return status;
}

fl_status fl_run_new(fl_config *cfg, fl_run **out) { return fli_run_new(cfg, NULL, out); }

fl_status fli_run_new(fl_config *cfg, const fli_plan *data, fl_run **out)
{
    fli_clear(cfg->ctx);
    fl_run *run = fli_alloc(cfg->ctx, 1, sizeof *run);
    if (!run) return FL_ENOMEM;
    run->ctx = cfg->ctx;
    run->checkpoints.round = SIZE_MAX;
    /* files and memory may differ between ranks */
    fl_status s = fli_ranks_agree(cfg->ctx, &cfg->ranks, fli_plan_make(cfg, data, &run->plan));
    if (!s) s = fli_ranks_agree(cfg->ctx, &cfg->ranks, set_up(run));
    if (!s && run->plan.settled && !data) /* a comparison reports it in the results alone */
        fli_log(run->ctx, FL_LOG_INFO, "%s: %s", run->plan.setup.algo->name, run->plan.settled);
    if (s)
        fl_run_free(run);
    else
        *out = run;
    return s;
}

void fl_run_free(fl_run *run)
{
    if (!run) return;
    fli_folder_discard(run);
    fli_measure_free(run->measure);
    fli_async_free(run->async);
    fli_exec_free(run->exec);
    fli_device_free(run->device);
    fli_plan_fini(&run->plan);
    fli_free(run->peek_buffer);
    fli_free(run->under_way.cohort);
    fli_free(run->under_way.asks);
    fli_free(run->under_way.durations);
    fli_free(run->rank_times.of);
    fli_free(run->rows.at);
    fli_free(run->target_round);
    fli_folder_unlock(run);
    fli_free(run->checkpoints.folder);
    fli_free(run);
}

void fl_run_stop(fl_run *run) { run->stop.requested = 1; }
