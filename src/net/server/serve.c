#include "net/server/serve.h"

#include "net/common/protocol.h"
#include "net/common/packet_peek.h"
#include "net/server/pages.h"

#include "base/os.h"
#include "base/file.h"
#include "base/number.h"
#include "base/text.h"

#include <gnutls/crypto.h>
#include <math.h>
#include <string.h>
#include <time.h>

struct fli_serve {
    fli_page_context context; /* the argument of pages */
    fl_ctx *ctx;
    char *folder; /* of the roster and the like; NULL: there is no output */
    fli_lock *lock;
    fli_tls_files tls;
    fli_trust *trust;
    fli_http *http;
};

/* ---- callbacks ----------------------------------------------------------------------------------------------- */

static const char *name_of(void *context, uint32_t client)
{
    return fli_roster_name(((fli_page_context *)context)->roster, client);
}
static uint32_t find(void *context, const char *name)
{
    return fli_roster_find(((fli_page_context *)context)->roster, name);
}
static void heard_from(void *context, uint32_t client)
{
    fli_dispatch_heard_from(((fli_page_context *)context)->dispatch, client);
}

static void wake(void *context, void *request)
{
    (void)context;
    fli_http_wake(request);
}

/* Stores the run's digest, which is in its terms. */
static void note_run(fli_page_context *page)
{
    fl_bytes terms;
    fli_digest run;
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx || fl_server_terms(page->server, 0, &terms)) {
        fl_ctx_free(ctx);
        return;
    }
    if (!fli_peek_terms(ctx, terms.data, terms.n, &run)) {
        pthread_mutex_lock(&page->lock);
        fli_digest_print(&run, page->run);
        pthread_mutex_unlock(&page->lock);
    }
    fl_bytes_free(&terms);
    fl_ctx_free(ctx);
}

/* fl_observer_fn: after every round, on the run's thread. */
static void observe(void *context, const fl_run *run, const fl_row *row, int measured)
{
    fli_page_context *page = context;
    size_t round = fl_run_round(run);
    if (!*page->run) note_run(page);
    fli_journal_round(page->journal, round, fl_run_rounds(run), measured ? row : NULL);
    double loss = measured ? fl_row_get(row, "train_loss") : NAN,
           right = measured ? fl_row_get(row, "test_accuracy") : NAN;
    char more[100] = "";
    if (!isnan(loss)) fli_snprintf(more, sizeof more, " train_loss=%.6g", loss);
    size_t n = strlen(more);
    if (!isnan(right)) fli_snprintf(more + n, sizeof more - n, " test_accuracy=%.4f", right);
    fli_net_note(&page->log, "round", "round=%zu of=%zu answers=%llu%s", round, fl_run_rounds(run),
                 (unsigned long long)atomic_load(&page->counters.answers), more);
}

/* fl_checkpoint_fn */
static void note_checkpoint(void *context, const fl_checkpoint *c)
{
    fli_page_context *page = context;
    char word[400];
    fli_journal_checkpoint(page->journal, c);
    if (c->status)
        fli_net_say(&page->log, "checkpoint-failed", "round=%zu reason=%s", c->round,
                    fli_net_quote(c->why, word, sizeof word));
    else
        fli_net_note(&page->log, "checkpoint", "round=%zu seconds=%.3f bytes=%llu", c->round, c->seconds,
                     (unsigned long long)c->bytes);
}

static void note_mishap(void *context, const char *what, uint32_t client, const char *why)
{
    fli_page_context *page = context;
    fli_journal_mishap(page->journal, what, client, fli_roster_name(page->roster, client), why);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

/* Takes the resolved address: a second look-up could give another one. */
static fl_status check_safety(fl_ctx *ctx, const fli_serve_options *o, const struct sockaddr_storage *address)
{
    char text[FLI_ADDRESS_TEXT];
    if (o->certs && o->insecure)
        return fli_fail(ctx, FL_ECONFIG, "certificates and plain HTTP exclude each other: choose one");
    if (o->certs) return FL_OK;
    if (!o->insecure)
        return fli_fail(
            ctx, FL_ECONFIG,
            "a server needs certificates: make them with `fedloom cert init DIR` and `fedloom cert server "
            "DIR HOST`, then give --certs DIR/server; or, for trying things on this machine, --insecure-http");
    if (fli_address_is_local(address)) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG,
                    "%s: plain HTTP is for addresses of this machine alone (127.0.0.1); others need "
                    "certificates",
                    fli_address_text(address, text));
}

/* Locks the folder of what a restarted server needs. */
static fl_status claim_folder(fli_serve *s)
{
    fli_page_context *page = &s->context;
    if (!*page->federation.output) return FL_OK;
    if (!(s->folder =
              fli_strf(s->ctx, "%.*s.server", (int)fli_path_length(page->federation.output), page->federation.output)))
        return FL_ENOMEM;
    /* A result with our folder beside it is the result of this run: clients have yet to be told. */
    if (fli_path_kind(page->federation.output) && !fli_path_kind(s->folder))
        return fli_fail(s->ctx, FL_ECONFIG, "%s: there is a result already; choose another output",
                        page->federation.output);
    return fli_lock_take(s->ctx, s->folder, &s->lock);
}

/* ---- the seed of cohorts ------------------------------------------------------------------------------------- */

/* Cohorts have a seed of their own: all clients get `seed` in the terms, and could compute cohorts drawn from it. */
static const char cohort_key[] = "participation.seed";

static fl_status draw_seed(fl_ctx *ctx, char text[24])
{
    uint64_t random;
    int code = gnutls_rnd(GNUTLS_RND_KEY, &random, sizeof random);
    if (code) return fli_fail(ctx, FL_ESYSTEM, "no random number: %s", gnutls_strerror(code));
    fli_snprintf(text, 24, "%llu", (unsigned long long)(random >> 11) + 1); /* 53 bits: settings are doubles */
    return FL_OK;
}

/* The seed that an earlier server of this run has stored; "": none. */
static fl_status read_seed(fl_ctx *ctx, const char *path, char text[24])
{
    char *all = NULL, *end;
    size_t n;
    *text = 0;
    if (!path || !fli_path_kind(path)) return FL_OK;
    fl_status s = fli_file_read(ctx, path, 23, &all, &n);
    if (s) return s;
    n = strcspn(all, "\n");
    double seed = fli_strtod(all, &end);
    if (end != all + n || !(seed >= 1 && seed <= 0x1p53 && seed == floor(seed)))
        s = fli_fail(ctx, FL_EFORMAT, "%s: this is no seed of cohorts; it must be a whole number from 1 to 2^53", path);
    else
        fli_snprintf(text, 24, "%.*s", (int)n, all);
    fli_free(all);
    return s;
}

/* Sets the seed in the configuration, and so in the result. *path: the file of the seed; NULL: the configuration gives
 * the seed, or there is no folder. */
static fl_status choose_seed(fli_serve *s, fl_config *cfg, char text[24], char **path)
{
    char *end, assignment[64];
    *path = NULL;
    *text = 0;
    if (fli_strtod(fl_config_get(cfg, cohort_key), &end) != 0) return FL_OK; /* the configuration gives it */
    if (s->folder && !(*path = fli_strf(s->ctx, "%s/participation-seed", s->folder))) return FL_ENOMEM;
    fl_status status = read_seed(s->ctx, *path, text);
    if (!status && !*text) status = draw_seed(s->ctx, text);
    fli_snprintf(assignment, sizeof assignment, "%s=%s", cohort_key, text);
    return status ? status : fl_config_set(cfg, assignment);
}

/* Writes the folder and the seed, before any client can connect. */
static fl_status make_folder(fli_serve *s, const char *path, const char *seed)
{
    fl_status status = s->folder ? fli_make_private_folder(s->ctx, s->folder) : FL_OK;
    if (status || !path || fli_path_kind(path)) return status;
    return fli_file_private(s->ctx, path, seed, strlen(seed));
}

/* Makes the fl_server, and the folder that a restart needs. */
static fl_status open_server(fli_serve *s, fl_config *cfg)
{
    fli_page_context *page = &s->context;
    char seed[24], *path;
    fl_status status = claim_folder(s);
    if (status) return status;
    status = choose_seed(s, cfg, seed, &path);
    if (!status) status = fl_server_new(cfg, &page->server);
    if (!status) status = make_folder(s, path, seed);
    fli_free(path);
    return status;
}

/* ---- settings, and what has changed since the last start ------------------------------------------------------ */

static void append_text(void *text, const char *more) { fli_text_add(text, more); }

/* The configuration and the options as lines `key value`; a key within a section is `section.key`. */
static fl_status list_settings(fli_serve *s, fl_config *cfg, const fli_serve_options *o, fli_text *out)
{
    fli_text printed;
    char section[100] = "";
    fli_text_init(&printed, s->ctx);
    fl_status status = fl_config_print(cfg, append_text, &printed);
    if (!status) status = fli_text_ok(&printed);
    for (const char *at = status ? "" : fli_text_get(&printed), *next; *at; at = next) {
        size_t n = strcspn(at, "\n"), key = strcspn(at, ":\n"), indent = strspn(at, " ");
        next = at + n + (at[n] != 0);
        if (!indent) section[0] = 0;
        if (!indent && key + 1 == n)
            fli_snprintf(section, sizeof section, "%.*s.", (int)key, at);
        else if (key < n)
            fli_text_addf(out, "%s%.*s%.*s\n", section, (int)(key - indent), at + indent, (int)(n - key - 1),
                          at + key + 1);
    }
    fli_text_fini(&printed);
    fli_text_addf(out, "--listen %s\n--certs %s\n--insecure-http %s\n--roster %s\n", o->listen ? o->listen : "",
                  o->certs ? o->certs : "", o->insecure ? "true" : "false", o->roster ? o->roster : "");
    fli_text_addf(out, "--silence %g\n--bodies %zu\n--slowest %zu\n--per-address %u\nfedloom %s\n", s->context.silence,
                  o->bodies, o->slowest, o->per_address, FL_VERSION);
    return status ? status : fli_text_ok(out);
}

/* The value that `others` has for the key of this line, up to the end of its line; NULL: none. */
static const char *same_key(const char *line, const char *others)
{
    size_t key = strcspn(line, " ") + 1;
    for (const char *at = others; *at; at += strcspn(at, "\n"), at += *at != 0)
        if (!strncmp(at, line, key)) return at + key;
    return NULL;
}

static void note_setting(fli_serve *s, const char *line, const char *from, const char *to)
{
    char was[300], is[300], a[302], b[302];
    fli_snprintf(was, sizeof was, "%.*s", (int)strcspn(from, "\n"), from);
    fli_snprintf(is, sizeof is, "%.*s", (int)strcspn(to, "\n"), to);
    fli_net_say(&s->context.log, "setting", "key=%.*s from=%s to=%s", (int)strcspn(line, " "), line,
                fli_net_quote(was, a, sizeof a), fli_net_quote(is, b, sizeof b));
}

static void note_settings(fli_serve *s, const char *before, const char *now)
{
    for (const char *at = now; *at; at += strcspn(at, "\n"), at += *at != 0) {
        const char *value = at + strcspn(at, " ") + 1, *was = same_key(at, before);
        size_t n = strcspn(value, "\n") + 1;
        if (!was || strncmp(was, value, n)) note_setting(s, at, was ? was : "", value);
    }
    for (const char *at = before; *at; at += strcspn(at, "\n"), at += *at != 0)
        if (!same_key(at, now)) note_setting(s, at, at + strcspn(at, " ") + 1, "");
}

static void note_start(fli_serve *s, int again, const char *settings, size_t n)
{
    char hex[FLI_DIGEST_TEXT], word[300];
    fli_hash h;
    fli_hash_init(&h);
    fli_hash_bytes(&h, settings, n);
    fli_digest digest = fli_hash_end(&h);
    fli_digest_print(&digest, hex);
    fli_net_note(&s->context.log, "started", "fedloom=%s output=%s again=%s settings=%s", FL_VERSION,
                 fli_net_quote(s->context.federation.output, word, sizeof word), again ? "true" : "false", hex);
}

/* Logs which settings differ from those of the start before, and stores the present ones. */
static fl_status compare_settings(fli_serve *s, fl_config *cfg, const fli_serve_options *o)
{
    enum { MOST = 1 << 24 };
    fli_text now;
    char *path = s->folder ? fli_strf(s->ctx, "%s/settings", s->folder) : NULL, *before = NULL;
    size_t n;
    if (!path) return s->folder ? FL_ENOMEM : FL_OK;
    fli_text_init(&now, s->ctx);
    fl_status status = list_settings(s, cfg, o, &now);
    if (!status && fli_path_kind(path)) status = fli_file_read(s->ctx, path, MOST, &before, &n);
    if (!status) {
        note_start(s, before != NULL, fli_text_get(&now), now.n);
        if (before) note_settings(s, before, fli_text_get(&now));
        status = fli_file_private(s->ctx, path, fli_text_get(&now), now.n);
    }
    fli_text_fini(&now);
    fli_free(before);
    fli_free(path);
    return status;
}

static fl_status open_audit(fli_serve *s)
{
    const char *output = s->context.federation.output;
    if (!*output) return FL_OK;
    char *path = fli_strf(s->ctx, "%.*s.audit.jsonl", (int)fli_path_length(output), output);
    fl_status status = path ? fli_audit_open(s->ctx, path, &s->context.log.audit) : FL_ENOMEM;
    fli_free(path);
    return status;
}

/* ---- the parts ------------------------------------------------------------------------------------------------- */

/* Lets a client of an earlier server join. One whose card is refused now (more samples than allowed) must join
 * again. */
static fl_status join_again(fli_serve *s, uint32_t client, const unsigned char *card, size_t n)
{
    fli_page_context *page = &s->context;
    char word[300];
    fl_status status = fl_server_join(page->server, client, card, n);
    if (status != FL_EREFUSED) return status;
    const char *why = fl_ctx_error(s->ctx);
    fli_net_say(&page->log, "not-joined", "name=%s reason=%s", fli_roster_name(page->roster, client),
                fli_net_quote(why, word, sizeof word));
    fli_clear(s->ctx);
    return fli_roster_leave(page->roster, s->ctx, client);
}

static fl_status open_roster(fli_serve *s, const char *list)
{
    fli_page_context *page = &s->context;
    char *file = s->folder ? fli_strf(s->ctx, "%s/roster.jsonl", s->folder) : NULL;
    if (s->folder && !file) return FL_ENOMEM;
    fli_roster_spec spec = {.clients = page->federation.clients, .file = file, .list = list};
    fl_status status = fli_roster_open(s->ctx, &spec, &page->roster);
    fli_free(file);
    for (uint32_t i = 0; !status && i < page->federation.clients; i++) {
        size_t n;
        const unsigned char *card = fli_roster_card(page->roster, i, &n);
        if (card) status = join_again(s, i, card, n);
    }
    return status;
}

static fl_status open_dispatch(fli_serve *s)
{
    fli_page_context *page = &s->context;
    fli_dispatch_spec spec = {.server = page->server,
                              .clients = page->federation.clients,
                              .silence = page->silence,
                              .log = &page->log,
                              .counters = &page->counters,
                              .name = name_of,
                              .wake = wake,
                              .mishap = note_mishap,
                              .arg = page};
    fl_status status = fli_dispatch_new(s->ctx, &spec, &page->dispatch);
    for (uint32_t i = 0; !status && i < page->federation.clients; i++)
        if (fli_roster_acknowledged(page->roster, i))
            fli_dispatch_acknowledge(page->dispatch, i); /* an earlier server was told */
    return status;
}

static fl_status open_http(fli_serve *s, const fli_serve_options *o, const struct sockaddr_storage *address)
{
    fli_page_context *page = &s->context;
    fl_status status = o->certs ? fli_tls_load(s->ctx, o->certs, FLI_CERT_SERVER, &s->tls) : FL_OK;
    if (!status && o->certs) status = fli_trust_open(s->ctx, o->certs, &s->trust);
    if (!status && o->certs) status = fli_trust_own(s->trust, &s->tls);
    fli_http_spec spec = {.pages = fli_pages,
                          .arg = page,
                          .address = *address,
                          .tls = o->certs ? &s->tls : NULL,
                          .trust = s->trust,
                          .clients = page->federation.clients,
                          .find = find,
                          .heard = heard_from,
                          .claim = fli_page_claim,
                          .upload = fli_page_upload,
                          .bodies = o->bodies ? o->bodies : (size_t)1 << 30,
                          .slowest = o->slowest ? o->slowest : (size_t)64 << 10,
                          .per_address = o->per_address,
                          .log = &page->log,
                          .counters = &page->counters};
    return status ? status : fli_http_new(s->ctx, &spec, &s->http);
}

static fl_status open_parts(fli_serve *s, fl_config *cfg, const fli_serve_options *o)
{
    fli_page_context *page = &s->context;
    char host[256] = "";
    uint16_t port = FLI_NET_PORT;
    struct sockaddr_storage address;
    if (o->insecure) fli_snprintf(host, sizeof host, "127.0.0.1");
    fl_status status = o->listen ? fli_address_split(s->ctx, o->listen, host, &port) : FL_OK;
    if (!status) status = fli_address_read(s->ctx, host, port, &address);
    if (!status) status = check_safety(s->ctx, o, &address);
    if (!status) status = fli_federation_summary_read(s->ctx, cfg, &page->federation);
    if (!status) status = open_server(s, cfg);
    if (status) return status;
    fl_server_observe(page->server, observe, page);
    fl_server_on_checkpoint(page->server, note_checkpoint, page);
    page->silence = o->silence > 0 ? o->silence : 60;
    status = fli_net_limiter_new(s->ctx, &page->log.limiter);
    if (!status) status = fli_journal_new(s->ctx, &page->journal);
    if (!status) status = open_audit(s);
    if (!status) status = open_roster(s, o->roster);
    if (!status) status = open_dispatch(s);
    /* An error of a restart, such as another setting, must show before any client can connect. */
    if (!status && fli_roster_entered(page->roster) == page->federation.clients)
        status = fli_dispatch_resume(page->dispatch, s->ctx);
    if (!status) status = compare_settings(s, cfg, o);
    return status ? status : open_http(s, o, &address);
}

fl_status fli_serve_new(fl_ctx *ctx, fl_config *cfg, const fli_serve_options *options, fli_serve **out)
{
    fli_serve *s = fli_alloc(ctx, 1, sizeof *s);
    *out = NULL;
    if (!s) return FL_ENOMEM;
    s->ctx = s->context.ctx = ctx;
    s->context.log = options->log;
    s->context.begun = fli_clock_now();
    if (pthread_mutex_init(&s->context.lock, NULL)) {
        fli_free(s);
        return fli_fail(ctx, FL_ESYSTEM, "a lock cannot be created");
    }
    fl_status status = open_parts(s, cfg, options);
    if (status)
        fli_serve_free(s);
    else
        *out = s;
    return status;
}

/* First wakes the waiting requests, then ends the connections, which use everything else. */
void fli_serve_free(fli_serve *s)
{
    if (!s) return;
    fli_page_context *page = &s->context;
    if (page->dispatch) fli_dispatch_close(page->dispatch);
    fli_http_free(s->http);
    fli_dispatch_free(page->dispatch);
    fl_server_free(page->server);
    fli_journal_free(page->journal);
    fli_net_flush(&page->log, 1);
    fli_net_limiter_free(page->log.limiter);
    fli_audit_close(page->log.audit);
    fli_roster_free(page->roster);
    fli_trust_free(s->trust);
    fli_tls_free(&s->tls);
    fli_lock_leave(s->lock);
    fli_federation_summary_free(&page->federation);
    pthread_mutex_destroy(&page->lock);
    fli_free(s->folder);
    fli_free(s);
}

const fli_net_log *fli_serve_log(const fli_serve *s) { return &s->context.log; }
uint16_t fli_serve_port(const fli_serve *s) { return fli_http_port(s->http); }
unsigned fli_serve_room(const fli_serve *s) { return fli_http_room(s->http); }

/* ---- the run ------------------------------------------------------------------------------------------------- */

int fli_serve_wait(fli_serve *s, double seconds) { return fli_dispatch_ended(s->context.dispatch, seconds); }
void fli_serve_drain(fli_serve *s) { fli_dispatch_drain(s->context.dispatch); }
fl_run *fli_serve_run(fli_serve *s) { return fl_server_run(s->context.server); }

fl_status fli_serve_ending(fli_serve *s, int *paused)
{
    char sentence[1024];
    fl_status status = fli_dispatch_ending(s->context.dispatch, sentence, sizeof sentence);
    *paused = fli_dispatch_phase(s->context.dispatch) == FLI_NET_PAUSED;
    fli_clear(s->ctx);
    return status ? fli_fail(s->ctx, status, "%s", sentence) : FL_OK;
}

void fli_serve_finish(fli_serve *s) { fli_dispatch_finish(s->context.dispatch); }

size_t fli_serve_unacknowledged(fli_serve *s, double seconds, int (*stopping)(void *arg), void *arg, const char **first)
{
    const struct timespec moment = {0, 50 * 1000 * 1000};
    double until = fli_clock_now() + seconds;
    uint32_t client;
    size_t n;
    while ((n = fli_dispatch_unacknowledged(s->context.dispatch, &client)) && fli_clock_now() < until &&
           !(stopping && stopping(arg)))
        nanosleep(&moment, NULL);
    const char *name = n ? fli_roster_name(s->context.roster, client) : NULL;
    *first = name ? name : "?";
    return n;
}

fl_status fli_serve_forget(fli_serve *s) { return s->folder ? fli_remove_folder(s->ctx, s->folder) : FL_OK; }
