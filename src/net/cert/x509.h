/* Reading keys and certificates, with GnuTLS: from files, and what they say. Files are bounded, and a sentence names
 * the one that is not as it should be. */
#ifndef FLI_NET_CERT_X509_H
#define FLI_NET_CERT_X509_H

#include "base/ctx.h"

#include <gnutls/x509.h>

enum { FLI_PEM_MOST = 64 * 1024 }; /* bytes of a file with one key, certificate or request */

/* A failure of GnuTLS: "WHAT: its words". */
fl_status fli_x509_fail(fl_ctx *ctx, fl_status status, const char *what, int code);

/* *text: from fli_alloc, terminated; NULL: it is not wanted. *out: to be freed by its gnutls_..._deinit. */
fl_status fli_x509_cert_load(fl_ctx *ctx, const char *path, gnutls_x509_crt_t *out, char **text);
/* FL_ECONFIG if anybody but its owner may read the file. */
fl_status fli_x509_key_load(fl_ctx *ctx, const char *path, gnutls_x509_privkey_t *out, char **text);
/* Wipes what a key was in, up to its terminator, and frees it. NULL is fine. */
void fli_x509_key_wipe(char *text);

/* The one common name of a certificate, which must fit into n bytes and be text without a NUL; 0: it has no such. */
int fli_x509_name(gnutls_x509_crt_t cert, char *name, size_t n);
/* What the organizational unit of a viewer's certificate says. A browser shows certificates for clients alone, so the
 * purpose of a viewer's is a client's; this sets it apart, and only the authority can write it. */
#define FLI_X509_VIEWER "viewer"
/* Whether it is for that purpose: by an extension that says so, not for want of any. */
int fli_x509_is_for(gnutls_x509_crt_t cert, const char *purpose);

#endif
