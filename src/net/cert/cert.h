/* Certificates of a federation: an authority in a folder that decides who may serve and who may join.
 *
 *     DIR/ca.pem            the authority's certificate
 *     DIR/ca-key.pem        its key, mode 600: with it one can make certificates for anyone
 *     DIR/crl.pem           the revocation list, signed
 *     DIR/index             every certificate ever made here: serial, kind, name, when it ends, when it was revoked
 *     DIR/server/           what the server's machine gets: ca.pem, cert.pem, key.pem, crl.pem
 *     DIR/clients/NAME/     what a client's machine gets:   ca.pem, cert.pem, key.pem
 *     DIR/viewers/NAME/     the same for a viewer, who reads the status and takes no part
 *
 * Folders have mode 700 and keys 600 from the moment they exist. Files and folders are put in place whole. A
 * certificate is in the index before its file exists, so that it can always be revoked. One process at a time changes
 * an authority; another one waits ten seconds, and then fails with FL_EBUSY. */
#ifndef FLI_NET_CERT_CERT_H
#define FLI_NET_CERT_CERT_H

#include "base/ctx.h"
#include "net/common/protocol.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <stdint.h>
#include <time.h>

/* ==== the index =================================================================================================== */

/* The index of an authority: a text, a line per certificate.
 *
 *     fedloom certificates 1 LIST
 *     SERIAL server|client|viewer NAME ENDS REVOKED
 *
 * LIST is the number of the newest revocation list; times are seconds since 1970; REVOKED is 0 if the certificate is
 * not revoked. */

typedef enum { FLI_CERT_SERVER, FLI_CERT_CLIENT, FLI_CERT_VIEWER } fli_cert_kind;
const char *fli_cert_kind_name(fli_cert_kind kind);

enum { FLI_CERT_HOST_MAX = 253 }; /* bytes of a host's name or address */

/* A line of the index. */
enum { FLI_CERT_SERIAL = 16 }; /* bytes; as text, twice that many lower-case hexadecimal digits */
typedef struct {
    char serial[2 * FLI_CERT_SERIAL + 1];
    fli_cert_kind kind;
    char name[FLI_CERT_HOST_MAX + 1];
    int64_t ends;    /* seconds since 1970 */
    int64_t revoked; /* seconds since 1970; 0: not revoked */
} fli_cert_line;

enum { FLI_CERT_INDEX_MOST = 64 << 20 }; /* bytes */

typedef struct {
    fl_ctx *ctx;
    fli_cert_line *line;
    size_t lines, capacity;
    uint64_t list;
} fli_cert_index;

void fli_cert_index_init(fli_cert_index *x, fl_ctx *ctx);
void fli_cert_index_fini(fli_cert_index *x);
/* `name` is the file's name in messages. FL_EFORMAT names the first line that is wrong. */
fl_status fli_cert_index_parse(fli_cert_index *x, const char *name, const char *text, size_t n);
fl_status fli_cert_index_load(fli_cert_index *x, const char *path);
/* Replaces the file whole, or fails and leaves it. */
fl_status fli_cert_index_save(const fli_cert_index *x, const char *path);
/* The last certificate of that name and kind that is neither revoked nor ended; NULL: none. */
const fli_cert_line *fli_cert_index_holding(const fli_cert_index *x, fli_cert_kind kind, const char *name, int64_t now);

/* ==== an authority ================================================================================================ */

enum {
    FLI_CERT_CA_DAYS = 3650,
    FLI_CERT_DAYS = 365,
    FLI_CERT_MOST_DAYS = 36500,
    FLI_CERT_HOSTS_MAX = 100,
};

/* Makes an authority in a folder that is empty or does not exist yet. `name` is for people. */
fl_status fli_cert_init(fl_ctx *ctx, const char *dir, const char *name, long days);

/* days: how long a certificate is valid, at most as long as its authority; 0 or less, for tests: it has ended already.
 * force: make it although another one of that name is still valid; both are then valid (renewal). */
typedef struct {
    long days;
    int force;
} fli_cert_wish;

/* For a server that is reached under these host names and addresses; the index lists it under the first. */
fl_status fli_cert_server(fl_ctx *ctx, const char *dir, const char *const *host, size_t hosts, fli_cert_wish wish);
/* For a client of that name (fli_net_name_ok). */
fl_status fli_cert_client(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish);
/* For a person or program that reads the status. A client may have the same name; the two are unrelated. */
fl_status fli_cert_viewer(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish);

/* A client's certificate whose key never leaves the client's machine. fli_cert_request, at the client, makes a key and
 * a request, DIR/key.pem and DIR/request.pem, in a folder that has no key yet. fli_cert_sign, at the authority, makes
 * DIR/clients/NAME/ from the request, with ca.pem and cert.pem only, which then go to the client. It takes only the
 * name and the key from the request, and returns the name. */
fl_status fli_cert_request(fl_ctx *ctx, const char *dir, const char *name);
fl_status fli_cert_sign(fl_ctx *ctx, const char *dir, const char *request, fli_cert_wish wish,
                        char name[FLI_NET_NAME_MAX + 1]);

/* Revokes all certificates of a name, and signs a new revocation list, even if all were revoked before. *count: how
 * many were still valid. FL_ECONFIG if there is none of that name. */
fl_status fli_cert_revoke(fl_ctx *ctx, const char *dir, const char *name, size_t *count);

typedef void fli_cert_fn(void *arg, const fli_cert_line *line);
/* Calls `each` for every certificate, in the order in which they were made. */
fl_status fli_cert_list(fl_ctx *ctx, const char *dir, fli_cert_fn *each, void *arg);
/* The day of a time in UTC, as "2027-03-31"; returns `text`. */
enum { FLI_DAY_MAX = 32 };
const char *fli_day_text(int64_t when, char text[FLI_DAY_MAX]);

/* ==== keys and requests, in memory ================================================================================ */

/* Keys and requests for certificates, made with GnuTLS; for cert.c and its tests. Keys are on the curve P-256, which
 * every TLS library of the last decade supports; signatures use SHA-256. */

/* PEM text from GnuTLS; release it with gnutls_free. */
typedef gnutls_datum_t fli_pem;
void fli_pem_wipe(fli_pem *pem); /* overwrites and frees a key */

/* A new key; *pem is the same key in PEM. */
fl_status fli_issue_key(fl_ctx *ctx, gnutls_x509_privkey_t *key, fli_pem *pem);
/* Reads a request in PEM, checks its signature, and returns its public key and its name. */
fl_status fli_issue_read_request(fl_ctx *ctx, const char *path, char *name, size_t n, gnutls_pubkey_t *out);
/* Makes a request for a certificate of that name, signed with the key. */
fl_status fli_issue_request(fl_ctx *ctx, const char *name, gnutls_x509_privkey_t key, fli_pem *pem);

#endif
