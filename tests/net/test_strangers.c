/* A federation over HTTPS goes on beside connections that never were TLS, stop in the middle of a handshake, or turn
 * hostile after it; and no page says anything to those whom its authority has not signed for. */
#include "net/secured.h"

#include "base/os.h"
#include "base/digest.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>

/* ---- strangers ---------------------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    gnutls_session_t tls; /* NULL: it never was */
    gnutls_certificate_credentials_t own;
    int piecemeal; /* what it says in its handshake comes in pieces */
} stranger;

static ssize_t send_in_pieces(gnutls_transport_ptr_t fd, const void *bytes, size_t n);

/* A real handshake, with a certificate, whether the server asks for such or not, or without any. */
static void shake_hands(stranger *s, const char *certs)
{
    char cert[300], key[300];
    snprintf(cert, sizeof cert, "%s/cert.pem", certs);
    snprintf(key, sizeof key, "%s/key.pem", certs);
    assert_int_equal(gnutls_certificate_allocate_credentials(&s->own), 0);
    if (*certs) assert_true(gnutls_certificate_set_x509_key_file(s->own, cert, key, GNUTLS_X509_FMT_PEM) >= 0);
    assert_int_equal(gnutls_init(&s->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL | GNUTLS_FORCE_CLIENT_CERT), 0);
    assert_int_equal(gnutls_set_default_priority(s->tls), 0);
    assert_int_equal(gnutls_credentials_set(s->tls, GNUTLS_CRD_CERTIFICATE, s->own), 0);
    gnutls_transport_set_int(s->tls, s->fd);
    if (s->piecemeal) gnutls_transport_set_push_function(s->tls, send_in_pieces);
    int code = GNUTLS_E_AGAIN;
    for (int i = 0; i < 100 && code && !gnutls_error_is_fatal(code); i++) code = gnutls_handshake(s->tls);
    if (code) fail_msg("handshake: %s", gnutls_strerror(code));
}

static void leave(stranger *s)
{
    if (s->tls) gnutls_deinit(s->tls);
    if (s->own) gnutls_certificate_free_credentials(s->own);
    close(s->fd);
}

/* ---- who does not come in ----------------------------------------------------------------------------------- */

/* The code of an answer to a client of this authority. */
static long knock(secured *s, const char *name, const char *path)
{
    caller c;
    caller_init(&c, s->t.base, "client-0");
    show(&c, s, name, s->ca);
    long code = call(&c, path, NULL, 0);
    if (code == 403 && !strstr(c.body, "certificate")) fail_msg("%s, %s: %s", name, path, c.body);
    caller_fini(&c);
    return code;
}

/* The same with any certificate, also of another authority, which libcurl would not show to a server that does not ask
 * for it; "": none. */
static int insist(federation *t, const char *folder, const char *path)
{
    stranger s = {.fd = dial(t)};
    char text[300], answer[100] = "";
    shake_hands(&s, *folder ? fixture_path(t->f, folder) : "");
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\nFedloom-Protocol: 1 1\r\n\r\n", path);
    assert_int_equal(gnutls_record_send(s.tls, text, strlen(text)), strlen(text));
    ssize_t n = GNUTLS_E_AGAIN;
    for (int i = 0; i < 100 && n < 0 && !gnutls_error_is_fatal((int)n); i++)
        n = gnutls_record_recv(s.tls, answer, sizeof answer - 1);
    leave(&s);
    return n > 12 && !strncmp(answer, "HTTP/1.1 ", 9) ? atoi(answer + 9) : 0;
}

static void strangers_are_refused(void **state)
{
    static const char *const page[] = {FLI_NET_FEDERATION, FLI_NET_TERMS, FLI_NET_ASK, FLI_NET_STATUS};
    fixture *f = *state;
    secured s;
    size_t count;
    char other[300];
    secured_up(&s, f);
    snprintf(other, sizeof other, "%.200s", fixture_path(f, "other"));
    assert_ok(f->ctx, fli_cert_init(f->ctx, other, "test", 10)); /* called as the real one is */
    assert_ok(f->ctx, fli_cert_client(f->ctx, other, "client-0", (fli_cert_wish){5, 0}));
    assert_ok(f->ctx, fli_cert_client(f->ctx, s.ca, "late", (fli_cert_wish){-1, 0}));
    assert_ok(f->ctx, fli_cert_client(f->ctx, s.ca, "mallory", (fli_cert_wish){5, 0}));
    assert_ok(f->ctx, fli_cert_revoke(f->ctx, s.ca, "mallory", &count));
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        assert_int_equal(knock(&s, "mallory", page[i]), 403);
        assert_int_equal(knock(&s, "late", page[i]), 403);
        assert_int_equal(insist(&s.t, "ca/server", page[i]), 403);
        assert_int_equal(insist(&s.t, "other/clients/client-0", page[i]), 403);
        assert_int_equal(insist(&s.t, "", page[i]), 403);
    }
    assert_int_equal(knock(&s, "client-1", FLI_NET_FEDERATION), 200);
    assert_int_equal(insist(&s.t, "ca/clients/client-1", FLI_NET_FEDERATION), 200);
    serve_down(&s.t);
}

/* ---- what they are shown ------------------------------------------------------------------------------------ */

static int warnings;

/* fl_log_fn */
static void count_warnings(void *arg, fl_log_level level, const char *line)
{
    (void)arg;
    if (level == FL_LOG_WARNING && strstr(line, "the server goes on with the certificate that it has")) warnings++;
}

/* The server's certificate, as a new connection sees it. */
static fli_digest shown(secured *at)
{
    char certs[400];
    unsigned n;
    fli_hash h;
    stranger s = {.fd = dial(&at->t)};
    snprintf(certs, sizeof certs, "%s/clients/client-0", at->ca);
    shake_hands(&s, certs);
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(s.tls, &n);
    assert_non_null(chain);
    fli_hash_init(&h);
    fli_hash_bytes(&h, chain->data, chain->size);
    leave(&s);
    return fli_hash_end(&h);
}

static void assert_shown(secured *at, const fli_digest *want, int same)
{
    fli_digest now = shown(at);
    assert_int_equal(fli_digest_same(&now, want), same);
}

/* A new certificate is shown as soon as it is whole, with its key. */
static void only_whole_new_certificates_are_shown(void **state)
{
    static const char *const host[] = {"127.0.0.1"};
    fixture *f = *state;
    secured at;
    char folder[400], aside[400], path[500], other[500];
    secured_up(&at, f);
    snprintf(folder, sizeof folder, "%s/server", at.ca);
    snprintf(aside, sizeof aside, "%s/aside", at.ca);
    fl_ctx_on_log(f->ctx, count_warnings, NULL);
    warnings = 0;
    fli_digest first = shown(&at);
    assert_int_equal(rename(folder, aside), 0); /* both files are gone */
    for (int i = 0; i < 3; i++) assert_shown(&at, &first, 1);
    assert_int_equal(warnings, 1);
    assert_ok(f->ctx, fli_cert_server(f->ctx, at.ca, host, 1, (fli_cert_wish){5, 1}));
    snprintf(path, sizeof path, "%s/key.pem", folder);
    snprintf(other, sizeof other, "%s/new-key.pem", at.ca);
    assert_int_equal(rename(path, other), 0); /* half of a new pair */
    for (int i = 0; i < 3; i++) assert_shown(&at, &first, 1);
    assert_int_equal(warnings, 2);
    assert_int_equal(rename(other, path), 0);
    fli_digest second = shown(&at);
    assert_false(fli_digest_same(&first, &second));
    assert_int_equal(knock(&at, "client-1", FLI_NET_FEDERATION), 200);
    snprintf(path, sizeof path, "%s/cert.pem", folder);
    snprintf(other, sizeof other, "%s/cert.pem", aside);
    assert_int_equal(rename(other, path), 0); /* that of before, with the new key */
    for (int i = 0; i < 3; i++) assert_shown(&at, &second, 1);
    assert_int_equal(warnings, 3);
    fl_ctx_on_log(f->ctx, NULL, NULL);
    serve_down(&at.t);
}

/* ---- a hostile crowd ---------------------------------------------------------------------------------------- */

/* Keeps what a client says first, instead of sending it. */
typedef struct {
    unsigned char bytes[4096];
    size_t n;
} hello;

static ssize_t keep_hello(gnutls_transport_ptr_t to, const void *p, size_t n)
{
    hello *h = to;
    assert_true(h->n + n <= sizeof h->bytes);
    memcpy(h->bytes + h->n, p, n);
    h->n += n;
    return (ssize_t)n;
}

static ssize_t hear_nothing(gnutls_transport_ptr_t from, void *p, size_t n)
{
    (void)from, (void)p, (void)n;
    errno = ECONNRESET;
    return -1;
}

static void record_hello(hello *h)
{
    stranger s = {0};
    assert_int_equal(gnutls_certificate_allocate_credentials(&s.own), 0);
    assert_int_equal(gnutls_init(&s.tls, GNUTLS_CLIENT), 0);
    assert_int_equal(gnutls_set_default_priority(s.tls), 0);
    assert_int_equal(gnutls_credentials_set(s.tls, GNUTLS_CRD_CERTIFICATE, s.own), 0);
    gnutls_transport_set_ptr(s.tls, h);
    gnutls_transport_set_push_function(s.tls, keep_hello);
    gnutls_transport_set_pull_function(s.tls, hear_nothing);
    assert_true(gnutls_handshake(s.tls) < 0);
    assert_true(h->n > 100);
    gnutls_deinit(s.tls);
    gnutls_certificate_free_credentials(s.own);
}

enum { SILENT, NOISE, PLAIN, HALF_HELLO, LONG_RECORD, BAD_HELLO, NO_CERTIFICATE, HALF_REQUEST, NOISE_INSIDE, WAYS };

/* Comes in one of these ways and says what it has to say; most then stay, and say nothing more. */
static void come(secured *at, stranger *s, int way, hello *h, fli_rng *r)
{
    static const char request[] = "GET /v1/ask?wait=60 HTTP/1.1\r\nHost: x\r\n", header[] = "\x16\x03\x01\x40\x00\x01";
    unsigned char noise[600];
    char certs[400];
    s->fd = dial(&at->t);
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (unsigned char)fli_rng_u32(r);
    snprintf(certs, sizeof certs, "%s/clients/client-0", at->ca);
    if (way >= NO_CERTIFICATE) shake_hands(s, way == NO_CERTIFICATE ? "" : certs);
    switch (way) {
    case NOISE: (void)!send(s->fd, noise, sizeof noise, MSG_NOSIGNAL); break;
    case PLAIN: (void)!send(s->fd, request, strlen(request), MSG_NOSIGNAL); break;
    case HALF_HELLO: (void)!send(s->fd, h->bytes, h->n / 2, MSG_NOSIGNAL); break;
    case LONG_RECORD: (void)!send(s->fd, header, sizeof header - 1, MSG_NOSIGNAL); break;
    case BAD_HELLO:
        memcpy(noise, h->bytes, 60);
        (void)!send(s->fd, noise, sizeof noise, MSG_NOSIGNAL);
        break;
    case HALF_REQUEST: gnutls_record_send(s->tls, request, strlen(request)); break;
    case NOISE_INSIDE: gnutls_record_send(s->tls, noise, sizeof noise); break;
    default: break;
    }
}

static void strangers_do_not_change_a_run(void **state)
{
    enum { STRANGERS = 30 * WAYS };
    static stranger s[STRANGERS];
    secured at;
    member m[CLIENTS];
    hello h = {.n = 0};
    fli_rng r;
    secured_up(&at, *state);
    record_hello(&h);
    fli_rng_init(&r, 7, FLI_RNG_TEST, 0, 0);
    for (int i = 0; i < STRANGERS / 2; i++) come(&at, &s[i], i % WAYS, &h, &r);
    members_certified(&at, m);
    members_start(m, 0);
    for (int i = STRANGERS / 2; i < STRANGERS; i++) { /* while it runs; some go as soon as they have come */
        come(&at, &s[i], i % WAYS, &h, &r);
        if (i % 4) continue;
        leave(&s[i]);
        s[i] = (stranger){.fd = -1};
    }
    same_as_simulated(&at.t);
    tell_all(&at.t);
    members_end(m, 0);
    assert_int_equal(knock(&at, "client-1", FLI_NET_FEDERATION), 200);
    serve_down(&at.t); /* with most of them still there */
    for (int i = 0; i < STRANGERS; i++)
        if (s[i].fd >= 0) leave(&s[i]);
}

/* ---- a handshake that stands still --------------------------------------------------------------------------- */

/* In place of the C library's: counts reads of threads that serve connections which found nothing there. */
static atomic_long empty_reads;

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    char name[16] = "";
    ssize_t got = recvfrom(fd, bytes, n, flags, NULL, NULL);
    int error = errno;
    if (got < 0 && error == EAGAIN && !pthread_getname_np(pthread_self(), name, sizeof name) &&
        !strncmp(name, "MHD", 3))
        atomic_fetch_add(&empty_reads, 1);
    errno = error;
    return got;
}

/* The server has read all that it was sent, and found that there is more to come. */
static void until_reads(long count)
{
    double until = fli_clock_now() + 10;
    while (atomic_load(&empty_reads) < count && fli_clock_now() < until) poll(NULL, 0, 1);
    if (atomic_load(&empty_reads) < count) fail_msg("%ld of %ld reads", atomic_load(&empty_reads), count);
}

/* However many handshakes stand still, they are not looked at while others are served. */
static void half_a_hello(void **state)
{
    enum { MANY = 64, CALLS = 20, EACH_CALL = 10 };
    stranger s[MANY];
    secured at;
    hello h = {.n = 0};
    secured_up(&at, *state);
    record_hello(&h);
    long before = atomic_load(&empty_reads);
    for (int i = 0; i < MANY; i++) {
        s[i] = (stranger){.fd = dial(&at.t)};
        assert_int_equal(send(s[i].fd, h.bytes, h.n / 2, MSG_NOSIGNAL), h.n / 2);
    }
    until_reads(before + MANY);
    before = atomic_load(&empty_reads);
    for (int i = 0; i < CALLS; i++) assert_int_equal(knock(&at, "client-1", FLI_NET_FEDERATION), 200);
    long more = atomic_load(&empty_reads) - before;
    if (more > MANY + CALLS * EACH_CALL) fail_msg("%ld reads found nothing while %d calls were answered", more, CALLS);
    for (int i = 0; i < MANY; i++) leave(&s[i]);
    serve_down(&at.t);
}

/* In pieces, of which the server has read each before the next one comes. */
static ssize_t send_in_pieces(gnutls_transport_ptr_t fd, const void *bytes, size_t n)
{
    enum { PIECE = 100 };
    size_t sent = 0;
    while (sent < n) {
        size_t piece = n - sent < PIECE ? n - sent : PIECE;
        long before = atomic_load(&empty_reads);
        if (send((int)(intptr_t)fd, (const char *)bytes + sent, piece, MSG_NOSIGNAL) != (ssize_t)piece) return -1;
        sent += piece;
        if (sent < n) until_reads(before + 1);
    }
    return (ssize_t)n;
}

/* One that goes on after it stood still is answered. */
static void a_slow_hello(void **state)
{
    static const char text[] = "GET " FLI_NET_FEDERATION " HTTP/1.1\r\nHost: x\r\nFedloom-Protocol: 1 1\r\n\r\n";
    char certs[400], answer[100] = "";
    secured at;
    secured_up(&at, *state);
    stranger s = {.fd = dial(&at.t), .piecemeal = 1};
    snprintf(certs, sizeof certs, "%s/clients/client-0", at.ca);
    shake_hands(&s, certs);
    assert_int_equal(gnutls_record_send(s.tls, text, strlen(text)), strlen(text));
    ssize_t n = GNUTLS_E_AGAIN;
    for (int i = 0; i < 100 && n < 0 && !gnutls_error_is_fatal((int)n); i++)
        n = gnutls_record_recv(s.tls, answer, sizeof answer - 1);
    assert_true(n > 12);
    assert_memory_equal(answer, "HTTP/1.1 200", 12);
    leave(&s);
    serve_down(&at.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(strangers_are_refused), FIXTURE_TEST(only_whole_new_certificates_are_shown),
        FIXTURE_TEST(strangers_do_not_change_a_run), FIXTURE_TEST(half_a_hello), FIXTURE_TEST(a_slow_hello)};
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) { /* both ends of every connection are here */
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
