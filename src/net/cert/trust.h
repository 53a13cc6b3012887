/* Which certificates a server lets in, and the files that both sides of a TLS connection need. */
#ifndef FLI_NET_CERT_TRUST_H
#define FLI_NET_CERT_TRUST_H

#include "net/cert/cert.h"
#include "net/common/protocol.h"

#include <gnutls/gnutls.h>

/* ---- a side's own files ---------------------------------------------------------------------------------- */

/* What `fedloom cert` wrote for one side. Texts are PEM, terminated: MHD_OPTION_HTTPS_MEM_KEY, _MEM_CERT and _MEM_TRUST
 * want them; paths are for CURLOPT_SSLKEY, CURLOPT_SSLCERT and CURLOPT_CAINFO. */
typedef struct {
    char *ca_path, *cert_path, *key_path;
    char *ca, *cert, *key;
    char name[FLI_CERT_HOST_MAX + 1]; /* in the certificate: a client's or viewer's name, a server's first host */
    int64_t begins, ends;             /* of the certificate, in seconds since 1970 */
} fli_tls_files;

/* Loads ca.pem, cert.pem and key.pem of a folder. Refused with a sentence: a key that others than its owner may read
 * (FL_ECONFIG), files that do not belong together, a certificate of another kind, one that has ended or does
 * not hold yet. One that ends within 30 days is logged. */
fl_status fli_tls_load(fl_ctx *ctx, const char *folder, fli_cert_kind kind, fli_tls_files *out);
/* Wipes the key. All zeros is fine. */
void fli_tls_free(fli_tls_files *files);

/* ---- who may come in --------------------------------------------------------------------------------------- */

typedef struct fli_trust fli_trust;

/* Who is at the other side of a connection. */
typedef struct {
    char name[FLI_NET_NAME_MAX + 1];
    fli_cert_kind kind; /* FLI_CERT_CLIENT or FLI_CERT_VIEWER */
    int revoked;        /* it is refused for that, */
    int by_clock;       /* or for its time alone: a clock may be wrong */
} fli_peer;

/* The authority and its revocation list: ca.pem and, if it is there, crl.pem of a folder. `ctx` must outlive it: what
 * happens to the list later is logged there, from whatever thread. */
fl_status fli_trust_open(fl_ctx *ctx, const char *folder, fli_trust **out);
void fli_trust_free(fli_trust *trust); /* NULL is fine */

/* The server's own certificate and key: these, which were loaded from the same folder. */
fl_status fli_trust_own(fli_trust *trust, const fli_tls_files *files);
/* A new connection is shown the server's certificate: that of its folder, read again when its file or its key's has
 * changed. Files that fli_tls_load refuses, such as half of a new pair, or those of another authority change nothing,
 * and are logged once. */
void fli_trust_show(fli_trust *trust, gnutls_session_t session);

/* Whether the other side of a connection belongs to this federation, and who it is: for every request, from any thread,
 * so that a certificate that was revoked meanwhile is refused at its next one. Looks at the revocation list again when
 * its file has changed; if the new one is damaged, older or gone the last good one counts, and that is logged once.
 * NULL: it is, and `who` is it. Otherwise the reason, in `sentence`, and of `who` only whether it is the time. */
const char *fli_trust_check(fli_trust *trust, gnutls_session_t session, fli_peer *who, char *sentence, size_t n);
/* The same for a certificate by itself, in DER. */
const char *fli_trust_check_cert(fli_trust *trust, const gnutls_datum_t *der, fli_peer *who, char *sentence, size_t n);

#endif
