/* While it runs: terms and asks to clients, which may wait for them, and their answers. */
#include "net/server/pages.h"

#include "base/number.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

/* ---- what clients fetch ---------------------------------------------------------------------------------------- */

/* Nothing there yet: the request waits, if it may. */
static fli_reply none_yet(fli_desk *d, fli_request *r, int terms)
{
    double seconds = r->wait;
    if (seconds <= 0) return (fli_reply){.code = MHD_HTTP_NO_CONTENT};
    fli_http_hold(r);
    if (!fli_dispatch_wait(d->dispatch, r->client, terms, seconds, r)) fli_http_wake(r);
    return (fli_reply){0};
}

/* The run is over for good. What ended it may name files of the server, and other clients: that is for its log. */
static fli_reply gone(fli_desk *d)
{
    enum { MOST = 256 };
    char sentence[8], *text = malloc(MOST);
    fl_status s = fli_dispatch_ending(d->dispatch, sentence, sizeof sentence);
    if (text)
        fli_snprintf(text, MOST, "{\"state\": \"over\", \"ok\": %s, \"reason\": \"%s\"}\n", s ? "false" : "true",
                     s ? fl_status_text(s) : "");
    return fli_reply_text(MHD_HTTP_GONE, "application/json", text);
}

static void free_bytes(void *bytes)
{
    fl_bytes_free(bytes);
    free(bytes);
}

static fli_reply send_terms(fli_desk *d, fli_request *r)
{
    fl_bytes *terms = malloc(sizeof *terms);
    if (!terms) return fli_reply_text(0, NULL, NULL);
    fl_status s = fl_server_terms(d->server, r->client, terms);
    if (!s)
        return (fli_reply){.code = MHD_HTTP_OK,
                           .type = FLI_NET_PACKET,
                           .body = terms->data,
                           .n = terms->n,
                           .release = free_bytes,
                           .owner = terms};
    free(terms);
    return fli_reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "%s", fl_server_error(d->server));
}

fli_reply fli_page_terms(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    fli_net_phase phase = fli_dispatch_phase(d->dispatch);
    if (phase == FLI_NET_OVER) return gone(d);
    return phase == FLI_NET_JOINING || phase == FLI_NET_PAUSED ? none_yet(d, r, 1) : send_terms(d, r);
}

static void release(void *parcel) { fli_parcel_release(parcel); }

fli_reply fli_page_ask(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    fli_net_phase phase = fli_dispatch_phase(d->dispatch);
    if (phase == FLI_NET_OVER) return gone(d);
    fli_parcel *p = fli_dispatch_ask(d->dispatch, r->client);
    if (!p) return none_yet(d, r, 0);
    return (fli_reply){.code = MHD_HTTP_OK,
                       .type = FLI_NET_PACKET,
                       .body = p->packet.data,
                       .n = p->packet.n,
                       .release = release,
                       .owner = p};
}

/* ---- what they bring ------------------------------------------------------------------------------------------- */

static unsigned code_of(fl_status s)
{
    switch (s) {
    case FL_EMISMATCH: return MHD_HTTP_CONFLICT;
    case FL_EFORMAT: return MHD_HTTP_BAD_REQUEST;
    case FL_EREFUSED: return MHD_HTTP_UNPROCESSABLE_CONTENT;
    case FL_ECONFIG: return MHD_HTTP_CONFLICT; /* the run has not begun */
    default: return MHD_HTTP_SERVICE_UNAVAILABLE;
    }
}

fli_reply fli_page_answer(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    char sentence[400];
    fl_status s = fli_dispatch_answer(d->dispatch, r->client, r->body, r->n, sentence, sizeof sentence);
    if (!s) return fli_reply_json(strdup("{\"taken\": true}\n"));
    fli_reply reply = fli_reply_error(code_of(s), "%s", sentence);
    if (reply.code == MHD_HTTP_SERVICE_UNAVAILABLE) reply.retry = 2;
    return reply;
}

/* The whole body as an object; NULL: it is none. */
static json_t *read_object(const fli_request *r)
{
    locale_t before = fli_locale_enter();
    json_t *j = r->n ? json_loadb((const char *)r->body, r->n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    fli_locale_leave(before);
    if (json_is_object(j)) return j;
    json_decref(j);
    return NULL;
}

/* {"number": n}; 0: it says none. */
static uint64_t number_in(const json_t *j)
{
    json_int_t n = json_integer_value(json_object_get(j, "number"));
    return n > 0 ? (uint64_t)n : 0;
}

fli_reply fli_page_refuse(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    json_t *j = read_object(r);
    const char *reason = json_string_value(json_object_get(j, "reason"));
    const json_t *said = json_object_get(j, "number");
    uint64_t number = number_in(j);
    fli_reply reply;
    if (!reason || !json_is_integer(said) || json_integer_value(said) < 0)
        reply = fli_reply_error(MHD_HTTP_BAD_REQUEST, "a refusal is {\"number\": the ask's, \"reason\": a sentence}");
    else if (fli_dispatch_refuse(d->dispatch, r->client, number, reason) == FL_EMISMATCH)
        reply =
            fli_reply_error(MHD_HTTP_CONFLICT, "nobody waits for an answer to ask %llu", (unsigned long long)number);
    else
        reply = fli_reply_json(strdup("{\"taken\": true}\n"));
    json_decref(j);
    return reply;
}

/* On the disk first: a server that starts again does not wait for this client then. If the disk will not have it, it
 * waits in vain, and no harm is done. */
static void note_told(fli_desk *d, uint32_t client)
{
    fl_ctx *ctx = fl_ctx_new();
    if (fli_dispatch_phase(d->dispatch) == FLI_NET_OVER) {
        if (ctx) fli_roster_tell(d->roster, ctx, client);
        fli_dispatch_told(d->dispatch, client);
    }
    fl_ctx_free(ctx);
}

fli_reply fli_page_alive(void *arg, fli_request *r)
{
    fli_desk *d = arg;
    json_t *j = read_object(r);
    if (json_is_true(json_object_get(j, "over"))) note_told(d, r->client);
    if (json_is_true(json_object_get(j, "leaving"))) fli_dispatch_leave(d->dispatch, r->client);
    int wanted = fli_dispatch_wanted(d->dispatch, r->client, number_in(j));
    json_decref(j);
    return fli_reply_json(strdup(wanted ? "{\"wanted\": true}\n" : "{\"wanted\": false}\n"));
}
