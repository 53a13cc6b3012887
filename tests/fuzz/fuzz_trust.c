/* Fuzz target: what decides who may join, from any bytes. The first byte says what the others are: the index of an
 * authority, a revocation list (as its file, or in DER and then made a file of), a client's certificate in DER, or a
 * request for one. Either a sentence, or something that is as it should be; and however a certificate is changed,
 * nobody comes in under a name that the authority did not sign. */
#include "base/file.h"
#include "net/cert/cert.h"
#include "net/cert/trust.h"
#include "net/cert/x509.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INDEX, LIST_FILE, LIST_DER, CERTIFICATE, REQUEST, KINDS };

/* An authority with one client, alice, made at the first input. */
static struct {
    fl_ctx *ctx;
    char folder[64];
    fli_trust *trust;
} here;

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_trust: %s %s\n", what, here.ctx ? fl_ctx_error(here.ctx) : "");
    abort();
}

static char *path_of(const char *name)
{
    static char path[2][128];
    static int turn;
    char *p = path[turn ^= 1];
    snprintf(p, sizeof path[0], "%s/%s", here.folder, name);
    return p;
}

static void leave(void)
{
    fli_trust_free(here.trust);
    fli_remove_folder(here.ctx, here.folder);
    fl_ctx_free(here.ctx);
}

static void arrive(void)
{
    if (here.ctx) return;
    strcpy(here.folder, "/tmp/fedloom-fuzz-XXXXXX");
    demand(mkdtemp(here.folder) && (here.ctx = fl_ctx_new()), "no folder");
    atexit(leave);
    demand(!fli_cert_init(here.ctx, path_of("ca"), "fuzz", 1000), "no authority");
    demand(!fli_cert_client(here.ctx, path_of("ca"), "alice", (fli_cert_wish){.days = 900}), "no client");
    demand(!fli_trust_open(here.ctx, path_of("ca"), &here.trust), "no trust");
    demand(!mkdir(path_of("list"), 0700), "no folder for lists");
    demand(!symlink("../ca/ca.pem", path_of("list/ca.pem")), "no link");
}

/* What was read can be written, and is the same when it is read again. */
static void try_index(const char *text, size_t n)
{
    fli_cert_index x, y;
    char *path = path_of("index");
    fli_cert_index_init(&x, here.ctx);
    fli_cert_index_init(&y, here.ctx);
    if (!fli_cert_index_parse(&x, "input", text, n)) {
        demand(!fli_cert_index_save(&x, path) && !fli_cert_index_load(&y, path), "an index that cannot be read again");
        demand(x.lines == y.lines && x.list == y.list, "an index that changes");
        demand(!x.lines || !memcmp(x.line, y.line, x.lines * sizeof *x.line), "lines that change");
    } else
        demand(*fl_ctx_error(here.ctx), "a failure without a sentence");
    fli_cert_index_fini(&x);
    fli_cert_index_fini(&y);
}

static void put(const char *name, const void *p, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");
    demand(f && fwrite(p, 1, n, f) == n && !fclose(f), "no file");
}

static void try_list(const void *p, size_t n)
{
    fli_trust *t;
    put("list/crl.pem", p, n);
    fl_status s = fli_trust_open(here.ctx, path_of("list"), &t);
    demand(!s == !*fl_ctx_error(here.ctx), "a failure without a sentence, or the other way round");
    fli_trust_free(t);
}

static void try_der_list(const uint8_t *p, size_t n)
{
    const gnutls_datum_t der = {(unsigned char *)(uintptr_t)p, (unsigned)n};
    gnutls_datum_t pem;
    if (gnutls_pem_base64_encode2("X509 CRL", &der, &pem)) return;
    try_list(pem.data, pem.size);
    gnutls_free(pem.data);
}

static void try_certificate(const uint8_t *p, size_t n)
{
    fli_peer who;
    char sentence[200] = "";
    const gnutls_datum_t der = {(unsigned char *)(uintptr_t)p, (unsigned)n};
    if (fli_trust_check_cert(here.trust, &der, &who, sentence, sizeof sentence))
        demand(*sentence && !*who.name, "a refusal without a sentence, or with a name");
    else
        demand(!strcmp(who.name, "alice") && who.kind == FLI_CERT_CLIENT, "somebody else came in");
}

static void try_request(const uint8_t *p, size_t n)
{
    char name[FLI_NET_NAME_MAX + 1];
    gnutls_pubkey_t key;
    put("request.pem", p, n);
    fl_status s = fli_issue_read_request(here.ctx, path_of("request.pem"), name, sizeof name, &key);
    demand(!s == !*fl_ctx_error(here.ctx), "a failure without a sentence, or the other way round");
    if (key) gnutls_pubkey_deinit(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arrive();
    fli_clear(here.ctx);
    if (!size) return 0;
    switch (*data++ % KINDS) {
    case INDEX: try_index((const char *)data, size - 1); break;
    case LIST_FILE: try_list(data, size - 1); break;
    case LIST_DER: try_der_list(data, size - 1); break;
    case CERTIFICATE: try_certificate(data, size - 1); break;
    default: try_request(data, size - 1);
    }
    return 0;
}

#ifdef FUZZ_REPLAY
#include "mutate.h"

enum { LONGEST = 4096 };

typedef struct {
    size_t n;
    uint8_t bytes[LONGEST];
} seed;

static const char an_index[] = "fedloom certificates 1 7\n"
                               "0123456789abcdef0123456789abcdef server federation.example.org 1900000000 0\n"
                               "0123456789abcdef0123456789abcdff client alice 1900000000 1800000000\n";

static const char *const tokens[] = {"\n",       " ",        "client",
                                     "server",   "0",        "18446744073709551616",
                                     "-",        "/",        "=",
                                     "-----",    "\xff",     "\x30\x82",
                                     ":",        "..",       "\x02\x01",
                                     "\x30\x80", "\x03\x02", "\x06\x03\x55\x04\x03",
                                     "A",        "BEGIN",    "\x0c\x03\x62ob",
                                     "\x80\x80"};

static const dialect any = {tokens, sizeof tokens / sizeof *tokens, LONGEST - 1, 0};
static const dialect whole = {tokens, sizeof tokens / sizeof *tokens, LONGEST - 1, 1};

static void fill(seed *s, int kind, const void *p, size_t n)
{
    demand(n < LONGEST, "a seed is too long");
    s->bytes[0] = (uint8_t)kind;
    memcpy(s->bytes + 1, p, n);
    s->n = n + 1;
}

static void fill_file(seed *s, int kind, const char *name)
{
    char *text;
    size_t n = 0;
    demand(!fli_file_read(here.ctx, path_of(name), LONGEST - 2, &text, &n), "no seed");
    fill(s, kind, text, n);
    fli_free(text);
}

/* The same without its PEM. */
static void fill_der(seed *s, int kind, const char *name)
{
    gnutls_datum_t der;
    fill_file(s, kind, name);
    const gnutls_datum_t pem = {s->bytes + 1, (unsigned)s->n - 1};
    demand(!gnutls_pem_base64_decode2(NULL, &pem, &der), "a seed is no PEM");
    fill(s, kind, der.data, der.size);
    gnutls_free(der.data);
}

static void make_seeds(seed *s)
{
    size_t count;
    arrive();
    demand(!fli_cert_client(here.ctx, path_of("ca"), "bob", (fli_cert_wish){.days = 900}), "no bob");
    demand(!fli_cert_revoke(here.ctx, path_of("ca"), "bob", &count), "no list");
    demand(!fli_cert_request(here.ctx, path_of("mine"), "carol"), "no request");
    fill(s + INDEX, INDEX, an_index, sizeof an_index - 1);
    fill_file(s + LIST_FILE, LIST_FILE, "ca/crl.pem");
    fill_der(s + LIST_DER, LIST_DER, "ca/crl.pem");
    fill_der(s + CERTIFICATE, CERTIFICATE, "ca/clients/alice/cert.pem");
    fill_file(s + REQUEST, REQUEST, "mine/request.pem");
}

int main(int argc, char **argv)
{
    static seed seeds[KINDS];
    long times = argc > 1 ? atol(argv[1]) : 10000;
    fli_rng r;
    make_seeds(seeds);
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (long i = 0; i < times; i++) {
        const seed *s = seeds + i % KINDS;
        uint8_t buf[LONGEST];
        size_t n = s->n;
        memcpy(buf, s->bytes, n);
        for (uint64_t k = fli_rng_below(&r, 5); k; k--) n = 1 + mutate(i % 2 ? &any : &whole, &r, buf + 1, n - 1);
        LLVMFuzzerTestOneInput(buf, n);
    }
    printf("fuzz_trust: %ld inputs, no failure\n", times);
    return 0;
}

#endif
