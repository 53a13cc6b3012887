/* Fuzz target: a server of a federation from any bytes on a connection. Whatever was sent, the server goes on: the next
 * connection gets its answer, and nobody has another's number. The first byte says how the bytes are dressed: as they
 * are, or as the body of a request that is right otherwise. */
#include "net/common/protocol.h"
#include "net/server/serve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 2, DIM = 3, EACH = 4, INPUTS = 200, ANSWER = 1 << 16, MILLISECONDS = 20, PATIENCE = 20000 };

/* A federation that has begun; a new one after some inputs, as a run may end by what is sent. */
static struct {
    fl_ctx *ctx;
    fl_config *cfg;
    fli_serve *serve;
    int inputs;
} world;

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_request: %s %s\n", what, world.ctx ? fl_ctx_error(world.ctx) : "");
    abort();
}

/* ---- connections ------------------------------------------------------------------------------------------- */

/* Whether an answer is there to its end. */
static int is_whole(const char *answer, size_t got)
{
    const char *end = strstr(answer, "\r\n\r\n"), *length = strstr(answer, "Content-Length: ");
    return end && got >= (size_t)(end + 4 - answer) + (length && length < end ? strtoul(length + 16, NULL, 10) : 0);
}

/* All that comes back in a while; a request that waits gets nothing, and is left alone. */
static size_t ask(const void *bytes, size_t n, char *answer, int patience)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(fli_serve_port(world.serve))};
    struct linger at_once = {1, 0};
    size_t got = 0;
    ssize_t more = 1;
    *answer = 0;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    demand(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), "no socket");
    demand(!connect(fd, (struct sockaddr *)&to, sizeof to), "the server does not answer");
    (void)!send(fd, bytes, n, MSG_NOSIGNAL);
    if (patience < PATIENCE) shutdown(fd, SHUT_WR); /* nothing more follows */
    for (struct pollfd p = {.fd = fd, .events = POLLIN}; more > 0 && got < ANSWER - 1 && !is_whole(answer, got);) {
        if (poll(&p, 1, patience) <= 0) break;
        more = recv(fd, answer + got, ANSWER - 1 - got, 0);
        if (more > 0) got += (size_t)more;
        answer[got] = 0;
    }
    close(fd);
    return got;
}

static size_t dress(char *out, const char *method, const char *path, const char *name, const void *body, size_t n)
{
    int k = sprintf(out, "%s %s HTTP/1.1\r\nHost: localhost\r\n" FLI_NET_HEADER ": %s\r\n" FLI_NET_NAME ": %s\r\n",
                    method, path, fli_net_version_text(), name);
    k += *method == 'G' ? sprintf(out + k, "\r\n") : sprintf(out + k, "Content-Length: %zu\r\n\r\n", n);
    if (n) memcpy(out + k, body, n);
    return (size_t)k + n;
}

static const char *name_of(size_t client) { return client ? "bob" : "alice"; }

/* ---- a federation ------------------------------------------------------------------------------------------ */

static void join(size_t client)
{
    float x[EACH * DIM] = {0};
    int32_t y[EACH] = {0, 1, 0, 1};
    char text[2048], answer[ANSWER];
    fl_samples mine = {.size = sizeof mine, .n = EACH, .dim = DIM, .f32 = x, .label = y, .classes = 2};
    fl_client *c = NULL;
    fl_bytes card;
    fl_config *cfg = fl_config_new(world.ctx);
    demand(!fl_config_data(cfg, &mine, NULL, NULL) && !fl_client_new(cfg, &c) && !fl_client_card(c, 0, &card),
           "no card");
    size_t n = dress(text, "POST", FLI_NET_JOIN, name_of(client), card.data, card.n);
    ask(text, n, answer, PATIENCE);
    if (!strstr(answer, " 200 OK")) fprintf(stderr, "%s\n", answer);
    demand(strstr(answer, " 200 OK") != NULL, "a client cannot join");
    fl_bytes_free(&card);
    fl_client_free(c);
    fl_config_free(cfg);
}

static void end(void)
{
    fli_serve_free(world.serve);
    fl_config_free(world.cfg);
    fl_ctx_free(world.ctx);
    memset(&world, 0, sizeof world);
}

static void begin(void)
{
    static const char yaml[] =
        "rounds: 1000\nmodel: softmax\nalgorithm: scaffold\nthreads: 1\npartition: {clients: 2}\n"
        "data: {kind: joined, shape: [3], classes: 2}\n";
    static int once;
    if (!once++) atexit(end);
    if (world.serve && world.inputs++ < INPUTS) return;
    end();
    demand((world.ctx = fl_ctx_new()) && (world.cfg = fl_config_new(world.ctx)), "no context");
    demand(!fl_config_text(world.cfg, yaml, "yaml"), "no configuration");
    fli_serve_options o = {.listen = "127.0.0.1:0", .insecure = 1};
    demand(!fli_serve_new(world.ctx, world.cfg, &o, &world.serve), "no server");
    for (size_t i = 0; i < N; i++) join(i);
}

/* ---- one input ----------------------------------------------------------------------------------------------- */

/* Everybody is who it was. */
static void still_well(void)
{
    char text[512], answer[ANSWER], number[32];
    for (size_t i = 0; i < N; i++) {
        size_t n = dress(text, "GET", FLI_NET_FEDERATION, name_of(i), NULL, 0);
        sprintf(number, "\"client\":%zu}", i);
        demand(ask(text, n, answer, PATIENCE) && strstr(answer, " 200 OK"), "the server is not well");
        demand(strstr(answer, number) != NULL, "a client has another's number");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *method, *path;
    } pages[] = {{"POST", FLI_NET_JOIN},  {"POST", FLI_NET_ANSWER}, {"POST", FLI_NET_REFUSE},
                 {"POST", FLI_NET_ALIVE}, {"GET", FLI_NET_ASK},     {"GET", FLI_NET_STATUS}};
    enum { PAGES = sizeof pages / sizeof *pages, MOST = 4096 };
    static char text[MOST + 512], answer[ANSWER];
    if (!size || size > MOST) return 0;
    begin();
    size_t page = data[0] & 0x7f, n = size - 1;
    if (page < PAGES)
        n = dress(text, pages[page].method, pages[page].path, data[0] & 0x80 ? "bob" : "alice", data + 1, n);
    else
        memcpy(text, data + 1, n);
    size_t got = ask(text, n, answer, MILLISECONDS);
    demand(!got || !strncmp(answer, "HTTP/1.1 ", 9), "an answer is none");
    if (world.inputs % 16 == 0) still_well();
    return 0;
}

#ifdef FUZZ_REPLAY
#include "mutate.h"

enum { LONGEST = 4096 };

#define H "Host: localhost\r\nFedloom-Protocol: 1 1\r\nFedloom-Client: alice\r\n"
static const char *const seeds[] = {
    "\x7fGET /v1/federation HTTP/1.1\r\n" H "\r\n",
    "\x7fGET /v1/ask?wait=0 HTTP/1.1\r\n" H "\r\n",
    "\x7fGET /v1/terms?wait=1&wait=x HTTP/1.1\r\n" H "\r\n",
    "\x7fPOST /v1/alive HTTP/1.1\r\n" H "Content-Length: 12\r\n\r\n{\"number\":1}",
    "\x7fPOST /v1/alive HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "\x7fGET /v1/status HTTP/1.1\r\nHost: [::1]:8\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "\x02{\"number\": 4294967297, \"reason\": \"no\"}",
    "\x03{\"number\": 4294967297}",
    "\x01"
    "flpacket\x02",
    "\x80"
    "flpacket\x02",
};
static const char *const tokens[] = {"Content-Length: ",
                                     "\r\n",
                                     "Transfer-Encoding: chunked",
                                     "{",
                                     "}",
                                     "\"number\":",
                                     "-1",
                                     "99999999",
                                     "HTTP/1.1",
                                     "?wait=",
                                     "Host:",
                                     "%00",
                                     "/../",
                                     "\xff",
                                     " ",
                                     "[[[[",
                                     "1e9",
                                     "\\u0000"};
static const dialect http = {tokens, sizeof tokens / sizeof *tokens, LONGEST - 1, 0};

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 400;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        const char *seed = seeds[(size_t)i % (sizeof seeds / sizeof *seeds)];
        uint8_t buf[LONGEST];
        size_t n = strlen(seed);
        memcpy(buf, seed, n);
        for (uint64_t k = fli_rng_below(&r, 4); k; k--) n = 1 + mutate(&http, &r, buf + 1, n - 1);
        LLVMFuzzerTestOneInput(buf, n);
    }
    printf("fuzz_request: %ld inputs, no failure\n", times);
    return 0;
}

#endif
