/* Certificates: what is in them, who may read the files, what is refused, and that the index survives anything. */
#include "data_files.h"

#include "net/cert/cert.h"
#include "net/cert/trust.h"
#include "net/cert/x509.h"

#include <dirent.h>
#include <gnutls/x509.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static const fli_cert_wish year = {.days = 365};

static const char *const hosts[] = {"federation.example.org", "*.lab.example.org", "127.0.0.1", "::1"};

/* An authority in ca/ with a server and alice. */
static const char *authority(scratch *s)
{
    static char dir[sizeof s->path[0]];
    strcpy(dir, at(s, "ca"));
    assert_ok(s->ctx, fli_cert_init(s->ctx, dir, "Trial", FLI_CERT_CA_DAYS));
    assert_ok(s->ctx, fli_cert_server(s->ctx, dir, hosts, 4, year));
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "alice", year));
    return dir;
}

static gnutls_x509_crt_t load(scratch *s, const char *name)
{
    gnutls_x509_crt_t cert;
    assert_ok(s->ctx, fli_x509_cert_load(s->ctx, at(s, name), &cert, NULL));
    return cert;
}

/* What every certificate has. */
static void check_common(gnutls_x509_crt_t cert, gnutls_x509_crt_t ca, long days, unsigned usage)
{
    unsigned char serial[64];
    unsigned bits, use, status = 0;
    size_t n = sizeof serial;
    time_t now = time(NULL);
    assert_int_equal(gnutls_x509_crt_get_version(cert), 3);
    assert_int_equal(gnutls_x509_crt_get_serial(cert, serial, &n), 0);
    assert_int_equal(n, FLI_CERT_SERIAL);
    assert_int_equal(gnutls_x509_crt_get_pk_algorithm(cert, &bits), GNUTLS_PK_ECDSA);
    assert_int_equal(bits, 256);
    assert_int_equal(gnutls_x509_crt_get_signature_algorithm(cert), GNUTLS_SIGN_ECDSA_SHA256);
    assert_int_equal(gnutls_x509_crt_get_key_usage(cert, &use, NULL), 0);
    assert_int_equal(use, usage);
    assert_int_equal(gnutls_x509_crt_verify(cert, &ca, 1, 0, &status), 0);
    assert_int_equal(status, 0);
    assert_true(gnutls_x509_crt_get_activation_time(cert) < now);
    long left = (long)(gnutls_x509_crt_get_expiration_time(cert) - now);
    assert_true(left <= days * 86400 && left > days * 86400 - 600);
}

static void what_is_made(void **state)
{
    scratch *s = *state;
    authority(s);
    gnutls_x509_crt_t ca = load(s, "ca/ca.pem"), server = load(s, "ca/server/cert.pem");
    gnutls_x509_crt_t alice = load(s, "ca/clients/alice/cert.pem");
    unsigned is_ca = 0;
    int path = -1;
    char name[80];
    check_common(ca, ca, FLI_CERT_CA_DAYS, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN);
    check_common(server, ca, 365, GNUTLS_KEY_DIGITAL_SIGNATURE);
    check_common(alice, ca, 365, GNUTLS_KEY_DIGITAL_SIGNATURE);
    assert_true(gnutls_x509_crt_get_basic_constraints(ca, NULL, &is_ca, &path) >= 0);
    assert_int_equal(is_ca, 1);
    assert_int_equal(path, 0);
    assert_int_equal(gnutls_x509_crt_get_ca_status(server, NULL), 0);
    assert_int_equal(gnutls_x509_crt_get_ca_status(alice, NULL), 0);
    assert_true(fli_x509_name(alice, name, sizeof name));
    assert_string_equal(name, "alice");
    assert_true(fli_x509_is_for(alice, GNUTLS_KP_TLS_WWW_CLIENT) && !fli_x509_is_for(alice, GNUTLS_KP_TLS_WWW_SERVER));
    assert_true(fli_x509_is_for(server, GNUTLS_KP_TLS_WWW_SERVER) &&
                !fli_x509_is_for(server, GNUTLS_KP_TLS_WWW_CLIENT));
    gnutls_x509_crt_deinit(ca);
    gnutls_x509_crt_deinit(server);
    gnutls_x509_crt_deinit(alice);
}

static void hosts_of_a_server(void **state)
{
    scratch *s = *state;
    const char *dir = authority(s);
    gnutls_x509_crt_t server = load(s, "ca/server/cert.pem");
    const unsigned char here[4] = {127, 0, 0, 1}, there[4] = {127, 0, 0, 2};
    assert_true(gnutls_x509_crt_check_hostname(server, "federation.example.org"));
    assert_true(gnutls_x509_crt_check_hostname(server, "seven.lab.example.org"));
    assert_false(gnutls_x509_crt_check_hostname(server, "example.org"));
    assert_true(gnutls_x509_crt_check_ip(server, here, sizeof here, 0));
    assert_false(gnutls_x509_crt_check_ip(server, there, sizeof there, 0));
    gnutls_x509_crt_deinit(server);
    /* a client whose name is a host's cannot pass for that host */
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "federation.example.org", year));
    server = load(s, "ca/clients/federation.example.org/cert.pem");
    assert_false(gnutls_x509_crt_check_hostname(server, "federation.example.org"));
    gnutls_x509_crt_deinit(server);
    /* one longer than a common name may be */
    char far[200];
    memset(far, 'a', sizeof far);
    strcpy(far + 60, ".");
    memset(far + 61, 'b', 60);
    strcpy(far + 121, ".example.org");
    const char *const one[] = {far};
    assert_ok(s->ctx, fli_cert_server(s->ctx, dir, one, 1, year));
    server = load(s, "ca/server/cert.pem");
    assert_true(gnutls_x509_crt_check_hostname(server, far));
    gnutls_x509_crt_deinit(server);
}

/* Every folder 700, every file 600; returns how many files there are. */
static size_t check_modes(const char *folder)
{
    size_t files = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[600];
        struct stat st;
        if (!strcmp(e->d_name, "..")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        assert_int_equal(stat(path, &st), 0);
        if ((st.st_mode & 0777) != (S_ISDIR(st.st_mode) ? 0700 : 0600))
            fail_msg("%s: mode %03o", path, (unsigned)st.st_mode & 0777);
        if (S_ISDIR(st.st_mode) && strcmp(e->d_name, ".")) files += check_modes(path);
        files += S_ISREG(st.st_mode);
    }
    closedir(d);
    return files;
}

static void only_the_owner_has_access(void **state)
{
    scratch *s = *state;
    mode_t before = umask(0); /* the worst that a user may have */
    authority(s);
    assert_ok(s->ctx, fli_cert_request(s->ctx, at(s, "mine"), "bob"));
    umask(before);
    assert_int_equal(check_modes(at(s, "ca")), 4 + 4 + 3);
    assert_int_equal(check_modes(at(s, "mine")), 2);
}

static void impossible_certificates_are_refused(void **state)
{
    scratch *s = *state;
    fl_ctx *ctx = s->ctx;
    const char *dir = authority(s);
    size_t count;
    const char *const wrong[] = {"a host"}, *const port[] = {"localhost:8443"}, *const bracket[] = {"[::1]"};
    assert_fails(ctx, fli_cert_init(ctx, dir, "Again", 10), FL_ECONFIG, "there is an authority in this folder already");
    assert_fails(ctx, fli_cert_init(ctx, at(s, ""), "Full", 10), FL_ECONFIG, "is not empty (ca is in it)");
    assert_fails(ctx, fli_cert_init(ctx, at(s, "b"), "", 10), FL_ECONFIG, "1 to 64 bytes");
    assert_fails(ctx, fli_cert_client(ctx, dir, "alice", year), FL_ECONFIG,
                 "alice: has a certificate that holds until");
    assert_fails(ctx, fli_cert_server(ctx, dir, hosts, 2, year), FL_ECONFIG, "federation.example.org: has");
    assert_fails(ctx, fli_cert_client(ctx, dir, "../x", year), FL_ECONFIG, "cannot be a client's name");
    assert_fails(ctx, fli_cert_client(ctx, dir, "", year), FL_ECONFIG, "cannot be a client's name");
    assert_fails(ctx, fli_cert_server(ctx, dir, wrong, 1, year), FL_ECONFIG, "\"a host\" is neither");
    assert_fails(ctx, fli_cert_server(ctx, dir, port, 1, year), FL_ECONFIG, "no port");
    assert_fails(ctx, fli_cert_server(ctx, dir, bracket, 1, year), FL_ECONFIG, "no brackets");
    assert_fails(ctx, fli_cert_server(ctx, dir, hosts, 0, year), FL_ECONFIG, "1 to 100");
    assert_fails(ctx, fli_cert_client(ctx, at(s, "none"), "bob", year), FL_ECONFIG, "there is no authority");
    assert_fails(ctx, fli_cert_revoke(ctx, dir, "mallory", &count), FL_ECONFIG, "no certificate of that name");
    assert_int_equal(fli_path_kind(at(s, "none")), 0);
    assert_int_equal(chmod(at(s, "ca/ca-key.pem"), 0640), 0);
    assert_fails(ctx, fli_cert_client(ctx, dir, "bob", year), FL_ECONFIG, "others may read this key (mode 640)");
    assert_int_equal(unlink(at(s, "ca/ca-key.pem")), 0);
    assert_fails(ctx, fli_cert_client(ctx, dir, "bob", year), FL_EIO, "ca-key.pem: cannot be read");
    put_text(s, "ca/ca-key.pem", "not a key");
    assert_int_equal(chmod(at(s, "ca/ca-key.pem"), 0600), 0);
    assert_fails(ctx, fli_cert_client(ctx, dir, "bob", year), FL_EFORMAT, "is not a key in PEM");
}

static void no_certificate_outlives_its_authority(void **state)
{
    scratch *s = *state;
    fl_ctx *ctx = s->ctx;
    assert_ok(ctx, fli_cert_init(ctx, at(s, "old"), "Old", -1));
    assert_fails(ctx, fli_cert_client(ctx, at(s, "old"), "bob", year), FL_ECONFIG, "the authority has ended");
    assert_ok(ctx, fli_cert_init(ctx, at(s, "short"), "Short", 10));
    assert_ok(ctx, fli_cert_client(ctx, at(s, "short"), "bob", year));
    gnutls_x509_crt_t ca = load(s, "short/ca.pem"), bob = load(s, "short/clients/bob/cert.pem");
    assert_int_equal(gnutls_x509_crt_get_expiration_time(ca), gnutls_x509_crt_get_expiration_time(bob));
    gnutls_x509_crt_deinit(ca);
    gnutls_x509_crt_deinit(bob);
    /* one that has ended is no obstacle */
    assert_ok(ctx, fli_cert_client(ctx, at(s, "short"), "eve", (fli_cert_wish){.days = -1}));
    assert_ok(ctx, fli_cert_client(ctx, at(s, "short"), "eve", year));
}

/* ---- revocation --------------------------------------------------------------------------------------------- */

static gnutls_x509_crl_t load_list(scratch *s, const char *name)
{
    char *text;
    size_t n;
    gnutls_x509_crl_t list;
    assert_ok(s->ctx, fli_file_read(s->ctx, at(s, name), 1 << 20, &text, &n));
    const gnutls_datum_t datum = {(unsigned char *)text, (unsigned)n};
    assert_int_equal(gnutls_x509_crl_init(&list), 0);
    assert_int_equal(gnutls_x509_crl_import(list, &datum, GNUTLS_X509_FMT_PEM), 0);
    fli_free(text);
    return list;
}

/* A list that the authority has signed, with that number and that many entries, the certificate among them or not. */
static void check_list(scratch *s, const char *name, unsigned number, int entries, gnutls_x509_crt_t cert, int revoked)
{
    gnutls_x509_crl_t list = load_list(s, name);
    gnutls_x509_crt_t ca = load(s, "ca/ca.pem");
    unsigned status = 0;
    unsigned char bytes[16];
    size_t n = sizeof bytes;
    assert_int_equal(gnutls_x509_crl_verify(list, &ca, 1, 0, &status), 0);
    assert_int_equal(status, 0);
    assert_int_equal(gnutls_x509_crl_get_number(list, bytes, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(bytes[0], number);
    assert_int_equal(gnutls_x509_crl_get_crt_count(list), entries);
    assert_true(gnutls_x509_crl_get_next_update(list) > time(NULL));
    assert_int_equal(gnutls_x509_crt_check_revocation(cert, &list, 1), revoked);
    gnutls_x509_crl_deinit(list);
    gnutls_x509_crt_deinit(ca);
}

static void every_revoked_certificate_is_listed(void **state)
{
    scratch *s = *state;
    const char *dir = authority(s);
    size_t count;
    gnutls_x509_crt_t first = load(s, "ca/clients/alice/cert.pem");
    check_list(s, "ca/crl.pem", 1, 0, first, 0);
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "bob", year));
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "alice", (fli_cert_wish){365, 1}));
    gnutls_x509_crt_t second = load(s, "ca/clients/alice/cert.pem"), bob = load(s, "ca/clients/bob/cert.pem");
    assert_false(gnutls_x509_crt_equals(first, second));
    assert_int_equal(fli_path_kind(at(s, "ca/clients/.alice.new")), 0);
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, dir, "alice", &count));
    assert_int_equal(count, 2);
    check_list(s, "ca/crl.pem", 2, 2, first, 1);
    check_list(s, "ca/server/crl.pem", 2, 2, second, 1);
    check_list(s, "ca/crl.pem", 2, 2, bob, 0);
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, dir, "alice", &count));
    assert_int_equal(count, 0);
    check_list(s, "ca/crl.pem", 3, 2, first, 1);
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "alice", year)); /* a revoked one is no obstacle */
    gnutls_x509_crt_deinit(second);
    second = load(s, "ca/clients/alice/cert.pem");
    check_list(s, "ca/crl.pem", 3, 2, second, 0);
    gnutls_x509_crt_deinit(first);
    gnutls_x509_crt_deinit(second);
    gnutls_x509_crt_deinit(bob);
}

/* ---- a key that stays where it was made --------------------------------------------------------------------- */

static void sign_name(scratch *s, const char *name, const char *file)
{
    gnutls_x509_privkey_t key;
    fli_pem text, request;
    assert_ok(s->ctx, fli_issue_key(s->ctx, &key, &text));
    assert_ok(s->ctx, fli_issue_request(s->ctx, name, key, &request));
    put(s, file, request.data, request.size);
    gnutls_x509_privkey_deinit(key);
    fli_pem_wipe(&text);
    gnutls_free(request.data);
}

static void a_request_becomes_a_certificate(void **state)
{
    scratch *s = *state;
    fl_ctx *ctx = s->ctx;
    char name[FLI_NET_NAME_MAX + 1], *text;
    size_t n;
    fli_tls_files files;
    const char *dir = authority(s);
    assert_ok(ctx, fli_cert_request(ctx, at(s, "mine"), "bob"));
    assert_fails(ctx, fli_cert_request(ctx, at(s, "mine"), "bob"), FL_ECONFIG, "a key is never replaced");
    assert_ok(ctx, fli_cert_sign(ctx, dir, at(s, "mine/request.pem"), year, name));
    assert_string_equal(name, "bob");
    assert_int_equal(fli_path_kind(at(s, "ca/clients/bob/key.pem")), 0);
    static const char *const back[] = {"ca.pem", "cert.pem"};
    for (size_t i = 0; i < 2; i++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "ca/clients/bob/%s", back[i]);
        snprintf(to, sizeof to, "mine/%s", back[i]);
        assert_ok(ctx, fli_file_read(ctx, at(s, from), 1 << 20, &text, &n));
        put(s, to, text, n);
        fli_free(text);
    }
    assert_ok(ctx, fli_tls_load(ctx, at(s, "mine"), FLI_CERT_CLIENT, &files));
    assert_string_equal(files.name, "bob");
    fli_tls_free(&files);
    assert_fails(ctx, fli_cert_sign(ctx, dir, at(s, "mine/request.pem"), year, name), FL_ECONFIG, "bob: has");
    sign_name(s, "../../etc", "bad.pem");
    assert_fails(ctx, fli_cert_sign(ctx, dir, at(s, "bad.pem"), year, name), FL_ECONFIG, "cannot be a client's name");
    put_text(s, "bad.pem", "hello");
    assert_fails(ctx, fli_cert_sign(ctx, dir, at(s, "bad.pem"), year, name), FL_EFORMAT, "is not a request");
    assert_fails(ctx, fli_cert_sign(ctx, dir, at(s, "ca/ca.pem"), year, name), FL_EFORMAT, "is not a request");
}

/* ---- the index ---------------------------------------------------------------------------------------------- */

static void count_line(void *arg, const fli_cert_line *line)
{
    size_t *counts = arg; /* all, those of clients */
    counts[0]++;
    counts[1] += line->kind == FLI_CERT_CLIENT;
}

static void the_list_has_every_certificate(void **state)
{
    scratch *s = *state;
    size_t counts[2] = {0};
    const char *dir = authority(s);
    assert_ok(s->ctx, fli_cert_list(s->ctx, dir, count_line, counts));
    assert_int_equal(counts[0], 2);
    assert_int_equal(counts[1], 1);
    assert_fails(s->ctx, fli_cert_list(s->ctx, at(s, "none"), count_line, counts), FL_ECONFIG, "no authority");
}

static void damaged_index(void **state)
{
    scratch *s = *state;
    const char *dir = authority(s);
#define HEAD   "fedloom certificates 1 1\n"
#define SERIAL "0123456789abcdef0123456789abcdef"
    static const struct {
        const char *text, *where;
    } bad[] = {
        {"", ":1:"},
        {"fedloom certificates 2 1\n", ":1:"},
        {"fedloom certificates 1 1", ":1:"},
        {HEAD SERIAL " client alice 100 0", ":2:"},
        {HEAD SERIAL " client alice 100\n", ":2:"},
        {HEAD SERIAL " client alice 100 0 \n", ":2:"},
        {HEAD SERIAL " client alice 100 0 0\n", ":2:"},
        {HEAD SERIAL " king alice 100 0\n", ":2:"},
        {HEAD SERIAL " client a/b 100 0\n", ":2:"},
        {HEAD SERIAL " client alice -1 0\n", ":2:"},
        {HEAD SERIAL " client alice 1e3 0\n", ":2:"},
        {HEAD SERIAL " client alice 1234567890123456789 0\n", ":2:"},
        {HEAD "0123 client alice 100 0\n", ":2:"},
        {HEAD SERIAL " client alice 100 0\n\n", ":3:"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_text(s, "ca/index", bad[i].text);
        assert_fails(s->ctx, fli_cert_client(s->ctx, dir, "bob", year), FL_EFORMAT, bad[i].where);
    }
    put_text(s, "ca/index", HEAD SERIAL " client alice 100 0\n");
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "bob", year));
}

/* Every certificate in a folder is in the index, and every folder is whole. */
static size_t check_clients(scratch *s)
{
    fli_cert_index index;
    size_t clients = 0;
    fli_cert_index_init(&index, s->ctx);
    assert_ok(s->ctx, fli_cert_index_load(&index, at(s, "ca/index")));
    DIR *d = opendir(at(s, "ca/clients"));
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char folder[60];
        fli_tls_files files;
        if (*e->d_name == '.') continue;
        snprintf(folder, sizeof folder, "ca/clients/%.40s", e->d_name);
        assert_ok(s->ctx, fli_tls_load(s->ctx, at(s, folder), FLI_CERT_CLIENT, &files));
        assert_string_equal(files.name, e->d_name);
        assert_non_null(fli_cert_index_holding(&index, FLI_CERT_CLIENT, files.name, time(NULL)));
        fli_tls_free(&files);
        clients++;
    }
    closedir(d);
    for (size_t i = 0; i < index.lines; i++)
        for (size_t k = 0; k < i; k++) assert_string_not_equal(index.line[i].serial, index.line[k].serial);
    fli_cert_index_fini(&index);
    return clients;
}

/* In another process: makes clients without end, or `most` of them, and says so with a byte each. */
static pid_t maker(const char *dir, const char *prefix, int most, int out)
{
    pid_t child = fork();
    if (child) return child;
    fl_ctx *ctx = fl_ctx_new();
    fl_status failed = FL_OK;
    for (int i = 0; i < most && !failed; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s-%d", prefix, i);
        failed = fli_cert_client(ctx, dir, name, (fli_cert_wish){365, 1});
        if (!failed && write(out, "x", 1) != 1) failed = FL_EIO;
    }
    fl_ctx_free(ctx);
    _exit((int)failed);
}

static void a_kill_leaves_whole_certificates(void **state)
{
    scratch *s = *state;
    const char *dir = authority(s);
    for (int i = 0; i < 12; i++) {
        int line[2], status;
        char byte;
        const struct timespec moment = {0, 150000L * i};
        assert_int_equal(pipe(line), 0);
        pid_t child = maker(dir, "client", 1000, line[1]);
        for (int k = 0; k <= i % 3; k++) assert_int_equal(read(line[0], &byte, 1), 1);
        nanosleep(&moment, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        close(line[0]);
        close(line[1]);
        assert_true(check_clients(s) >= 2);
    }
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "client-0", (fli_cert_wish){365, 1}));
}

static void several_at_once(void **state)
{
    enum { PROCESSES = 4, EACH = 5 };
    scratch *s = *state;
    const char *dir = authority(s);
    pid_t child[PROCESSES];
    int line[2];
    assert_int_equal(pipe(line), 0);
    for (int i = 0; i < PROCESSES; i++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "p%d", i);
        child[i] = maker(dir, prefix, EACH, line[1]);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    }
    close(line[0]);
    close(line[1]);
    assert_int_equal(check_clients(s), 1 + PROCESSES * EACH);
}

/* An attempt that was cut off before the index was there is no authority, and no obstacle. */
static void cut_off(void **state)
{
    scratch *s = *state;
    const char *dir = authority(s);
    assert_int_equal(unlink(at(s, "ca/index")), 0);
    assert_fails(s->ctx, fli_cert_client(s->ctx, dir, "bob", year), FL_ECONFIG, "there is no authority");
    assert_fails(s->ctx, fli_cert_init(s->ctx, dir, "Trial", 10), FL_ECONFIG, "is not empty");
    assert_ok(s->ctx, fli_remove_folder(s->ctx, at(s, "ca/server")));
    assert_ok(s->ctx, fli_remove_folder(s->ctx, at(s, "ca/clients")));
    assert_ok(s->ctx, fli_cert_init(s->ctx, dir, "Trial", 10));
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "bob", year));
}

/* ---- one side's files --------------------------------------------------------------------------------------- */

static void keep_line(void *arg, fl_log_level level, const char *line)
{
    (void)level;
    snprintf(arg, 300, "%s", line);
}

static void tls_files(void **state)
{
    scratch *s = *state;
    fl_ctx *ctx = s->ctx;
    fli_tls_files f;
    char said[300] = "";
    const char *dir = authority(s);
    fl_ctx_on_log(ctx, keep_line, said);
    assert_ok(ctx, fli_tls_load(ctx, at(s, "ca/server"), FLI_CERT_SERVER, &f));
    assert_string_equal(f.name, hosts[0]);
    assert_non_null(strstr(f.key, "PRIVATE KEY"));
    assert_true(f.ends > time(NULL));
    assert_string_equal(said, "");
    fli_tls_free(&f);
    const char *alice = at(s, "ca/clients/alice");
    assert_fails(ctx, fli_tls_load(ctx, alice, FLI_CERT_SERVER, &f), FL_ECONFIG,
                 "is not a server's certificate; `fedloom cert server` makes one");
    assert_fails(ctx, fli_tls_load(ctx, alice, FLI_CERT_VIEWER, &f), FL_ECONFIG, "is not a viewer's certificate");
    assert_ok(ctx, fli_cert_viewer(ctx, dir, "dana", (fli_cert_wish){.days = 365}));
    assert_fails(ctx, fli_tls_load(ctx, at(s, "ca/viewers/dana"), FLI_CERT_CLIENT, &f), FL_ECONFIG,
                 "is not a client's certificate");
    assert_ok(ctx, fli_tls_load(ctx, at(s, "ca/viewers/dana"), FLI_CERT_VIEWER, &f));
    assert_string_equal(f.name, "dana");
    fli_tls_free(&f);
    assert_fails(ctx, fli_cert_viewer(ctx, dir, "../dana", (fli_cert_wish){.days = 365}), FL_ECONFIG,
                 "cannot be a viewer's name");
    assert_fails(ctx, fli_tls_load(ctx, at(s, "none"), FLI_CERT_CLIENT, &f), FL_EIO, "none/ca.pem: cannot be read");
    assert_fails(ctx, fli_tls_load(ctx, dir, FLI_CERT_SERVER, &f), FL_ECONFIG, "is an authority's own folder");
    assert_int_equal(chmod(at(s, "ca/clients/alice/key.pem"), 0604), 0);
    assert_fails(ctx, fli_tls_load(ctx, alice, FLI_CERT_CLIENT, &f), FL_ECONFIG, "others may read this key (mode 604)");
    copy_private(s, "ca/server/key.pem", "ca/clients/alice/key.pem");
    assert_fails(ctx, fli_tls_load(ctx, alice, FLI_CERT_CLIENT, &f), FL_ECONFIG, "is not the key of");
    assert_ok(ctx, fli_cert_client(ctx, dir, "bob", (fli_cert_wish){.days = -2}));
    assert_fails(ctx, fli_tls_load(ctx, at(s, "ca/clients/bob"), FLI_CERT_CLIENT, &f), FL_ECONFIG, "has ended");
    assert_ok(ctx, fli_cert_client(ctx, dir, "carol", (fli_cert_wish){.days = 20}));
    assert_ok(ctx, fli_tls_load(ctx, at(s, "ca/clients/carol"), FLI_CERT_CLIENT, &f));
    fli_tls_free(&f);
    assert_non_null(strstr(said, "renew it"));
    assert_ok(ctx, fli_cert_init(ctx, at(s, "other"), "Trial", 10));
    copy_private(s, "other/ca.pem", "ca/clients/carol/ca.pem");
    assert_fails(ctx, fli_tls_load(ctx, at(s, "ca/clients/carol"), FLI_CERT_CLIENT, &f), FL_ECONFIG,
                 "was not signed by");
    put_text(s, "ca/clients/carol/cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert_fails(ctx, fli_tls_load(ctx, at(s, "ca/clients/carol"), FLI_CERT_CLIENT, &f), FL_EFORMAT,
                 "is not a certificate");
}

/* ---- other people's programs -------------------------------------------------------------------------------- */

/* Whether a shell command succeeds in the scratch folder; its output is lost. */
static int succeeds(scratch *s, const char *command)
{
    char line[600];
    snprintf(line, sizeof line, "cd '%s' && { %s; } >/dev/null 2>&1 </dev/null", s->dir, command);
    return system(line) == 0;
}

static void openssl_and_certtool_agree(void **state)
{
    scratch *s = *state;
    size_t count;
    const char *dir = authority(s);
    assert_ok(s->ctx, fli_cert_client(s->ctx, dir, "bob", year));
    assert_ok(s->ctx, fli_cert_revoke(s->ctx, dir, "bob", &count));
    int openssl = succeeds(s, "command -v openssl"), certtool = succeeds(s, "command -v certtool");
    if (openssl) {
#define OPENSSL "openssl verify -x509_strict -crl_check -CAfile ca/ca.pem -CRLfile ca/crl.pem "
        assert_true(succeeds(s, OPENSSL "-purpose sslclient ca/clients/alice/cert.pem"));
        assert_true(succeeds(s, OPENSSL "-purpose sslserver -verify_hostname a.lab.example.org ca/server/cert.pem"));
        assert_true(succeeds(s, OPENSSL "-purpose sslserver -verify_ip ::1 ca/server/cert.pem"));
        assert_false(succeeds(s, OPENSSL "-purpose sslserver ca/clients/alice/cert.pem"));
        assert_false(succeeds(s, OPENSSL "-purpose sslclient ca/clients/bob/cert.pem"));
        assert_true(succeeds(s, "openssl pkey -in ca/clients/alice/key.pem -check -noout"));
    }
    if (certtool) {
#define CERTTOOL "certtool --verify --load-ca-certificate ca/ca.pem --load-crl ca/crl.pem --infile "
        assert_true(succeeds(s, CERTTOOL "ca/clients/alice/cert.pem"));
        assert_true(succeeds(s, CERTTOOL "ca/server/cert.pem --verify-hostname federation.example.org"));
        assert_false(succeeds(s, CERTTOOL "ca/clients/bob/cert.pem"));
    }
    if (!openssl && !certtool) skip();
}

#define SCRATCH_TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_is_made),
        SCRATCH_TEST(hosts_of_a_server),
        SCRATCH_TEST(only_the_owner_has_access),
        SCRATCH_TEST(impossible_certificates_are_refused),
        SCRATCH_TEST(no_certificate_outlives_its_authority),
        SCRATCH_TEST(every_revoked_certificate_is_listed),
        SCRATCH_TEST(a_request_becomes_a_certificate),
        SCRATCH_TEST(the_list_has_every_certificate),
        SCRATCH_TEST(damaged_index),
        SCRATCH_TEST(a_kill_leaves_whole_certificates),
        SCRATCH_TEST(several_at_once),
        SCRATCH_TEST(cut_off),
        SCRATCH_TEST(tls_files),
        SCRATCH_TEST(openssl_and_certtool_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
