#include "server/system.h"

#include "base/rng.h"
#include "data/load.h"

#include <math.h>
#include <string.h>

/* Stands for the turn or round in random streams of what a client draws once per run. */
#define EVERY_TURN UINT32_MAX

/* Together with the bounds of the keys, these keep every duration finite. */
#define MOST_SECONDS 1e9
#define LEAST_RATE   1e-3
#define MOST_RATE    1e18

static int is_rate(double v) { return v == 0 || (v >= LEAST_RATE && v <= MOST_RATE); }

/* ---- lognormal ----------------------------------------------------------------------------------------- */

typedef struct {
    double sigma, link_sigma, jitter;
} lognormal_params;

static const fl_key lognormal_keys[] = {
    FLI_KEY_REAL(lognormal_params, sigma, "0.5", 0, 10,
                 "deviation of the logarithm of a device's speed, drawn once per client"),
    FLI_KEY_REAL(lognormal_params, link_sigma, "0", 0, 10,
                 "the same for its link; one factor for both directions, drawn once per client"),
    FLI_KEY_REAL(lognormal_params, jitter, "0", 0, 10,
                 "deviation of the logarithm of a factor on the time per step, drawn in every turn"),
    FLI_KEY_END,
};

/* Factors exp(sigma z), z normal: the median is 1, and twice as fast is as likely as half as fast. A client's two
 * lasting factors are always drawn together, so changing one sigma does not change the other factor. */
static void lognormal_speed(const fli_system *s, size_t turn, uint32_t client, fli_speed *out)
{
    const lognormal_params *p = s->params;
    fli_rng rng;
    if (p->sigma > 0 || p->link_sigma > 0) {
        fli_rng_init(&rng, s->seed, FLI_RNG_SYSTEM, EVERY_TURN, client);
        double compute = fli_rng_normal(&rng), link = exp(p->link_sigma * fli_rng_normal(&rng));
        out->step *= exp(-p->sigma * compute);
        out->up *= link;
        out->down *= link;
    }
    if (p->jitter > 0) {
        fli_rng_init(&rng, s->seed, FLI_RNG_SYSTEM, (uint32_t)turn, client);
        out->step *= exp(p->jitter * fli_rng_normal(&rng));
    }
}

/* ---- linear -------------------------------------------------------------------------------------------- */

typedef struct {
    double slowest;
} linear_params;

static const fl_key linear_keys[] = {
    FLI_KEY_REAL(linear_params, slowest, "20", 0, MOST_SECONDS,
                 "seconds added to a turn of the last client; in between they grow linearly from 0"),
    FLI_KEY_END,
};

static void linear_speed(const fli_system *s, size_t turn, uint32_t client, fli_speed *out)
{
    (void)turn;
    if (s->clients > 1) out->extra = ((const linear_params *)s->params)->slowest * client / (double)(s->clients - 1);
}

/* ---- a trace: one device per line ---------------------------------------------------------------------- */

typedef struct {
    char *path;
} trace_params;

static const fl_key trace_keys[] = {
    FLI_KEY_STRING(trace_params, path, NULL,
                   "text file with one line per client: seconds per step, and bytes per second up and down (0 or "
                   "missing: the common figures); starts over when there are fewer lines than clients"),
    FLI_KEY_END,
};

typedef struct {
    double value[3]; /* seconds per step, upload and download rate; 0: missing in the line */
} device;

typedef struct {
    size_t n;
    device *devices;
} trace;

/* Parses one number of a line, zero-terminated. */
static fl_status trace_value(fl_ctx *ctx, const char *path, size_t number, const char *text, size_t field, double *out)
{
    const char *wrong = fli_number_read(text, DBL_MAX, out);
    if (!wrong && field && !is_rate(*out))
        wrong = "is not a rate: it must be 0, or from 0.001 to 1e18 bytes per second";
    if (!wrong && !field && !(*out >= 0 && *out <= MOST_SECONDS))
        wrong = "is not a time per step: it must be from 0 to 1e9 seconds";
    if (!wrong) return FL_OK;
    return fli_fail(ctx, FL_EFORMAT, "%s:%zu: %s %s", path, number, fli_quote(text).s, wrong);
}

/* Numbers are separated by blanks or a comma; # begins a comment. *fields 0: the line is empty. */
static fl_status trace_line(fl_ctx *ctx, const char *path, size_t number, char *text, device *out, size_t *fields)
{
    enum { MOST_FIELDS = sizeof out->value / sizeof *out->value };
    text[strcspn(text, "#")] = 0;
    *fields = 0;
    for (char *c = text, *next; *(c += strspn(c, " \t")); c = next) {
        char *end = c + strcspn(c, " \t,");
        next = end + strspn(end, " \t");
        next += *next == ','; /* one comma only: two in a row leave an empty number, which is an error */
        *end = 0;
        if (*fields == MOST_FIELDS)
            return fli_fail(ctx, FL_EFORMAT, "%s:%zu: %s is one number too many: a line has at most %d", path, number,
                            fli_quote(c).s, MOST_FIELDS);
        fl_status s = trace_value(ctx, path, number, c, *fields, &out->value[*fields]);
        if (s) return s;
        ++*fields;
    }
    return FL_OK;
}

/* Reads at most one line per client, so a large trace costs no more than its federation needs. */
static fl_status trace_read(fl_ctx *ctx, size_t clients, const char *path, fli_stream *in, fli_array *out)
{
    size_t length, fields;
    char *text;
    void *room;
    fl_status s;
    for (size_t number = 1; out->n < clients; number++) {
        device d = {{0}};
        if ((s = fli_stream_line(in, &text, &length))) return s;
        if (!text) break;
        if ((s = trace_line(ctx, path, number, text, &d, &fields))) return s;
        if (!fields) continue;
        if ((s = fli_array_add(ctx, out, 1, &room))) return s;
        *(device *)room = d;
    }
    return out->n ? FL_OK : fli_fail(ctx, FL_EFORMAT, "%s: the trace is empty", path);
}

static fl_status trace_setup(fl_ctx *ctx, fli_system *sys)
{
    const char *path = ((const trace_params *)sys->params)->path;
    trace *t = fli_arena_alloc(&sys->arena, 1, sizeof *t);
    fli_array read = {.size = sizeof *t->devices};
    fli_stream *in = NULL;
    if (!t) return FL_ENOMEM;
    fl_status s = fli_stream_open(ctx, path, &in);
    if (!s) s = trace_read(ctx, sys->clients, path, in, &read);
    if (s) goto done;
    t->n = read.n;
    t->devices = fli_arena_alloc(&sys->arena, read.n, sizeof *t->devices);
    if (t->devices)
        memcpy(t->devices, read.p, read.n * sizeof *t->devices);
    else
        s = FL_ENOMEM;
    sys->priv = t;
done:
    fli_array_fini(&read);
    fli_stream_close(in);
    return s;
}

static const char *trace_file(const void *params) { return ((const trace_params *)params)->path; }

static void trace_speed(const fli_system *s, size_t turn, uint32_t client, fli_speed *out)
{
    (void)turn;
    const trace *t = s->priv;
    const device *d = &t->devices[client % t->n];
    if (d->value[0] > 0) out->step = d->value[0];
    if (d->value[1] > 0) out->up = d->value[1];
    if (d->value[2] > 0) out->down = d->value[2];
}

/* ---- the table ----------------------------------------------------------------------------------------- */

static const fli_system_desc ways[] = {
    {"none", "no clock: simulated time is not known", NULL, NULL, 0, NULL, NULL},
    {"constant", "all devices and links alike", NULL, NULL, 0, NULL, NULL},
    {"lognormal", "speeds drawn per client, lognormal with median 1", NULL, lognormal_keys, sizeof(lognormal_params),
     NULL, lognormal_speed},
    {"linear", "a delay that grows linearly with the client's number", "Tran-Dinh et al., NeurIPS 2021", linear_keys,
     sizeof(linear_params), NULL, linear_speed},
    {"trace", "measured devices, from a file", NULL, trace_keys, sizeof(trace_params), trace_setup, trace_speed,
     trace_file},
};

const fli_system_desc *const fli_system_list[] = {&ways[0], &ways[1], &ways[2], &ways[3], &ways[4], NULL};

static fl_status check_rate(fl_ctx *ctx, const char *name, double v)
{
    if (is_rate(v)) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "system.%s is %g, but must be 0 or from 0.001 to 1e18", name, v);
}

fl_status fli_system_new(fl_ctx *ctx, const fli_system_desc *desc, const void *params, const fli_system_common *common,
                         const fli_fed *fed, uint64_t seed, fli_system **out)
{
    fl_status status = check_rate(ctx, "up_rate", common->up_rate);
    if (!status) status = check_rate(ctx, "down_rate", common->down_rate);
    if (status) return status;
    fli_system *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    *s = (fli_system){.desc = desc, .params = params, .common = *common, .clients = fed->clients, .seed = seed};
    fli_arena_init(&s->arena, ctx);
    status = desc->setup ? desc->setup(ctx, s) : FL_OK;
    if (status)
        fli_system_free(s);
    else
        *out = s;
    return status;
}

void fli_system_free(fli_system *s)
{
    if (!s) return;
    fli_arena_fini(&s->arena);
    fli_free(s);
}

fli_speed fli_system_speed(const fli_system *s, size_t turn, uint32_t client)
{
    fli_speed v = {s->common.step_seconds, s->common.up_rate, s->common.down_rate, 0};
    if (s->desc->speed) s->desc->speed(s, turn, client, &v);
    return v;
}

double fli_system_turn(const fli_system *s, size_t turn, uint32_t client, size_t steps, double bytes_down,
                       double bytes_up)
{
    fli_speed v = fli_system_speed(s, turn, client);
    double seconds = s->common.turn_seconds + v.extra + v.step * (double)steps;
    if (v.down > 0) seconds += bytes_down / v.down;
    if (v.up > 0) seconds += bytes_up / v.up;
    return seconds;
}

/* ==== local steps ========================================================================================== */

/* Heterogeneous local updates. */
size_t fli_local_steps(const fli_local_work *e, uint64_t seed, size_t round, uint32_t client, size_t per_epoch)
{
    double work = (double)(e->steps ? e->steps : e->epochs);
    size_t unit = e->steps ? 1 : per_epoch;
    fli_rng rng;
    if (e->uneven == FLI_UNEVEN_RANGE) {
        fli_rng_init(&rng, seed, FLI_RNG_STEPS, (uint32_t)round, client);
        work = (double)(e->range.v[0] + (int64_t)fli_rng_below(&rng, (uint64_t)(e->range.v[1] - e->range.v[0] + 1)));
    } else if (e->uneven == FLI_UNEVEN_SPEEDS) {
        fli_rng_init(&rng, seed, FLI_RNG_STEPS, EVERY_TURN, client);
        work *= e->speeds.v[fli_rng_below(&rng, e->speeds.n)];
    }
    long long steps = llround(work * (double)unit);
    return steps < 1 ? 1 : (size_t)steps;
}
