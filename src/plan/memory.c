/* What a run takes, against what there is: known before it begins, so that a slip in a data file or a setting ends in a
 * sentence and not in a machine that swaps, or a BLAS library that asks for its buffers for ever. */
#include "metric/measure.h"
#include "plan/plan.h"

#include "base/limits.h"
#include "base/number.h"
#include "engine/footprint.h"

#include <stdatomic.h>

/* Clients per round, as far as that is known before: the mean, where it is drawn, when it is largest. */
static size_t usual_cohort(const fli_plan *p)
{
    enum { LOOKED_AT = 1000 };
    size_t clients = p->fed->clients, step = clients / LOOKED_AT + 1, n = 0;
    double sum = 0;
    if (p->algo->traits & FLI_ALGO_BYSTANDERS) return clients;
    for (size_t i = 0; i < clients; i += step, n++) {
        double least, most;
        fli_participation_range(p->participation, i, &least, &most);
        sum += most;
    }
    size_t mean = (size_t)(sum / (double)n * (double)clients);
    return mean < 1 ? 1 : mean < p->participation->largest ? mean : p->participation->largest;
}

static double data_bytes(const fli_fed *f)
{
    return (f->train ? (double)fli_dataset_bytes(f->train) : 0) + (f->test ? (double)fli_dataset_bytes(f->test) : 0);
}

static size_t runs_of(const fli_plan *p) { return p->runs ? p->runs : 1; }

static fl_status check_total(fli_plan *p, const fli_footprint *f)
{
    fli_limit memory = fli_limit_memory();
    double measuring = fli_measure_bytes(p->model, &p->settings.metrics, p->fed->clients);
    double data = data_bytes(p->fed);
    p->memory = f->total + measuring + data;
    double all = data + (double)runs_of(p) * (f->total + measuring);
    if (all <= memory.bytes) return FL_OK;
    char who[64] = "the run takes";
    if (runs_of(p) > 1) fli_snprintf(who, sizeof who, "%zu runs at a time take", runs_of(p));
    return fli_fail(p->ctx, FL_ENOMEM,
                    "out of memory: %s at least %.1f GiB (data %.1f; each: server %.1f, %zu threads %.1f, turns %.1f, "
                    "client state %.1f, measuring %.1f), but %s is %.1f GiB; the model has %zu parameters, for %zu "
                    "features and %zu classes",
                    who, all / 0x1p30, data / 0x1p30, f->server / 0x1p30, fli_pool_count(p->exec.threads),
                    f->workers / 0x1p30, f->turns / 0x1p30, f->state / 0x1p30, measuring / 0x1p30, memory.what,
                    memory.bytes / 0x1p30, p->model->space.n, p->fed->dim, p->fed->classes);
}

/* What BLAS and the C library have reserved for a number of threads they keep: a later run of the process needs only
 * more. */
static fl_status check_room(const fli_plan *p, const fli_footprint *f)
{
    static atomic_size_t had;
    size_t threads = fli_pool_count(p->exec.threads) * runs_of(p), before = had;
    fli_limit room = fli_limit_room();
    double address = threads > before ? fli_footprint_address(threads) - fli_footprint_address(before) : 0;
    if (f->total + address > room.bytes)
        return fli_fail(p->ctx, FL_ENOMEM,
                        "out of memory: the run takes %.0f MiB and reserves %.0f MiB of address space (threads: %zu), "
                        "but %s is %.0f MiB; try fewer threads, fewer runs at a time, or a higher "
                        "limit",
                        f->total / 0x1p20, address / 0x1p20, threads, room.what, room.bytes / 0x1p20);
    while (threads > before && !atomic_compare_exchange_weak(&had, &before, threads)) continue;
    return FL_OK;
}

/* Vectors of a run on a device are there; the server's have a mirror here. */
static fli_footprint leave(fli_plan *p, const fli_footprint *f, size_t cohort, int async)
{
    double measuring = fli_measure_bytes(p->model, &p->settings.metrics, p->fed->clients);
    fli_footprint here = {.server = f->server, .workers = fli_eval_bytes(p->model)};
    here.total = here.server + here.workers;
    p->there = fli_footprint_there(&p->exec, cohort, async) + measuring;
    return here;
}

fl_status fli_plan_check_memory(fli_plan *p)
{
    size_t cohort = usual_cohort(p);
    int async = p->pace.buffer > 0;
    fli_footprint f = fli_footprint_of(&p->exec, cohort, async);
    if (fli_settings_on_device(&p->settings)) f = leave(p, &f, cohort, async);
    fl_status s = check_total(p, &f);
    return s ? s : check_room(p, &f);
}
