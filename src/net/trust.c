#include "net/trust.h"

#include "base/file.h"
#include "base/number.h"
#include "net/cert_index.h"
#include "net/x509.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* How a serial number is compared: its length, then its bytes. */
enum { SERIAL_MAX = 24 };
typedef struct {
    unsigned char bytes, byte[SERIAL_MAX];
} serial;

/* A revocation list, read: who is on it, sorted. */
typedef struct {
    uint64_t number;
    size_t count;
    serial *revoked;
} list;

/* How a file is told from one that took its place. */
typedef struct {
    ino_t file;
    off_t bytes;
    struct timespec written, changed;
} identity;

struct fli_trust {
    fl_ctx *ctx; /* the log alone: other threads come here */
    fl_ctx *own; /* the error of a list that is read; by one thread at a time, under the lock */
    gnutls_x509_crt_t ca;
    char *path;    /* of the list */
    identity seen; /* the file that was looked at last, good or bad */
    list list;
    pthread_rwlock_t lock;
};

/* ---- the list --------------------------------------------------------------------------------------------------- */

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

/* A list that the authority has signed. */
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

/* Under the lock, alone. */
static void renew(fli_trust *t)
{
    list fresh;
    identity now = identify(t->path);
    if (same(&now, &t->seen)) return; /* another thread was faster */
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

/* Leaves the lock taken, for reading. */
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

/* ---- a certificate --------------------------------------------------------------------------------------------- */

static int is_revoked(const list *l, gnutls_x509_crt_t cert)
{
    serial s = {0};
    size_t n = sizeof s.byte;
    if (gnutls_x509_crt_get_serial(cert, s.byte, &n)) return 1; /* none of ours has one that does not fit */
    s.bytes = (unsigned char)n;
    return bsearch(&s, l->revoked, l->count, sizeof *l->revoked, compare) != NULL;
}

static const char *wrong_signature(unsigned status)
{
    if (status & GNUTLS_CERT_NOT_ACTIVATED) return "does not hold yet: a clock may be wrong";
    if (status & GNUTLS_CERT_EXPIRED) return "has ended: ask for a new one";
    return "was not signed by this federation's authority";
}

/* What is wrong with it, as the end of a sentence; NULL: nothing. */
static const char *refuse(const fli_trust *t, gnutls_x509_crt_t cert)
{
    unsigned status = 0;
    if (gnutls_x509_crt_verify(cert, &t->ca, 1, 0, &status)) return "cannot be checked";
    if (status) return wrong_signature(status);
    if (gnutls_x509_crt_get_ca_status(cert, NULL) > 0) return "is an authority's, not a client's";
    if (!fli_x509_is_for(cert, GNUTLS_KP_TLS_WWW_CLIENT)) return "is not a client's";
    if (is_revoked(&t->list, cert)) return "has been revoked";
    return NULL;
}

const char *fli_trust_check_cert(fli_trust *t, const gnutls_datum_t *der, char name[FLI_NET_NAME_MAX + 1],
                                 char *sentence, size_t n)
{
    gnutls_x509_crt_t cert = NULL;
    const char *wrong = "cannot be read";
    *name = 0;
    int known = 0;
    if (!gnutls_x509_crt_init(&cert) && !gnutls_x509_crt_import(cert, der, GNUTLS_X509_FMT_DER)) {
        known = fli_x509_name(cert, name, FLI_NET_NAME_MAX + 1) && fli_net_name_ok(name);
        keep_current(t);
        wrong = refuse(t, cert);
        pthread_rwlock_unlock(&t->lock);
        if (!wrong && !known) wrong = "has no name that a client may have";
    }
    if (cert) gnutls_x509_crt_deinit(cert);
    if (wrong) {
        fli_snprintf(sentence, n, "the certificate%s%s %s", known ? " of " : "", known ? name : "", wrong);
        *name = 0;
    }
    return wrong ? sentence : NULL;
}

const char *fli_trust_check(fli_trust *t, gnutls_session_t session, char name[FLI_NET_NAME_MAX + 1], char *sentence,
                            size_t n)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_type_get2(session, GNUTLS_CTYPE_PEERS) == GNUTLS_CRT_X509
                                      ? gnutls_certificate_get_peers(session, &count)
                                      : NULL;
    if (chain && count) return fli_trust_check_cert(t, chain, name, sentence, n);
    *name = 0;
    fli_snprintf(sentence, n, "there is no certificate, and without one nobody joins");
    return sentence;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static fl_status open_authority(fli_trust *t, const char *folder)
{
    char *path = fli_strf(t->ctx, "%s/ca.pem", folder);
    fl_status s = path ? fli_x509_cert_load(t->ctx, path, &t->ca, NULL) : FL_ENOMEM;
    if (!s && gnutls_x509_crt_get_ca_status(t->ca, NULL) <= 0)
        s = fli_fail(t->ctx, FL_EFORMAT, "%s: is not an authority's certificate", path);
    fli_free(path);
    return s;
}

/* None at the beginning is fine; one that cannot be used is not. */
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
    fl_status s = (t->own = fl_ctx_new()) ? FL_OK : fli_fail(ctx, FL_ENOMEM, "out of memory");
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
    pthread_rwlock_destroy(&t->lock);
    fli_free(t);
}
