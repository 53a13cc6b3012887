/* Who comes in: real TLS handshakes, with GnuTLS on both sides of a socket pair, and with libmicrohttpd and libcurl
 * over loopback. */
#include "data_files.h"

#include "net/cert/trust.h"
#include "net/cert/x509.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

static const fli_cert_wish year = {.days = 365};

/* ca/ with a server, alice, bob, a viewer, a client that has ended, and one whose name is no client's; other/ is
 * another authority of the same name, with an alice of its own. */
static int federation_setup(void **state)
{
    static const char *const host[] = {"localhost", "127.0.0.1"};
    scratch_setup(state);
    scratch *s = *state;
    const char *ca = at(s, "ca"), *other = at(s, "other");
    assert_ok(s->ctx, fli_cert_init(s->ctx, ca, "Trial", 100));
    assert_ok(s->ctx, fli_cert_server(s->ctx, ca, host, 2, year));
    assert_ok(s->ctx, fli_cert_client(s->ctx, ca, "alice", year));
    assert_ok(s->ctx, fli_cert_client(s->ctx, ca, "bob", year));
    assert_ok(s->ctx, fli_cert_client(s->ctx, ca, "late", (fli_cert_wish){.days = -1}));
    assert_ok(s->ctx, fli_cert_client(s->ctx, ca, "localhost", year)); /* a host's name, which is a fine one */
    assert_ok(s->ctx, fli_cert_viewer(s->ctx, ca, "alice", year));     /* who has nothing to do with the client */
    assert_ok(s->ctx, fli_cert_init(s->ctx, other, "Trial", 100));
    assert_ok(s->ctx, fli_cert_server(s->ctx, other, host, 2, year));
    assert_ok(s->ctx, fli_cert_client(s->ctx, other, "alice", year));
    return 0;
}

/* Any certificate and key, from files: also pairs that fli_tls_load would not touch. NULL: none. */
static gnutls_certificate_credentials_t credentials(scratch *s, const char *folder, const char *trusted)
{
    gnutls_certificate_credentials_t c;
    char cert[60], key[60];
    assert_int_equal(gnutls_certificate_allocate_credentials(&c), 0);
    if (trusted) assert_true(gnutls_certificate_set_x509_trust_file(c, at(s, trusted), GNUTLS_X509_FMT_PEM) > 0);
    if (!folder) return c;
    snprintf(cert, sizeof cert, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    assert_true(gnutls_certificate_set_x509_key_file(c, at(s, cert), at(s, key), GNUTLS_X509_FMT_PEM) >= 0);
    return c;
}

/* Two ends of a connection in one thread. */
typedef struct {
    gnutls_certificate_credentials_t own[2];
    gnutls_session_t end[2]; /* server, client */
    int fd[2];
} ends;

static void begin(ends *l, int k, unsigned flags, const char *priority)
{
    assert_int_equal(gnutls_init(&l->end[k], flags | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL), 0);
    assert_int_equal(gnutls_priority_set_direct(l->end[k], priority, NULL), 0);
    assert_int_equal(gnutls_credentials_set(l->end[k], GNUTLS_CRD_CERTIFICATE, l->own[k]), 0);
    assert_int_equal(fcntl(l->fd[k], F_SETFL, O_NONBLOCK), 0);
    gnutls_transport_set_int(l->end[k], l->fd[k]);
}

static void connect_as(scratch *s, ends *l, const char *folder, const char *priority)
{
    int code[2] = {GNUTLS_E_AGAIN, GNUTLS_E_AGAIN};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, l->fd), 0);
    l->own[0] = credentials(s, "ca/server", "ca/ca.pem");
    l->own[1] = credentials(s, folder, NULL);
    begin(l, 0, GNUTLS_SERVER, priority);
    begin(l, 1, GNUTLS_CLIENT | GNUTLS_FORCE_CLIENT_CERT, priority); /* hostile: sends what nobody asked for */
    gnutls_certificate_server_set_request(l->end[0], GNUTLS_CERT_REQUEST);
    for (int i = 0; i < 1000 && (code[0] || code[1]); i++)
        for (int k = 0; k < 2; k++) {
            if (code[k]) code[k] = gnutls_handshake(l->end[k]);
            if (code[k] && gnutls_error_is_fatal(code[k])) fail_msg("handshake: %s", gnutls_strerror(code[k]));
        }
    assert_true(!code[0] && !code[1]);
}

static void end(ends *l)
{
    for (int k = 0; k < 2; k++) {
        gnutls_deinit(l->end[k]);
        gnutls_certificate_free_credentials(l->own[k]);
        close(l->fd[k]);
    }
}

/* Who comes, as a server sees it: `want` is a name, or part of the sentence if `good` is 0. */
static void expect(scratch *s, fli_trust *t, const char *folder, int good, const char *want)
{
    static const char *const priority[] = {"NORMAL:-VERS-ALL:+VERS-TLS1.3", "NORMAL:-VERS-ALL:+VERS-TLS1.2"};
    for (size_t v = 0; v < 2; v++) {
        ends l;
        fli_peer who;
        char sentence[200];
        connect_as(s, &l, folder, priority[v]);
        const char *wrong = fli_trust_check(t, l.end[0], &who, sentence, sizeof sentence);
        end(&l);
        if (good && wrong) fail_msg("%s: %s", folder, wrong);
        if (!good && (!wrong || !strstr(wrong, want))) fail_msg("%s: %s", folder, wrong ? wrong : "came in");
        assert_string_equal(who.name, good ? want : "");
        assert_int_equal(who.by_clock, !good && strstr(sentence, "by the server's clock") != NULL);
        if (good) assert_int_equal(who.kind, strstr(folder, "viewers") ? FLI_CERT_VIEWER : FLI_CERT_CLIENT);
    }
}

/* A certificate that says anything, signed by its own key or by another's. */
static void forge(scratch *s, const char *folder, const char *name, const char *issuer, int purpose)
{
    gnutls_x509_crt_t cert, ca = NULL;
    gnutls_x509_privkey_t key, ca_key = NULL;
    gnutls_datum_t pem;
    char path[60];
    assert_ok(s->ctx, fli_make_private_folder(s->ctx, at(s, folder)));
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(
        gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), 0);
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    gnutls_x509_crt_set_version(cert, 3);
    gnutls_x509_crt_set_serial(cert, "\1\2\3", 3);
    gnutls_x509_crt_set_activation_time(cert, time(NULL) - 100);
    gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 100);
    gnutls_x509_crt_set_key(cert, key);
    if (name)
        assert_int_equal(
            gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name)), 0);
    if (purpose) gnutls_x509_crt_set_key_purpose_oid(cert, GNUTLS_KP_TLS_WWW_CLIENT, 0);
    if (issuer) {
        snprintf(path, sizeof path, "%s/ca.pem", issuer);
        assert_ok(s->ctx, fli_x509_cert_load(s->ctx, at(s, path), &ca, NULL));
        snprintf(path, sizeof path, "%s/ca-key.pem", issuer);
        assert_ok(s->ctx, fli_x509_key_load(s->ctx, at(s, path), &ca_key, NULL));
    }
    assert_int_equal(gnutls_x509_crt_sign2(cert, ca ? ca : cert, ca_key ? ca_key : key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem), 0);
    snprintf(path, sizeof path, "%s/cert.pem", folder);
    put(s, path, pem.data, pem.size);
    gnutls_free(pem.data);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
    snprintf(path, sizeof path, "%s/key.pem", folder);
    put(s, path, pem.data, pem.size);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
    if (ca) gnutls_x509_crt_deinit(ca);
    if (ca_key) gnutls_x509_privkey_deinit(ca_key);
}

static void who_comes_in(void **state)
{
    scratch *s = *state;
    fli_trust *t;
    size_t count;
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, at(s, "ca"), "bob", &count));
    assert_ok(s->ctx, fli_trust_open(s->ctx, at(s, "ca/server"), &t));
    expect(s, t, "ca/clients/alice", 1, "alice");
    expect(s, t, "ca/viewers/alice", 1, "alice");
    expect(s, t, "ca/clients/bob", 0, "the certificate of bob has been revoked");
    expect(s, t, "ca/clients/late", 0, "the certificate of late has ended");
    expect(s, t, "ca/clients/late", 0, " (by the server's clock it is 20");
    expect(s, t, "other/clients/alice", 0, "was not signed by this federation's authority");
    expect(s, t, "ca/server", 0, "is not a client's");
    expect(s, t, NULL, 0, "there is no certificate");
    forge(s, "self", "alice", NULL, 1);
    expect(s, t, "self", 0, "was not signed by");
    forge(s, "any", "alice", "ca", 0); /* of this authority, for no purpose at all */
    expect(s, t, "any", 0, "is not a client's");
    forge(s, "space", "not a name", "ca", 1);
    expect(s, t, "space", 0, "has no name that a client may have");
    forge(s, "path", "../alice", "ca", 1);
    expect(s, t, "path", 0, "has no name that a client may have");
    forge(s, "long", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ca", 1);
    expect(s, t, "long", 0, "has no name that a client may have");
    forge(s, "nameless", NULL, "ca", 1);
    expect(s, t, "nameless", 0, "has no name that a client may have");
    forge(s, "fine", "fine", "ca",
          1); /* a forger with the authority's key is none: so the others fail for their reasons */
    expect(s, t, "fine", 1, "fine");
    fli_trust_free(t);
}

/* What no TLS library would send of itself. */
static void odd_certificates(void **state)
{
    scratch *s = *state;
    fli_trust *t;
    fli_peer who;
    char sentence[200];
    gnutls_x509_crt_t ca;
    gnutls_datum_t der;
    const gnutls_datum_t nothing = {(unsigned char *)"", 0}, noise = {(unsigned char *)"0123456789", 10};
    assert_ok(s->ctx, fli_trust_open(s->ctx, at(s, "ca/server"), &t));
    assert_non_null(fli_trust_check_cert(t, &nothing, &who, sentence, sizeof sentence));
    assert_string_equal(sentence, "the certificate cannot be read");
    assert_non_null(fli_trust_check_cert(t, &noise, &who, sentence, sizeof sentence));
    assert_ok(s->ctx, fli_x509_cert_load(s->ctx, at(s, "ca/ca.pem"), &ca, NULL));
    assert_int_equal(gnutls_x509_crt_export2(ca, GNUTLS_X509_FMT_DER, &der), 0);
    assert_non_null(fli_trust_check_cert(t, &der, &who, sentence, sizeof sentence));
    assert_string_equal(sentence, "the certificate of Trial is an authority's, not a client's");
    gnutls_free(der.data);
    gnutls_x509_crt_deinit(ca);
    fli_trust_free(t);
}

/* ---- the list changes -------------------------------------------------------------------------------------------- */

typedef struct {
    char text[400];
    int count;
} said;

static void keep_warning(void *arg, fl_log_level level, const char *line)
{
    said *w = arg;
    if (level != FL_LOG_WARNING) return;
    snprintf(w->text, sizeof w->text, "%s", line);
    w->count++;
}

static void revoked_while_connected(void **state)
{
    scratch *s = *state;
    fli_trust *t;
    ends l;
    size_t count;
    fli_peer who;
    char sentence[200];
    assert_ok(s->ctx, fli_trust_open(s->ctx, at(s, "ca/server"), &t));
    connect_as(s, &l, "ca/clients/bob", "NORMAL");
    assert_null(fli_trust_check(t, l.end[0], &who, sentence, sizeof sentence));
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, at(s, "ca"), "alice", &count));
    assert_null(fli_trust_check(t, l.end[0], &who, sentence, sizeof sentence));
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, at(s, "ca"), "bob", &count));
    assert_non_null(fli_trust_check(t, l.end[0], &who, sentence, sizeof sentence));
    assert_string_equal(sentence, "the certificate of bob has been revoked");
    end(&l);
    fli_trust_free(t);
}

/* Whatever happens to the file, bob stays out, alice comes in, and one sentence says what is wrong. */
static void expect_kept(scratch *s, fli_trust *t, said *w, const char *sentence)
{
    w->count = 0;
    expect(s, t, "ca/clients/bob", 0, "has been revoked");
    expect(s, t, "ca/clients/alice", 1, "alice");
    if (w->count != 1 || !strstr(w->text, sentence)) fail_msg("%d warnings, the last: %s", w->count, w->text);
}

static void damaged_lists(void **state)
{
    scratch *s = *state;
    fli_trust *t;
    size_t count;
    said w = {0};
    copy_private(s, "ca/crl.pem", "oldest.pem");
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, at(s, "ca"), "bob", &count));
    fl_ctx_on_log(s->ctx, keep_warning, &w);
    assert_ok(s->ctx, fli_trust_open(s->ctx, at(s, "ca/server"), &t));
    put_text(s, "ca/server/crl.pem", "-----BEGIN X509 CRL-----\nMIIB");
    expect_kept(s, t, &w, "is not a revocation list");
    put_text(s, "ca/server/crl.pem", "");
    expect_kept(s, t, &w, "is not a revocation list");
    copy_private(s, "other/crl.pem", "ca/server/crl.pem");
    expect_kept(s, t, &w, "was not signed by this authority");
    copy_private(s, "oldest.pem", "ca/server/crl.pem");
    expect_kept(s, t, &w, "list 1 is older than 2");
    assert_int_equal(unlink(at(s, "ca/server/crl.pem")), 0);
    expect_kept(s, t, &w, "cannot be read");
    w.count = 0;
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, at(s, "ca"), "alice", &count));
    expect(s, t, "ca/clients/alice", 0, "has been revoked");
    assert_int_equal(w.count, 0);
    fli_trust_free(t);
}

static void broken_authority_files_are_refused(void **state)
{
    scratch *s = *state;
    fl_ctx *ctx = s->ctx;
    fli_trust *t;
    assert_fails(ctx, fli_trust_open(ctx, at(s, "none"), &t), FL_EIO, "none/ca.pem: cannot be read");
    assert_null(t);
    put_text(s, "ca/server/crl.pem", "nonsense");
    assert_fails(ctx, fli_trust_open(ctx, at(s, "ca/server"), &t), FL_EFORMAT, "is not a revocation list");
    assert_int_equal(unlink(at(s, "ca/server/crl.pem")), 0);
    assert_ok(ctx, fli_trust_open(ctx, at(s, "ca/server"), &t));
    expect(s, t, "ca/clients/bob", 1, "bob");
    fli_trust_free(t);
    copy_private(s, "ca/server/cert.pem", "ca/server/ca.pem");
    assert_fails(ctx, fli_trust_open(ctx, at(s, "ca/server"), &t), FL_EFORMAT, "is not an authority's");
    fli_trust_free(NULL);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct {
    fli_trust *trust;
    gnutls_datum_t der;
    atomic_int stop, checked, refused;
} crowd;

static void *check_again_and_again(void *arg)
{
    crowd *c = arg;
    while (!atomic_load(&c->stop)) {
        fli_peer who;
        char sentence[200];
        if (fli_trust_check_cert(c->trust, &c->der, &who, sentence, sizeof sentence)) atomic_fetch_add(&c->refused, 1);
        atomic_fetch_add(&c->checked, 1);
    }
    return NULL;
}

static void await_more(crowd *c)
{
    const struct timespec moment = {0, 1000000};
    int from = atomic_load(&c->checked);
    while (atomic_load(&c->checked) < from + 20) nanosleep(&moment, NULL);
}

static void many_threads(void **state)
{
    enum { THREADS = 4 };
    scratch *s = *state;
    crowd c = {0};
    pthread_t thread[THREADS];
    size_t count;
    gnutls_x509_crt_t cert;
    assert_ok(s->ctx, fli_x509_cert_load(s->ctx, at(s, "ca/clients/bob/cert.pem"), &cert, NULL));
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_DER, &c.der), 0);
    assert_ok(s->ctx, fli_trust_open(s->ctx, at(s, "ca/server"), &c.trust));
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(thread + i, NULL, check_again_and_again, &c), 0);
    for (int i = 0; i < 5; i++) {
        assert_ok(s->ctx, fli_cert_revoke(s->ctx, at(s, "ca"), "alice", &count));
        await_more(&c);
    }
    assert_int_equal(atomic_load(&c.refused), 0);
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, at(s, "ca"), "bob", &count));
    await_more(&c);
    atomic_store(&c.stop, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_true(atomic_load(&c.refused) > 0);
    fli_trust_free(c.trust);
    gnutls_free(c.der.data);
    gnutls_x509_crt_deinit(cert);
}

/* ---- libmicrohttpd and libcurl ----------------------------------------------------------------------------------- */

/* Says the name of who calls, or why it may not. */
static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *bytes, void **cls)
{
    fli_peer who;
    char sentence[200];
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    (void)url, (void)method, (void)version, (void)data, (void)bytes, (void)cls;
    const char *wrong = fli_trust_check(arg, info->tls_session, &who, sentence, sizeof sentence);
    const char *text = wrong ? wrong : who.name;
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result queued = MHD_queue_response(connection, wrong ? 403 : 200, r);
    MHD_destroy_response(r);
    return queued;
}

typedef struct {
    struct MHD_Daemon *daemon;
    fli_tls_files files;
    fli_trust *trust;
    char url[2][64], resolve[2][64]; /* by a host that the server's certificate has, and by one that it has not */
    CURL *curl;
    char text[300];
} site;

static size_t keep_text(char *p, size_t size, size_t n, void *arg)
{
    site *w = arg;
    size_t have = strlen(w->text);
    snprintf(w->text + have, sizeof w->text - have, "%.*s", (int)(size * n), p);
    return size * n;
}

static void open_site(scratch *s, site *w, const char *folder, fli_cert_kind kind)
{
    memset(w, 0, sizeof *w);
    assert_ok(s->ctx, fli_tls_load(s->ctx, at(s, folder), kind, &w->files));
    assert_ok(s->ctx, fli_trust_open(s->ctx, at(s, "ca/server"), &w->trust));
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    w->daemon = MHD_start_daemon(MHD_USE_TLS | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, answer, w->trust,
                                 MHD_OPTION_SOCK_ADDR, &loopback, MHD_OPTION_HTTPS_MEM_KEY, w->files.key,
                                 MHD_OPTION_HTTPS_MEM_CERT, w->files.cert, MHD_OPTION_HTTPS_MEM_TRUST, w->files.ca,
                                 MHD_OPTION_END);
    assert_non_null(w->daemon);
    unsigned port = MHD_get_daemon_info(w->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    static const char *const host[] = {"localhost", "elsewhere"};
    for (int i = 0; i < 2; i++) {
        snprintf(w->url[i], sizeof w->url[i], "https://%s:%u/", host[i], port);
        snprintf(w->resolve[i], sizeof w->resolve[i], "%s:%u:127.0.0.1", host[i], port);
    }
    w->curl = curl_easy_init();
    assert_non_null(w->curl);
}

static void close_site(site *w)
{
    curl_easy_cleanup(w->curl);
    MHD_stop_daemon(w->daemon);
    fli_trust_free(w->trust);
    fli_tls_free(&w->files);
}

/* The code of an answer, 0 if there was no connection; w->text has its body. folder NULL: on the connection that is
 * open. */
static long call(scratch *s, site *w, const char *folder, int elsewhere)
{
    long code = 0;
    fli_tls_files f = {0};
    struct curl_slist *hosts = curl_slist_append(curl_slist_append(NULL, w->resolve[0]), w->resolve[1]);
    w->text[0] = 0;
    if (folder) {
        assert_ok(s->ctx, fli_tls_load(s->ctx, at(s, folder), FLI_CERT_CLIENT, &f));
        curl_easy_reset(w->curl);
        curl_easy_setopt(w->curl, CURLOPT_CAINFO, f.ca_path);
        curl_easy_setopt(w->curl, CURLOPT_SSLCERT, f.cert_path);
        curl_easy_setopt(w->curl, CURLOPT_SSLKEY, f.key_path);
        curl_easy_setopt(w->curl, CURLOPT_WRITEFUNCTION, keep_text);
        curl_easy_setopt(w->curl, CURLOPT_WRITEDATA, w);
        curl_easy_setopt(w->curl, CURLOPT_TIMEOUT, 60L);
        curl_easy_setopt(w->curl, CURLOPT_NOPROXY, "*");
    }
    curl_easy_setopt(w->curl, CURLOPT_RESOLVE, hosts);
    curl_easy_setopt(w->curl, CURLOPT_URL, w->url[elsewhere]);
    CURLcode failed = curl_easy_perform(w->curl);
    if (failed)
        snprintf(w->text, sizeof w->text, "%s", curl_easy_strerror(failed));
    else
        curl_easy_getinfo(w->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_slist_free_all(hosts);
    fli_tls_free(&f);
    return code;
}

static void over_https(void **state)
{
    scratch *s = *state;
    site w;
    size_t count;
    open_site(s, &w, "ca/server", FLI_CERT_SERVER);
    assert_int_equal(call(s, &w, "ca/clients/bob", 0), 200);
    assert_string_equal(w.text, "bob");
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, at(s, "ca"), "bob", &count));
    assert_int_equal(call(s, &w, NULL, 0), 403); /* the connection is open */
    assert_string_equal(w.text, "the certificate of bob has been revoked");
    assert_int_equal(call(s, &w, "ca/clients/alice", 0), 200);
    assert_string_equal(w.text, "alice");
    assert_int_equal(call(s, &w, "ca/clients/alice", 1), 0); /* not the host that the certificate is for */
    assert_int_equal(call(s, &w, "other/clients/alice", 0), 0);
    close_site(&w);
}

/* A client refuses a server of another authority, and another client that poses as one. */
static void false_servers(void **state)
{
    scratch *s = *state;
    site w;
    open_site(s, &w, "other/server", FLI_CERT_SERVER);
    assert_int_equal(call(s, &w, "ca/clients/alice", 0), 0);
    assert_non_null(strstr(w.text, "ertificate"));
    close_site(&w);
    open_site(s, &w, "ca/clients/localhost", FLI_CERT_CLIENT);
    assert_int_equal(call(s, &w, "ca/clients/alice", 0), 0);
    assert_non_null(strstr(w.text, "ertificate"));
    close_site(&w);
}

#define FEDERATION_TEST(name) cmocka_unit_test_setup_teardown(name, federation_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FEDERATION_TEST(who_comes_in),
        FEDERATION_TEST(odd_certificates),
        FEDERATION_TEST(revoked_while_connected),
        FEDERATION_TEST(damaged_lists),
        FEDERATION_TEST(broken_authority_files_are_refused),
        FEDERATION_TEST(many_threads),
        FEDERATION_TEST(over_https),
        FEDERATION_TEST(false_servers),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
