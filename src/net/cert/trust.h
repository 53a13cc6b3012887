/* Which certificates a server accepts, and the files that both sides of a TLS connection need. */
#ifndef FLI_NET_CERT_TRUST_H
#define FLI_NET_CERT_TRUST_H

#include "net/cert/cert.h"
#include "net/common/protocol.h"

#include <gnutls/gnutls.h>

/* ---- a side's own files ---------------------------------------------------------------------------------- */

/* The files that `fedloom cert` wrote for one side. Texts are PEM, zero-terminated, for MHD_OPTION_HTTPS_MEM_KEY,
 * _MEM_CERT and _MEM_TRUST; paths are for CURLOPT_SSLKEY, CURLOPT_SSLCERT and CURLOPT_CAINFO. */
typedef struct {
    char *ca_path, *cert_path, *key_path;
    char *ca, *cert, *key;
    char name[FLI_CERT_HOST_MAX + 1]; /* in the certificate: a client's or viewer's name, a server's first host */
    int64_t begins, ends;             /* of the certificate, in seconds since 1970 */
} fli_tls_files;

/* Loads ca.pem, cert.pem and key.pem of a folder. Fails with a sentence if another user may read the key (FL_ECONFIG),
 * if the files do not belong together, if the certificate is of another kind, has ended or is not valid yet. Logs a
 * warning if it ends within 30 days. */
fl_status fli_tls_load(fl_ctx *ctx, const char *folder, fli_cert_kind kind, fli_tls_files *out);
/* Overwrites the key. All zeros is fine. */
void fli_tls_free(fli_tls_files *files);

/* ---- who may come in --------------------------------------------------------------------------------------- */

typedef struct fli_trust fli_trust;

/* The other side of a connection. */
typedef struct {
    char name[FLI_NET_NAME_MAX + 1];
    fli_cert_kind kind; /* FLI_CERT_CLIENT or FLI_CERT_VIEWER */
    int revoked;        /* refused because its certificate was revoked */
    int by_clock;       /* refused because of its dates only: a clock may be wrong */
} fli_peer;

/* Opens the authority's certificate and revocation list: ca.pem and, if it exists, crl.pem of a folder. `ctx` must
 * outlive it: later changes of the list are logged there, from any thread. */
fl_status fli_trust_open(fl_ctx *ctx, const char *folder, fli_trust **out);
void fli_trust_free(fli_trust *trust); /* NULL is fine */

/* Sets the server's own certificate and key, which were loaded from the same folder. Call before the first
 * fli_trust_show. */
fl_status fli_trust_own(fli_trust *trust, const fli_tls_files *files);
/* Sets the server's certificate for a new connection. Reads the files again if the certificate or the key has changed.
 * Files that fli_tls_load refuses (such as half of a new pair) or of another authority are logged once and not used. */
void fli_trust_show(fli_trust *trust, gnutls_session_t session);

/* Whether the other side of a connection belongs to this federation, and who it is. Called for every request, from any
 * thread, so that a revoked certificate is refused at its next request. Reads the revocation list again if its file has
 * changed; if the new one is damaged, older or missing, the last good one stays in force, and that is logged once.
 * NULL: accepted, and `who` is set. Otherwise returns the reason, in `sentence`, and sets only who->revoked and
 * who->by_clock. */
const char *fli_trust_check(fli_trust *trust, gnutls_session_t session, fli_peer *who, char *sentence, size_t n);
/* The same for a certificate in DER, without a session. */
const char *fli_trust_check_cert(fli_trust *trust, const gnutls_datum_t *der, fli_peer *who, char *sentence, size_t n);

#endif
