/* The files of one side of a connection: loaded, and found to belong together before anything is sent. */
#include "net/cert/trust.h"

#include "base/file.h"
#include "net/cert/x509.h"

#include <string.h>

enum { DAY = 24 * 60 * 60, WARN_DAYS = 30 };

/* It has no certificate for either side, and its key must not get near a network. */
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
        (!server && fli_x509_is_viewer(cert) != (kind == FLI_CERT_VIEWER)))
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
