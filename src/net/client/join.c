/* A client of a federation over a network: its settings, then its session from the first call to the end of the run. */
#include "net/client/join.h"

#include "base/number.h"
#include "base/os.h"
#include "config/config.h"
#include "net/cert/trust.h"
#include "net/client/client_store.h"
#include "net/client/heartbeat.h"
#include "net/client/http_client.h"
#include "net/common/federation_info.h"

#include <string.h>

/* ==== limits ====================================================================================================== */

const fl_key fli_join_limit_keys[] = {
    FLI_KEY_INT(fli_join_limits, steps, "1000000", 0, FLI_NO_MAX,
                "at most this many local steps per ask; 0: any number"),
    FLI_KEY_INT(fli_join_limits, samples, "0", 0, FLI_NO_MAX,
                "at most this many samples per ask, counted once per pass; 0: any number"),
    FLI_KEY_SIZE(fli_join_limits, bytes, "auto",
                 "at most this many bytes per ask: 64MiB; auto: what the method and the model need"),
    FLI_KEY_SIZE(fli_join_limits, memory, "auto", "at most this much memory for model and turns: 2GiB; auto: any"),
    FLI_KEY_REAL(fli_join_limits, seconds, "0", 0, FLI_NO_MAX, "at most this many seconds per ask; 0: any number"),
    FLI_KEY_STRING(fli_join_limits, methods, "", "methods that it takes part in: [fedavg, scaffold]; '' for all"),
    FLI_KEY_STRING(fli_join_limits, models, "", "models that it trains: [mlp, softmax]; '' for all"),
    FLI_KEY_END,
};

/* Turns a YAML list of names into one text; other nodes stay. */
static fl_status join_names(fl_ctx *ctx, fli_arena *a, fli_node *n)
{
    fli_text names;
    if (!n || n->type != FLI_NODE_LIST) return FL_OK;
    fli_text_init(&names, ctx);
    for (const fli_node *item = n->first; item; item = item->next) {
        if (item->type != FLI_NODE_SCALAR) goto odd; /* stays a list, which fli_bind reports */
        fli_text_addf(&names, "%s%s", item == n->first ? "" : ",", item->text);
    }
    fl_status s = fli_text_ok(&names);
    n->text = s ? NULL : fli_arena_strdup(a, fli_text_get(&names));
    if (n->text) n->type = FLI_NODE_SCALAR;
    fli_text_fini(&names);
    return n->text ? FL_OK : FL_ENOMEM;
odd:
    fli_text_fini(&names);
    return FL_OK;
}

/* Splits a text into names; NULL ends the list. */
static const char **split_names(fli_arena *a, const char *names)
{
    const char **list = fli_arena_alloc(a, strlen(names) / 2 + 2, sizeof *list);
    char *copy = fli_arena_strdup(a, names), *rest = copy;
    if (!list || !copy) return NULL;
    for (size_t i = 0; (list[i] = strtok_r(rest, ", ", &rest)); i++) continue;
    return list;
}

static int is_among(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (!strcmp(*names, name)) return 1;
    return 0;
}

/* fl_name_fn */
static const char *kind_at(const void *section, size_t i) { return fl_kind_at(section, i); }

/* Fails for names that no kind of the section ("algorithm", "model") has: they are typing errors. */
static fl_status check_names(fl_ctx *ctx, const fli_node *where, const char *key, const char *section,
                             const char *const *names)
{
    char place[256], meant[FLI_MEANT_LEN];
    fl_status s = FL_OK;
    for (; *names; names++) {
        size_t k = 0;
        const char *known;
        while ((known = fl_kind_at(section, k)) && strcmp(known, *names)) k++;
        if (!known)
            s = fli_fail_also(ctx, FL_ECONFIG, "%slimits.%s: there is no %s called %.64s%s `fedloom list` has them",
                              where ? fli_node_where(where, place, sizeof place) : "", key, section, *names,
                              *fli_meant(fl_nearest(*names, kind_at, section), meant) ? meant : ";");
    }
    return s;
}

/* Reads the section `limits`, which may be NULL. Lists of names may be YAML lists. */
static fl_status join_limits_bind(fl_ctx *ctx, fli_arena *a, fli_node *section, fli_join_limits *out)
{
    const fli_table table = {fli_join_limit_keys, out};
    fli_node *methods = fli_node_find(section, "methods"), *models = fli_node_find(section, "models");
    memset(out, 0, sizeof *out);
    fl_status s = join_names(ctx, a, methods);
    if (!s) s = join_names(ctx, a, models);
    if (!s) s = fli_bind(ctx, a, "limits", section, NULL, &table, 1);
    if (s) return s;
    if (!(out->method = split_names(a, out->methods)) || !(out->model = split_names(a, out->models))) return FL_ENOMEM;
    s = check_names(ctx, methods, "methods", "algorithm", out->method);
    fl_status t = check_names(ctx, models, "models", "model", out->model);
    return s ? s : t;
}

const char *fli_join_limits_wrong(const fli_join_limits *l, const char *method, const char *model, char *sentence,
                                  size_t n)
{
    if (method && *l->method && !is_among(l->method, method))
        fli_snprintf(sentence, n, "the method is %.64s, and this client takes part in %.200s alone", method,
                     l->methods);
    else if (model && *l->model && !is_among(l->model, model))
        fli_snprintf(sentence, n, "the model is %.64s, and this client trains %.200s alone", model, l->models);
    else
        return NULL;
    return sentence;
}

/* Sets the limits of a client, which refuses asks beyond them. `l` must outlive the client. */
static fl_status join_limits_set(const fli_join_limits *l, fl_client *client)
{
    const fl_client_limits limits = {.size = sizeof limits,
                                     .bytes = (uint64_t)l->bytes,
                                     .memory = (uint64_t)l->memory,
                                     .steps = (uint64_t)l->steps,
                                     .samples = (uint64_t)l->samples,
                                     .seconds = l->seconds,
                                     .methods = *l->method ? l->method : NULL,
                                     .models = *l->model ? l->model : NULL};
    return fl_client_limit(client, &limits);
}

/* ==== a client's file ============================================================================================= */

const fl_key fli_join_keys[] = {
    FLI_KEY_STRING(fli_join_settings, url, "", "the server, such as https://host:8443"),
    FLI_KEY_STRING(fli_join_settings, certs, "",
                   "folder with this client's ca.pem, cert.pem and key.pem, as `fedloom cert client` makes it"),
    FLI_KEY_STRING(fli_join_settings, name, "", "over plain HTTP: the client's name; else its certificate says it"),
    FLI_KEY_BOOL(fli_join_settings, insecure_http, "false",
                 "lets the URL be http://, to this machine itself alone: for trials"),
    FLI_KEY_STRING(fli_join_settings, keep, "",
                   "folder for what the client keeps between turns; '' for fedloom-NAME in the current folder"),
    FLI_KEY_STRING(fli_join_settings, proxy, "", "URL of a proxy; '' for none, whatever the environment says"),
    FLI_KEY_REAL(fli_join_settings, patience, "0", 0, FLI_NO_MAX,
                 "seconds without a server after which to give up; 0: never"),
    FLI_KEY_BOOL(fli_join_settings, digest, "false",
                 "tells the server a digest of the samples, so that it notices if they are others than before"),
    FLI_KEY_END,
};

/* Moves the node of that key from one map to the other. */
static void move(fli_node *from, const char *key, fli_node *to)
{
    fli_node *n = fli_node_take(from, key);
    if (n) fli_node_append(to, n);
}

fl_status fli_join_settings_take(fl_config *cfg, fli_join_settings *out)
{
    const fli_table table = {fli_join_keys, out};
    fli_arena *a = &out->arena;
    memset(out, 0, sizeof *out);
    fli_arena_init(a, cfg->ctx);
    fli_clear(cfg->ctx);
    fli_node *own = fli_node_new(a, FLI_NODE_MAP, NULL, NULL), *limits = fli_node_new(a, FLI_NODE_MAP, NULL, NULL);
    if (!own || !limits) return FL_ENOMEM;
    fli_node *root = fli_config_change(cfg);
    for (const fl_key *k = fli_join_keys; k->name; k++) move(root, k->name, own);
    move(root, "limits", limits);
    fl_status s = fli_bind(cfg->ctx, a, "", own, NULL, &table, 1);
    fl_status t = join_limits_bind(cfg->ctx, a, limits->first, &out->limits);
    return s ? s : t;
}

void fli_join_settings_fini(fli_join_settings *s) { fli_arena_fini(&s->arena); }

/* ==== taking part ================================================================================================= */

enum { WAIT = 30 };                                /* seconds that the server may hold a request for an ask */
static const double beat_every = 5;                /* seconds */
static const size_t most_terms = (size_t)16 << 20; /* bytes */

typedef struct {
    fl_ctx *ctx;
    const fli_join_spec *spec;
    const fli_join_settings *settings;
    fli_tls_files tls;
    fli_retry retry;
    fli_client_store *store;
    char instance[FLI_INSTANCE_TEXT];
    fli_heartbeat *heartbeat;
    char name[FLI_NET_NAME_MAX + 1];
    int stopped;       /* the session ends without an error */
    int run_over;      /* the server has said so */
    int joined;        /* the server has the card, and the client the terms */
    int waiting_said;  /* `tell` was told that the client waits for others */
    size_t clients;    /* of the federation */
    long long number;  /* among them */
    fl_client *client; /* NULL: not made yet */
    fl_bytes card;
    fli_digest samples; /* digest of the loaded samples */
    fli_digest run;
    int accepted;          /* the client has accepted the terms of `run` */
    int stop_stale;        /* a turn was told to stop after it had ended: the stop may hit the next turn */
    unsigned char *answer; /* an answer that the server may not have; NULL: none. From fli_alloc */
    size_t answer_bytes;
    int answer_stored; /* the answer is on the disk */
} session;

/* ---- messages -------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void tell(const session *j, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    if (!j->spec->tell) return;
    va_start(ap, fmt);
    fli_vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    j->spec->tell(j->spec->arg, line);
}

static const char *amount(size_t bytes, char text[32])
{
    if (bytes < 10000)
        fli_snprintf(text, 32, "%zu bytes", bytes);
    else
        fli_snprintf(text, 32, bytes < 10000000 ? "%.0f KB" : "%.1f MB",
                     (double)bytes / (bytes < 10000000 ? 1e3 : 1e6));
    return text;
}

/* Ends the session without an error. */
static fl_status stop(session *j)
{
    j->stopped = 1;
    return FL_EDONE;
}

/* ---- consent --------------------------------------------------------------------------------------------- */

static fl_status ask_consent(session *j, const char *what, const char *text, int ask, int *may)
{
    fli_consent leave = j->spec->show ? j->spec->show(j->spec->arg, what, text, ask) : FLI_CONSENT_SEND;
    *may = leave == FLI_CONSENT_SEND;
    return leave == FLI_CONSENT_STOP ? stop(j) : FL_OK;
}

/* Shows a packet in words, if there is `show`. *may: it may be sent. */
static fl_status show_packet(session *j, const char *what, const void *p, size_t n, int *may)
{
    fl_bytes text = {0};
    *may = 1;
    if (!j->spec->show) return FL_OK;
    fl_status s = fl_client_describe(j->client, p, n, &text);
    if (!s) s = ask_consent(j, what, (const char *)text.data, 1, may);
    fl_bytes_free(&text);
    return s;
}

/* Tells the server that the client will not answer this ask, and why. number 0: it does not accept the terms. */
static fl_status refuse(session *j, uint64_t number, const char *why)
{
    char quoted[300];
    fli_text body;
    fli_http_answer reply;
    int may;
    fli_net_say(&j->spec->log, "refuse", "number=%llu why=%s", (unsigned long long)number,
                fli_net_quote(why, quoted, sizeof quoted));
    tell(j, "refused what the server asks: %s", why);
    fli_text_init(&body, j->ctx);
    fli_text_addf(&body, "{\"number\": %llu, \"reason\": ", (unsigned long long)number);
    fli_text_json(&body, why);
    fli_text_add(&body, "}");
    fl_status s = fli_text_ok(&body);
    if (!s) s = ask_consent(j, "a refusal", fli_text_get(&body), 0, &may);
    if (!s) s = fli_retry_post(&j->retry, FLI_NET_REFUSE, "application/json", fli_text_get(&body), body.n, &reply);
    fli_text_fini(&body);
    return s ? s : fli_retry_pause(&j->retry); /* the server may send the same ask at once again */
}

/* ---- joining --------------------------------------------------------------------------------------------- */

/* The card has the digest only if the settings say so; the client itself compares the digest at every start. */
static fl_status make_card(session *j)
{
    fl_bytes own;
    fl_status s = fl_client_card(j->client, 1, &own);
    if (s) return s;
    s = fli_peek_samples(j->ctx, own.data, own.n, &j->samples);
    if (!s && j->settings->digest) {
        j->card = own;
        return FL_OK;
    }
    fl_bytes_free(&own);
    return s ? s : fl_client_card(j->client, 0, &j->card);
}

static fl_status make_client(session *j)
{
    fl_client_free(j->client);
    j->client = NULL;
    j->accepted = 0;
    fl_status s = fl_client_new(j->spec->cfg, &j->client);
    if (!s) s = join_limits_set(&j->settings->limits, j->client);
    if (!s && !j->card.n) s = make_card(j);
    return s;
}

/* Tells the server that this client knows that the run is over, so that it need not wait. A few tries are enough: if
 * all are lost, the server waits for its grace period; if only the reply is lost, the server may have ended. */
static void acknowledge_end(session *j)
{
    enum { TRIES = 3 };
    static const char words[] = "{\"over\": true}";
    fli_http_answer reply;
    fli_http_backoff_reset(&j->retry.backoff);
    for (int i = 0; i < TRIES; i++) {
        if (i && fli_retry_pause(&j->retry)) return;
        if (fli_http_call_post(j->retry.call, FLI_NET_ALIVE, "application/json", words, sizeof words - 1, &reply) !=
            FLI_CALL_AGAIN)
            return;
    }
}

static fl_status over(session *j, const fli_http_answer *r)
{
    char reason[300], quoted[300];
    int ok = r ? fli_http_answer_flag(r, "ok", 0) : 1;
    if (r) fli_http_answer_text(r, "reason", reason, sizeof reason);
    acknowledge_end(j);
    j->run_over = 1;
    fl_status s = fli_client_store_over(j->store);
    fli_net_say(&j->spec->log, "over", "ok=%s%s%s", ok ? "true" : "false",
                ok ? "" : " why=", ok ? "" : fli_net_quote(reason, quoted, sizeof quoted));
    if (s) return s;
    if (!ok) return fli_fail(j->ctx, FL_EIO, "the run failed at the server: %s", reason);
    tell(j, "the run is over");
    return FL_EDONE;
}

/* A client with other labels would take a place, and fail only when all have joined. */
static fl_status check_labels(session *j, const fli_federation_info *f)
{
    char why[600];
    fl_status s = fl_client_labels(j->client, f->wanted.classes, f->class_name);
    if (s != FL_EMISMATCH) return s;
    fli_snprintf(why, sizeof why, "%s", fl_ctx_error(j->ctx));
    fli_clear(j->ctx);
    return fli_fail(j->ctx, s, "this client cannot join: %s", why);
}

/* Checks what can be known before the client sends anything. */
static fl_status check_federation(session *j, const fli_federation_info *f)
{
    char why[400];
    const char *wrong = fli_join_limits_wrong(&j->settings->limits, *f->method ? f->method : NULL,
                                              *f->model ? f->model : NULL, why, sizeof why);
    if (wrong) return fli_fail(j->ctx, FL_EREFUSED, "this federation is beyond the limits of this client: %s", wrong);
    if (*f->name && strcmp(f->name, j->name))
        return fli_fail(j->ctx, FL_EMISMATCH, "the server takes this client for %s, but it is %s", f->name, j->name);
    wrong = f->has_wanted ? fli_peek_card_wrong(j->ctx, j->card.data, j->card.n, &f->wanted, why, sizeof why) : NULL;
    if (wrong) return fli_fail(j->ctx, FL_EMISMATCH, "this client cannot join: %s", wrong);
    return f->has_wanted && !j->accepted ? check_labels(j, f) : FL_OK;
}

static fl_status ask_federation(session *j)
{
    fli_http_answer r;
    fli_federation_info f;
    fl_status s = fli_retry_get(&j->retry, FLI_NET_FEDERATION, -1, FLI_NET_SMALL_BODY, &r);
    if (s) return s;
    if (r.code != 200) return fli_fail(j->ctx, FL_EREFUSED, "%s", fli_http_call_why(j->retry.call));
    s = fli_federation_info_read(j->ctx, r.body, r.n, &f);
    j->clients = f.clients;
    if (!s && !f.over) s = check_federation(j, &f);
    fli_federation_info_fini(&f);
    if (s || !f.over) return s;
    s = fli_retry_get(&j->retry, FLI_NET_ASK, 0, FLI_NET_SMALL_BODY, &r); /* the reply says how it ended */
    return s ? s : over(j, r.code == 410 ? &r : NULL);
}

static fl_status send_card(session *j)
{
    fli_http_answer r;
    int may = 1;
    fl_status s = j->number < 0 ? show_packet(j, "the card", j->card.data, j->card.n, &may) : FL_OK;
    if (!s && !may) s = stop(j);
    if (!s) s = fli_retry_post(&j->retry, FLI_NET_JOIN, FLI_NET_PACKET, j->card.data, j->card.n, &r);
    if (s) return s;
    if (r.code == 410) return over(j, &r);
    json_t *said = r.code == 200 ? fli_http_answer_json(&r) : NULL;
    const json_t *client = json_object_get(said, "client");
    long long number = json_is_integer(client) ? json_integer_value(client) : -1;
    json_decref(said);
    if (number < 0 || number > UINT32_MAX) return fli_fail(j->ctx, FL_EREFUSED, "%s", fli_http_call_why(j->retry.call));
    if (j->number != number) {
        fli_net_say(&j->spec->log, "joined", "name=%s client=%lld clients=%zu", j->name, number, j->clients);
        tell(j, "joined as %s, client %lld of %zu", j->name, number, j->clients);
    }
    j->number = number;
    return FL_OK;
}

static void drop_answer(session *j)
{
    fli_free(j->answer);
    j->answer = NULL;
    j->answer_bytes = 0;
}

/* Digests of what a run began with. It continues only with the same, because the client's state was made from them. */
typedef struct {
    fli_digest samples, terms;
} run_inputs;

static fl_status decline(session *j, const char *what)
{
    char why[100];
    fli_snprintf(why, sizeof why, "its %s are not those that it began this run with", what);
    fl_status s = refuse(j, 0, why);
    if (s) return s;
    return fli_fail(j->ctx, FL_EMISMATCH,
                    "the %s are not those that this client began the run in %s with; bring those back, or go on with "
                    "these by --changed-data",
                    what, fli_client_store_run_folder(j->store));
}

static fl_status compare_with_begun(session *j, const void *terms, size_t bytes)
{
    fli_hash h;
    unsigned char *was;
    size_t n;
    fli_hash_init(&h);
    fli_hash_bytes(&h, terms, bytes);
    run_inputs now = {j->samples, fli_hash_end(&h)}, then;
    fl_status s = fli_client_store_read(j->store, FLI_CLIENT_STORE_BEGUN, &was, &n);
    if (s) return s;
    if (n == sizeof then)
        memcpy(&then, was, n);
    else
        then = now; /* this is the beginning */
    int known = n == sizeof then;
    fli_free(was);
    int other_samples = !fli_digest_same(&now.samples, &then.samples);
    int other_terms = !fli_digest_same(&now.terms, &then.terms);
    const char *what = other_samples && other_terms ? "samples and terms" : other_samples ? "samples" : "terms";
    if (known && !other_samples && !other_terms) return FL_OK;
    if (known && !j->spec->changed) return decline(j, what);
    if (known) {
        fli_net_say(&j->spec->log, "changed", "what=\"%s\"", what);
        tell(j, "going on with other %s than the run was begun with", what);
    }
    return fli_client_store_write(j->store, FLI_CLIENT_STORE_BEGUN, &now, sizeof now);
}

/* Continues from the files of this run, if there are any. */
static fl_status restore(session *j, const void *terms, size_t bytes)
{
    unsigned char *state;
    size_t n;
    fl_status s = fli_client_store_run(j->store, &j->run);
    if (!s) s = compare_with_begun(j, terms, bytes);
    if (!s) s = fli_client_store_read(j->store, FLI_CLIENT_STORE_STATE, &state, &n);
    if (s || !state) return s;
    s = fl_client_restore(j->client, state, n);
    fli_free(state);
    if (s) return s;
    tell(j, "going on from what was kept");
    fli_net_say(&j->spec->log, "restored", "bytes=%zu", n);
    drop_answer(j);
    if (fli_client_store_read(j->store, FLI_CLIENT_STORE_ANSWER, &j->answer, &j->answer_bytes)) /* it comes again */
        fli_net_say(&j->spec->log, "damaged", "what=answer");
    fli_clear(j->ctx);
    j->answer_stored = 1;
    return FL_OK;
}

static fl_status accept_terms(session *j, const void *terms, size_t n)
{
    fli_digest run;
    fl_status s = fli_peek_terms(j->ctx, terms, n, &run);
    int other = !s && j->accepted && !fli_digest_same(&run, &j->run);
    if (other) {
        tell(j, "the server has begun another run");
        drop_answer(j);
        s = make_client(j);
    }
    if (!s) s = fl_client_accept(j->client, terms, n);
    if (s || j->accepted) return s;
    j->run = run;
    j->accepted = 1;
    return restore(j, terms, n);
}

/* Refuses the terms. The server only gets the sentence. */
static fl_status decline_terms(session *j)
{
    char why[400];
    fli_snprintf(why, sizeof why, "%s", fl_ctx_error(j->ctx));
    fl_status s = refuse(j, 0, why);
    return s ? s : fli_fail(j->ctx, FL_EREFUSED, "%s", why);
}

static void say_waiting(session *j)
{
    if (!j->waiting_said) tell(j, "waiting for others to join");
    j->waiting_said = 1;
}

static fl_status fetch_terms(session *j)
{
    fli_http_answer r;
    fl_status s = fli_retry_get(&j->retry, FLI_NET_TERMS, WAIT, most_terms, &r);
    if (s) return s;
    switch (r.code) {
    case 200: break;
    case 204: say_waiting(j); return FL_OK;
    case 409: j->retry.broken = 1; return fli_retry_pause(&j->retry); /* the server has lost the card */
    case 410: return over(j, &r);
    default: return fli_fail(j->ctx, FL_EREFUSED, "%s", fli_http_call_why(j->retry.call));
    }
    if (r.cut) return fli_fail(j->ctx, FL_EREFUSED, "the server's terms have more than %zu bytes", most_terms);
    s = accept_terms(j, r.body, r.n);
    if (s == FL_EREFUSED) s = decline_terms(j);
    if (!s) j->joined = 1;
    return s;
}

/* Also called after every call that had to be repeated: the server may be another process now. All calls may be
 * repeated. */
static fl_status join(session *j)
{
    j->joined = j->retry.broken = 0;
    fl_status s = ask_federation(j);
    if (!s) s = send_card(j);
    while (!s && !j->joined && !j->retry.broken) s = fetch_terms(j);
    return s;
}

/* ---- working --------------------------------------------------------------------------------------------- */

static void stop_work(void *arg) { fl_client_stop(((session *)arg)->client); }

/* Handles the reply to an answer. The answer is settled, unless the client has to join first. */
static fl_status settle_answer(session *j, const fli_http_answer *r, const char *about)
{
    char said[300], quoted[300];
    if (r->code == 409 && fli_http_answer_flag(r, "join", 0)) {
        j->retry.broken = 1;
        return fli_retry_pause(&j->retry);
    }
    if (r->code == 410) return over(j, r);
    fli_http_answer_text(r, "error", said, sizeof said);
    if (r->code == 200)
        fli_net_note(&j->spec->log, "sent", "%s bytes=%zu", about, j->answer_bytes);
    else {
        fli_net_say(&j->spec->log, "untaken", "%s code=%ld why=%s", about, r->code,
                    fli_net_quote(said, quoted, sizeof quoted));
        tell(j, "the server did not take an answer: %s", *said ? said : "it does not say why");
    }
    drop_answer(j);
    return j->answer_stored ? fli_client_store_forget(j->store, FLI_CLIENT_STORE_ANSWER) : FL_OK;
}

static fl_status send_answer(session *j, const char *about)
{
    fli_http_answer r;
    j->retry.finishing = 1;
    fl_status s = fli_retry_post(&j->retry, FLI_NET_ANSWER, FLI_NET_PACKET, j->answer, j->answer_bytes, &r);
    j->retry.finishing = 0;
    return s ? s : settle_answer(j, &r, about);
}

/* State first: with the answer alone, the server could count a turn that the client has forgotten. */
static fl_status store_turn(session *j)
{
    fl_bytes state = {0};
    fl_status s = fl_client_state(j->client, &state);
    if (!s) s = fli_client_store_write(j->store, FLI_CLIENT_STORE_STATE, state.data, state.n);
    if (!s) s = fli_client_store_write(j->store, FLI_CLIENT_STORE_ANSWER, j->answer, j->answer_bytes);
    fl_bytes_free(&state);
    return s;
}

static fl_status deliver(session *j, const fli_peeked_ask *g, double seconds)
{
    char about[160], size[32];
    int may;
    fl_status s = show_packet(j, g->turn ? "the answer to a turn" : "the answer to a measurement", j->answer,
                              j->answer_bytes, &may);
    if (!s && g->turn && j->spec->look_only) return stop(j);
    if (s || !may) {
        drop_answer(j);
        return s ? s : refuse(j, g->number, "the answer was not let go by the people at this client");
    }
    if (g->turn) s = store_turn(j);
    j->answer_stored = g->turn; /* a measurement changes nothing, and can be asked for again */
    if (g->turn)
        fli_snprintf(about, sizeof about, "number=%llu round=%llu steps=%llu seconds=%.3f",
                     (unsigned long long)g->number, (unsigned long long)g->round + 1, (unsigned long long)g->steps,
                     seconds);
    else
        fli_snprintf(about, sizeof about, "number=%llu measured=true", (unsigned long long)g->number);
    if (g->turn)
        tell(j, "round %llu: %llu steps in %.3g s, sending %s", (unsigned long long)g->round + 1,
             (unsigned long long)g->steps, seconds, amount(j->answer_bytes, size));
    if (!s) s = send_answer(j, about);
    return !s && g->turn && j->spec->once ? FL_EDONE : s;
}

static fl_status compute(session *j, const void *ask, size_t n, const fli_peeked_ask *g, fl_bytes *out)
{
    fli_heartbeat_work(j->heartbeat, g->number);
    fl_status s = fl_client_work(j->client, ask, n, out);
    if (s == FL_EREFUSED && j->stop_stale) s = fl_client_work(j->client, ask, n, out);
    int told_to_stop = fli_heartbeat_rest(j->heartbeat);
    j->stop_stale = told_to_stop && s != FL_EREFUSED;
    if (s == FL_EREFUSED && told_to_stop && fli_retry_stopping(&j->retry)) return stop(j);
    return s;
}

/* `ask` lies in the connection's reply: no call may use the connection before the turn is computed. */
static fl_status work(session *j, const void *ask, size_t n)
{
    fli_peeked_ask g;
    fl_bytes answer = {0};
    char why[400];
    double begun = fli_clock_now();
    fl_status s = fli_peek_ask(j->ctx, ask, n, &g);
    if (s) return fli_retry_pause(&j->retry); /* damaged on its way: the server sends it again */
    s = compute(j, ask, n, &g, &answer);
    if (s == FL_EREFUSED || s == FL_EFORMAT || s == FL_EMISMATCH) {
        fli_snprintf(why, sizeof why, "%s", fl_ctx_error(j->ctx));
        return refuse(j, g.number, why);
    }
    if (s) return s;
    drop_answer(j);
    j->answer = answer.data;
    j->answer_bytes = answer.n;
    return deliver(j, &g, fli_clock_now() - begun);
}

static fl_status too_long(session *j, const fli_http_answer *r, size_t most)
{
    char why[200];
    uint64_t number = fli_peek_number(r->body, r->n);
    fli_snprintf(why, sizeof why, "the ask has more than the %zu bytes that this client takes", most);
    return number ? refuse(j, number, why) : fli_fail(j->ctx, FL_EREFUSED, "%s", why);
}

static fl_status fetch_ask(session *j)
{
    fli_http_answer r;
    size_t most = fl_client_ask_bytes(j->client);
    fl_status s = fli_retry_get(&j->retry, FLI_NET_ASK, WAIT, most, &r);
    if (s) return s;
    if (r.code == 204) return FL_OK;
    if (r.code == 410) return over(j, &r);
    if (r.code == 409) {
        j->retry.broken = 1;
        return fli_retry_pause(&j->retry);
    }
    if (r.code != 200) return fli_fail(j->ctx, FL_EREFUSED, "%s", fli_http_call_why(j->retry.call));
    if (r.cut) return too_long(j, &r, most);
    return work(j, r.body, r.n);
}

static fl_status run_session(session *j)
{
    fl_status s = make_client(j);
    while (!s) {
        if (!j->joined || j->retry.broken)
            s = join(j);
        else if (j->answer)
            s = send_answer(j, "again=true");
        else
            s = fetch_ask(j);
        if (!s && fli_retry_stopping(&j->retry)) s = stop(j);
    }
    return s;
}

/* Tells the server that this process ends, so that the client may start on another machine at once. If the server does
 * not answer, it finds out later. */
static void say_leaving(session *j)
{
    static const char words[] = "{\"leaving\": true}";
    fli_http_answer reply;
    if (j->retry.broken) return;
    j->retry.finishing = 1;
    fli_http_call_post(j->retry.call, FLI_NET_ALIVE, "application/json", words, sizeof words - 1, &reply);
}

/* ---- beginning and end ----------------------------------------------------------------------------------- */

static fl_status find_name(session *j)
{
    const fli_join_settings *s = j->settings;
    if (!*s->url) return fli_fail(j->ctx, FL_ECONFIG, "url is missing: which server?");
    if (*s->certs) {
        fl_status status = fli_tls_load(j->ctx, s->certs, FLI_CERT_CLIENT, &j->tls);
        if (status) return status;
        fli_snprintf(j->name, sizeof j->name, "%.*s", FLI_NET_NAME_MAX, j->tls.name);
        if (*s->name && strcmp(s->name, j->name))
            return fli_fail(j->ctx, FL_ECONFIG, "name is %.64s, but the certificate in %s is for %s", s->name, s->certs,
                            j->name);
    } else if (*s->name && strlen(s->name) <= FLI_NET_NAME_MAX)
        fli_snprintf(j->name, sizeof j->name, "%s", s->name);
    else if (s->insecure_http)
        return fli_fail(j->ctx, FL_ECONFIG, "name is missing: over plain HTTP there is no certificate that says it");
    else
        return fli_fail(j->ctx, FL_ECONFIG, "certs is missing: the folder with this client's certificate");
    if (fli_net_name_ok(j->name)) return FL_OK;
    return fli_fail(j->ctx, FL_ECONFIG, "%s is no name of a client: letters, digits, dots, hyphens and underscores are",
                    j->name);
}

static int never(void *unused)
{
    (void)unused;
    return 0;
}

static fl_status open_store(session *j)
{
    char folder[FLI_NET_NAME_MAX + 16];
    fli_instance own;
    fli_snprintf(folder, sizeof folder, "fedloom-%s", j->name);
    fl_status s = fli_client_store_open(j->ctx, *j->settings->keep ? j->settings->keep : folder, &j->store);
    if (!s) s = fli_client_store_instance(j->store, &own.folder);
    if (!s) s = fli_random_number(j->ctx, &own.process);
    if (!s) fli_instance_text(&own, j->instance);
    return s;
}

/* Checks the URL first: a wrong one must not leave a folder behind. */
static fl_status open_connection(session *j)
{
    const fli_join_settings *s = j->settings;
    fli_http_call_spec call = {.url = s->url,
                               .ca_path = j->tls.ca_path,
                               .cert_path = j->tls.cert_path,
                               .key_path = j->tls.key_path,
                               .name = j->name,
                               .instance = j->instance,
                               .begins = j->tls.begins,
                               .ends = j->tls.ends,
                               .plain = s->insecure_http,
                               .proxy = *s->proxy ? s->proxy : NULL,
                               .stopping = fli_retry_stopping,
                               .arg = &j->retry};
    const fli_heartbeat_spec heartbeat = {beat_every, stop_work, j};
    j->retry = (fli_retry){.ctx = j->ctx,
                           .patience = s->patience,
                           .log = &j->spec->log,
                           .tell = j->spec->tell,
                           .stopping = j->spec->stopping ? j->spec->stopping : never,
                           .arg = j->spec->arg};
    fli_http_backoff_init(&j->retry.backoff);
    fl_status status = fli_http_call_check(j->ctx, &call);
    if (!status) status = open_store(j);
    if (!status) status = fli_http_call_new(j->ctx, &call, &j->retry.call);
    call.stopping = j->retry.stopping;
    call.arg = j->retry.arg;
    return status ? status : fli_heartbeat_new(j->ctx, &call, &heartbeat, &j->heartbeat);
}

fl_status fli_join(fl_ctx *ctx, const fli_join_spec *spec)
{
    session j = {.ctx = ctx, .spec = spec, .settings = spec->settings, .number = -1};
    fli_clear(ctx);
    fl_status s = find_name(&j);
    if (!s) s = open_connection(&j);
    if (!s) s = run_session(&j);
    if (j.number >= 0 && !j.run_over) say_leaving(&j);
    if (s == FL_EDONE && spec->stopping && spec->stopping(spec->arg)) j.stopped = 1;
    fli_heartbeat_free(j.heartbeat);
    fli_http_call_free(j.retry.call);
    fl_client_free(j.client);
    fl_bytes_free(&j.card);
    drop_answer(&j);
    fli_client_store_close(j.store);
    fli_tls_free(&j.tls);
    return s == FL_EDONE && !j.stopped ? FL_OK : s;
}
