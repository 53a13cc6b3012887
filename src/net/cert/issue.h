/* Making keys, certificates, requests and revocation lists, with GnuTLS, in memory. Keys are on the curve P-256, which
 * every TLS library of the last decade knows; signatures use SHA-256. */
#ifndef FLI_NET_CERT_ISSUE_H
#define FLI_NET_CERT_ISSUE_H

#include "net/cert/cert.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>

/* PEM, from GnuTLS: to be released by gnutls_free. */
typedef gnutls_datum_t fli_pem;
void fli_pem_wipe(fli_pem *pem); /* a key's */

typedef struct {
    gnutls_x509_crt_t cert;
    gnutls_x509_privkey_t key;
} fli_issuer;

typedef struct {
    const char *name;        /* the common name */
    const char *purpose;     /* GNUTLS_KP_TLS_WWW_SERVER or _CLIENT; NULL: an authority, which signs for itself */
    const char *unit;        /* the organizational unit; NULL: none */
    const char *const *host; /* a server's names and addresses */
    size_t hosts;
    uint8_t serial[FLI_CERT_SERIAL];
    int64_t begins, ends;
} fli_issue;

/* A serial number nobody can guess, and that no other certificate has. */
fl_status fli_issue_serial(fl_ctx *ctx, uint8_t serial[FLI_CERT_SERIAL]);
fl_status fli_issue_key(fl_ctx *ctx, gnutls_x509_privkey_t *key, fli_pem *pem);
/* The public half of a key, and that of a request in PEM, whose signature is checked, with the name in it. */
fl_status fli_issue_public(fl_ctx *ctx, gnutls_x509_privkey_t key, gnutls_pubkey_t *out);
fl_status fli_issue_read_request(fl_ctx *ctx, const char *path, char *name, size_t n, gnutls_pubkey_t *out);
/* An authority's own certificate is signed with `issuer->key`. */
fl_status fli_issue_cert(fl_ctx *ctx, const fli_issue *what, gnutls_pubkey_t key, const fli_issuer *issuer,
                         fli_pem *pem);
fl_status fli_issue_request(fl_ctx *ctx, const char *name, gnutls_x509_privkey_t key, fli_pem *pem);

/* The list of those lines that are revoked. It has no end before the authority's: it counts until a newer one is put in
 * its place, and a server must not shut everybody out because nobody renewed it. */
fl_status fli_issue_list(fl_ctx *ctx, const fli_cert_line *line, size_t lines, uint64_t number,
                         const fli_issuer *issuer, fli_pem *pem);

#endif
