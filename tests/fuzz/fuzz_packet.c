/* Fuzz target: messages of a federation from any bytes, to both halves. Each is taken as a whole or refused with a
 * sentence, and what was refused has changed nothing: the client keeps the same, the server still takes the true
 * answer. Lengths and checksums can be put right first, so that what lies behind them is met as well. */
#include "base/bytes.h"
#include "base/digest.h"
#include "base/rng.h"
#include "half/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_packet: %s\n", what);
    abort();
}

/* ---- a federation that is under way ----------------------------------------------------------------------- */

enum { N = 2, DIM = 3, HEADER = 80, HEAD_AT = 28, BODY_AT = 32 };

static struct {
    fl_ctx *ctx;
    fl_server *server;
    fl_client *client[N];
    uint32_t who; /* whom the ask is for */
    fl_bytes card, terms, ask, answer, state;
} world;

static const char *const methods[] = {
    "algorithm: scaffold\nmodel: softmax\n",
    "algorithm: feddr\nmodel: softmax\nprecision: f64\nmetrics: {gradient: true}\n",
    "algorithm: {kind: fednest, inner_rounds: 2}\nmodel: {kind: mlp, hidden: [2]}\nbilevel: hyper_representation\n",
    "algorithm: fedvra-u\nmodel: softmax\ndata: {unlabelled: 0.5}\nsemi: {labels: projected}\n",
};

enum { METHODS = sizeof methods / sizeof *methods, MOST_EXCHANGES = 12 };

static fl_client *client_new(uint32_t i)
{
    fl_client *c = NULL;
    fli_dataset *ds = NULL;
    demand(!fli_dataset_new(world.ctx, FLI_X_F32, 6 + i, DIM, 2, &ds), "no samples");
    for (size_t k = 0; k < ds->n * DIM; k++) ((float *)ds->x)[k] = (float)(k * 5 % 7) / 3 - 1;
    for (size_t k = 0; k < ds->n; k++) ds->label[k] = (int32_t)(k % 2);
    demand(!fli_client_with(world.ctx, ds, 0, &c), "no client");
    fl_client_limits most = {.size = sizeof most, .steps = 64, .samples = 4096, .memory = 1 << 26};
    demand(!fl_client_limit(c, &most), "no limits");
    return c;
}

static void bytes_free_all(void)
{
    fl_bytes_free(&world.card);
    fl_bytes_free(&world.terms);
    fl_bytes_free(&world.ask);
    fl_bytes_free(&world.answer);
    fl_bytes_free(&world.state);
}

static void world_end(void)
{
    fl_server_free(world.server);
    for (size_t i = 0; i < N; i++) fl_client_free(world.client[i]);
    bytes_free_all();
    fl_ctx_free(world.ctx);
    memset(&world, 0, sizeof world);
}

static void world_begin(size_t method)
{
    static const char common[] = "threads: 1\nrounds: 20\nparticipation: everyone\nlocal: {batch: 2}\n"
                                 "partition: {clients: 2}\ndata: {kind: joined, shape: [3], classes: 2}\n";
    world.ctx = fl_ctx_new();
    fl_config *cfg = fl_config_new(world.ctx);
    demand(!fl_config_text(cfg, common, "common") && !fl_config_text(cfg, methods[method], "method"),
           fl_ctx_error(world.ctx));
    demand(!fl_server_new(cfg, &world.server), fl_ctx_error(world.ctx));
    fl_config_free(cfg);
    for (uint32_t i = 0; i < N; i++) {
        fl_bytes_free(&world.card);
        world.client[i] = client_new(i);
        demand(!fl_client_card(world.client[i], 1, &world.card), "no card");
        demand(!fl_server_join(world.server, i, world.card.data, world.card.n), fl_ctx_error(world.ctx));
    }
    demand(!fl_server_begin(world.server), fl_ctx_error(world.ctx));
    for (uint32_t i = 0; i < N; i++) {
        fl_bytes_free(&world.terms);
        demand(!fl_server_terms(world.server, i, &world.terms), "no terms");
        demand(!fl_client_accept(world.client[i], world.terms.data, world.terms.n), fl_ctx_error(world.ctx));
    }
}

static void next_ask(void)
{
    fl_bytes_free(&world.ask);
    demand(!fl_server_next(world.server, 10, &world.who, &world.ask), fl_ctx_error(world.ctx));
}

/* A federation after a number of exchanges, and the ask that is out. */
static void world_at(uint8_t where)
{
    world_begin(where % METHODS);
    next_ask();
    for (size_t left = where / METHODS % MOST_EXCHANGES; left; left--, next_ask()) {
        fl_client *c = world.client[world.who];
        demand(!fl_client_work(c, world.ask.data, world.ask.n, &world.answer), fl_ctx_error(world.ctx));
        demand(!fl_server_answer(world.server, world.who, world.answer.data, world.answer.n), fl_ctx_error(world.ctx));
        fl_bytes_free(&world.answer);
    }
    demand(!fl_client_state(world.client[world.who], &world.state), "no state");
}

/* ---- one message -------------------------------------------------------------------------------------------- */

/* The frames of a snapshot (format/snapshot.c) that begins there: what of them is right in length is put right. */
static void seal_frames(uint8_t *p, const uint8_t *end)
{
    for (uint64_t number = 0, length = 1; length && end - p >= 8; number++) {
        fli_get_u64(p, &length, 4);
        if (length > (uint64_t)(end - p) - 8) return;
        uint32_t crc = fli_crc32c_more(0, &number, sizeof number);
        crc = fli_crc32c_more(crc, p, 4);
        fli_put_u64(p + 4, fli_crc32c_more(crc, p + 8, (size_t)length), 4);
        p += 8 + length;
    }
}

/* Lengths and checksums that are right. A state has snapshots in it, which may have snapshots in them. */
static void seal(uint8_t *p, size_t n)
{
    uint64_t head;
    if (n < HEADER) return;
    for (size_t at = n - HEADER; at--;)
        if (n - HEADER - at >= 8 && !memcmp(p + HEADER + at, "fedloom\1", 8)) seal_frames(p + HEADER + at + 8, p + n);
    fli_get_u64(p + HEAD_AT, &head, 4);
    if (head <= n - HEADER) fli_put_u64(p + BODY_AT, n - HEADER - head, 8);
    uint32_t crc = fli_crc32c_more(0, p, 12);
    fli_put_u64(p + 12, fli_crc32c_more(crc, p + 16, n - 16), 4);
}

static void said(fl_status s, const char *what)
{
    demand(!s == !*fl_ctx_error(world.ctx), what);
    demand(!s || s == FL_EFORMAT || s == FL_EMISMATCH || s == FL_ECONFIG || s == FL_ENOMEM || s == FL_EREFUSED,
           "a strange status");
}

/* What a client that refuses keeps is what it kept. */
static void to_client(const uint8_t *p, size_t n)
{
    fl_bytes out, now;
    fl_client *c = world.client[world.who];
    fl_status s = fl_client_work(c, p, n, &out);
    said(s, "a client fails without a sentence, or the other way round");
    demand(!s == (out.n > 0), "an answer of a client that refuses, or none");
    if (s) {
        demand(!fl_client_state(c, &now), "no state");
        demand(now.n == world.state.n && !memcmp(now.data, world.state.data, now.n), "a refused ask left a trace");
        fl_bytes_free(&now);
    }
    fl_bytes_free(&out);
}

/* Whatever it believes to have been, it goes on or says why it does not. */
static void from_state(fl_client *c)
{
    fl_bytes out;
    fl_status s = fl_client_work(c, world.ask.data, world.ask.n, &out);
    said(s, "an ask after a state");
    fl_bytes_free(&out);
    demand(!fl_client_state(c, &out), "no state");
    fl_bytes_free(&out);
}

static void in_words(const uint8_t *p, size_t n)
{
    fl_bytes text;
    fl_status s = fl_client_describe(world.client[world.who], p, n, &text);
    said(s, "a description");
    demand(!s == (text.n > 0), "a description that is none");
    fl_bytes_free(&text);
}

static void to_new_client(int kind, const uint8_t *p, size_t n)
{
    fl_client *c = client_new(world.who);
    if (kind == 2) {
        said(fl_client_accept(c, p, n), "terms");
    } else {
        fl_bytes terms;
        demand(!fl_server_terms(world.server, world.who, &terms), "no terms");
        demand(!fl_client_accept(c, terms.data, terms.n), fl_ctx_error(world.ctx));
        fl_status s = fl_client_restore(c, p, n);
        said(s, "a state");
        if (!s) from_state(c);
        fl_bytes_free(&terms);
    }
    fl_client_free(c);
}

static void to_server(const uint8_t *p, size_t n)
{
    fl_bytes *true_one = &world.answer;
    demand(!fl_client_work(world.client[world.who], world.ask.data, world.ask.n, true_one), fl_ctx_error(world.ctx));
    fl_status s = fl_server_answer(world.server, world.who, p, n);
    demand(!s || *fl_server_error(world.server), "an answer is refused without a sentence");
    if (s) s = fl_server_answer(world.server, world.who, true_one->data, true_one->n);
    demand(!s, "the true answer is refused after a false one");
}

/* data[0]: which method, and when; data[1]: what it is, and whether its checksums are put right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    world_at(data[0]);
    size_t n = size - 2;
    uint8_t *p = memcpy(malloc(n + 1), data + 2, n);
    int kind = (data[1] & 0x7f) % 5;
    if (data[1] & 0x80) seal(p, n);
    in_words(p, n);
    if (kind == 0) to_client(p, n);
    if (kind == 1) said(fl_server_join(world.server, world.who, p, n), "a card");
    if (kind == 2 || kind == 3) to_new_client(kind, p, n);
    if (kind == 4) to_server(p, n);
    world_end();
    free(p);
    return 0;
}

#ifdef FUZZ_REPLAY

enum { LONGEST = 1 << 16 };

static size_t mutate(fli_rng *r, uint8_t *buf, size_t n)
{
    static const uint64_t values[] = {0, 1, 2, 255, 65536, UINT32_MAX, UINT64_MAX, (uint64_t)1 << 40};
    size_t at = (size_t)fli_rng_below(r, n + 1), width = (size_t)1 << fli_rng_below(r, 4);
    if (fli_rng_below(r, 2)) at = (size_t)fli_rng_below(r, 160 < n ? 160 : n + 1); /* heads are what matters */
    switch (fli_rng_below(r, 5)) {
    case 0:
        if (at < n) buf[at] ^= (uint8_t)(1u << fli_rng_below(r, 8));
        return n;
    case 1:
        if (at < n) buf[at] = (uint8_t)fli_rng_u32(r);
        return n;
    case 2: return at; /* cut off */
    case 3:
        if (at + width <= n) fli_put_u64(buf + at, values[fli_rng_below(r, 8)], width);
        return n;
    default:
        if (n + width > LONGEST) return n;
        memmove(buf + at + width, buf + at, n - at);
        return n + width;
    }
}

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 1500;
    static uint8_t buf[LONGEST + 2];
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        size_t kind = (size_t)fli_rng_below(&r, 5);
        buf[0] = (uint8_t)fli_rng_below(&r, METHODS * MOST_EXCHANGES);
        world_at(buf[0]);
        fl_bytes answer = {0};
        if (kind == 4 && fl_client_work(world.client[world.who], world.ask.data, world.ask.n, &answer)) return 1;
        const fl_bytes *all[] = {&world.ask, &world.card, &world.terms, &world.state, &answer};
        size_t n = all[kind]->n < LONGEST - 64 ? all[kind]->n : LONGEST - 64;
        memcpy(buf + 2, all[kind]->data, n);
        fl_bytes_free(&answer);
        for (size_t k = (size_t)fli_rng_below(&r, 4) + 1; k; k--) n = mutate(&r, buf + 2, n);
        buf[1] = (uint8_t)(kind | (fli_rng_below(&r, 4) ? 0x80 : 0));
        world_end(); /* the target has its own */
        LLVMFuzzerTestOneInput(buf, n + 2);
    }
    printf("fuzz_packet: %ld inputs\n", times);
    return 0;
}

#endif
