#include "run/on_device.h"

#include "base/number.h"
#include "vec/kernels.h"

#include <string.h>

/* Where `memory` is auto and clients may come to keep more than half of what is free there, that half is the budget:
 * the rest goes to plain memory, instead of ending the run when the device is full. */
static fl_status budget(const fl_run *run, const fli_device_spec *d, fli_exec_spec *spec)
{
    fli_engine_info now;
    double each = (double)(fli_algo_client_vectors(spec->algo, spec->watch) * fli_bytes(&spec->model->space));
    if (spec->memory || each == 0) return FL_OK;
    fl_status s = d->backend->describe(run->ctx, d->which, &now);
    if (!s && each * (double)spec->fed->clients > now.free / 2) spec->memory = (size_t)(now.free / 2);
    return s;
}

fl_status fli_run_open_device(fl_run *run, fli_exec_spec *spec)
{
    const fli_plan *p = &run->plan;
    fli_device_spec d = {.tf32 = p->settings.top.precision == FLI_PRECISION_TF32,
                         .model = p->model,
                         .fed = p->fed,
                         .sgd = spec->sgd,
                         .memory = p->there};
    if (!fli_settings_on_device(&p->settings)) return FL_OK;
    if (p->mailbox)
        return fli_fail(
            run->ctx, FL_ECONFIG,
            "device is %s, but the clients are in other processes, and all turns are theirs; it must be cpu",
            p->settings.top.device);
    fl_status s = fli_device_find(run->ctx, p->settings.top.device, &d.backend, &d.which);
    if (!s && fli_ranked(&p->ranks))
        d.which = fli_device_of_rank(p->settings.top.device, d.backend, d.which, p->ranks.local);
    if (!s) s = fli_device_new(run->ctx, &d, &run->device);
    if (!s) s = budget(run, &d, spec);
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
