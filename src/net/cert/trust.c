/* The certificate files of one side of a connection; then, for a server, which certificates it accepts, and its own
 * certificate, which may be renewed while it runs. */
#include "net/cert/trust.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/number.h"
#include "net/cert/cert.h"
#include "net/cert/x509.h"
#include "net/common/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ==== a side's own files ========================================================================================== */

/* Loaded and checked against each other before anything is sent. */

enum { DAY = 24 * 60 * 60, WARN_DAYS = 30 };

/* Refuses an authority's folder: it has no certificate for either side, and its key must stay off the network. */
static fl_status need_no_authority(fl_ctx *ctx, const char *folder)
{
    char *key = fli_strf(ctx, "%s/ca-key.pem", folder);
    if (!key) return FL_ENOMEM;
    int there = fli_path_kind(key);
    fli_free(key);
    return there ? fli_fail(ctx, FL_ECONFIG,
                            "%s: is an authority's own folder; a server uses %s/server, others %s/clients/NAME or "
                            "%s/viewers/NAME",
                            folder, folder, folder, folder)
                 : FL_OK;
}

static fl_status name_paths(fl_ctx *ctx, const char *folder, fli_tls_files *f)
{
    f->ca_path = fli_strf(ctx, "%s/ca.pem", folder);
    f->cert_path = fli_strf(ctx, "%s/cert.pem", folder);
    f->key_path = fli_strf(ctx, "%s/key.pem", folder);
    return f->ca_path && f->cert_path && f->key_path ? FL_OK : FL_ENOMEM;
}

static int belong_together(gnutls_x509_crt_t cert, gnutls_x509_privkey_t key)
{
    unsigned char a[64], b[64];
    size_t n = sizeof a, m = sizeof b;
    return !gnutls_x509_crt_get_key_id(cert, 0, a, &n) && !gnutls_x509_privkey_get_key_id(key, 0, b, &m) && n == m &&
           !memcmp(a, b, n);
}

static fl_status check_times(fl_ctx *ctx, gnutls_x509_crt_t cert, fli_tls_files *f)
{
    char day[FLI_DAY_MAX];
    int64_t now = (int64_t)time(NULL), begins = f->begins = (int64_t)gnutls_x509_crt_get_activation_time(cert);
    f->ends = (int64_t)gnutls_x509_crt_get_expiration_time(cert);
    if (begins > now)
        return fli_fail(ctx, FL_ECONFIG, "%s: holds from %s on only; is the clock right?", f->cert_path,
                        fli_day_text(begins, day));
    if (f->ends <= now)
        return fli_fail(ctx, FL_ECONFIG, "%s: has ended, on %s; `fedloom cert` makes a new one", f->cert_path,
                        fli_day_text(f->ends, day));
    if (f->ends - now < (int64_t)WARN_DAYS * DAY)
        fli_log(ctx, FL_LOG_WARNING, "%s: ends on %s; renew it", f->cert_path, fli_day_text(f->ends, day));
    return FL_OK;
}

static int is_viewer(gnutls_x509_crt_t cert)
{
    char unit[256];
    for (unsigned i = 0;; i++) {
        size_t n = sizeof unit;
        int code = gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, i, 0, unit, &n);
        if (code == GNUTLS_E_SHORT_MEMORY_BUFFER) continue; /* longer than the word: not it */
        if (code) return 0;
        if (!strcmp(unit, FLI_X509_VIEWER)) return 1;
    }
}

static fl_status check(fl_ctx *ctx, gnutls_x509_crt_t ca, gnutls_x509_crt_t cert, gnutls_x509_privkey_t key,
                       fli_cert_kind kind, fli_tls_files *f)
{
    unsigned status = 0;
    int server = kind == FLI_CERT_SERVER;
    const char *side = fli_cert_kind_name(kind);
    if (!belong_together(cert, key))
        return fli_fail(ctx, FL_ECONFIG, "%s: is not the key of %s", f->key_path, f->cert_path);
    if (gnutls_x509_crt_verify(cert, &ca, 1, GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &status) || status)
        return fli_fail(ctx, FL_ECONFIG, "%s: was not signed by %s", f->cert_path, f->ca_path);
    if (!fli_x509_is_for(cert, server ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT) ||
        (!server && is_viewer(cert) != (kind == FLI_CERT_VIEWER)))
        return fli_fail(ctx, FL_ECONFIG, "%s: is not a %s's certificate; `fedloom cert %s` makes one", f->cert_path,
                        side, side);
    if (!fli_x509_name(cert, f->name, sizeof f->name) || (!server && !fli_net_name_ok(f->name)))
        return fli_fail(ctx, FL_ECONFIG, "%s: has no name that a %s may have", f->cert_path, side);
    return check_times(ctx, cert, f);
}

fl_status fli_tls_load(fl_ctx *ctx, const char *folder, fli_cert_kind kind, fli_tls_files *out)
{
    gnutls_x509_crt_t ca = NULL, cert = NULL;
    gnutls_x509_privkey_t key = NULL;
    memset(out, 0, sizeof *out);
    fl_status s = need_no_authority(ctx, folder);
    if (!s) s = name_paths(ctx, folder, out);
    if (!s) s = fli_x509_cert_load(ctx, out->ca_path, &ca, &out->ca);
    if (!s) s = fli_x509_cert_load(ctx, out->cert_path, &cert, &out->cert);
    if (!s) s = fli_x509_key_load(ctx, out->key_path, &key, &out->key);
    if (!s) s = check(ctx, ca, cert, key, kind, out);
    if (ca) gnutls_x509_crt_deinit(ca);
    if (cert) gnutls_x509_crt_deinit(cert);
    if (key) gnutls_x509_privkey_deinit(key);
    if (s) fli_tls_free(out);
    return s;
}

void fli_tls_free(fli_tls_files *f)
{
    fli_free(f->ca_path);
    fli_free(f->cert_path);
    fli_free(f->key_path);
    fli_free(f->ca);
    fli_free(f->cert);
    fli_x509_key_wipe(f->key);
    memset(f, 0, sizeof *f);
}

/* ==== who may come in ============================================================================================= */

/* A serial number. Serials are compared by length, then by bytes. */
enum { SERIAL_MAX = 24 };
typedef struct {
    unsigned char bytes, byte[SERIAL_MAX];
} serial;

/* A parsed revocation list; `revoked` is sorted. */
typedef struct {
    uint64_t number;
    size_t count;
    serial *revoked;
} list;

/* A certificate that passed the checks whose result cannot change. Its end and the list are checked every time. */
typedef struct {
    fli_digest digest;
    serial serial;
    int64_t ends; /* its end or its authority's, the earlier one; 0: the entry is empty */
    fli_peer who;
} known;
enum { KNOWN = 16384 }; /* entries; two certificates with the same place evict each other */

static const char has_ended[] = "has ended: ask for a new one";
static const char revoked[] = "has been revoked";
static const char not_yet[] = "does not hold yet: a clock may be wrong";

/* Tells whether a file has been replaced or changed. */
typedef struct {
    ino_t file;
    off_t bytes;
    struct timespec written, changed;
} identity;

/* A certificate of the server with its key. Old pairs stay, since connections may still use them. */
typedef struct pair {
    gnutls_certificate_credentials_t files;
    char *cert, *ca; /* in PEM */
    struct pair *before;
} pair;

struct fli_trust {
    fl_ctx *ctx; /* for log lines only: several threads use it */
    char *folder;
    gnutls_x509_crt_t ca;
    pthread_rwlock_t lock; /* guards path, seen and list */
    char *path;
    identity seen; /* the file that was read last, good or bad */
    list list;
    fl_ctx *own;            /* takes the error of reading a list; the write lock guards it */
    pthread_mutex_t memory; /* guards `known` */
    known *known;
    pthread_mutex_t showing; /* guards the server's own pair, below */
    pair *own_pair;
    identity own_seen[2]; /* certificate and key files as they were at the last check */
};

/* ---- the list ----------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const serial *x = a, *y = b;
    return x->bytes != y->bytes ? x->bytes - y->bytes : memcmp(x->byte, y->byte, x->bytes);
}

static identity identify(const char *path)
{
    struct stat st;
    identity id;
    memset(&id, 0, sizeof id);
    if (stat(path, &st)) return id;
    id.file = st.st_ino;
    id.bytes = st.st_size;
    id.written = st.st_mtim;
    id.changed = st.st_ctim;
    return id;
}

static int same_time(struct timespec a, struct timespec b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

static int same(const identity *a, const identity *b)
{
    return a->file == b->file && a->bytes == b->bytes && same_time(a->written, b->written) &&
           same_time(a->changed, b->changed);
}

static int read_number(gnutls_x509_crl_t crl, uint64_t *number)
{
    unsigned char byte[SERIAL_MAX];
    size_t n = sizeof byte;
    *number = 0;
    if (gnutls_x509_crl_get_number(crl, byte, &n, NULL)) return 0;
    for (size_t i = 0; i < n; i++) {
        if (*number >> 56) return 0;
        *number = *number << 8 | byte[i];
    }
    return 1;
}

static int read_serials(gnutls_x509_crl_t crl, list *l)
{
    gnutls_x509_crl_iter_t at = NULL;
    int code = 0;
    for (size_t i = 0; i < l->count && !code; i++) {
        size_t n = SERIAL_MAX;
        code = gnutls_x509_crl_iter_crt_serial(crl, &at, l->revoked[i].byte, &n, NULL);
        l->revoked[i].bytes = (unsigned char)n;
    }
    gnutls_x509_crl_iter_deinit(at);
    qsort(l->revoked, l->count, sizeof *l->revoked, compare);
    return code;
}

/* Parses a list, and checks that the authority has signed it. */
static fl_status read_list(const fli_trust *t, gnutls_x509_crl_t crl, const char *text, size_t n, list *out)
{
    unsigned wrong = 0;
    const gnutls_datum_t datum = {(unsigned char *)text, (unsigned)n};
    int code = gnutls_x509_crl_import(crl, &datum, GNUTLS_X509_FMT_PEM);
    if (code) return fli_fail(t->own, FL_EFORMAT, "%s: is not a revocation list: %s", t->path, gnutls_strerror(code));
    code = gnutls_x509_crl_verify(crl, &t->ca, 1, GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &wrong);
    if (code || wrong) return fli_fail(t->own, FL_EFORMAT, "%s: was not signed by this authority", t->path);
    int count = gnutls_x509_crl_get_crt_count(crl);
    if (count < 0 || !read_number(crl, &out->number))
        return fli_fail(t->own, FL_EFORMAT, "%s: has no number or no entries that can be read", t->path);
    out->count = (size_t)count;
    if (!(out->revoked = fli_alloc(t->own, out->count, sizeof *out->revoked))) return FL_ENOMEM;
    if (read_serials(crl, out)) return fli_fail(t->own, FL_EFORMAT, "%s: has a serial number too long", t->path);
    return FL_OK;
}

static fl_status load_list(const fli_trust *t, list *out)
{
    gnutls_x509_crl_t crl = NULL;
    char *text;
    size_t n = 0;
    *out = (list){0};
    fl_status s = fli_file_read(t->own, t->path, FLI_CERT_INDEX_MOST, &text, &n);
    int code = s ? 0 : gnutls_x509_crl_init(&crl);
    if (code) s = fli_x509_fail(t->own, FL_ENOMEM, t->path, code);
    if (!s) s = read_list(t, crl, text, n, out);
    if (!s && out->number < t->list.number)
        s = fli_fail(t->own, FL_EFORMAT, "%s: list %llu is older than %llu, which was there before", t->path,
                     (unsigned long long)out->number, (unsigned long long)t->list.number);
    if (crl) gnutls_x509_crl_deinit(crl);
    fli_free(text);
    if (s) fli_free(out->revoked);
    return s;
}

/* Caller holds the write lock. */
static void renew(fli_trust *t)
{
    list fresh;
    identity now = identify(t->path);
    if (same(&now, &t->seen)) return; /* another thread has read it */
    t->seen = now;
    fli_clear(t->own);
    if (load_list(t, &fresh)) {
        fli_log(t->ctx, FL_LOG_WARNING, "%s; the last good revocation list, %llu, goes on to count",
                fl_ctx_error(t->own), (unsigned long long)t->list.number);
        return;
    }
    fli_free(t->list.revoked);
    t->list = fresh;
    fli_log(t->ctx, FL_LOG_INFO, "%s: revocation list %llu, with %zu certificates", t->path,
            (unsigned long long)fresh.number, fresh.count);
}

/* Reads the list again if its file has changed. Returns with the read lock held. */
static void keep_current(fli_trust *t)
{
    identity now = identify(t->path);
    pthread_rwlock_rdlock(&t->lock);
    if (same(&now, &t->seen)) return;
    pthread_rwlock_unlock(&t->lock);
    pthread_rwlock_wrlock(&t->lock);
    renew(t);
    pthread_rwlock_unlock(&t->lock);
    pthread_rwlock_rdlock(&t->lock);
}

/* ---- a certificate ------------------------------------------------------------------------------------------ */

static known *place_of(const fli_trust *t, const fli_digest *d)
{
    return t->known + (d->byte[0] | (size_t)d->byte[1] << 8) % KNOWN;
}

/* Looks up a certificate that was checked before. Clients call many times a second, and checking a signature costs more
 * than the rest of a request. */
static int find_known(fli_trust *t, known *k)
{
    pthread_mutex_lock(&t->memory);
    const known *there = place_of(t, &k->digest);
    int found = there->ends && fli_digest_same(&there->digest, &k->digest);
    if (found) *k = *there;
    pthread_mutex_unlock(&t->memory);
    return found;
}

static void remember(fli_trust *t, const known *k)
{
    pthread_mutex_lock(&t->memory);
    *place_of(t, &k->digest) = *k;
    pthread_mutex_unlock(&t->memory);
}

static const char *wrong_signature(unsigned status)
{
    if (status & GNUTLS_CERT_NOT_ACTIVATED) return not_yet;
    if (status & GNUTLS_CERT_EXPIRED) return has_ended;
    return "was not signed by this federation's authority";
}

/* Why the certificate is refused, as the end of a sentence; NULL: it is not. Revocation is checked elsewhere. */
static const char *why_refused(const fli_trust *t, gnutls_x509_crt_t cert, known *k)
{
    unsigned status = 0;
    size_t n = sizeof k->serial.byte;
    int64_t own = (int64_t)gnutls_x509_crt_get_expiration_time(cert);
    int64_t above = (int64_t)gnutls_x509_crt_get_expiration_time(t->ca);
    k->ends = own < above ? own : above;
    char *name = k->who.name;
    if (!fli_x509_name(cert, name, sizeof k->who.name) || !fli_net_name_ok(name)) *name = 0;
    k->who.kind = is_viewer(cert) ? FLI_CERT_VIEWER : FLI_CERT_CLIENT;
    if (gnutls_x509_crt_verify(cert, &t->ca, 1, 0, &status)) return "cannot be checked";
    if (status) return wrong_signature(status);
    if (gnutls_x509_crt_get_ca_status(cert, NULL) > 0) return "is an authority's, not a client's";
    if (!fli_x509_is_for(cert, GNUTLS_KP_TLS_WWW_CLIENT)) return "is not a client's";
    if (gnutls_x509_crt_get_serial(cert, k->serial.byte, &n)) return "has a serial number that cannot be read";
    k->serial.bytes = (unsigned char)n;
    return *name ? NULL : "has no name that a client may have";
}

static const char *examine(fli_trust *t, const gnutls_datum_t *der, known *k)
{
    gnutls_x509_crt_t cert = NULL;
    const char *wrong = "cannot be read";
    if (!gnutls_x509_crt_init(&cert) && !gnutls_x509_crt_import(cert, der, GNUTLS_X509_FMT_DER))
        wrong = why_refused(t, cert, k);
    if (cert) gnutls_x509_crt_deinit(cert);
    if (!wrong) remember(t, k);
    return wrong;
}

static int is_revoked(const list *l, const serial *s)
{
    return l->count && bsearch(s, l->revoked, l->count, sizeof *l->revoked, compare);
}

const char *fli_trust_check_cert(fli_trust *t, const gnutls_datum_t *der, fli_peer *who, char *sentence, size_t n)
{
    fli_hash h;
    fli_hash_init(&h);
    fli_hash_bytes(&h, der->data, der->size);
    known k = {.digest = fli_hash_end(&h)};
    const char *wrong = find_known(t, &k) ? NULL : examine(t, der, &k);
    if (!wrong && k.ends <= (int64_t)time(NULL)) wrong = has_ended;
    if (!wrong) {
        keep_current(t);
        if (is_revoked(&t->list, &k.serial)) wrong = revoked;
        pthread_rwlock_unlock(&t->lock);
    }
    if (!wrong) {
        *who = k.who;
        return NULL;
    }
    char now[FLI_NET_STAMP], clock[FLI_NET_STAMP + 40] = "";
    *who = (fli_peer){.revoked = wrong == revoked, .by_clock = wrong == has_ended || wrong == not_yet};
    fli_net_stamp(now);
    if (who->by_clock) fli_snprintf(clock, sizeof clock, " (by the server's clock it is %s)", now);
    fli_snprintf(sentence, n, "the certificate%s%s %s%s", *k.who.name ? " of " : "", k.who.name, wrong, clock);
    return sentence;
}

const char *fli_trust_check(fli_trust *t, gnutls_session_t session, fli_peer *who, char *sentence, size_t n)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_type_get2(session, GNUTLS_CTYPE_PEERS) == GNUTLS_CRT_X509
                                      ? gnutls_certificate_get_peers(session, &count)
                                      : NULL;
    if (chain && count) return fli_trust_check_cert(t, chain, who, sentence, n);
    *who = (fli_peer){0};
    fli_snprintf(sentence, n, "there is no certificate, and joining needs one");
    return sentence;
}

/* ---- the server's own --------------------------------------------------------------------------------------- */

static void free_pair(pair *p)
{
    if (p->files) gnutls_certificate_free_credentials(p->files);
    fli_free(p->cert);
    fli_free(p->ca);
    fli_free(p);
}

static fl_status add_pair(fli_trust *t, fl_ctx *ctx, const fli_tls_files *f)
{
    const gnutls_datum_t ca = {(unsigned char *)f->ca, (unsigned)strlen(f->ca)},
                         cert = {(unsigned char *)f->cert, (unsigned)strlen(f->cert)},
                         key = {(unsigned char *)f->key, (unsigned)strlen(f->key)};
    pair *p = fli_alloc(ctx, 1, sizeof *p);
    if (!p) return FL_ENOMEM;
    fl_status s = (p->cert = fli_strdup(ctx, f->cert)) && (p->ca = fli_strdup(ctx, f->ca)) ? FL_OK : FL_ENOMEM;
    int code = s ? 0 : gnutls_certificate_allocate_credentials(&p->files);
    if (!s && !code) code = gnutls_certificate_set_x509_trust_mem(p->files, &ca, GNUTLS_X509_FMT_PEM);
    if (!s && code >= 0) code = gnutls_certificate_set_x509_key_mem(p->files, &cert, &key, GNUTLS_X509_FMT_PEM);
    if (!s && code < 0) s = fli_x509_fail(ctx, FL_EFORMAT, f->cert_path, code);
    if (s) {
        free_pair(p);
        return s;
    }
    p->before = t->own_pair;
    t->own_pair = p;
    return FL_OK;
}

fl_status fli_trust_own(fli_trust *t, const fli_tls_files *f)
{
    t->own_seen[0] = identify(f->cert_path);
    t->own_seen[1] = identify(f->key_path);
    return add_pair(t, t->ctx, f);
}

/* Whether the server's certificate or key file has changed since the last call. */
static int own_files_changed(fli_trust *t)
{
    static const char *const names[] = {"cert.pem", "key.pem"};
    int changed = 0;
    for (int i = 0; i < 2; i++) {
        char path[4096];
        fli_snprintf(path, sizeof path, "%s/%s", t->folder, names[i]);
        identity now = identify(path);
        changed |= !same(&now, &t->own_seen[i]);
        t->own_seen[i] = now;
    }
    return changed;
}

/* fl_log_fn */
static void pass_on(void *trust, fl_log_level level, const char *line)
{
    fli_log(((fli_trust *)trust)->ctx, level, "%s", line);
}

static fl_status load_pair(fli_trust *t, fl_ctx *ctx)
{
    fli_tls_files f;
    fl_status s = fli_tls_load(ctx, t->folder, FLI_CERT_SERVER, &f);
    if (!s && strcmp(f.ca, t->own_pair->ca))
        s = fli_fail(ctx, FL_ECONFIG, "%s: is another authority's now, which counts when the server starts again",
                     f.ca_path);
    int fresh = !s && strcmp(f.cert, t->own_pair->cert);
    if (fresh) s = add_pair(t, ctx, &f);
    if (fresh && !s) fli_log(t->ctx, FL_LOG_INFO, "%s: new connections are shown this certificate", f.cert_path);
    fli_tls_free(&f);
    return s;
}

void fli_trust_show(fli_trust *t, gnutls_session_t session)
{
    pthread_mutex_lock(&t->showing);
    fl_ctx *ctx = own_files_changed(t) ? fl_ctx_new() : NULL;
    if (ctx) {
        fl_ctx_on_log(ctx, pass_on, t);
        if (load_pair(t, ctx))
            fli_log(t->ctx, FL_LOG_WARNING, "%s; the server goes on with the certificate that it has",
                    fl_ctx_error(ctx));
        fl_ctx_free(ctx);
    }
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, t->own_pair->files);
    pthread_mutex_unlock(&t->showing);
}

/* ---- opening ------------------------------------------------------------------------------------------------ */

static fl_status open_authority(fli_trust *t, const char *folder)
{
    char *path = fli_strf(t->ctx, "%s/ca.pem", folder);
    fl_status s = path ? fli_x509_cert_load(t->ctx, path, &t->ca, NULL) : FL_ENOMEM;
    if (!s && gnutls_x509_crt_get_ca_status(t->ca, NULL) <= 0)
        s = fli_fail(t->ctx, FL_EFORMAT, "%s: is not an authority's certificate", path);
    fli_free(path);
    return s;
}

/* A missing list is fine at the start; a damaged one is an error. */
static fl_status open_list(fli_trust *t, const char *folder)
{
    if (!(t->path = fli_strf(t->ctx, "%s/crl.pem", folder))) return FL_ENOMEM;
    if (!fli_path_kind(t->path)) return FL_OK;
    t->seen = identify(t->path);
    fl_status s = load_list(t, &t->list);
    return s ? fli_fail(t->ctx, s, "%s", fl_ctx_error(t->own)) : FL_OK;
}

fl_status fli_trust_open(fl_ctx *ctx, const char *folder, fli_trust **out)
{
    fli_trust *t = fli_alloc(ctx, 1, sizeof *t);
    if (!t) return FL_ENOMEM;
    t->ctx = ctx;
    pthread_rwlock_init(&t->lock, NULL);
    pthread_mutex_init(&t->memory, NULL);
    pthread_mutex_init(&t->showing, NULL);
    fl_status s = (t->own = fl_ctx_new()) ? FL_OK : fli_fail(ctx, FL_ENOMEM, "out of memory");
    if (!s && !(t->folder = fli_strdup(ctx, folder))) s = FL_ENOMEM;
    if (!s && !(t->known = fli_alloc(ctx, KNOWN, sizeof *t->known))) s = FL_ENOMEM;
    if (!s) s = open_authority(t, folder);
    if (!s) s = open_list(t, folder);
    if (s) {
        fli_trust_free(t);
        t = NULL;
    }
    *out = t;
    return s;
}

void fli_trust_free(fli_trust *t)
{
    if (!t) return;
    if (t->ca) gnutls_x509_crt_deinit(t->ca);
    fli_free(t->list.revoked);
    fli_free(t->path);
    fl_ctx_free(t->own);
    fli_free(t->known);
    pthread_rwlock_destroy(&t->lock);
    pthread_mutex_destroy(&t->memory);
    pthread_mutex_destroy(&t->showing);
    for (pair *p; (p = t->own_pair);) {
        t->own_pair = p->before;
        free_pair(p);
    }
    fli_free(t->folder);
    fli_free(t);
}
