#include "half/joined_run.h"

#include "remote/mailbox.h"
#include "plan/member.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what clients claim ------------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static fl_status median_of(fl_ctx *ctx, const fli_look *clients, size_t n, double *out)
{
    double *sorted = fli_alloc(ctx, n, sizeof *sorted);
    if (!sorted) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) sorted[i] = (double)clients[i].samples;
    qsort(sorted, n, sizeof *sorted, ascending);
    *out = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    fli_free(sorted);
    return FL_OK;
}

/* Nobody can count a client's samples but the client. One that claims far more than all others would be nearly all of
 * the model, so that is for a person to allow. */
static fl_status check_claims(fl_ctx *ctx, const fli_settings *s, const fli_look *clients, const fli_fed *fed)
{
    enum { FEW = 3, FAR = 100 };
    size_t largest = 0, n = fed->clients;
    double median;
    if (n < FEW) return FL_OK;
    for (size_t i = 1; i < n; i++)
        if (clients[i].samples > clients[largest].samples) largest = i;
    fl_status status = median_of(ctx, clients, n, &median);
    if (status) return status;
    double claimed = (double)clients[largest].samples;
    if (!s->server.largest_samples && claimed > FAR * median)
        return fli_fail(ctx, FL_ECONFIG,
                        "client %zu says that it has %.0f samples, more than %d times the median %g of all, and its "
                        "weight would go by that; set server.largest_samples to %.0f to let it in, or to less to have "
                        "it refused",
                        largest, claimed, FAR, median, claimed);
    if (2 * fli_fed_size(fed, largest) > fed->samples && !(s->server.largest_share > 0))
        fli_log(ctx, FL_LOG_WARNING,
                "client %zu says that it has %zu of all %zu training samples: it alone is more than half of the model "
                "(server.largest_share bounds that)",
                largest, fli_fed_size(fed, largest), fed->samples);
    return FL_OK;
}

/* Lowers weights to the share; what the others get more may lift another one above it, so until none is. */
static void cap_weights(double *weight, size_t n, double share)
{
    for (int changed = 1; changed;) {
        double capped = 0, rest = 0;
        changed = 0;
        for (size_t i = 0; i < n; i++) *(weight[i] < share ? &rest : &capped) += weight[i] < share ? weight[i] : share;
        for (size_t i = 0; i < n; i++) {
            double now = weight[i] < share ? weight[i] * (1 - capped) / rest : share;
            changed |= now > share && weight[i] < share;
            weight[i] = fmin(now, share);
        }
    }
}

static fl_status bound_weights(fl_ctx *ctx, const fli_settings *s, fli_fed *fed)
{
    double share = s->server.largest_share;
    size_t n = fed->clients, above = 0, first = n;
    if (!(share > 0)) return FL_OK;
    double *weight = fli_alloc(ctx, n, sizeof *weight);
    if (!weight) return FL_ENOMEM;
    for (size_t i = n; i-- > 0;) {
        weight[i] = (double)fli_fed_size(fed, i) / (double)fed->samples;
        if (weight[i] > share) above++, first = i;
    }
    if (!above) {
        fli_free(weight);
        return FL_OK;
    }
    fli_log(ctx, FL_LOG_WARNING,
            "%zu clients claim more samples than server.largest_share allows, such as client %zu, whose weight is %g "
            "and not %g",
            above, first, share, weight[first]);
    cap_weights(weight, n, share);
    fed->weight = weight;
    return FL_OK;
}

static fl_status weigh(fl_ctx *ctx, const fli_settings *s, const fli_look *clients, fli_fed *fed)
{
    const fli_algo *algo = s->algorithm.item.desc;
    if (s->top.weights == FLI_WEIGHTS_UNIFORM || algo->traits & FLI_ALGO_UNIFORM) return FL_OK;
    fl_status status = check_claims(ctx, s, clients, fed);
    return status ? status : bound_weights(ctx, s, fed);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

fl_status fli_joined_run_init(fl_config *cfg, const fli_settings *s, const fli_look *clients, const fli_digest *cards,
                              fli_joined_run *j)
{
    fli_fed_spec spec = fli_settings_fed(s, NULL);
    fli_dataset *test = NULL;
    *j = (fli_joined_run){.data.samples = *cards};
    fl_status status = cfg->memory.test.size ? fli_memory_borrow(cfg->ctx, &cfg->memory.test, &test)
                                             : fli_joined_test(cfg->ctx, &spec, clients, &test);
    if (!status) status = fli_fed_joined(cfg->ctx, &spec, clients, test, &j->data.fed);
    if (!status) status = weigh(cfg->ctx, s, clients, j->data.fed);
    if (!status)
        status = fli_mailbox_new(cfg->ctx, cards, (uint64_t)s->participation.seed, &s->server, &j->data.mailbox);
    if (!status) status = fli_run_new(cfg, &j->data, &j->run);
    if (status) fli_joined_run_fini(j);
    return status;
}

void fli_joined_run_fini(fli_joined_run *j)
{
    fl_run_free(j->run);
    fli_mailbox_free(j->data.mailbox);
    fli_fed_free(j->data.fed);
    *j = (fli_joined_run){0};
}

/* ---- before anybody has joined ---------------------------------------------------------------------------- */

/* Clients as they might be. What is said of all of them does not depend on what clients say of themselves, so a rule
 * needs no mark for that. Ordinary ones come first, as most settings are good for them and the others are not tried. */
static const struct {
    fli_xkind kind;
    size_t samples;
} imagined[] = {{FLI_X_F32, 1000}, {FLI_X_F32, 1}, {FLI_X_U8, 1000}, {FLI_X_CSR, 1000}};

static int has_line(const char *text, const char *line, size_t length)
{
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\n");
        if (n == length && !memcmp(at, line, n)) return 1;
        at += n + (at[n] == '\n');
    }
    return 0;
}

/* Keeps the lines of `said` that are also in `now`. */
static void keep_common(char *said, const char *now)
{
    char *to = said;
    for (const char *at = said; *at;) {
        size_t n = strcspn(at, "\n"), step = n + (at[n] == '\n');
        if (has_line(now, at, n)) {
            memmove(to, at, step);
            to += step;
        }
        at += step;
    }
    while (to > said && to[-1] == '\n') to--;
    *to = 0;
}

/* A run of these clients, made and given up again. */
static fl_status try_with(fl_config *cfg, const fli_settings *s, const fli_look *clients)
{
    const fli_digest nobody = {{0}};
    fli_joined_run j;
    fli_clear(cfg->ctx);
    fl_status status = fli_joined_run_init(cfg, s, clients, &nobody, &j);
    if (!status) fli_joined_run_fini(&j);
    return status;
}

/* The client in that place, and all others with this many samples of its kind. */
static fl_status try_among(fl_config *cfg, const fli_settings *s, size_t place, fli_look client, size_t others,
                           fli_look *room)
{
    for (size_t i = 0; i < (size_t)s->partition.clients; i++) {
        room[i] = client;
        if (i != place) room[i].samples = others;
    }
    return try_with(cfg, s, room);
}

fl_status fli_joined_run_suits(fl_config *cfg, const fli_settings *s, uint32_t place, const fli_look *client)
{
    fl_status status = FL_OK;
    size_t n = (size_t)s->partition.clients;
    if (fli_settings_name_pipe(s)) return FL_OK;
    fli_look *room = fli_alloc(cfg->ctx, n, sizeof *room);
    if (!room) return FL_ENOMEM;
    fli_log_quiet(cfg->ctx, 1);
    status = try_among(cfg, s, place, *client, client->samples, room);
    if (status) status = try_among(cfg, s, place, *client, imagined[0].samples, room); /* its sentence has the place */
    fli_log_quiet(cfg->ctx, 0);
    fli_free(room);
    return status == FL_ECONFIG || status == FL_EMISMATCH || status == FL_EFORMAT ? status : FL_OK;
}

fl_status fli_joined_run_rehearse(fl_config *cfg, const fli_settings *s, const fli_look *all, fli_look *room)
{
    enum { WAYS = sizeof imagined / sizeof *imagined };
    fl_status status = FL_OK;
    char *said = NULL;
    if (fli_settings_name_pipe(s)) return FL_OK; /* it can be read once, and that is for the run */
    for (size_t k = 0; k < WAYS && (!said || *said); k++) {
        fli_look client = *all;
        client.kind = imagined[k].kind;
        client.samples = imagined[k].samples;
        if (!(status = try_among(cfg, s, 0, client, client.samples, room))) break;
        if (said) keep_common(said, fl_ctx_error(cfg->ctx));
        if (!said && !(said = fli_strdup(cfg->ctx, fl_ctx_error(cfg->ctx)))) return FL_ENOMEM;
    }
    fli_clear(cfg->ctx);
    status = status && *said ? fli_fail(cfg->ctx, status, "%s", said) : FL_OK;
    fli_free(said);
    return status;
}
