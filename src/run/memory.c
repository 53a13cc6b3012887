/* What a run takes, against what there is: known before it begins, so that a slip in a data file or a setting ends in a sentence and not in
 * a machine that swaps, or a BLAS library that asks for its buffers for ever. */
#include "run/run.h"

#include "base/limits.h"
#include "exec/footprint.h"

/* Clients per round, as far as that is known before: the mean, where it is drawn. */
static size_t usual_cohort(const fli_plan *p)
{
    enum { LOOKED_AT = 1000 };
    size_t clients = p->fed->clients, step = clients / LOOKED_AT + 1, n = 0;
    double sum = 0;
    if (p->algo->traits & FLI_ALGO_BYSTANDERS) return clients;
    for (size_t i = 0; i < clients; i += step, n++) sum += fli_participation_probability(p->participation, i);
    size_t mean = (size_t)(sum / (double)n * (double)clients);
    return mean < 1 ? 1 : mean < p->participation->largest ? mean : p->participation->largest;
}

static double data_bytes(const fli_fed *f)
{
    return (f->train ? (double)fli_dataset_bytes(f->train) : 0) + (f->test ? (double)fli_dataset_bytes(f->test) : 0);
}

fl_status fli_run_check_memory(fl_run *run, const fli_exec_spec *spec)
{
    const fli_plan *p = &run->plan;
    fli_limit memory = fli_limit_memory(), room = fli_limit_room();
    fli_footprint f = fli_footprint_of(spec, usual_cohort(p), p->algo->pace != NULL);
    double measuring = fli_measure_bytes(p->model, &p->settings.metrics), data = data_bytes(p->fed);
    run->memory = f.total + measuring + data;
    if (run->memory > memory.bytes)
        return fli_fail(
            run->ctx, FL_ENOMEM,
            "out of memory: the run takes at least %.1f GiB (data %.1f, server %.1f, %zu threads %.1f, turns "
            "%.1f, client state %.1f, measuring %.1f), but %s is %.1f GiB; the model has %zu parameters, for "
            "%zu features and %zu classes",
            run->memory / 0x1p30, data / 0x1p30, f.server / 0x1p30, fli_pool_count(spec->threads), f.workers / 0x1p30,
            f.turns / 0x1p30, f.state / 0x1p30, measuring / 0x1p30, memory.what, memory.bytes / 0x1p30,
            p->model->space.n, p->fed->dim, p->fed->classes);
    if (f.total + measuring + f.address > room.bytes)
        return fli_fail(run->ctx, FL_ENOMEM,
                        "out of memory: the run takes %.0f MiB and reserves %.0f MiB of address space (threads: %zu), "
                        "but %s is %.0f MiB; try fewer threads, or a higher limit",
                        (f.total + measuring) / 0x1p20, f.address / 0x1p20, fli_pool_count(spec->threads), room.what,
                        room.bytes / 0x1p20);
    return FL_OK;
}
