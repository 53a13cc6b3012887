/* Opens a device for a run: checks that it supports and can hold model and data, and uploads them. */
#include "base/number.h"
#include "device/device.h"
#include "solver/minibatch.h"

/* ---- by name --------------------------------------------------------------------------------------------- */

/* Whether the name is "cuda" or "cuda:1". `which` is SIZE_MAX if there is no number behind a colon. */
static int is_called(const char *name, const fli_backend *b, size_t *which)
{
    size_t length = strlen(b->name), number = 0;
    if (strncmp(name, b->name, length)) return 0;
    const char *p = name + length;
    *which = 0;
    if (!*p) return 1;
    if (*p++ != ':') return 0;
    *which = SIZE_MAX;
    for (size_t digits = 0; *p >= '0' && *p <= '9' && digits < 6; digits++) {
        number = 10 * number + (size_t)(*p++ - '0');
        if (!*p) *which = number;
    }
    return 1;
}

/* fl_name_fn */
static const char *device_name(const void *unused, size_t i)
{
    (void)unused;
    if (!i) return "cpu";
    return fli_backend_list[i - 1] ? fli_backend_list[i - 1]->name : NULL;
}

static fl_status no_such(fl_ctx *ctx, const char *name)
{
    char list[256] = "cpu", meant[FLI_MEANT_LEN];
    size_t used = 3;
    int cuda = 0;
    for (const fli_backend *const *b = fli_backend_list; *b; b++) {
        used += (size_t)fli_snprintf(list + used, sizeof list - used, ", %s", (*b)->name);
        cuda |= !strcmp((*b)->name, "cuda");
    }
    if (!strncmp(name, "cuda", 4) && !cuda)
        return fli_fail(ctx, FL_ECONFIG,
                        "device: %s needs a fedloom that was built where the CUDA toolkit is; this one knows %s", name,
                        list);
    return fli_fail(ctx, FL_ECONFIG, "device: there is no \"%s\"; there are %s%s", name, list,
                    fli_meant(fl_nearest(name, device_name, NULL), meant));
}

fl_status fli_device_find(fl_ctx *ctx, const char *name, const fli_backend **backend, size_t *which)
{
    char why[256] = "";
    for (const fli_backend *const *b = fli_backend_list; *b; b++) {
        if (!is_called(name, *b, which)) continue;
        size_t count = (*b)->count(why, sizeof why);
        if (!count) return fli_fail(ctx, FL_ECONFIG, "device: there is no %s here: %s", (*b)->name, why);
        if (*which >= count)
            return fli_fail(ctx, FL_ECONFIG, "device: there is no %s; here they are %s:0 to %s:%zu", name, (*b)->name,
                            (*b)->name, count - 1);
        *backend = *b;
        return FL_OK;
    }
    return no_such(ctx, name);
}

size_t fli_device_of_rank(const char *name, const fli_backend *backend, size_t which, size_t local)
{
    char why[256];
    size_t count = strchr(name, ':') ? 0 : backend->count(why, sizeof why);
    return count ? local % count : which;
}

/* ---- supported models ------------------------------------------------------------------------------------ */

static fl_status check_model(fl_ctx *ctx, const fli_device_spec *spec)
{
    const fli_model *m = spec->model;
    fli_network net;
    const char *name = spec->backend->name;
    if (!m->desc->network || !m->desc->network(m, &net))
        return fli_fail(ctx, FL_ECONFIG, "device: %s does not compute model %s; it does softmax, logistic, mlp and cnn",
                        name, m->desc->name);
    if (m->bilevel)
        return fli_fail(ctx, FL_ECONFIG, "device: %s does not compute two-level problems; use device: cpu", name);
    if (!spec->fed->train)
        return fli_fail(ctx, FL_ECONFIG,
                        "device: %s needs samples that are stored; data made on demand are for device: cpu", name);
    return FL_OK;
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* The most turns at a time: more are not faster. */
enum { MOST_LANES = 512 };

static double data_bytes(const fli_device_spec *spec)
{
    const fli_fed *fed = spec->fed;
    return spec->backend->data_bytes(fed->train) + (fed->test ? spec->backend->data_bytes(fed->test) : 0);
}

/* The memory of this many lanes; each may merge terms into a vector of its own. */
static double turns_bytes(const fli_device *d, const fli_device_spec *spec, size_t lanes)
{
    const fli_sgd_spec latent = fli_latent_spec(&spec->sgd);
    size_t largest = spec->fed->largest, batch = fli_batch_size(&spec->sgd, largest);
    if (d->model.latent) batch += fli_batch_size(&latent, largest);
    return (double)lanes * (double)fli_vector_stride(fli_device_space(d)) +
           spec->backend->net_bytes(d->net, lanes, batch, spec->sgd.momentum > 0);
}

/* Finds the largest number of lanes that fit. */
static fl_status find_room(fl_ctx *ctx, const fli_device_spec *spec, double room, fli_device *d)
{
    double taken = spec->memory + data_bytes(spec);
    d->lanes = spec->fed->clients < MOST_LANES ? spec->fed->clients : MOST_LANES;
    while (d->lanes > 1 && taken + turns_bytes(d, spec, d->lanes) > room) d->lanes = (d->lanes + 1) / 2;
    double turns = turns_bytes(d, spec, d->lanes);
    if (taken + turns <= room) return FL_OK;
    return fli_fail(ctx, FL_ENOMEM,
                    "out of memory: device %s has %.1f GiB free, but the run takes at least %.1f GiB there (data %.1f, "
                    "vectors %.1f, a turn %.1f); choose a smaller model, less data or fewer clients, or device: cpu",
                    d->name, room / 0x1p30, (taken + turns) / 0x1p30, data_bytes(spec) / 0x1p30, spec->memory / 0x1p30,
                    turns / 0x1p30);
}

/* ---- opening --------------------------------------------------------------------------------------------- */

/* The clients' samples are one list, part after part. */
static fl_status list_clients(fl_ctx *ctx, const fli_fed *fed, fli_device *d)
{
    const fli_partition *part = &fed->part;
    if (!part->index) return FL_OK;
    return d->engine->does->data_list(d->train, ctx, part->index, fli_fed_listed(fed));
}

static fl_status open_all(fl_ctx *ctx, const fli_device_spec *spec, fli_device *d)
{
    const fli_backend *b = spec->backend;
    fli_engine_info info;
    fl_status s = b->describe(ctx, spec->which, &info);
    if (s || (s = b->open(ctx, spec->which, &d->engine))) return s;
    fli_snprintf(d->name, sizeof d->name, "%s%s%s", info.name, info.more[0] ? ", " : "", info.more);
    if ((s = fli_recorder_new(ctx, d->engine, &d->recorder))) return s;
    d->model.space.place = fli_recorder_place(d->recorder);
    if ((s = b->net_new(d->engine, ctx, spec->model, spec->tf32, &d->net))) return s;
    if ((s = find_room(ctx, spec, info.free, d))) return s;
    s = b->data_new(d->engine, ctx, spec->fed->train, &d->train);
    if (!s) s = list_clients(ctx, spec->fed, d);
    if (!s && spec->fed->test) s = b->data_new(d->engine, ctx, spec->fed->test, &d->test);
    return s;
}

fl_status fli_device_new(fl_ctx *ctx, const fli_device_spec *spec, fli_device **out)
{
    fl_status s = check_model(ctx, spec);
    if (s) return s;
    fli_device *d = fli_alloc(ctx, 1, sizeof *d);
    if (!d) return FL_ENOMEM;
    d->ctx = ctx;
    d->fed = spec->fed;
    d->model = *spec->model;
    if ((s = open_all(ctx, spec, d))) {
        fli_device_free(d);
        return s;
    }
    fli_device_eval_init(d);
    *out = d;
    return FL_OK;
}

void fli_device_free(fli_device *d)
{
    if (!d) return;
    fli_recorder_free(d->recorder);
    if (d->engine) {
        const fli_backend *b = d->engine->does;
        b->data_free(d->train);
        b->data_free(d->test);
        b->net_free(d->net);
        b->close(d->engine);
    }
    fli_device_eval_fini(d);
    fli_free(d);
}

/* ---- questions ------------------------------------------------------------------------------------------- */

const fli_engine_data *fli_device_data(const fli_device *d, const fli_dataset *ds)
{
    return ds == d->fed->test ? d->test : d->train;
}

fli_site fli_device_site(fli_device *d)
{
    return (fli_site){
        .place = fli_device_space(d)->place, .elsewhere = &d->eval, .solver = fli_device_solver, .lanes = d->lanes};
}

const char *fli_device_name(const fli_device *d) { return d->name; }
