/* The two halves of a federation in one program: a server, three clients with samples in arrays, and a loop that
 * carries their messages by hand, as a network would. Prints what every kind of message takes, and the accuracy per
 * round.
 *
 *     cc two_halves.c $(pkg-config --cflags --libs fedloom) -o two_halves */
#include <fedloom_halves.h>
#include <stdio.h>
#include <stdlib.h>

enum { CLIENTS = 3, EACH = 60, DIM = 2, CLASSES = 3 };

static const char settings[] = "rounds: 5\n"
                               "threads: 1\n"
                               "model: softmax\n"
                               "algorithm: scaffold\n"
                               "participation: everyone\n"
                               "local: {epochs: 2, batch: 10, lr: 0.2}\n"
                               "metrics: {train: false}\n"
                               "data: {kind: joined, shape: [2], classes: 3}\n"
                               "partition: {clients: 3}\n";

typedef struct {
    float x[EACH][DIM];
    int32_t label[EACH];
} samples;

/* Points around three corners; client `most` has mainly those of one of them, -1: all alike. */
static void make(samples *s, int most)
{
    static const float corner[CLASSES][DIM] = {{0, 0}, {1, 0}, {0, 1}};
    for (int i = 0; i < EACH; i++) {
        int class = most >= 0 && i % 4 ? most : i % CLASSES;
        for (int j = 0; j < DIM; j++) s->x[i][j] = corner[class][j] + (float)rand() / (float)RAND_MAX - 0.5f;
        s->label[i] = class;
    }
}

static fl_samples in_memory(const samples *s)
{
    return (fl_samples){
        .size = sizeof(fl_samples), .n = EACH, .dim = DIM, .f32 = s->x[0], .label = s->label, .classes = CLASSES};
}

static void show(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    (void)arg;
    (void)run;
    if (measured) printf("round %zu: test accuracy %.3f\n", fl_row_round(row), fl_row_get(row, "test_accuracy"));
}

static fl_status new_server(fl_ctx *ctx, const samples *test, fl_server **out)
{
    fl_config *cfg = fl_config_new(ctx);
    fl_samples none = {.size = sizeof none}, held_out = in_memory(test);
    fl_status s = cfg ? fl_config_text(cfg, settings, NULL) : FL_ENOMEM;
    if (!s) s = fl_config_data(cfg, &none, &held_out, NULL); /* what the server tests on; it has no other samples */
    if (!s) s = fl_server_new(cfg, out);
    if (!s) fl_server_observe(*out, show, NULL);
    fl_config_free(cfg);
    return s;
}

/* Client number i says who it is. */
static fl_status join(fl_ctx *ctx, fl_server *server, uint32_t i, const samples *own, fl_client **out)
{
    fl_bytes card = {0};
    fl_config *cfg = fl_config_new(ctx);
    fl_samples all = in_memory(own);
    fl_status s = cfg ? fl_config_data(cfg, &all, NULL, NULL) : FL_ENOMEM;
    if (!s) s = fl_client_new(cfg, out);
    if (!s) s = fl_client_card(*out, 1, &card);
    if (!s) s = fl_server_join(server, i, card.data, card.n);
    if (!s && !i) printf("a card: %zu bytes\n", card.n);
    fl_bytes_free(&card);
    fl_config_free(cfg);
    return s;
}

/* And is told what to do. */
static fl_status tell(fl_server *server, uint32_t i, fl_client *c)
{
    fl_bytes terms;
    fl_status s = fl_server_terms(server, i, &terms);
    if (!s) s = fl_client_accept(c, terms.data, terms.n);
    if (!s && !i) printf("the terms: %zu bytes\n", terms.n);
    fl_bytes_free(&terms);
    return s;
}

/* From the server to a client and back, until the run is over. */
static fl_status carry(fl_server *server, fl_client **clients)
{
    size_t messages = 0, down = 0, up = 0;
    for (;;) {
        uint32_t who;
        fl_bytes ask, answer = {0};
        fl_status s = fl_server_next(server, 10, &who, &ask);
        if (s == FL_EDONE) break;
        if (!s && !ask.n) continue; /* nobody is asked anything just now */
        if (!s) s = fl_client_work(clients[who], ask.data, ask.n, &answer);
        if (!s) s = fl_server_answer(server, who, answer.data, answer.n);
        messages++;
        down += ask.n;
        up += answer.n;
        fl_bytes_free(&ask);
        fl_bytes_free(&answer);
        if (s) return s;
    }
    printf("%zu asks of %zu bytes, their answers of %zu bytes, on average\n", messages, down / messages, up / messages);
    return FL_OK;
}

int main(void)
{
    static samples own[CLIENTS], test;
    fl_ctx *ctx = fl_ctx_new();
    fl_server *server = NULL;
    fl_client *client[CLIENTS] = {0};
    if (!ctx) return 1;
    make(&test, -1);
    fl_status s = new_server(ctx, &test, &server);
    for (uint32_t i = 0; i < CLIENTS && !s; i++) {
        make(&own[i], (int)i);
        s = join(ctx, server, i, &own[i], &client[i]);
    }
    if (!s) s = fl_server_begin(server);
    for (uint32_t i = 0; i < CLIENTS && !s; i++) s = tell(server, i, client[i]);
    if (!s) s = carry(server, client);
    if (s) fprintf(stderr, "%s\n", fl_ctx_error(ctx));
    fl_server_free(server);
    for (size_t i = 0; i < CLIENTS; i++) fl_client_free(client[i]);
    fl_ctx_free(ctx);
    return s != FL_OK;
}
