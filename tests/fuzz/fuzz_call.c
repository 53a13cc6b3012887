/* Fuzz target: a client's call from any bytes that a server answers with. It ends, takes no more than it was told to,
 * and says why if nothing came of it. The first byte says how the bytes are dressed: as they are, or as headers, or as
 * the body of an answer that is right otherwise. */
#include "net/client/http_client.h"
#include "net/common/protocol.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 100, LARGEST = 8192 };

static struct {
    fl_ctx *ctx;
    int fd;
    char url[64];
    const char *text; /* of the answer */
    size_t n;
} server = {.fd = -1};

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_call: %s\n", what);
    abort();
}

static void leave(void)
{
    close(server.fd);
    fl_ctx_free(server.ctx);
}

static void arrive(void)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t n = sizeof own;
    if (server.ctx) return;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    demand(server.fd >= 0 && !bind(server.fd, (struct sockaddr *)&own, sizeof own) && !listen(server.fd, 8) &&
               !getsockname(server.fd, (struct sockaddr *)&own, &n) && (server.ctx = fl_ctx_new()),
           "no server");
    snprintf(server.url, sizeof server.url, "http://127.0.0.1:%u", (unsigned)ntohs(own.sin_port));
    atexit(leave);
}

/* One connection, one answer, whatever is asked. */
static void *answer(void *unused)
{
    char asked[4096];
    size_t got = 0;
    (void)unused;
    int fd = accept(server.fd, NULL, NULL);
    for (ssize_t more = 1; fd >= 0 && more > 0 && got < sizeof asked - 1;) {
        if ((more = recv(fd, asked + got, sizeof asked - 1 - got, 0)) > 0) got += (size_t)more;
        asked[got] = 0;
        if (strstr(asked, "\r\n\r\n")) break;
    }
    (void)!send(fd, server.text, server.n, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    while (recv(fd, asked, sizeof asked, 0) > 0) continue;
    close(fd);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[LARGEST + 256];
    fli_http_answer r;
    fli_http_call *call = NULL;
    pthread_t thread;
    if (!size || size > LARGEST) return 0;
    arrive();
    fli_clear(server.ctx);
    const int way = *data++ % 3;
    int k = 0;
    size--;
    if (way) k = sprintf(text, "HTTP/1.1 200 OK\r\n" FLI_NET_HEADER ": 1 1\r\n");
    if (way == 2) k += sprintf(text + k, "Content-Length: %zu\r\n\r\n", size);
    memcpy(text + k, data, size);
    server.text = text;
    server.n = (size_t)k + size;
    const fli_http_call_spec spec = {.url = server.url, .plain = 1, .name = "alice", .stall_s = 1};
    demand(!fli_http_call_new(server.ctx, &spec, &call), "no call");
    demand(!pthread_create(&thread, NULL, answer, NULL), "no thread");
    fli_http_call_end end = fli_http_call_get(call, FLI_NET_ASK, 0, MOST, &r);
    demand(end != FLI_CALL_STOPPED, "it was stopped, and by nobody");
    demand(end == FLI_CALL_DONE || *fli_http_call_why(call), "nothing came of it, and nobody says why");
    for (const char *c = fli_http_call_why(call); *c; c++) demand(*c >= ' ' && *c <= '~', "a terminal may obey this");
    if (end == FLI_CALL_DONE) demand(r.n <= MOST && (!r.cut || r.n == MOST) && !r.body[r.n], "a body beyond its bound");
    fli_http_call_free(call);
    pthread_join(thread, NULL);
    return 0;
}

#ifdef FUZZ_REPLAY
#include "mutate.h"

#define H "Fedloom-Protocol: 1 1\r\n"
static const char *const seeds[] = {
    "\x03HTTP/1.1 200 OK\r\n" H "Content-Length: 5\r\n\r\nhello",
    "\x03HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n" H "\r\n",
    "\x03HTTP/1.1 200 OK\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
    "\x03HTTP/1.1 302 Found\r\n" H "Location: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "\x03HTTP/1.1 403 Forbidden\r\n" H "Content-Length: 14\r\n\r\n{\"error\":\"no\"}",
    "\x03HTTP/1.1 426 Upgrade\r\nFedloom-Protocol: 3 2\r\nContent-Length: 0\r\n\r\n",
    "\x01" H "Content-Encoding: gzip\r\nRetry-After: 2\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n",
    "\x02{\"error\": \"a\\u009b31m\", \"join\": true}",
};
static const char *const tokens[] = {"Content-Length: ",
                                     "\r\n",
                                     "-1",
                                     "99999999999999999999",
                                     "HTTP/1.1 ",
                                     "HTTP/2 ",
                                     "\xff",
                                     "chunked",
                                     ":",
                                     " ",
                                     "\\u0000",
                                     "{",
                                     H,
                                     "\"error\":"};
static const dialect http = {tokens, sizeof tokens / sizeof *tokens, 4000, 0};

int main(int argc, char **argv)
{
    long times = argc > 1 ? atol(argv[1]) : 1000;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        const char *seed = seeds[(size_t)i % (sizeof seeds / sizeof *seeds)];
        uint8_t buf[4096];
        size_t n = strlen(seed);
        memcpy(buf, seed, n);
        for (uint64_t k = fli_rng_below(&r, 4); k; k--) n = 1 + mutate(&http, &r, buf + 1, n - 1);
        LLVMFuzzerTestOneInput(buf, n);
    }
    printf("fuzz_call: %ld inputs, no failure\n", times);
    return 0;
}

#endif
