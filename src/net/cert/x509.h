/* Reads keys and certificates from files of bounded size, with GnuTLS. Errors name the file and what is wrong with
 * it. */
#ifndef FLI_NET_CERT_X509_H
#define FLI_NET_CERT_X509_H

#include "base/ctx.h"

#include <gnutls/x509.h>

enum { FLI_PEM_MOST = 64 * 1024 }; /* bytes of a file with one key, certificate or request */

/* Fails with "WHAT: GnuTLS's text of the code". */
fl_status fli_x509_fail(fl_ctx *ctx, fl_status status, const char *what, int code);

/* *text: the file's text, from fli_alloc, zero-terminated; pass NULL if it is not wanted. Free *out with its
 * gnutls_..._deinit. */
fl_status fli_x509_cert_load(fl_ctx *ctx, const char *path, gnutls_x509_crt_t *out, char **text);
/* FL_ECONFIG if any other user may read the file. */
fl_status fli_x509_key_load(fl_ctx *ctx, const char *path, gnutls_x509_privkey_t *out, char **text);
/* Overwrites a key's text up to its terminator, and frees it. NULL is fine. */
void fli_x509_key_wipe(char *text);

/* The single common name of a certificate; 0: it has none or several, it contains a NUL, or it does not fit n bytes. */
int fli_x509_name(gnutls_x509_crt_t cert, char *name, size_t n);
/* The organizational unit of a viewer's certificate. Browsers only offer client certificates, so a viewer's has the
 * purpose of a client's; the unit tells them apart, and only the authority can set it. */
#define FLI_X509_VIEWER "viewer"
/* Whether the certificate is for that purpose. A certificate without the purpose extension is not. */
int fli_x509_is_for(gnutls_x509_crt_t cert, const char *purpose);

#endif
