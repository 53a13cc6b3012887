#include "net/cert/x509.h"

#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

fl_status fli_x509_fail(fl_ctx *ctx, fl_status status, const char *what, int code)
{
    return fli_fail(ctx, status, "%s: %s", what, gnutls_strerror(code));
}

/* Passes the text to the caller, or frees it if the caller does not want it. */
static void hand_over(char *mine, char **wanted)
{
    if (wanted)
        *wanted = mine;
    else
        fli_free(mine);
}

fl_status fli_x509_cert_load(fl_ctx *ctx, const char *path, gnutls_x509_crt_t *out, char **text)
{
    char *pem;
    size_t n = 0;
    fl_status s = fli_file_read(ctx, path, FLI_PEM_MOST, &pem, &n);
    if (s) return s;
    const gnutls_datum_t datum = {(unsigned char *)pem, (unsigned)n};
    int code = gnutls_x509_crt_init(out);
    if (!code && (code = gnutls_x509_crt_import(*out, &datum, GNUTLS_X509_FMT_PEM))) {
        gnutls_x509_crt_deinit(*out);
        s = fli_fail(ctx, FL_EFORMAT, "%s: is not a certificate in PEM: %s", path, gnutls_strerror(code));
    } else if (code)
        s = fli_x509_fail(ctx, FL_ENOMEM, path, code);
    if (s) {
        fli_free(pem);
        *out = NULL;
    } else
        hand_over(pem, text);
    return s;
}

/* Reads a key file, zero-terminated. Checks the mode of the open file, so it cannot be exchanged in between. */
static fl_status read_private(fl_ctx *ctx, const char *path, char **text, size_t *n)
{
    uint64_t bytes;
    struct stat st;
    fl_status s = FL_OK;
    *text = NULL;
    FILE *f = fli_plain_open(ctx, path, &bytes);
    if (!f) return FL_EIO;
    if (fstat(fileno(f), &st))
        s = fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", path, strerror(errno));
    else if (st.st_mode & 077)
        s = fli_fail(ctx, FL_ECONFIG,
                     "%s: others may read this key (mode %03o), so it is not used; `chmod 600` it, if they have not",
                     path, (unsigned)st.st_mode & 0777);
    else if (bytes > FLI_PEM_MOST)
        s = fli_fail(ctx, FL_EFORMAT, "%s: has %llu bytes, more than the %d allowed", path, (unsigned long long)bytes,
                     (int)FLI_PEM_MOST);
    else if (!(*text = fli_alloc(ctx, (size_t)bytes + 1, 1)))
        s = FL_ENOMEM;
    else
        *n = fread(*text, 1, (size_t)bytes, f);
    fclose(f);
    return s;
}

fl_status fli_x509_key_load(fl_ctx *ctx, const char *path, gnutls_x509_privkey_t *out, char **text)
{
    char *pem;
    size_t n = 0;
    *out = NULL;
    fl_status s = read_private(ctx, path, &pem, &n);
    if (s) return s;
    const gnutls_datum_t datum = {(unsigned char *)pem, (unsigned)n};
    int code = gnutls_x509_privkey_init(out);
    if (!code) code = gnutls_x509_privkey_import2(*out, &datum, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (!code && text) {
        *text = pem;
        return FL_OK;
    }
    fli_x509_key_wipe(pem);
    if (!code) return FL_OK;
    gnutls_x509_privkey_deinit(*out);
    *out = NULL;
    return fli_fail(ctx, FL_EFORMAT, "%s: is not a key in PEM without a password: %s", path, gnutls_strerror(code));
}

void fli_x509_key_wipe(char *text)
{
    if (text) gnutls_memset(text, 0, strlen(text));
    fli_free(text);
}

int fli_x509_name(gnutls_x509_crt_t cert, char *name, size_t n)
{
    size_t size = n, second = 0;
    if (gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 1, 0, NULL, &second) !=
        GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return 0;
    if (gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size)) return 0;
    return size < n && strlen(name) == size;
}

int fli_x509_is_for(gnutls_x509_crt_t cert, const char *purpose)
{
    char oid[64];
    for (unsigned i = 0; i < 16; i++) {
        size_t n = sizeof oid;
        if (gnutls_x509_crt_get_key_purpose_oid(cert, i, oid, &n, NULL)) return 0;
        if (!strcmp(oid, purpose)) return 1;
    }
    return 0;
}
