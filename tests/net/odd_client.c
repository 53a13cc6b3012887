/* A client that says everything at the wrong time: what is no answer, its answer, the same again, and answers of
 * earlier rounds; and, where it is told to, one answer too late.
 *
 *     odd_client URL NAME SAMPLES.csv [late=SECONDS]
 *
 * Over plain HTTP. It ends well if the server said what it should to each of them: its last line counts them. */
#include "base/number.h"
#include "fedloom_halves.h"
#include "net/client/http_client.h"
#include "net/common/packet_peek.h"
#include "net/common/protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OLD = 3, MOST_TRIES = 200 };
static const size_t most = (size_t)64 << 20;

typedef struct {
    fl_ctx *ctx;
    fl_config *cfg;
    fl_client *client;
    fli_http_call *call;
    double late;        /* seconds; 0: never */
    fl_bytes old[OLD];  /* the last answers, newest first */
    size_t turns, said; /* turns taken; things said */
    int wrong, over;
} odd;

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

/* Posts until somebody answers; the code must be `want`; 0: any. */
static void say(odd *o, const char *what, const fl_bytes *b, size_t n, long want)
{
    fli_http_answer r = {0};
    int tries = 0;
    while (fli_http_call_post(o->call, FLI_NET_ANSWER, FLI_NET_PACKET, b->data, n, &r) == FLI_CALL_AGAIN &&
           tries++ < MOST_TRIES)
        nap(0.1);
    o->said++;
    if (r.code == 410) o->over = 1;
    if (!want || r.code == want || r.code == 410) return;
    o->wrong = 1;
    fprintf(stderr, "%s: %ld instead of %ld: %s\n", what, r.code, want, r.n ? (char *)r.body : "");
}

static void answer(odd *o, fl_bytes *b)
{
    say(o, "half of an answer", b, b->n / 2, 400);
    say(o, "an answer", b, b->n, 200);
    say(o, "an answer again", b, b->n, 200);
    for (int i = 0; i < OLD; i++)
        if (o->old[i].n) say(o, "an old answer", &o->old[i], o->old[i].n, 409);
    fl_bytes_free(&o->old[OLD - 1]);
    memmove(o->old + 1, o->old, (OLD - 1) * sizeof *o->old);
    o->old[0] = *b;
}

/* The second turn; whether other asks have just met a deadline when they are answered is not in our hands. */
static void answer_late(odd *o, fl_bytes *b, int late)
{
    if (late) nap(o->late);
    say(o, late ? "a late answer" : "an answer", b, b->n, late ? 409 : 0);
    fl_bytes_free(b);
}

static fl_status open_all(odd *o, char **words)
{
    const fli_http_call_spec spec = {.url = words[1], .name = words[2], .plain = 1};
    char train[512];
    fl_status s = fl_config_set(o->cfg, "data.kind=csv");
    fli_snprintf(train, sizeof train, "data.train=%s", words[3]);
    if (!s) s = fl_config_set(o->cfg, train);
    if (!s) s = fl_config_set(o->cfg, "data.header=false");
    if (!s) s = fl_client_new(o->cfg, &o->client);
    return s ? s : fli_http_call_new(o->ctx, &spec, &o->call);
}

static fl_status join(odd *o)
{
    fl_bytes card = {0};
    fli_http_answer r = {0};
    fl_status s = fl_client_card(o->client, 0, &card);
    if (!s) fli_http_call_post(o->call, FLI_NET_JOIN, FLI_NET_PACKET, card.data, card.n, &r);
    fl_bytes_free(&card);
    if (s || r.code != 200) return s ? s : FL_EIO;
    for (int i = 0; i < MOST_TRIES; i++) {
        fli_http_call_get(o->call, FLI_NET_TERMS, 2, most, &r);
        if (r.code == 200) return fl_client_accept(o->client, r.body, r.n);
    }
    return FL_EIO;
}

static fl_status take_part(odd *o)
{
    fl_status s = join(o);
    while (!s && !o->over) {
        fli_peeked_ask g;
        fli_http_answer r = {0};
        fl_bytes out = {0};
        if (fli_http_call_get(o->call, FLI_NET_ASK, 5, most, &r) == FLI_CALL_WRONG) s = FL_EREFUSED;
        if (r.code == 410) o->over = 1;
        if (r.code != 200) continue;
        s = fli_peek_ask(o->ctx, r.body, r.n, &g);
        if (!s) s = fl_client_work(o->client, r.body, r.n, &out);
        if (s) break;
        o->turns += g.turn != 0;
        if (o->late > 0)
            answer_late(o, &out, g.turn && o->turns == 2);
        else
            answer(o, &out);
    }
    static const char words[] = "{\"over\": true}"; /* the server waits for that */
    fli_http_answer r;
    if (!s) fli_http_call_post(o->call, FLI_NET_ALIVE, "application/json", words, sizeof words - 1, &r);
    return s;
}

int main(int argc, char **argv)
{
    odd o = {.ctx = fl_ctx_new()};
    if (argc < 4) return 2;
    if (argc > 4 && !strncmp(argv[4], "late=", 5)) o.late = strtod(argv[4] + 5, NULL);
    alarm(120);
    o.cfg = o.ctx ? fl_config_new(o.ctx) : NULL;
    fl_status s = o.cfg ? open_all(&o, argv) : FL_ENOMEM;
    if (!s) s = take_part(&o);
    if (s) fprintf(stderr, "%s: %s\n", fl_status_text(s), fl_ctx_error(o.ctx));
    printf("turns=%zu said=%zu\n", o.turns, o.said);
    for (int i = 0; i < OLD; i++) fl_bytes_free(&o.old[i]);
    fli_http_call_free(o.call);
    fl_client_free(o.client);
    fl_config_free(o.cfg);
    fl_ctx_free(o.ctx);
    return s || o.wrong || !o.turns;
}
