/* Before the run: what it is about, and who takes part. */
#include "net/server/pages.h"

#include "base/number.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

fli_reply fli_page_federation(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    char run[sizeof d->run];
    pthread_mutex_lock(&d->lock);
    memcpy(run, d->run, sizeof run);
    pthread_mutex_unlock(&d->lock);
    locale_t before = fli_locale_enter();
    json_t *client = r->client == FLI_NOBODY ? json_null() : json_integer(r->client);
    json_t *j = json_pack("{s:i, s:i, s:s, s:s?, s:s, s:s, s:s, s:I, s:I, s:{s:s, s:o}, s:o}", "protocol",
                          FLI_NET_VERSION, "oldest", FLI_NET_OLDEST, "fedloom", FL_VERSION, "run", *run ? run : NULL,
                          "state", fli_net_phase_name(fli_dispatch_phase(d->dispatch)), "method", d->outline.method,
                          "model", d->outline.model, "clients", (json_int_t)d->outline.clients, "missing",
                          (json_int_t)(d->outline.clients - fli_roster_kept(d->roster)), "you", "name", r->name,
                          "client", client, "samples", json_loads(d->outline.samples, 0, NULL));
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    fli_locale_leave(before);
    return fli_reply_json(text);
}

const char *fli_page_claim(void *arg, uint32_t client, const fli_request *r, double *again, char *sentence, size_t n)
{
    fli_desk *d = arg;
    char word[300];
    fli_other other;
    fli_claim is = fli_dispatch_claim(d->dispatch, client, &r->instance, r->address, &other);
    *again = 0;
    if (is == FLI_CLAIM_RESTARTED)
        fli_net_note(&d->log, "restarted", "client=%u name=%s address=%s", client, r->name, r->address);
    if (is == FLI_CLAIM_REPLACED)
        fli_net_say(&d->log, "replaced", "client=%u name=%s address=%s before=%s silence=%.0f", client, r->name,
                    r->address, other.address, other.heard);
    if (is < FLI_CLAIM_LIVE) return NULL;
    if (is == FLI_CLAIM_LIVE) {
        *again = FLI_CLAIM_PASSES;
        fli_snprintf(sentence, n,
                     "another process takes part as %s: it came from %s %.0f s ago and was heard %.0f s ago; each "
                     "process needs a certificate of its own",
                     r->name, other.address, other.age, other.heard);
    } else
        fli_snprintf(sentence, n,
                     "another process takes part as %s: it came from %s %.0f s ago and has taken this one's place; is "
                     "its folder a copy of this one's?",
                     r->name, other.address, other.age);
    fli_net_caution(&d->log, "duplicate", "client=%u name=%s address=%s reason=%s", client, r->name, r->address,
                    fli_net_quote(sentence, word, sizeof word));
    fli_journal_mishap(d->journal, "duplicate", client, r->name, sentence);
    return sentence;
}

/* The server looks at the card, the roster keeps it; only then is the client told. */
static fl_status admit(fli_desk *d, fl_ctx *ctx, fli_request *r, uint32_t *client)
{
    fl_status s = fli_roster_place(d->roster, ctx, r->name, client);
    if (s) return s;
    s = fl_server_join(d->server, *client, r->body, r->n);
    if (s) {
        fli_roster_release(d->roster, *client);
        return fli_fail(ctx, s, "%s", fl_server_error(d->server));
    }
    return fli_roster_enter(d->roster, ctx, *client, r->body, r->n);
}

static fli_reply welcome(fli_desk *d, fli_request *r, uint32_t client)
{
    char *text = malloc(64);
    if (text) fli_snprintf(text, 64, "{\"client\": %u}\n", client);
    size_t kept = fli_roster_kept(d->roster);
    if (r->client == FLI_NOBODY)
        fli_net_note(&d->log, "joined", "client=%u name=%s samples=%llu missing=%zu", client, r->name,
                     (unsigned long long)fl_server_samples(d->server, client), d->outline.clients - kept);
    fli_dispatch_heard(d->dispatch, client);
    if (kept == d->outline.clients) fli_dispatch_begin(d->dispatch);
    return fli_reply_json(text);
}

fli_reply fli_page_join(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    uint32_t client;
    char word[300];
    fl_ctx *ctx = fl_ctx_new();
    fl_status s = ctx ? admit(d, ctx, r, &client) : FL_ENOMEM;
    fli_reply reply;
    double again;
    char sentence[400];
    if (!s && fli_page_claim(d, client, r, &again, sentence, sizeof sentence)) {
        reply = fli_reply_refused(sentence, again, 0);
    } else if (!s) {
        reply = welcome(d, r, client);
    } else {
        const char *why = ctx ? fl_ctx_error(ctx) : "out of memory";
        unsigned code = s == FL_EFORMAT                 ? MHD_HTTP_BAD_REQUEST
                        : s == FL_EIO || s == FL_ENOMEM ? MHD_HTTP_SERVICE_UNAVAILABLE
                                                        : MHD_HTTP_CONFLICT;
        fli_net_caution(&d->log, "not-joined", "name=%s reason=%s", r->name, fli_net_quote(why, word, sizeof word));
        fli_journal_mishap(d->journal, "not-joined", FLI_NOBODY, r->name, why);
        reply = fli_reply_error(code, "%s", why);
        if (code == MHD_HTTP_SERVICE_UNAVAILABLE) reply.retry = 5;
    }
    fl_ctx_free(ctx);
    return reply;
}
