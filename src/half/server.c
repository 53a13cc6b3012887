/* The server's half of a federation in public: fl_server. First the run whose clients are other programs: it is made
 * from their cards, and rehearsed with imagined clients before they join. Then the server around it: the run has its
 * own thread, and its executor puts exchanges into a remote queue; threads that call fl_server_next take them from
 * there and bring them to the clients.
 *
 * The run has its own context, so that errors of calls and errors of the run do not mix. After the run has ended its
 * errors go to the user's context, so that fl_run_save reports to its caller. */
#include "half/server.h"

#include "base/file.h"
#include "base/number.h"
#include "plan/client_setup.h"
#include "remote/remote_queue.h"
#include "run/output.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ==== a run made from cards ================================================================================= */

/* ---- weights, from the numbers of samples that clients report -------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static fl_status median_of(fl_ctx *ctx, const fli_data_shape *clients, size_t n, double *out)
{
    double *sorted = fli_alloc(ctx, n, sizeof *sorted);
    if (!sorted) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) sorted[i] = (double)clients[i].samples;
    qsort(sorted, n, sizeof *sorted, ascending);
    *out = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    fli_free(sorted);
    return FL_OK;
}

/* Only a client can count its samples. One that reports far more than all others would dominate the model, so a person
 * must allow that. */
static fl_status check_sample_counts(fl_ctx *ctx, const fli_settings *s, const fli_data_shape *clients,
                                     const fli_fed *fed)
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

/* Lowers weights to `share` and gives the rest to the others, until no weight exceeds it. */
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
    if (above == 1)
        fli_log(ctx, FL_LOG_WARNING,
                "client %zu claims more samples than server.largest_share allows: its weight is %g and not %g", first,
                share, weight[first]);
    else
        fli_log(ctx, FL_LOG_WARNING,
                "%zu clients claim more samples than server.largest_share allows, such as client %zu, whose weight is "
                "%g and not %g",
                above, first, share, weight[first]);
    cap_weights(weight, n, share);
    fed->weight = weight;
    return FL_OK;
}

static fl_status set_weights(fl_ctx *ctx, const fli_settings *s, const fli_data_shape *clients, fli_fed *fed)
{
    const fl_method *algo = s->algorithm.item.desc;
    if (s->top.weights == FLI_WEIGHTS_UNIFORM || algo->traits & FL_METHOD_UNIFORM) return FL_OK;
    fl_status status = check_sample_counts(ctx, s, clients, fed);
    return status ? status : bound_weights(ctx, s, fed);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

fl_status fli_remote_run_init(fl_config *cfg, const fli_settings *s, const fli_data_shape *clients,
                              const fli_digest *cards, fli_remote_run *j)
{
    fli_fed_spec spec = fli_settings_fed(s, NULL);
    fli_dataset *test = NULL;
    *j = (fli_remote_run){.data.samples = *cards};
    fl_status status = cfg->memory.test.size ? fli_memory_borrow(cfg->ctx, &cfg->memory.test, &test)
                                             : fli_joined_test(cfg->ctx, &spec, clients, &test);
    if (!status) status = fli_fed_joined(cfg->ctx, &spec, clients, test, &j->data.fed);
    if (!status) status = set_weights(cfg->ctx, s, clients, j->data.fed);
    if (!status)
        status = fli_remote_queue_new(cfg->ctx, cards, (uint64_t)s->participation.seed, &s->server,
                                      &j->data.setup.remote_queue);
    if (!status) status = fli_run_new(cfg, &j->data, &j->run);
    if (status) fli_remote_run_fini(j);
    return status;
}

void fli_remote_run_fini(fli_remote_run *j)
{
    fl_run_free(j->run);
    fli_remote_queue_free(j->data.setup.remote_queue);
    fli_fed_free(j->data.fed);
    *j = (fli_remote_run){0};
}

/* ---- rehearsals, before clients have joined -------------------------------------------------------------- */

/* Clients as they might be. An error that all of them have does not depend on the clients, so rules need no flag that
 * says so. Ordinary clients come first: most settings fit them, and the others are then not tried. */
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

/* Keeps the lines of `said` that `now` has, too. */
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

/* Makes a run of these clients, and frees it. */
static fl_status try_with(fl_config *cfg, const fli_settings *s, const fli_data_shape *clients)
{
    const fli_digest no_cards = {{0}};
    fli_remote_run j;
    fli_clear(cfg->ctx);
    fl_status status = fli_remote_run_init(cfg, s, clients, &no_cards, &j);
    if (!status) fli_remote_run_fini(&j);
    return status;
}

/* Tries `client` at number `place`; all others are like it but have `others` samples. */
static fl_status try_among(fl_config *cfg, const fli_settings *s, size_t place, fli_data_shape client, size_t others,
                           fli_data_shape *room)
{
    for (size_t i = 0; i < (size_t)s->partition.clients; i++) {
        room[i] = client;
        if (i != place) room[i].samples = others;
    }
    return try_with(cfg, s, room);
}

/* Refuses a client with which no run can be made, neither if all others are like it nor if they have ordinary sizes:
 * FL_ECONFIG, FL_EMISMATCH or FL_EFORMAT, with the sentence of fli_remote_run_init. `place` is its number. Logs
 * nothing. */
static fl_status suits_run(fl_config *cfg, const fli_settings *s, uint32_t place, const fli_data_shape *client)
{
    fl_status status = FL_OK;
    size_t n = (size_t)s->partition.clients;
    if (fli_settings_name_pipe(s)) return FL_OK;
    fli_data_shape *room = fli_alloc(cfg->ctx, n, sizeof *room);
    if (!room) return FL_ENOMEM;
    fli_log_quiet(cfg->ctx, 1);
    status = try_among(cfg, s, place, *client, client->samples, room);
    if (status) status = try_among(cfg, s, place, *client, imagined[0].samples, room); /* names the place */
    fli_log_quiet(cfg->ctx, 0);
    fli_free(room);
    return status == FL_ECONFIG || status == FL_EMISMATCH || status == FL_EFORMAT ? status : FL_OK;
}

/* Refuses settings from which no run can be made for any clients, with the sentences of fli_remote_run_init. `all`:
 * what the settings say of the clients' samples; `room`: space for one entry per client. */
static fl_status rehearse_run(fl_config *cfg, const fli_settings *s, const fli_data_shape *all, fli_data_shape *room)
{
    enum { WAYS = sizeof imagined / sizeof *imagined };
    fl_status status = FL_OK;
    char *said = NULL;
    if (fli_settings_name_pipe(s)) return FL_OK; /* a pipe can be read only once, by the run */
    for (size_t k = 0; k < WAYS && (!said || *said); k++) {
        fli_data_shape client = *all;
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

/* ==== the server ============================================================================================ */

typedef enum { JOINING, RUNNING, OVER } progress;

enum { KINDS = FLI_X_CSR64 + 1, SIZES = 32 }; /* clients with at least SIZES samples are treated alike */

struct fl_server {
    fl_ctx *ctx;     /* the user's: for errors of calls */
    fl_ctx *run_ctx; /* the run's */
    fl_config *cfg;
    fli_bound *bound;
    const fli_settings *settings; /* those of `bound` */
    fli_data_shape all;
    fli_data_shape *looks; /* by client; no samples: has not joined */
    fli_card *cards;
    size_t clients, missing;
    unsigned char suits[KINDS][SIZES + 1]; /* a client of this kind and size was tried: a run can begin with it */
    fli_lock *output_lock;                 /* until the run takes it over */
    fli_remote_run remote;
    pthread_t thread;
    fl_observer_fn *observer;
    void *observer_arg;
    fl_checkpoint_fn *on_checkpoint; /* NULL: none */
    void *on_checkpoint_arg;
    pthread_mutex_t lock;       /* guards all below, and what joining changes */
    pthread_cond_t caller_left; /* signalled when a caller leaves */
    progress progress;
    fl_status status;   /* of the ended run */
    char why[4096];     /* the sentences of its failure */
    int stop_requested; /* before there was a run */
    size_t callers;     /* threads in a call: fl_server_free waits for them */
};

/* ---- calls ------------------------------------------------------------------------------------------------ */

/* The error of this thread's last call, so that threads do not read each other's. */
static _Thread_local char last_error[1024];

const char *fl_server_error(const fl_server *s)
{
    (void)s;
    return last_error;
}

/* Each call uses its own context. `leave` copies the sentence of a failure to the user's context, so that sentences of
 * several threads do not mix. */
static fl_ctx *enter(fl_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->callers++;
    pthread_mutex_unlock(&s->lock);
    return fl_ctx_new();
}

static void step_out(fl_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->callers--;
    pthread_cond_broadcast(&s->caller_left);
    pthread_mutex_unlock(&s->lock);
}

static fl_status leave(fl_server *s, fl_ctx *own, fl_status status)
{
    const char *why = own ? fl_ctx_error(own) : "out of memory";
    if (status && status != FL_EDONE) {
        fli_snprintf(last_error, sizeof last_error, "%s", why);
        fli_clear(s->ctx);
        fli_fail(s->ctx, status, "%s", why);
    }
    fl_ctx_free(own);
    step_out(s);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------------------ */

static fl_status check_settings(fl_server *s)
{
    fli_fed_spec spec = fli_settings_fed(s->settings, NULL);
    const fli_executor *executor = s->settings->executor.item.desc;
    if (!fli_is_joined(&spec))
        return fli_fail(s->ctx, FL_ECONFIG,
                        "data.kind is %s, but the samples of a server are at its clients: it must be joined",
                        spec.source->name);
    if (strcmp(s->settings->partitioner.item.name, "natural"))
        return fli_fail(s->ctx, FL_ECONFIG,
                        "partition.kind is %s, but the clients of a server have their samples already: leave it out",
                        s->settings->partitioner.item.name);
    if (executor != &fli_executor_threads)
        return fli_fail(s->ctx, FL_ECONFIG, "executor is %s, but the clients of a server are elsewhere",
                        executor->name);
    if (s->settings->top.checkpoint_every > 1)
        return fli_fail(s->ctx, FL_ECONFIG,
                        "checkpoint_every is %lld, but what clients keep is at the clients, and they go back by one "
                        "round at most: a server has a checkpoint before every round (1), or none (0)",
                        (long long)s->settings->top.checkpoint_every);
    double share = s->settings->server.largest_share;
    if (share > 0 && share * (double)spec.clients < 1)
        return fli_fail(
            s->ctx, FL_ECONFIG,
            "server.largest_share is %g, but the weights of %zu clients add up to 1: it must be at least %g", share,
            spec.clients, 1 / (double)spec.clients);
    fl_status status = fli_joined_shape(s->ctx, &spec, &s->all);
    s->clients = s->missing = spec.clients;
    return status;
}

/* fl_log_fn */
static void forward(void *server, fl_log_level level, const char *line)
{
    fli_log(((fl_server *)server)->ctx, level, "%s", line);
}

/* Reports errors that do not depend on the clients before they join. Warnings come when the run is made. */
static fl_status rehearse(fl_server *s)
{
    fl_status status = rehearse_run(s->cfg, s->settings, &s->all, s->looks);
    memset(s->looks, 0, s->clients * sizeof *s->looks);
    fl_ctx_on_log(s->run_ctx, forward, s);
    return status ? fli_fail(s->ctx, status, "%s", fl_ctx_error(s->run_ctx)) : FL_OK;
}

static fl_status make_parts(fl_server *s, fl_config *cfg)
{
    fl_status status = fli_config_hold(cfg, &s->bound);
    if (status) return status;
    s->settings = &s->bound->settings;
    if ((status = check_settings(s))) return status;
    s->looks = fli_alloc(s->ctx, s->clients, sizeof *s->looks);
    s->cards = fli_alloc(s->ctx, s->clients, sizeof *s->cards);
    if (!s->looks || !s->cards) return FL_ENOMEM;
    if (!(s->run_ctx = fl_ctx_new())) return fli_fail(s->ctx, FL_ENOMEM, "out of memory");
    if (!(s->cfg = fli_config_copy(s->run_ctx, cfg))) return fli_fail(s->ctx, FL_ENOMEM, "out of memory");
    status = rehearse(s);
    /* Locks the output now: clients may take days to join, and no other run may write there meanwhile. */
    if (!status && *s->settings->top.output) status = fli_lock_take(s->ctx, s->settings->top.output, &s->output_lock);
    return status;
}

static void free_parts(fl_server *s)
{
    fli_remote_run_fini(&s->remote);
    fli_lock_leave(s->output_lock);
    fl_config_free(s->cfg);
    fl_ctx_free(s->run_ctx);
    fli_free(s->looks);
    fli_free(s->cards);
    fli_bound_release(s->bound);
    pthread_cond_destroy(&s->caller_left);
    pthread_mutex_destroy(&s->lock);
    fli_free(s);
}

fl_status fl_server_new(fl_config *cfg, fl_server **out)
{
    fli_clear(cfg->ctx);
    fl_server *s = fli_alloc(cfg->ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = cfg->ctx;
    if (pthread_mutex_init(&s->lock, NULL)) {
        fli_free(s);
        return fli_fail(cfg->ctx, FL_ESYSTEM, "a lock cannot be created");
    }
    if (pthread_cond_init(&s->caller_left, NULL)) {
        pthread_mutex_destroy(&s->lock);
        fli_free(s);
        return fli_fail(cfg->ctx, FL_ESYSTEM, "a lock cannot be created");
    }
    fl_status status = make_parts(s, cfg);
    if (status)
        free_parts(s);
    else
        *out = s;
    return status;
}

void fl_server_free(fl_server *s)
{
    if (!s) return;
    if (s->remote.data.setup.remote_queue) fli_remote_queue_close(s->remote.data.setup.remote_queue);
    pthread_mutex_lock(&s->lock);
    while (s->callers) pthread_cond_wait(&s->caller_left, &s->lock);
    int running = s->progress != JOINING;
    pthread_mutex_unlock(&s->lock);
    if (running) pthread_join(s->thread, NULL);
    free_parts(s);
}

/* ---- joining --------------------------------------------------------------------------------------------- */

static fl_status no_client(fl_ctx *ctx, const fl_server *s, uint32_t client)
{
    return fli_fail(ctx, FL_EMISMATCH, "there is no client %u: partition.clients is %zu", client, s->clients);
}

static fl_status read_card(fl_ctx *ctx, const void *bytes, size_t n, fli_card *card, fli_data_shape *look)
{
    fli_packet p;
    fl_status s = fli_packet_read(ctx, FLI_PACKET_CARD, bytes, n, &p);
    if (!s && (p.head_bytes != FLI_CARD_BYTES || p.body_bytes))
        s = fli_fail(ctx, FL_EFORMAT, "this is no card of a client: it has another length");
    if (!s) s = fli_card_read(ctx, p.head, card);
    if (s) return s;
    *look = (fli_data_shape){
        .samples = (size_t)card->samples, .classes = (size_t)card->classes, .kind = (fli_xkind)card->kind};
    for (size_t k = 0; k < 3; k++) look->shape[k] = (size_t)card->shape[k];
    return FL_OK;
}

static const fli_data_shape *first_of(const fl_server *s)
{
    for (size_t i = 0; i < s->clients; i++)
        if (s->looks[i].samples) return &s->looks[i];
    return NULL;
}

static int same_card(const fli_card *a, const fli_card *b)
{
    unsigned char x[FLI_CARD_BYTES], y[FLI_CARD_BYTES];
    fli_card_write(a, x);
    fli_card_write(b, y);
    return !memcmp(x, y, sizeof x);
}

/* A sentence without "FILE:LINE:COLUMN: ": clients must not see this machine's paths. */
static const char *without_place(const char *sentence)
{
    static const char digits[] = "0123456789";
    for (const char *at = sentence; (at = strchr(at, ':')); at++) {
        size_t line = strspn(at + 1, digits), column = line && at[1 + line] == ':' ? strspn(at + 2 + line, digits) : 0;
        if (column && !strncmp(at + 2 + line + column, ": ", 2)) return at + line + column + 4;
    }
    return sentence;
}

/* Whether a run can begin with this client. Otherwise it must not take a place: all others would wait in vain. */
static fl_status check_fit(fl_server *s, fl_ctx *ctx, uint32_t client, const fli_data_shape *look)
{
    unsigned char *suits = &s->suits[look->kind][look->samples < SIZES ? look->samples : SIZES];
    if (look->classes > s->all.classes)
        return fli_fail(ctx, FL_EREFUSED,
                        "client %u cannot join: its samples have %zu classes, and the federation has %zu", client,
                        look->classes, s->all.classes);
    if (*suits) return FL_OK;
    if (suits_run(s->cfg, s->settings, client, look))
        return fli_fail(ctx, FL_EREFUSED, "client %u cannot join: no run can begin with it: %s", client,
                        without_place(fl_ctx_error(s->run_ctx)));
    *suits = 1;
    return FL_OK;
}

/* Caller holds the lock. */
static fl_status admit(fl_server *s, fl_ctx *ctx, uint32_t client, const fli_card *card, const fli_data_shape *look)
{
    fli_data_shape *place = &s->looks[client];
    if (place->samples && same_card(&s->cards[client], card)) return FL_OK;
    if (place->samples) return fli_fail(ctx, FL_EMISMATCH, "client %u has joined already, with another card", client);
    uint64_t most = (uint64_t)s->settings->server.largest_samples;
    if (most && card->samples > most)
        return fli_fail(ctx, FL_EREFUSED,
                        "client %u cannot join: it says that it has %llu samples, and server.largest_samples is %llu",
                        client, (unsigned long long)card->samples, (unsigned long long)most);
    const char *wrong = fli_joined_wrong(&s->all, first_of(s), look);
    if (wrong) return fli_fail(ctx, FL_EMISMATCH, "client %u cannot join: %s", client, wrong);
    fl_status status = check_fit(s, ctx, client, look);
    if (status) return status;
    *place = *look;
    s->cards[client] = *card;
    s->missing--;
    return FL_OK;
}

fl_status fl_server_join(fl_server *s, uint32_t client, const void *card, size_t n)
{
    fli_card read;
    fli_data_shape look;
    fl_ctx *own = enter(s);
    fl_status status = !own ? FL_ENOMEM : client >= s->clients ? no_client(own, s, client) : FL_OK;
    if (!status) status = read_card(own, card, n, &read, &look);
    if (!status) {
        pthread_mutex_lock(&s->lock);
        status = admit(s, own, client, &read, &look);
        pthread_mutex_unlock(&s->lock);
    }
    return leave(s, own, status);
}

uint64_t fl_server_samples(const fl_server *s, uint32_t client)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&s->lock;
    pthread_mutex_lock(lock);
    uint64_t samples = client < s->clients ? s->looks[client].samples : 0;
    pthread_mutex_unlock(lock);
    return samples;
}

size_t fl_server_missing(const fl_server *s)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&s->lock;
    pthread_mutex_lock(lock);
    size_t missing = s->missing;
    pthread_mutex_unlock(lock);
    return missing;
}

/* ---- the run --------------------------------------------------------------------------------------------- */

/* If a huge vector has ruined the model, the clients that fail next are honest: they got that model. So the error names
 * the sender of the longest vector. */
static void name_longest(fl_server *s)
{
    char sentence[300];
    if (fli_remote_queue_longest(s->remote.data.setup.remote_queue, sentence, sizeof sentence))
        fli_fail_also(s->run_ctx, FL_EDIVERGED, "%s", sentence);
}

static void *run_thread(void *server)
{
    fl_server *s = server;
    fl_status status = fl_run_go(s->remote.run, s->observer, s->observer_arg);
    if (status == FL_EDIVERGED) name_longest(s);
    pthread_mutex_lock(&s->lock);
    s->status = status;
    fli_snprintf(s->why, sizeof s->why, "%s", fl_ctx_error(s->run_ctx));
    s->progress = OVER;
    pthread_mutex_unlock(&s->lock);
    fli_remote_queue_close(s->remote.data.setup.remote_queue);
    return NULL;
}

/* The digest of all cards identifies the clients. Without digests of samples, federations of equal sizes have the
 * same. */
static fli_digest digest_cards(const fl_server *s)
{
    fli_hash h;
    fli_hash_init(&h);
    fli_hash_count(&h, s->clients);
    for (size_t i = 0; i < s->clients; i++) {
        unsigned char bytes[FLI_CARD_BYTES];
        fli_card_write(&s->cards[i], bytes);
        fli_hash_bytes(&h, bytes, sizeof bytes);
    }
    return fli_hash_end(&h);
}

/* Continues from a checkpoint if there is one, and checks that the result can be written. */
static fl_status find_place(fl_run *run)
{
    fl_status s = fli_checkpoint_exists(run) ? fli_checkpoint_take(run) : fli_checkpoint_check_finished(run);
    return s ? s : fl_run_prepare_save(run, 0);
}

static fl_status make_run(fl_server *s)
{
    const fli_digest cards = digest_cards(s);
    fl_status status = fli_remote_run_init(s->cfg, s->settings, s->looks, &cards, &s->remote);
    if (status) return status;
    s->remote.run->saving.lock = s->output_lock;
    s->output_lock = NULL;
    fl_run_on_checkpoint(s->remote.run, s->on_checkpoint, s->on_checkpoint_arg);
    if (s->settings->top.checkpoint_every) status = find_place(s->remote.run);
    if (status) fli_remote_run_fini(&s->remote);
    return status;
}

/* Caller holds the lock: other calls wait meanwhile. */
static fl_status begin(fl_server *s, fl_ctx *ctx)
{
    if (s->progress != JOINING) return fli_fail(ctx, FL_ECONFIG, "the run has begun already");
    if (s->missing) return fli_fail(ctx, FL_ECONFIG, "%zu of %zu clients have not joined yet", s->missing, s->clients);
    fli_clear(s->run_ctx);
    fl_status status = make_run(s);
    if (status) return fli_fail(ctx, status, "%s", fl_ctx_error(s->run_ctx));
    if (s->stop_requested) fl_run_stop(s->remote.run);
    s->progress = RUNNING;
    if (!pthread_create(&s->thread, NULL, run_thread, s)) return FL_OK;
    s->progress = JOINING;
    fli_remote_run_fini(&s->remote);
    return fli_fail(ctx, FL_ESYSTEM, "a thread cannot be created");
}

fl_status fl_server_begin(fl_server *s)
{
    fl_ctx *own = enter(s);
    pthread_mutex_lock(&s->lock);
    fl_status status = own ? begin(s, own) : FL_ENOMEM;
    pthread_mutex_unlock(&s->lock);
    return leave(s, own, status);
}

void fl_server_observe(fl_server *s, fl_observer_fn *fn, void *arg)
{
    s->observer = fn;
    s->observer_arg = arg;
}

void fl_server_on_checkpoint(fl_server *s, fl_checkpoint_fn *fn, void *arg)
{
    s->on_checkpoint = fn;
    s->on_checkpoint_arg = arg;
}

void fl_server_stop(fl_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop_requested = 1;
    if (s->remote.run) fl_run_stop(s->remote.run);
    pthread_mutex_unlock(&s->lock);
}

fl_run *fl_server_run(fl_server *s)
{
    pthread_mutex_lock(&s->lock);
    int over = s->progress == OVER;
    if (over) fli_ctx_follow(s->run_ctx, s->ctx);
    pthread_mutex_unlock(&s->lock);
    return over ? s->remote.run : NULL;
}

/* ---- messages -------------------------------------------------------------------------------------------- */

/* Fails unless the run has begun and there is such a client. */
static fl_status check_begun(fl_server *s, fl_ctx *ctx, uint32_t client)
{
    if (!ctx) return FL_ENOMEM;
    if (client >= s->clients) return no_client(ctx, s, client);
    pthread_mutex_lock(&s->lock);
    int joining = s->progress == JOINING;
    pthread_mutex_unlock(&s->lock);
    return joining ? fli_fail(ctx, FL_ECONFIG, "the run has not begun (fl_server_begin)") : FL_OK;
}

fl_status fl_server_terms(fl_server *s, uint32_t client, fl_bytes *out)
{
    fl_ctx *own = enter(s);
    *out = (fl_bytes){NULL, 0};
    fl_status status = check_begun(s, own, client);
    return leave(s, own, status ? status : fli_remote_queue_terms(s->remote.data.setup.remote_queue, own, client, out));
}

/* The status of the ended run. FL_EDONE: it ended without a failure. */
static fl_status run_end(fl_server *s, fl_ctx *ctx)
{
    pthread_mutex_lock(&s->lock);
    fl_status status = s->progress == OVER ? s->status : FL_OK;
    pthread_mutex_unlock(&s->lock);
    return status ? fli_fail(ctx, status, "%s", s->why) : FL_EDONE;
}

fl_status fli_server_next(fl_server *s, double seconds, uint32_t *client, int *found, fli_ask_packet *out)
{
    fl_ctx *own = enter(s);
    *found = 0;
    fl_status status = check_begun(s, own, 0);
    if (!status) {
        status = fli_remote_queue_next(s->remote.data.setup.remote_queue, own, seconds, client, found, out);
        if (status == FL_EDONE) status = run_end(s, own);
    }
    return leave(s, own, status);
}

fl_status fl_server_next(fl_server *s, double seconds, uint32_t *client, fl_bytes *out)
{
    int found;
    fli_ask_packet ask;
    *out = (fl_bytes){NULL, 0};
    fl_status status = fli_server_next(s, seconds, client, &found, &ask);
    if (status || !found) return status;
    fl_ctx *own = enter(s);
    return leave(s, own, own ? fli_ask_join(own, &ask, out) : FL_ENOMEM);
}

fl_status fli_server_upload(fl_server *s, size_t n, fli_incoming **out)
{
    fl_ctx *own = enter(s);
    *out = NULL;
    fl_status status = check_begun(s, own, 0);
    return leave(s, own, status ? status : fli_remote_queue_upload(s->remote.data.setup.remote_queue, own, n, out));
}

fl_status fli_server_answer(fl_server *s, uint32_t client, fli_incoming **answer)
{
    fl_ctx *own = enter(s);
    fl_status status = check_begun(s, own, client);
    return leave(s, own,
                 status ? status : fli_remote_queue_answer(s->remote.data.setup.remote_queue, own, client, answer));
}

fl_status fl_server_answer(fl_server *s, uint32_t client, const void *answer, size_t n)
{
    fli_incoming *upload;
    fl_status status = fli_server_upload(s, n, &upload);
    if (!status && (status = fli_incoming_add(upload, answer, n))) {
        char why[300];
        fl_ctx *own = enter(s);
        fli_incoming_why(upload, why, sizeof why);
        status = leave(s, own, own ? fli_fail(own, status, "%s", why) : FL_ENOMEM);
    }
    if (!status) status = fli_server_answer(s, client, &upload);
    fli_incoming_free(upload);
    return status;
}

/* Whether the run has begun; the caller then counts among the callers. */
static int is_running(fl_server *s)
{
    pthread_mutex_lock(&s->lock);
    int running = s->progress != JOINING;
    if (running) s->callers++;
    pthread_mutex_unlock(&s->lock);
    return running;
}

size_t fl_server_answer_bytes(fl_server *s)
{
    if (!is_running(s)) return 0;
    size_t bytes = fli_remote_queue_answer_bytes(s->remote.data.setup.remote_queue);
    step_out(s);
    return bytes;
}

size_t fl_server_awaited(fl_server *s, uint32_t *clients, size_t most)
{
    if (!is_running(s)) return 0;
    size_t n = fli_remote_queue_awaited(s->remote.data.setup.remote_queue, clients, most);
    step_out(s);
    return n;
}

fl_status fl_server_drop(fl_server *s, uint32_t client, const char *why)
{
    fl_ctx *own = enter(s);
    fl_status status = check_begun(s, own, client);
    return leave(s, own, status ? status : fli_remote_queue_drop(s->remote.data.setup.remote_queue, own, client, why));
}

fl_status fl_server_refused(fl_server *s, uint32_t client, const char *why)
{
    fl_ctx *own = enter(s);
    fl_status status = check_begun(s, own, client);
    return leave(s, own,
                 status ? status : fli_remote_queue_refused(s->remote.data.setup.remote_queue, own, client, why));
}

fl_status fl_server_lost(fl_server *s, uint32_t client, const char *why)
{
    fl_ctx *own = enter(s);
    fl_status status = check_begun(s, own, client);
    return leave(s, own, status ? status : fli_remote_queue_lost(s->remote.data.setup.remote_queue, own, client, why));
}
