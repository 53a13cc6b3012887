/* An authority in a folder: first the index of its certificates, then keys, certificates and revocation lists in
 * memory, then the commands, which change the folder under a lock. */
#include "net/cert/cert.h"

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "net/cert/x509.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ==== the index =================================================================================================== */

#define HEAD "fedloom certificates 1 "
static const char *const kind_name[] = {"server", "client", "viewer"};

const char *fli_cert_kind_name(fli_cert_kind kind) { return kind_name[kind]; }

void fli_cert_index_init(fli_cert_index *x, fl_ctx *ctx)
{
    memset(x, 0, sizeof *x);
    x->ctx = ctx;
}

void fli_cert_index_fini(fli_cert_index *x)
{
    fli_free(x->line);
    x->line = NULL;
    x->lines = x->capacity = 0;
}

/* A host name or address: 1 to FLI_CERT_HOST_MAX bytes, of the characters that occur in either. */
static int cert_host_ok(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:*-";
    size_t n = strlen(host);
    return n && n <= FLI_CERT_HOST_MAX && strspn(host, allowed) == n && *host != '-' && *host != '.';
}

static fl_status cert_index_add(fli_cert_index *x, const fli_cert_line *line)
{
    if (x->lines == x->capacity) {
        size_t more = x->capacity ? 2 * x->capacity : 64;
        fl_status s = fli_grow(x->ctx, (void **)&x->line, x->capacity, more, sizeof *x->line);
        if (s) return s;
        x->capacity = more;
    }
    x->line[x->lines++] = *line;
    return FL_OK;
}

/* Copies the word up to the next space or the line's end. Returns what follows it; NULL if there is no word, or it does
 * not fit into n bytes. */
static const char *take_word(const char *at, const char *end, char *word, size_t n)
{
    size_t length = 0;
    while (at + length < end && at[length] != ' ') length++;
    if (!length || length >= n || memchr(at, 0, length)) return NULL;
    memcpy(word, at, length);
    word[length] = 0;
    return at + length < end ? at + length + 1 : end;
}

static int read_number(const char *word, int64_t *out)
{
    size_t n = strspn(word, "0123456789");
    if (!n || n > 18 || word[n]) return 0;
    *out = strtoll(word, NULL, 10);
    return 1;
}

static int read_kind(const char *word, fli_cert_kind *out)
{
    for (size_t k = 0; k < sizeof kind_name / sizeof *kind_name; k++)
        if (!strcmp(word, kind_name[k])) return *out = (fli_cert_kind)k, 1;
    return 0;
}

static int read_line(const char *at, const char *end, fli_cert_line *line)
{
    char kind[16], ends[24], revoked[24];
    memset(line, 0, sizeof *line);
    if (at < end && end[-1] == ' ') return 0;
    at = take_word(at, end, line->serial, sizeof line->serial);
    if (at) at = take_word(at, end, kind, sizeof kind);
    if (at) at = take_word(at, end, line->name, sizeof line->name);
    if (at) at = take_word(at, end, ends, sizeof ends);
    if (at) at = take_word(at, end, revoked, sizeof revoked);
    return at == end && strlen(line->serial) == 2 * FLI_CERT_SERIAL &&
           strspn(line->serial, "0123456789abcdef") == 2 * FLI_CERT_SERIAL && read_kind(kind, &line->kind) &&
           cert_host_ok(line->name) && read_number(ends, &line->ends) && read_number(revoked, &line->revoked);
}

static int read_head(const char *at, const char *end, uint64_t *list)
{
    char word[24];
    int64_t number;
    size_t n = strlen(HEAD);
    if ((size_t)(end - at) <= n || memcmp(at, HEAD, n)) return 0;
    if (take_word(at + n, end, word, sizeof word) != end || !read_number(word, &number)) return 0;
    *list = (uint64_t)number;
    return 1;
}

fl_status fli_cert_index_parse(fli_cert_index *x, const char *name, const char *text, size_t n)
{
    const char *at = text, *stop = text + n;
    fl_status s = FL_OK;
    for (size_t number = 1; !s && (at < stop || number == 1); number++) {
        fli_cert_line line;
        const char *end = at < stop ? memchr(at, '\n', (size_t)(stop - at)) : NULL;
        if (!end || !(number == 1 ? read_head(at, end, &x->list) : read_line(at, end, &line)))
            return fli_fail(x->ctx, FL_EFORMAT, "%s:%zu: is not a line of an index of certificates", name, number);
        if (number > 1) s = cert_index_add(x, &line);
        at = end + 1;
    }
    return s;
}

fl_status fli_cert_index_load(fli_cert_index *x, const char *path)
{
    char *text;
    size_t n = 0;
    fl_status s = fli_file_read(x->ctx, path, FLI_CERT_INDEX_MOST, &text, &n);
    if (!s) s = fli_cert_index_parse(x, path, text, n);
    fli_free(text);
    return s;
}

fl_status fli_cert_index_save(const fli_cert_index *x, const char *path)
{
    fli_text t;
    fli_text_init(&t, x->ctx);
    fli_text_addf(&t, HEAD "%llu\n", (unsigned long long)x->list);
    for (size_t i = 0; i < x->lines; i++) {
        const fli_cert_line *l = x->line + i;
        fli_text_addf(&t, "%s %s %s %lld %lld\n", l->serial, kind_name[l->kind], l->name, (long long)l->ends,
                      (long long)l->revoked);
    }
    fl_status s = fli_text_ok(&t);
    if (!s) s = fli_file_private(x->ctx, path, t.s, t.n);
    fli_text_fini(&t);
    return s;
}

const fli_cert_line *fli_cert_index_holding(const fli_cert_index *x, fli_cert_kind kind, const char *name, int64_t now)
{
    for (size_t i = x->lines; i--;) {
        const fli_cert_line *l = x->line + i;
        if (l->kind == kind && !strcmp(l->name, name) && !l->revoked && l->ends > now) return l;
    }
    return NULL;
}

/* ==== keys, certificates and lists, in memory ===================================================================== */

typedef struct {
    gnutls_x509_crt_t cert;
    gnutls_x509_privkey_t key;
} issuer;

/* The content of a certificate. */
typedef struct {
    const char *name;        /* the common name */
    const char *purpose;     /* GNUTLS_KP_TLS_WWW_SERVER or _CLIENT; NULL: an authority's own certificate */
    const char *unit;        /* the organizational unit; NULL: none */
    const char *const *host; /* names and addresses of a server */
    size_t hosts;
    uint8_t serial[FLI_CERT_SERIAL];
    int64_t begins, ends;
} cert_content;

void fli_pem_wipe(fli_pem *pem)
{
    if (pem->data) gnutls_memset(pem->data, 0, pem->size);
    gnutls_free(pem->data);
    *pem = (fli_pem){0};
}

static fl_status failed(fl_ctx *ctx, const char *what, int code)
{
    return code ? fli_x509_fail(ctx, FL_ESYSTEM, what, code) : FL_OK;
}

/* A random serial number: unpredictable, and unique but for a negligible probability. */
static fl_status draw_serial(fl_ctx *ctx, uint8_t serial[FLI_CERT_SERIAL])
{
    int code = gnutls_rnd(GNUTLS_RND_NONCE, serial, FLI_CERT_SERIAL);
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40); /* positive, and always of this length */
    return failed(ctx, "no random number", code);
}

fl_status fli_issue_key(fl_ctx *ctx, gnutls_x509_privkey_t *key, fli_pem *pem)
{
    const unsigned curve = GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1);
    *pem = (fli_pem){0};
    int code = gnutls_x509_privkey_init(key);
    if (code) *key = NULL;
    if (!code) code = gnutls_x509_privkey_generate(*key, GNUTLS_PK_ECDSA, curve, 0);
    if (!code) code = gnutls_x509_privkey_export2_pkcs8(*key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, pem);
    return failed(ctx, "a key cannot be made", code);
}

static fl_status public_half(fl_ctx *ctx, gnutls_x509_privkey_t key, gnutls_pubkey_t *out)
{
    gnutls_privkey_t private = NULL;
    *out = NULL;
    int code = gnutls_privkey_init(&private);
    if (!code) code = gnutls_privkey_import_x509(private, key, 0);
    if (!code) code = gnutls_pubkey_init(out);
    if (!code) code = gnutls_pubkey_import_privkey(*out, private, 0, 0);
    if (private) gnutls_privkey_deinit(private);
    return failed(ctx, "a key cannot be used", code);
}

static int strong_enough(gnutls_pubkey_t key)
{
    unsigned bits = 0;
    int kind = gnutls_pubkey_get_pk_algorithm(key, &bits);
    return kind >= 0 && gnutls_pk_bits_to_sec_param((gnutls_pk_algorithm_t)kind, bits) >= GNUTLS_SEC_PARAM_MEDIUM;
}

static int read_request(gnutls_x509_crq_t request, const gnutls_datum_t *text, char *name, size_t n,
                        gnutls_pubkey_t *out)
{
    size_t size = n;
    int code = gnutls_x509_crq_import(request, text, GNUTLS_X509_FMT_PEM);
    if (!code) code = gnutls_x509_crq_verify(request, 0);
    if (!code) code = gnutls_x509_crq_get_dn_by_oid(request, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size);
    if (!code && strlen(name) != size) code = GNUTLS_E_ASN1_DER_ERROR;
    if (!code) code = gnutls_pubkey_init(out);
    if (!code) code = gnutls_pubkey_import_x509_crq(*out, request, 0);
    return code;
}

fl_status fli_issue_read_request(fl_ctx *ctx, const char *path, char *name, size_t n, gnutls_pubkey_t *out)
{
    char *pem;
    size_t bytes = 0;
    gnutls_x509_crq_t request = NULL;
    *out = NULL;
    fl_status s = fli_file_read(ctx, path, FLI_PEM_MOST, &pem, &bytes);
    if (s) return s;
    const gnutls_datum_t text = {(unsigned char *)pem, (unsigned)bytes};
    int code = gnutls_x509_crq_init(&request);
    if (!code) code = read_request(request, &text, name, n, out);
    if (code)
        s = fli_fail(ctx, FL_EFORMAT, "%s: is not a request for a certificate: %s", path, gnutls_strerror(code));
    else if (!strong_enough(*out))
        s = fli_fail(ctx, FL_EFORMAT, "%s: its key is too weak", path);
    if (request) gnutls_x509_crq_deinit(request);
    fli_free(pem);
    return s;
}

/* Subject alternative names: host names as text, IP addresses as their bytes. */
static int add_hosts(gnutls_x509_crt_t cert, const cert_content *what)
{
    unsigned char address[16];
    int code = 0;
    for (size_t i = 0; i < what->hosts && !code; i++) {
        const char *host = what->host[i];
        unsigned flags = i ? GNUTLS_FSAN_APPEND : GNUTLS_FSAN_SET;
        unsigned bytes = inet_pton(AF_INET, host, address) == 1 ? 4 : inet_pton(AF_INET6, host, address) == 1 ? 16 : 0;
        code =
            bytes ? gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_IPADDRESS, address, bytes, flags)
                  : gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_DNSNAME, host, (unsigned)strlen(host), flags);
    }
    return code;
}

static int fill_in(gnutls_x509_crt_t cert, const cert_content *what, gnutls_pubkey_t key)
{
    int authority = !what->purpose;
    int code = gnutls_x509_crt_set_version(cert, 3);
    if (!code) code = gnutls_x509_crt_set_serial(cert, what->serial, sizeof what->serial);
    if (!code) code = gnutls_x509_crt_set_activation_time(cert, (time_t)what->begins);
    if (!code) code = gnutls_x509_crt_set_expiration_time(cert, (time_t)what->ends);
    if (!code) code = gnutls_x509_crt_set_pubkey(cert, key);
    if (!code)
        code = gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, what->name,
                                             (unsigned)strlen(what->name));
    if (!code && what->unit)
        code = gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, 0, what->unit,
                                             (unsigned)strlen(what->unit));
    /* path length 0: the authority has no intermediate ones; certificates that it signs can sign nothing */
    if (!code) code = gnutls_x509_crt_set_basic_constraints(cert, (unsigned)authority, authority ? 0 : -1);
    if (!code)
        code = gnutls_x509_crt_set_key_usage(cert, authority ? GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN
                                                             : GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (!code && what->purpose) code = gnutls_x509_crt_set_key_purpose_oid(cert, what->purpose, 0);
    if (!code) code = add_hosts(cert, what);
    return code;
}

/* Adds the identifiers of the certificate's key and its signer's, by which TLS libraries build a chain. */
static int add_key_ids(gnutls_x509_crt_t cert, gnutls_pubkey_t key, gnutls_x509_crt_t signer)
{
    unsigned char id[64];
    size_t n = sizeof id;
    int code = gnutls_pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA1, id, &n);
    if (!code) code = gnutls_x509_crt_set_subject_key_id(cert, id, n);
    n = sizeof id;
    if (!code) code = gnutls_x509_crt_get_subject_key_id(signer, id, &n, NULL);
    if (!code) code = gnutls_x509_crt_set_authority_key_id(cert, id, n);
    return code;
}

/* Makes and signs a certificate. An authority's own (no purpose) is self-signed with `by->key`. */
static fl_status make_cert(fl_ctx *ctx, const cert_content *what, gnutls_pubkey_t key, const issuer *by, fli_pem *pem)
{
    gnutls_x509_crt_t cert = NULL;
    *pem = (fli_pem){0};
    int code = gnutls_x509_crt_init(&cert);
    gnutls_x509_crt_t signer = what->purpose ? by->cert : cert;
    if (!code) code = fill_in(cert, what, key);
    if (!code) code = add_key_ids(cert, key, signer);
    if (!code) code = gnutls_x509_crt_sign2(cert, signer, by->key, GNUTLS_DIG_SHA256, 0);
    if (!code) code = gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, pem);
    if (cert) gnutls_x509_crt_deinit(cert);
    return failed(ctx, "a certificate cannot be made", code);
}

fl_status fli_issue_request(fl_ctx *ctx, const char *name, gnutls_x509_privkey_t key, fli_pem *pem)
{
    gnutls_x509_crq_t request = NULL;
    *pem = (fli_pem){0};
    int code = gnutls_x509_crq_init(&request);
    if (!code) code = gnutls_x509_crq_set_version(request, 1);
    if (!code) code = gnutls_x509_crq_set_key(request, key);
    if (!code)
        code = gnutls_x509_crq_set_dn_by_oid(request, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name));
    if (!code) code = gnutls_x509_crq_sign2(request, key, GNUTLS_DIG_SHA256, 0);
    if (!code) code = gnutls_x509_crq_export2(request, GNUTLS_X509_FMT_PEM, pem);
    if (request) gnutls_x509_crq_deinit(request);
    return failed(ctx, "a request cannot be made", code);
}

static int add_line(gnutls_x509_crl_t list, const fli_cert_line *line)
{
    unsigned char serial[FLI_CERT_SERIAL];
    size_t n = sizeof serial;
    if (!line->revoked) return 0;
    const gnutls_datum_t hex = {(unsigned char *)line->serial, (unsigned)strlen(line->serial)};
    int code = gnutls_hex_decode(&hex, serial, &n);
    return code ? code : gnutls_x509_crl_set_crt_serial(list, serial, n, (time_t)line->revoked);
}

static int name_list(gnutls_x509_crl_t list, uint64_t number, gnutls_x509_crt_t by)
{
    unsigned char bytes[8], id[64];
    size_t n = sizeof id, zeros = 0;
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(number >> (56 - 8 * i));
    while (zeros < 7 && !bytes[zeros] && bytes[zeros + 1] < 0x80) zeros++; /* DER: the shortest form */
    int code = gnutls_x509_crl_set_version(list, 2);
    if (!code) code = gnutls_x509_crl_set_this_update(list, time(NULL));
    if (!code) code = gnutls_x509_crl_set_next_update(list, gnutls_x509_crt_get_expiration_time(by));
    if (!code) code = gnutls_x509_crl_set_number(list, bytes + zeros, sizeof bytes - zeros);
    if (!code) code = gnutls_x509_crt_get_subject_key_id(by, id, &n, NULL);
    if (!code) code = gnutls_x509_crl_set_authority_key_id(list, id, n);
    return code;
}

/* The signed list of the revoked certificates among these lines. It ends when the authority does: it is in force until
 * a newer one replaces it, and a server must not refuse all clients because a list was not renewed. */
static fl_status make_revocation_list(fl_ctx *ctx, const fli_cert_line *line, size_t lines, uint64_t number,
                                      const issuer *by, fli_pem *pem)
{
    gnutls_x509_crl_t list = NULL;
    *pem = (fli_pem){0};
    int code = gnutls_x509_crl_init(&list);
    if (!code) code = name_list(list, number, by->cert);
    for (size_t i = 0; i < lines && !code; i++) code = add_line(list, line + i);
    if (!code) code = gnutls_x509_crl_sign2(list, by->cert, by->key, GNUTLS_DIG_SHA256, 0);
    if (!code) code = gnutls_x509_crl_export2(list, GNUTLS_X509_FMT_PEM, pem);
    if (list) gnutls_x509_crl_deinit(list);
    return failed(ctx, "a revocation list cannot be made", code);
}

/* ==== an authority in its folder ================================================================================== */

enum { DAY = 24 * 60 * 60, SLACK = 60 * 60 }; /* certificates begin an hour ago: another machine's clock may be slow */

/* An opened authority. Only this process changes it. */
typedef struct {
    fl_ctx *ctx;
    const char *dir;
    fli_lock *lock;
    issuer issuer;
    fli_cert_index index;
    int64_t now;
} authority;

/* ---- files ------------------------------------------------------------------------------------------------- */

/* Writes FOLDER/NAME, mode 600. */
static fl_status put(fl_ctx *ctx, const char *folder, const char *name, const void *p, size_t n)
{
    char *path = fli_strf(ctx, "%s/%s", folder, name);
    fl_status s = path ? fli_file_private(ctx, path, p, n) : FL_ENOMEM;
    fli_free(path);
    return s;
}

static fl_status put_pem(fl_ctx *ctx, const char *folder, const char *name, const fli_pem *pem)
{
    return put(ctx, folder, name, pem->data, pem->size);
}

static fl_status copy(fl_ctx *ctx, const char *from, const char *to, const char *name)
{
    char *text = NULL, *path = fli_strf(ctx, "%s/%s", from, name);
    size_t n = 0;
    fl_status s = path ? fli_file_read(ctx, path, FLI_CERT_INDEX_MOST, &text, &n) : FL_ENOMEM;
    if (!s) s = put(ctx, to, name, text, n);
    fli_free(text);
    fli_free(path);
    return s;
}

/* Replaces the folder `path`, if there is one, by the finished folder `draft`. */
static fl_status put_folder(fl_ctx *ctx, const char *draft, const char *path)
{
    if (fli_path_kind(path) == 1 && !renameat2(AT_FDCWD, draft, AT_FDCWD, path, RENAME_EXCHANGE))
        return fli_remove_folder(ctx, draft);
    fl_status s = fli_remove_folder(ctx, path); /* nothing to replace, or the file system cannot exchange folders */
    if (!s && rename(draft, path)) s = fli_fail(ctx, FL_EIO, "%s: cannot be put in place: %s", path, strerror(errno));
    return s;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

static void pause_a_moment(void)
{
    const struct timespec moment = {0, 50000000};
    nanosleep(&moment, NULL);
}

/* Waits up to ten seconds for another process, which holds the lock only for an instant. */
static fl_status take_lock(fl_ctx *ctx, const char *dir, fli_lock **lock)
{
    enum { TRIES = 200 };
    fl_status s = FL_EBUSY;
    char *place = fli_strf(ctx, "%s/index", dir);
    if (!place) return FL_ENOMEM;
    for (int i = 0; i < TRIES && s == FL_EBUSY; i++) {
        if (i) pause_a_moment();
        fli_clear(ctx);
        s = fli_lock_take(ctx, place, lock);
    }
    fli_free(place);
    return s;
}

/* Loads the files that every command needs. */
static fl_status load(authority *a)
{
    fl_ctx *ctx = a->ctx;
    char *cert = fli_strf(ctx, "%s/ca.pem", a->dir), *key = fli_strf(ctx, "%s/ca-key.pem", a->dir);
    char *index = fli_strf(ctx, "%s/index", a->dir), day[FLI_DAY_MAX];
    fl_status s = cert && key && index ? FL_OK : FL_ENOMEM;
    if (!s) s = fli_x509_cert_load(ctx, cert, &a->issuer.cert, NULL);
    if (!s) s = fli_x509_key_load(ctx, key, &a->issuer.key, NULL);
    if (!s) s = fli_cert_index_load(&a->index, index);
    if (!s && (int64_t)gnutls_x509_crt_get_expiration_time(a->issuer.cert) <= a->now)
        s = fli_fail(ctx, FL_ECONFIG, "%s: the authority has ended, on %s; make a new one, in another folder", cert,
                     fli_day_text((int64_t)gnutls_x509_crt_get_expiration_time(a->issuer.cert), day));
    fli_free(cert);
    fli_free(key);
    fli_free(index);
    return s;
}

/* Fails unless the folder has an authority (wanted 1) or has none (wanted 0). */
static fl_status need_authority(fl_ctx *ctx, const char *dir, int wanted)
{
    char *index = fli_strf(ctx, "%s/index", dir);
    if (!index) return FL_ENOMEM;
    int there = fli_path_kind(index) == 2;
    fli_free(index);
    if (there == wanted) return FL_OK;
    if (there) return fli_fail(ctx, FL_ECONFIG, "%s: there is an authority in this folder already", dir);
    return fli_fail(ctx, FL_ECONFIG, "%s: there is no authority in this folder; `fedloom cert init` makes one", dir);
}

static void authority_close(authority *a)
{
    if (a->issuer.cert) gnutls_x509_crt_deinit(a->issuer.cert);
    if (a->issuer.key) gnutls_x509_privkey_deinit(a->issuer.key);
    fli_cert_index_fini(&a->index);
    fli_lock_leave(a->lock);
}

/* Call authority_close also after a failure. */
static fl_status authority_open(fl_ctx *ctx, const char *dir, authority *a)
{
    memset(a, 0, sizeof *a);
    a->ctx = ctx;
    a->dir = dir;
    a->now = (int64_t)time(NULL);
    fli_cert_index_init(&a->index, ctx);
    fli_clear(ctx);
    fl_status s = need_authority(ctx, dir, 1);
    if (!s) s = take_lock(ctx, dir, &a->lock);
    return s ? s : load(a);
}

static fl_status save_index(const authority *a)
{
    char *path = fli_strf(a->ctx, "%s/index", a->dir);
    fl_status s = path ? fli_cert_index_save(&a->index, path) : FL_ENOMEM;
    fli_free(path);
    return s;
}

/* Signs the revocation list of the index and writes it here and into the server's folder, if that is still here. */
static fl_status publish(const authority *a)
{
    fli_pem list;
    char *server = fli_strf(a->ctx, "%s/server", a->dir);
    fl_status s = server ? make_revocation_list(a->ctx, a->index.line, a->index.lines, a->index.list, &a->issuer, &list)
                         : FL_ENOMEM;
    if (!s) {
        s = put_pem(a->ctx, a->dir, "crl.pem", &list);
        if (!s && fli_path_kind(server) == 1) s = put_pem(a->ctx, server, "crl.pem", &list);
        gnutls_free(list.data);
    }
    fli_free(server);
    return s;
}

/* ---- a new authority ------------------------------------------------------------------------------------------- */

/* Whether an interrupted `cert init` may have left this file. */
static int is_leftover(const char *name)
{
    static const char *const ours[] = {".",          "..",          "ca.pem",
                                       "ca.pem.tmp", "ca-key.pem",  "ca-key.pem.tmp",
                                       "crl.pem",    "crl.pem.tmp", "index.fedloom-lock",
                                       "index.tmp"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strcmp(name, ours[i])) return 1;
    return 0;
}

static fl_status need_empty(fl_ctx *ctx, const char *dir)
{
    fl_status s = need_authority(ctx, dir, 0);
    DIR *d = s ? NULL : opendir(dir);
    if (s) return s;
    if (!d) return errno == ENOENT ? FL_OK : fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", dir, strerror(errno));
    for (struct dirent *e; !s && (e = readdir(d));)
        if (!is_leftover(e->d_name))
            s = fli_fail(ctx, FL_ECONFIG, "%s: is not empty (%s is in it); an authority wants a folder of its own", dir,
                         e->d_name);
    closedir(d);
    return s;
}

static void hex(const uint8_t serial[FLI_CERT_SERIAL], char text[2 * FLI_CERT_SERIAL + 1])
{
    for (size_t i = 0; i < FLI_CERT_SERIAL; i++) fli_snprintf(text + 2 * i, 3, "%02x", serial[i]);
}

static fl_status self_sign(authority *a, const char *name, long days, fli_pem *cert)
{
    gnutls_pubkey_t key;
    cert_content what = {.name = name, .begins = a->now - SLACK, .ends = a->now + (int64_t)days * DAY};
    if (what.begins >= what.ends) what.begins = what.ends - SLACK;
    fl_status s = draw_serial(a->ctx, what.serial);
    if (!s) {
        s = public_half(a->ctx, a->issuer.key, &key);
        if (!s) s = make_cert(a->ctx, &what, key, &a->issuer, cert);
        if (key) gnutls_pubkey_deinit(key);
    }
    return s;
}

static fl_status read_back(authority *a, const fli_pem *cert)
{
    int code = gnutls_x509_crt_init(&a->issuer.cert);
    if (!code) code = gnutls_x509_crt_import(a->issuer.cert, cert, GNUTLS_X509_FMT_PEM);
    return code ? fli_x509_fail(a->ctx, FL_ESYSTEM, "the authority's certificate", code) : FL_OK;
}

/* Writes the index last: a folder with an index has an authority. */
static fl_status create(authority *a, const char *name, long days)
{
    fli_pem key = {0}, cert = {0};
    fl_status s = fli_issue_key(a->ctx, &a->issuer.key, &key);
    if (!s) s = self_sign(a, name, days, &cert);
    if (!s) s = read_back(a, &cert);
    if (!s) s = put_pem(a->ctx, a->dir, "ca-key.pem", &key);
    if (!s) s = put_pem(a->ctx, a->dir, "ca.pem", &cert);
    if (!s) s = publish(a);
    if (!s) s = save_index(a);
    fli_pem_wipe(&key);
    gnutls_free(cert.data);
    return s;
}

fl_status fli_cert_init(fl_ctx *ctx, const char *dir, const char *name, long days)
{
    authority a = {.ctx = ctx, .dir = dir, .now = (int64_t)time(NULL)};
    fli_clear(ctx);
    fli_cert_index_init(&a.index, ctx);
    a.index.list = 1;
    if (!*name || strlen(name) > FLI_NET_NAME_MAX)
        return fli_fail(ctx, FL_ECONFIG, "an authority's name has 1 to %d bytes, not %zu", (int)FLI_NET_NAME_MAX,
                        strlen(name));
    fl_status s = need_empty(ctx, dir);
    if (!s) s = fli_make_private_folder(ctx, dir);
    if (!s) s = take_lock(ctx, dir, &a.lock);
    if (!s) s = need_empty(ctx, dir); /* another process may have created one since the first check */
    if (!s) s = create(&a, name, days);
    authority_close(&a);
    return s;
}

/* ---- certificates ------------------------------------------------------------------------------------------- */

/* The certificate to make. Its folder is "server", "clients/NAME" or "viewers/NAME". */
typedef struct {
    fli_cert_kind kind;
    const char *name;
    const char *const *host;
    size_t hosts;
    fli_cert_wish wish;
} cert_order;

static fl_status need_new(const authority *a, const cert_order *o)
{
    char day[FLI_DAY_MAX];
    const fli_cert_line *there = o->wish.force ? NULL : fli_cert_index_holding(&a->index, o->kind, o->name, a->now);
    if (!there) return FL_OK;
    return fli_fail(a->ctx, FL_ECONFIG,
                    "%s: has a certificate that holds until %s; revoke it first, or renew it beside the old one "
                    "(--force)",
                    o->name, fli_day_text(there->ends, day));
}

/* Signs the certificate, and enters it in the index, so that it can be revoked from now on. */
static fl_status issue(authority *a, const cert_order *o, gnutls_pubkey_t key, fli_pem *cert)
{
    int64_t last = (int64_t)gnutls_x509_crt_get_expiration_time(a->issuer.cert);
    fli_cert_line line = {.kind = o->kind, .ends = a->now + (int64_t)o->wish.days * DAY};
    if (line.ends > last) {
        line.ends = last;
        fli_log(a->ctx, FL_LOG_INFO, "%s: the certificate ends when its authority does", o->name);
    }
    fli_snprintf(line.name, sizeof line.name, "%s", o->name);
    /* a common name has at most 64 bytes; clients check a server's hosts instead */
    const char *name = strlen(o->name) > FLI_NET_NAME_MAX ? "fedloom server" : o->name;
    cert_content what = {.name = name, .host = o->host, .hosts = o->hosts, .begins = a->now - SLACK, .ends = line.ends};
    what.purpose = o->kind == FLI_CERT_SERVER ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT;
    if (o->kind == FLI_CERT_VIEWER) what.unit = FLI_X509_VIEWER;
    if (what.begins >= what.ends) what.begins = what.ends - SLACK;
    fl_status s = draw_serial(a->ctx, what.serial);
    hex(what.serial, line.serial);
    if (!s) s = make_cert(a->ctx, &what, key, &a->issuer, cert);
    if (!s) s = cert_index_add(&a->index, &line);
    return s ? s : save_index(a);
}

/* Builds the folder of a server, client or viewer under a name that no client can have, then puts it in place. */
static fl_status deliver(const authority *a, const cert_order *o, const fli_pem *cert, const fli_pem *key)
{
    fl_ctx *ctx = a->ctx;
    int server = o->kind == FLI_CERT_SERVER;
    char *above = server ? fli_strdup(ctx, a->dir) : fli_strf(ctx, "%s/%ss", a->dir, fli_cert_kind_name(o->kind));
    char *path = above ? fli_strf(ctx, "%s/%s", above, server ? "server" : o->name) : NULL;
    char *draft = above ? fli_strf(ctx, "%s/.%s.new", above, server ? "server" : o->name) : NULL;
    fl_status s = path && draft ? fli_make_private_folder(ctx, above) : FL_ENOMEM;
    if (!s) s = fli_remove_folder(ctx, draft); /* left by an interrupted attempt */
    if (!s) s = fli_make_private_folder(ctx, draft);
    if (!s && key) s = put_pem(ctx, draft, "key.pem", key);
    if (!s) s = put_pem(ctx, draft, "cert.pem", cert);
    if (!s) s = copy(ctx, a->dir, draft, "ca.pem");
    if (!s && server) s = copy(ctx, a->dir, draft, "crl.pem");
    if (!s) s = put_folder(ctx, draft, path);
    fli_free(above);
    fli_free(path);
    fli_free(draft);
    return s;
}

/* `request`: the public key of a request, whose private key stays elsewhere; NULL: a key is made here. */
static fl_status make_and_deliver(authority *a, const cert_order *o, gnutls_pubkey_t request)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_pubkey_t public = NULL;
    fli_pem key_text = {0}, cert = {0};
    fl_status s = need_new(a, o);
    if (!s && !request) s = fli_issue_key(a->ctx, &key, &key_text);
    if (!s && !request) s = public_half(a->ctx, key, &public);
    if (!s) s = issue(a, o, request ? request : public, &cert);
    if (!s) s = deliver(a, o, &cert, request ? NULL : &key_text);
    if (public) gnutls_pubkey_deinit(public);
    if (key) gnutls_x509_privkey_deinit(key);
    fli_pem_wipe(&key_text);
    gnutls_free(cert.data);
    return s;
}

static fl_status carry_out_order(fl_ctx *ctx, const char *dir, const cert_order *o, gnutls_pubkey_t request)
{
    authority a;
    fl_status s = authority_open(ctx, dir, &a);
    if (!s) s = make_and_deliver(&a, o, request);
    authority_close(&a);
    return s;
}

static fl_status need_host(fl_ctx *ctx, const char *host)
{
    unsigned char address[16];
    int ok = cert_host_ok(host) && (!strchr(host, ':') || inet_pton(AF_INET6, host, address) == 1);
    return ok ? FL_OK
              : fli_fail(ctx, FL_ECONFIG, "\"%s\" is neither a host's name nor an address (no port, no brackets)",
                         host);
}

fl_status fli_cert_server(fl_ctx *ctx, const char *dir, const char *const *host, size_t hosts, fli_cert_wish wish)
{
    fl_status s = FL_OK;
    fli_clear(ctx);
    if (!hosts || hosts > FLI_CERT_HOSTS_MAX)
        return fli_fail(ctx, FL_ECONFIG, "a server is reached under 1 to %d names and addresses, not %zu",
                        (int)FLI_CERT_HOSTS_MAX, hosts);
    for (size_t i = 0; i < hosts && !s; i++) s = need_host(ctx, host[i]);
    return s ? s : carry_out_order(ctx, dir, &(cert_order){FLI_CERT_SERVER, host[0], host, hosts, wish}, NULL);
}

static fl_status need_name(fl_ctx *ctx, fli_cert_kind kind, const char *name)
{
    return fli_net_name_ok(name)
               ? FL_OK
               : fli_fail(ctx, FL_ECONFIG,
                          "\"%s\" cannot be a %s's name: 1 to %d letters, digits, dots, hyphens and underscores, "
                          "no dot or hyphen first",
                          name, fli_cert_kind_name(kind), (int)FLI_NET_NAME_MAX);
}

static fl_status fill_named(fl_ctx *ctx, const char *dir, fli_cert_kind kind, const char *name, fli_cert_wish wish)
{
    fli_clear(ctx);
    fl_status s = need_name(ctx, kind, name);
    return s ? s : carry_out_order(ctx, dir, &(cert_order){kind, name, NULL, 0, wish}, NULL);
}

fl_status fli_cert_client(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish)
{
    return fill_named(ctx, dir, FLI_CERT_CLIENT, name, wish);
}

fl_status fli_cert_viewer(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish)
{
    return fill_named(ctx, dir, FLI_CERT_VIEWER, name, wish);
}

/* ---- keys that stay where they are made ------------------------------------------------------------------------ */

static fl_status need_no_key(fl_ctx *ctx, const char *dir)
{
    char *key = fli_strf(ctx, "%s/key.pem", dir);
    if (!key) return FL_ENOMEM;
    fl_status s =
        fli_path_kind(key) ? fli_fail(ctx, FL_ECONFIG, "%s: is there already; a key is never replaced", key) : FL_OK;
    fli_free(key);
    return s;
}

fl_status fli_cert_request(fl_ctx *ctx, const char *dir, const char *name)
{
    gnutls_x509_privkey_t key = NULL;
    fli_pem key_text = {0}, request = {0};
    fli_clear(ctx);
    fl_status s = need_name(ctx, FLI_CERT_CLIENT, name);
    if (!s) s = need_no_key(ctx, dir);
    if (!s) s = fli_make_private_folder(ctx, dir);
    if (!s) s = fli_issue_key(ctx, &key, &key_text);
    if (!s) s = fli_issue_request(ctx, name, key, &request);
    if (!s) s = put_pem(ctx, dir, "request.pem", &request);
    if (!s) s = put_pem(ctx, dir, "key.pem", &key_text); /* last: without key.pem the command can be repeated */
    if (key) gnutls_x509_privkey_deinit(key);
    fli_pem_wipe(&key_text);
    gnutls_free(request.data);
    return s;
}

fl_status fli_cert_sign(fl_ctx *ctx, const char *dir, const char *request, fli_cert_wish wish,
                        char name[FLI_NET_NAME_MAX + 1])
{
    gnutls_pubkey_t key;
    fli_clear(ctx);
    fl_status s = fli_issue_read_request(ctx, request, name, FLI_NET_NAME_MAX + 1, &key);
    if (!s) s = need_name(ctx, FLI_CERT_CLIENT, name);
    if (!s) s = carry_out_order(ctx, dir, &(cert_order){FLI_CERT_CLIENT, name, NULL, 0, wish}, key);
    if (key) gnutls_pubkey_deinit(key);
    return s;
}

/* ---- revocation, and what there is ------------------------------------------------------------------------------ */

/* fl_name_fn over the index. */
static const char *holder_at(const void *index, size_t i)
{
    const fli_cert_index *x = index;
    return i < x->lines ? x->line[i].name : NULL;
}

static fl_status revoke_name(authority *a, const char *name, size_t *count)
{
    char meant[FLI_MEANT_LEN];
    size_t found = 0;
    for (size_t i = 0; i < a->index.lines; i++) {
        fli_cert_line *l = a->index.line + i;
        if (strcmp(l->name, name)) continue;
        found++;
        if (l->revoked) continue;
        if (l->ends > a->now) ++*count;
        l->revoked = a->now;
    }
    if (!found)
        return fli_fail(a->ctx, FL_ECONFIG, "%s: there is no certificate of that name in %s%s", name, a->dir,
                        fli_meant(fl_nearest(name, holder_at, &a->index), meant));
    a->index.list++;
    fl_status s = save_index(a); /* first: repeating the command completes an interrupted one */
    return s ? s : publish(a);
}

fl_status fli_cert_revoke(fl_ctx *ctx, const char *dir, const char *name, size_t *count)
{
    authority a;
    *count = 0;
    fl_status s = authority_open(ctx, dir, &a);
    if (!s) s = revoke_name(&a, name, count);
    authority_close(&a);
    return s;
}

fl_status fli_cert_list(fl_ctx *ctx, const char *dir, fli_cert_fn *each, void *arg)
{
    fli_cert_index index;
    fli_clear(ctx);
    fli_cert_index_init(&index, ctx);
    fl_status s = need_authority(ctx, dir, 1);
    char *path = s ? NULL : fli_strf(ctx, "%s/index", dir);
    if (!s) s = path ? fli_cert_index_load(&index, path) : FL_ENOMEM;
    for (size_t i = 0; i < index.lines && !s; i++) each(arg, index.line + i);
    fli_free(path);
    fli_cert_index_fini(&index);
    return s;
}

const char *fli_day_text(int64_t when, char text[FLI_DAY_MAX])
{
    struct tm day = {0};
    time_t t = (time_t)when;
    gmtime_r(&t, &day);
    fli_snprintf(text, FLI_DAY_MAX, "%d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
    return text;
}
