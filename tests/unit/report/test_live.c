/* The live page, asked with plain sockets. */
#include "check.h"

#include "report/report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a client -------------------------------------------------------------------------------------------- */

static int dial(struct in_addr address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = address};
    struct timeval limit = {10, 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (!connect(fd, (struct sockaddr *)&to, sizeof to)) return fd;
    close(fd);
    return -1;
}

static int dial_here(uint16_t port)
{
    struct in_addr here = {htonl(INADDR_LOOPBACK)};
    return dial(here, port);
}

/* Sends a request and reads until the server closes. Returns the status code, 0 when there was no answer. */
static int ask(uint16_t port, const char *request, char *answer, size_t room)
{
    size_t n = 0;
    int code = 0, fd = dial_here(port);
    answer[0] = 0;
    if (fd < 0) return 0;
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request))
        for (ssize_t got; n + 1 < room && (got = recv(fd, answer + n, room - 1 - n, 0)) > 0;) n += (size_t)got;
    close(fd);
    answer[n] = 0;
    return sscanf(answer, "HTTP/1.%*d %d", &code) == 1 ? code : 0;
}

static int get(uint16_t port, const char *method, const char *path, const char *host, const char *extra, char *answer,
               size_t room)
{
    char request[1024];
    snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", method, path, host,
             extra);
    return ask(port, request, answer, room);
}

static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    return end ? end + 4 : "";
}

static int has_header(const char *answer, const char *line)
{
    const char *at = strcasestr(answer, line);
    return at && at < body_of(answer) && at[-1] == '\n' && !strncmp(at + strlen(line), "\r\n", 2);
}

/* ---- fixture --------------------------------------------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    fli_live *live;
    uint16_t port;
    char answer[8192];
} served;

static int setup(void **state)
{
    served *s = calloc(1, sizeof *s);
    s->ctx = fl_ctx_new();
    *state = s;
    if (fli_live_new(s->ctx, 0, &s->live)) return 1;
    s->port = fli_live_port(s->live);
    return 0;
}

static int teardown(void **state)
{
    served *s = *state;
    fli_live_free(s->live);
    fl_ctx_free(s->ctx);
    free(s);
    return 0;
}

static int fetch(served *s, const char *extra)
{
    return get(s->port, "GET", "/", "127.0.0.1", extra, s->answer, sizeof s->answer);
}

/* ---- tests ----------------------------------------------------------------------------------------------- */

static void the_newest_page_is_served(void **state)
{
    served *s = *state;
    assert_true(s->port > 0);
    assert_int_equal(fetch(s, ""), 503);
    char page[] = "<p>first &middot; \xC3\xA4</p>";
    assert_ok(s->ctx, fli_live_publish(s->live, page));
    page[3] = 'X'; /* it was copied */
    assert_int_equal(fetch(s, ""), 200);
    assert_string_equal(body_of(s->answer), "<p>first &middot; \xC3\xA4</p>");
    assert_true(has_header(s->answer, "Content-Type: text/html; charset=utf-8"));
    assert_true(has_header(s->answer, "Cache-Control: no-store"));
    assert_true(has_header(s->answer, "X-Content-Type-Options: nosniff"));
    assert_ok(s->ctx, fli_live_publish(s->live, "second"));
    assert_int_equal(fetch(s, ""), 200);
    assert_string_equal(body_of(s->answer), "second");
    assert_int_equal(get(s->port, "GET", "/?t=1", "localhost", "", s->answer, sizeof s->answer), 200);
    assert_int_equal(get(s->port, "HEAD", "/", "localhost", "", s->answer, sizeof s->answer), 200);
    assert_string_equal(body_of(s->answer), "");
    assert_true(has_header(s->answer, "Content-Length: 6"));
    assert_ok(s->ctx, fli_live_publish(s->live, ""));
    assert_int_equal(fetch(s, ""), 200);
    assert_string_equal(body_of(s->answer), "");
}

static void what_did_not_change_is_not_sent(void **state)
{
    served *s = *state;
    char tag[128] = "", header[512];
    assert_ok(s->ctx, fli_live_publish(s->live, "first"));
    assert_int_equal(fetch(s, ""), 200);
    const char *at = strcasestr(s->answer, "\nETag: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at + 7, "%127[^\r]", tag), 1);
    snprintf(header, sizeof header, "If-None-Match: %s\r\n", tag);
    assert_int_equal(fetch(s, header), 304);
    assert_string_equal(body_of(s->answer), "");
    snprintf(header, sizeof header, "ETag: %s", tag);
    assert_true(has_header(s->answer, header));
    snprintf(header, sizeof header, "If-None-Match: \"other\", W/%s\r\n", tag);
    assert_int_equal(fetch(s, header), 304);
    assert_int_equal(fetch(s, "If-None-Match: *\r\n"), 304);
    assert_int_equal(fetch(s, "If-None-Match: \"other\"\r\n"), 200);
    assert_ok(s->ctx, fli_live_publish(s->live, "second"));
    snprintf(header, sizeof header, "If-None-Match: %s\r\n", tag);
    assert_int_equal(fetch(s, header), 200);
    assert_string_equal(body_of(s->answer), "second");
}

static void everything_else_is_refused(void **state)
{
    served *s = *state;
    char *a = s->answer;
    size_t n = sizeof s->answer;
    assert_ok(s->ctx, fli_live_publish(s->live, "secret"));
    assert_int_equal(get(s->port, "GET", "/index.html", "127.0.0.1", "", a, n), 404);
    assert_int_equal(get(s->port, "GET", "/../etc/passwd", "127.0.0.1", "", a, n), 404);
    assert_int_equal(get(s->port, "POST", "/", "127.0.0.1", "Content-Length: 0\r\n", a, n), 405);
    assert_true(has_header(a, "Allow: GET, HEAD"));
    assert_true(has_header(a, "Cache-Control: no-store"));
    assert_int_equal(get(s->port, "POST", "/", "127.0.0.1", "Content-Length: 4\r\n\r\nbody", a, n), 405);
    assert_int_equal(get(s->port, "DELETE", "/", "127.0.0.1", "", a, n), 405);
    assert_int_equal(get(s->port, "OPTIONS", "/", "127.0.0.1", "", a, n), 405);
    static const char *const strangers[] = {"evil.example",      "evil.example:80", "127.0.0.1.evil.example",
                                            "localhost.evil",    "127.0.0.1:",      "127.0.0.1:80x",
                                            "localhost:80:80",   "127.0.0.10",      "local",
                                            "user@127.0.0.1:80", "[::1]:80",        ""};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        int code = get(s->port, "GET", "/", strangers[i], "", a, n);
        if (code != 403) fail_msg("Host %s was answered with %d", strangers[i], code);
        assert_null(strstr(a, "secret"));
    }
    static const char *const friends[] = {"127.0.0.1", "127.0.0.1:8080", "localhost", "LocalHost:1"};
    for (size_t i = 0; i < sizeof friends / sizeof *friends; i++)
        assert_int_equal(get(s->port, "GET", "/", friends[i], "", a, n), 200);
    int code = ask(s->port, "GET / HTTP/1.0\r\n\r\n", a, n); /* no Host at all */
    assert_true(code == 400 || code == 403);
    code = ask(s->port, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", a, n);
    assert_true(code == 400 || code == 403);
    code = ask(s->port, "nonsense\r\n\r\n", a, n);
    assert_true(code == 0 || code >= 400);
}

static void only_this_machine_can_connect(void **state)
{
    served *s = *state;
    struct ifaddrs *all = NULL;
    size_t tried = 0;
    assert_ok(s->ctx, fli_live_publish(s->live, "page"));
    assert_int_equal(getifaddrs(&all), 0);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || i->ifa_flags & IFF_LOOPBACK) continue;
        int fd = dial(((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, s->port);
        if (fd >= 0) {
            close(fd);
            fail_msg("the page can be reached through %s", i->ifa_name);
        }
        tried++;
    }
    freeifaddrs(all);
    if (!tried) print_message("this machine has no other address\n");
}

static void a_port_in_use_is_named(void **state)
{
    served *s = *state;
    fli_live *second = (fli_live *)1;
    char place[32];
    snprintf(place, sizeof place, "127.0.0.1:%u", (unsigned)s->port);
    assert_fails(s->ctx, fli_live_new(s->ctx, s->port, &second), FL_ESYSTEM, place);
    assert_null(second);
    fli_live_free(second);
    /* and free again once its server is gone */
    fli_live_free(s->live);
    assert_ok(s->ctx, fli_live_new(s->ctx, s->port, &s->live));
    assert_int_equal(fli_live_port(s->live), s->port);
}

static void it_ends_while_clients_are_connected(void **state)
{
    served *s = *state;
    char *big = malloc((16 << 20) + 1), piece[4096];
    memset(big, 'x', 16 << 20);
    big[16 << 20] = 0;
    assert_ok(s->ctx, fli_live_publish(s->live, big));
    free(big);
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int idle = dial_here(s->port), half = dial_here(s->port), slow = dial_here(s->port);
    assert_true(idle >= 0 && half >= 0 && slow >= 0);
    assert_int_equal(send(half, request, 10, MSG_NOSIGNAL), 10);
    assert_int_equal(send(slow, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    assert_true(recv(slow, piece, sizeof piece, 0) > 0); /* the answer is on its way, and much larger than any buffer */
    fli_live_free(s->live);
    s->live = NULL;
    while (recv(slow, piece, sizeof piece, 0) > 0) {
    }
    struct pollfd ends[] = {{idle, POLLIN, 0}, {half, POLLIN, 0}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(poll(&ends[i], 1, 5000), 1);
        assert_true(recv(ends[i].fd, piece, sizeof piece, 0) <= 0);
    }
    close(idle);
    close(half);
    close(slow);
    assert_true(dial_here(s->port) < 0);
}

/* Connections that say nothing, or begin and do not end: the page comes all the same. `ask` waits ten seconds at
 * most. */
static void silent_connections_keep_nobody_out(void **state)
{
    enum { MOST = 700 };
    static const size_t counts[] = {100, MOST}; /* the second is more than the server takes */
    served *s = *state;
    int silent[MOST];
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files); /* both ends of all connections are ours */
    files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &files);
    assert_ok(s->ctx, fli_live_publish(s->live, "page"));
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < counts[k]; i++) {
            silent[i] = dial_here(s->port);
            if (silent[i] >= 0 && i % 2) (void)!send(silent[i], "GET / HT", 8, MSG_NOSIGNAL);
        }
        assert_int_equal(fetch(s, ""), 200);
        assert_string_equal(body_of(s->answer), "page");
        for (size_t i = 0; i < counts[k]; i++)
            if (silent[i] >= 0) close(silent[i]);
    }
}

/* A reader that was answered does not hold its place, whatever it asks for. */
static void answers_close_their_connection(void **state)
{
    served *s = *state;
    assert_ok(s->ctx, fli_live_publish(s->live, "page"));
    assert_int_equal(ask(s->port, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n", s->answer,
                         sizeof s->answer),
                     200);
    assert_true(has_header(s->answer, "Connection: close"));
    assert_string_equal(body_of(s->answer), "page");
}

/* ---- readers during publishes ---------------------------------------------------------------------------- */

enum { READERS = 4, PAGE = 200000 };

typedef struct {
    uint16_t port;
    atomic_int done;
    atomic_size_t read, torn;
} race;

/* A page is one letter all over: a mixture would be torn. */
static void *reader(void *arg)
{
    race *r = arg;
    char *answer = malloc(PAGE + 1024);
    do {
        int code = get(r->port, "GET", "/", "localhost", "", answer, PAGE + 1024);
        const char *body = body_of(answer);
        size_t n = strlen(body);
        char letter[2] = {body[0], 0};
        if (code != 200 || n != PAGE || strspn(body, letter) != n) atomic_fetch_add(&r->torn, 1);
        atomic_fetch_add(&r->read, 1);
    } while (!atomic_load(&r->done));
    free(answer);
    return NULL;
}

static void readers_never_see_a_mixture(void **state)
{
    served *s = *state;
    race r = {.port = s->port};
    pthread_t threads[READERS];
    char *page = calloc(1, PAGE + 1);
    memset(page, 'a', PAGE);
    assert_ok(s->ctx, fli_live_publish(s->live, page));
    for (size_t i = 0; i < READERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, reader, &r), 0);
    for (size_t k = 0; k < 300 || atomic_load(&r.read) < 40; k++) {
        memset(page, 'a' + (int)(k % 26), PAGE);
        assert_ok(s->ctx, fli_live_publish(s->live, page));
        usleep(500);
    }
    atomic_store(&r.done, 1);
    for (size_t i = 0; i < READERS; i++) pthread_join(threads[i], NULL);
    free(page);
    assert_int_equal(atomic_load(&r.torn), 0);
}

static void memory_that_runs_out_is_said(void **state)
{
    served *s = *state;
    fli_live *l = NULL;
    assert_ok(s->ctx, fli_live_publish(s->live, "page"));
    fli_ctx_fail_alloc(s->ctx, 1);
    assert_fails(s->ctx, fli_live_publish(s->live, "other"), FL_ENOMEM, "memory");
    assert_int_equal(fetch(s, ""), 200);
    assert_string_equal(body_of(s->answer), "page");
    fli_ctx_fail_alloc(s->ctx, 1);
    assert_fails(s->ctx, fli_live_new(s->ctx, 0, &l), FL_ENOMEM, "memory");
    fli_ctx_fail_alloc(s->ctx, 0);
    assert_null(l);
    fli_live_free(NULL);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(the_newest_page_is_served),
        SERVED(what_did_not_change_is_not_sent),
        SERVED(everything_else_is_refused),
        SERVED(only_this_machine_can_connect),
        SERVED(a_port_in_use_is_named),
        SERVED(it_ends_while_clients_are_connected),
        SERVED(silent_connections_keep_nobody_out),
        SERVED(answers_close_their_connection),
        SERVED(readers_never_see_a_mixture),
        SERVED(memory_that_runs_out_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
