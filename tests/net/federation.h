/* A small federation with its samples in memory: simulated, served over plain HTTP on this machine, and clients that
 * speak to it as any client would, by libcurl. */
#ifndef TESTS_NET_FEDERATION_H
#define TESTS_NET_FEDERATION_H

#include "fixture.h"
#include "net/openapi.h"

#include "net/common/protocol.h"
#include "net/server/serve.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 5, EACH = 12, DIM = 6, CLASSES = 3 };

static const char federation_yaml[] = "rounds: 4\nseed: 3\nmodel: {kind: mlp, hidden: [5]}\nalgorithm: scaffold\n"
                                      "participation: {kind: uniform, count: 3, seed: 17}\nthreads: 1\n"
                                      "local: {epochs: 1, batch: 4, lr: 0.1}\n";

typedef struct {
    fixture *f;
    double x[CLIENTS * EACH * DIM];
    int32_t y[CLIENTS * EACH];
    double want[2000]; /* the simulation's model */
    size_t parameters;
    fli_serve *serve;
    fl_config *cfg;
    char base[64]; /* URL */
} federation;

UNUSED static fl_config *federation_config(federation *t, const char *yaml, const char *more)
{
    fl_config *cfg = fixture_config(t->f, yaml);
    char text[1024], *save = NULL;
    snprintf(text, sizeof text, "%s", more);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(t->f->ctx, fl_config_set(cfg, a));
    return cfg;
}

UNUSED static fl_samples samples_of(federation *t, size_t client, size_t clients)
{
    return (fl_samples){.size = sizeof(fl_samples),
                        .n = clients * EACH,
                        .dim = DIM,
                        .f64 = t->x + client * EACH * DIM,
                        .label = t->y + client * EACH,
                        .classes = CLASSES};
}

/* Samples, and what the simulation makes of them. */
UNUSED static void federation_init(federation *t, fixture *f, const char *settings)
{
    fli_rng r;
    size_t start[CLIENTS + 1];
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = start};
    fl_run *run;
    memset(t, 0, sizeof *t);
    t->f = f;
    fli_rng_init(&r, 11, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < CLIENTS * EACH; i++) {
        t->y[i] = (int32_t)(i % CLASSES);
        for (size_t j = 0; j < DIM; j++) t->x[i * DIM + j] = fli_rng_normal(&r) + (j == i % CLASSES ? 2 : 0);
    }
    for (size_t i = 0; i <= CLIENTS; i++) start[i] = i * EACH;
    fl_config *cfg = federation_config(t, federation_yaml, settings);
    fl_samples all = samples_of(t, 0, CLIENTS);
    assert_ok(f->ctx, fl_config_data(cfg, &all, NULL, &who));
    if (!strcmp(fl_config_get(cfg, "clock"), "real")) { /* a simulation has the other clock, and needs devices for it */
        assert_ok(f->ctx, fl_config_set(cfg, "clock=virtual"));
        assert_ok(f->ctx, fl_config_set(cfg, "system=constant"));
    }
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    t->parameters = fl_run_model(run, t->want, 2000);
    assert_true(t->parameters > 0 && t->parameters <= 2000);
    fl_run_free(run);
    fl_config_free(cfg);
}

UNUSED static fl_config *server_config(federation *t, const char *settings)
{
    char data[128];
    fl_config *cfg = federation_config(t, federation_yaml, settings);
    snprintf(data, sizeof data, "data={kind: joined, shape: [%d], classes: %d}", DIM, CLASSES);
    assert_ok(t->f->ctx, fl_config_set(cfg, data));
    snprintf(data, sizeof data, "partition={clients: %d}", CLIENTS);
    assert_ok(t->f->ctx, fl_config_set(cfg, data));
    return cfg;
}

UNUSED static void serve_up(federation *t, const char *settings, fli_serve_options o)
{
    o.listen = "127.0.0.1:0";
    o.insecure = 1;
    t->cfg = server_config(t, settings);
    assert_ok(t->f->ctx, fli_serve_new(t->f->ctx, t->cfg, &o, &t->serve));
    assert_true(fli_serve_room(t->serve) > 100);
    snprintf(t->base, sizeof t->base, "http://127.0.0.1:%u", (unsigned)fli_serve_port(t->serve));
}

UNUSED static void serve_down(federation *t)
{
    fli_serve_free(t->serve);
    fl_config_free(t->cfg);
    t->serve = NULL;
    t->cfg = NULL;
}

/* The run has ended well, with the simulation's model. */
UNUSED static void same_as_simulated(federation *t)
{
    double got[2000];
    int paused;
    for (int i = 0; i < 600 && !fli_serve_wait(t->serve, 0.1); i++) continue;
    assert_true(fli_serve_wait(t->serve, 0));
    assert_ok(t->f->ctx, fli_serve_ending(t->serve, &paused));
    assert_false(paused);
    fl_run *run = fli_serve_run(t->serve);
    assert_non_null(run);
    assert_int_equal(fl_run_model(run, got, 2000), t->parameters);
    assert_memory_equal(got, t->want, t->parameters * sizeof *got);
}

/* All clients hear that it is over, and nothing is left of it but its result. */
UNUSED static void tell_all(federation *t)
{
    const char *first;
    fli_serve_finish(t->serve);
    assert_int_equal(fli_serve_unacknowledged(t->serve, 60, NULL, NULL, &first), 0);
    assert_ok(t->f->ctx, fli_serve_forget(t->serve));
}

/* A connection that has said nothing yet. */
UNUSED static int dial(const federation *t)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(fli_serve_port(t->serve))};
    struct timeval patience = {20, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

typedef struct {
    CURL *curl;
    const char *base, *name;
    const char *version; /* NULL: ours */
    char trust[300];     /* over HTTPS: the authority's certificate, */
    char certs[300];     /* and the folder of the caller's own; "": none */
    char *body;          /* of the last answer, terminated */
    size_t n;
    char head[2000]; /* its headers */
} caller;

UNUSED static size_t collect_head(char *line, size_t size, size_t n, void *arg)
{
    caller *c = arg;
    size_t used = strlen(c->head);
    snprintf(c->head + used, sizeof c->head - used, "%.*s", (int)(size * n), line);
    return size * n;
}

UNUSED static size_t collect(char *piece, size_t size, size_t n, void *arg)
{
    caller *c = arg;
    c->body = realloc(c->body, c->n + n + 1);
    memcpy(c->body + c->n, piece, n);
    c->n += n;
    c->body[c->n] = 0;
    return size * n;
}

UNUSED static void caller_init(caller *c, const char *base, const char *name)
{
    *c = (caller){.curl = curl_easy_init(), .base = base, .name = name};
    assert_non_null(c->curl);
}

UNUSED static void caller_fini(caller *c)
{
    curl_easy_cleanup(c->curl);
    free(c->body);
}

/* The next call opens another connection. */
UNUSED static void caller_anew(caller *c)
{
    curl_easy_cleanup(c->curl);
    assert_non_null(c->curl = curl_easy_init());
}

UNUSED static void secure(caller *c)
{
    char path[320];
    if (*c->trust) curl_easy_setopt(c->curl, CURLOPT_CAINFO, c->trust);
    if (!*c->certs) return;
    snprintf(path, sizeof path, "%s/cert.pem", c->certs);
    curl_easy_setopt(c->curl, CURLOPT_SSLCERT, path);
    snprintf(path, sizeof path, "%s/key.pem", c->certs);
    curl_easy_setopt(c->curl, CURLOPT_SSLKEY, path);
}

/* The code of an answer; 0: there was none. `send` NULL: GET. */
UNUSED static long call(caller *c, const char *path, const void *send, size_t n)
{
    char url[200], version[64], name[100];
    long code = 0;
    snprintf(url, sizeof url, "%s%s", c->base, path);
    snprintf(version, sizeof version, FLI_NET_HEADER ": %s", c->version ? c->version : fli_net_version_text());
    snprintf(name, sizeof name, FLI_NET_NAME ": %s", c->name);
    struct curl_slist *headers = curl_slist_append(NULL, version);
    headers = curl_slist_append(headers, name);
    headers = curl_slist_append(headers, "Expect:");
    c->n = 0;
    *c->head = 0;
    free(c->body);
    c->body = calloc(1, 1);
    curl_easy_reset(c->curl);
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, 90L);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, collect_head);
    curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, c);
    secure(c);
    if (send) {
        curl_easy_setopt(c->curl, CURLOPT_POST, 1L);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, send);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
    }
    if (!curl_easy_perform(c->curl)) curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_slist_free_all(headers);
    assert_listed(send ? "POST" : "GET", path, code);
    return code;
}

/* ---- clients ---------------------------------------------------------------------------------------------------- */

typedef struct {
    federation *t;
    uint32_t number; /* whose samples */
    char name[32];
    caller call;
    fl_ctx *ctx;
    fl_client *client;
    int accepted; /* the terms */
    int twice;    /* sends every answer again */
    long last;    /* code of what ended it */
    int well;     /* it was told that the run has ended well */
    size_t asks;  /* answered */
    size_t limit; /* goes away after so many; 0: never */
    pthread_t thread;
} member;

UNUSED static void member_init(member *m, federation *t, uint32_t number)
{
    memset(m, 0, sizeof *m);
    m->t = t;
    m->number = number;
    snprintf(m->name, sizeof m->name, "client-%u", number);
    caller_init(&m->call, t->base, m->name);
    assert_non_null(m->ctx = fl_ctx_new());
    fl_config *cfg = fl_config_new(m->ctx);
    fl_samples mine = samples_of(t, number, 1);
    assert_ok(m->ctx, fl_config_data(cfg, &mine, NULL, NULL));
    assert_ok(m->ctx, fl_client_new(cfg, &m->client));
    fl_config_free(cfg);
}

UNUSED static void member_fini(member *m)
{
    fl_client_free(m->client);
    fl_ctx_free(m->ctx);
    caller_fini(&m->call);
}

UNUSED static void member_join(member *m)
{
    fl_bytes card;
    char want[40];
    assert_ok(m->ctx, fl_client_card(m->client, 0, &card));
    assert_int_equal(call(&m->call, FLI_NET_JOIN, card.data, card.n), 200);
    snprintf(want, sizeof want, "{\"client\": %u}\n", m->number);
    assert_string_equal(m->call.body, want);
    fl_bytes_free(&card);
}

UNUSED static void member_accept(member *m)
{
    long code;
    while ((code = call(&m->call, FLI_NET_TERMS "?wait=20", NULL, 0)) == 204) continue;
    assert_int_equal(code, 200);
    assert_ok(m->ctx, fl_client_accept(m->client, m->call.body, m->call.n));
    m->accepted = 1;
}

/* An answer to the ask that was just fetched. */
UNUSED static void member_work(member *m, fl_bytes *answer)
{
    assert_ok(m->ctx, fl_client_work(m->client, m->call.body, m->call.n, answer));
}

/* That the run is over, which it says. */
UNUSED static void member_hear(member *m)
{
    static const char words[] = "{\"over\": true}";
    m->well = strstr(m->call.body, "\"ok\": true") != NULL;
    assert_int_equal(call(&m->call, FLI_NET_ALIVE, words, sizeof words - 1), 200);
}

UNUSED static void *member_go(void *arg)
{
    member *m = arg;
    fl_bytes answer;
    if (!m->accepted) member_accept(m);
    while (!m->limit || m->asks < m->limit) {
        long code = call(&m->call, FLI_NET_ASK "?wait=20", NULL, 0);
        m->last = code;
        if (code == 204) continue;
        if (code == 410) member_hear(m);
        if (code != 200) break;
        member_work(m, &answer);
        assert_int_equal(call(&m->call, FLI_NET_ANSWER, answer.data, answer.n), 200);
        if (m->twice) assert_int_equal(call(&m->call, FLI_NET_ANSWER, answer.data, answer.n), 200);
        fl_bytes_free(&answer);
        m->asks++;
    }
    return NULL;
}

UNUSED static void members_join(federation *t, member *m)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        member_init(&m[i], t, i);
        member_join(&m[i]);
    }
}

UNUSED static void members_start(member *m, size_t from)
{
    for (size_t i = from; i < CLIENTS; i++) assert_int_equal(pthread_create(&m[i].thread, NULL, member_go, &m[i]), 0);
}

UNUSED static void members_end(member *m, size_t from)
{
    for (size_t i = from; i < CLIENTS; i++) pthread_join(m[i].thread, NULL);
    for (size_t i = 0; i < CLIENTS; i++) member_fini(&m[i]);
}

#endif
