/* Certificates of a federation: an authority in a folder that says who may serve and who may join.
 *
 *     DIR/ca.pem            the authority's certificate
 *     DIR/ca-key.pem        its key, mode 600: whoever has it can let anybody join
 *     DIR/crl.pem           the revocation list, signed
 *     DIR/index             every certificate ever made here: serial, kind, name, when it ends, when it was revoked
 *     DIR/server/           what the server's machine gets: ca.pem, cert.pem, key.pem, crl.pem
 *     DIR/clients/NAME/     what a client's machine gets:   ca.pem, cert.pem, key.pem
 *     DIR/viewers/NAME/     the same of a viewer, who looks on and takes no part
 *
 * Folders have mode 700 and keys 600 from the moment they exist. Files and folders are put in place whole; a
 * certificate is in the index before anybody can have it, so that it can always be revoked. One process at a time
 * changes an authority; another one waits for it a little, and then fails with FL_EBUSY. */
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
 *     SERIAL server|client NAME ENDS REVOKED
 *
 * LIST is the number of the newest revocation list; times are seconds since 1970, REVOKED is 0 for those that are
 * not. */

typedef enum { FLI_CERT_SERVER, FLI_CERT_CLIENT, FLI_CERT_VIEWER } fli_cert_kind;
const char *fli_cert_kind_name(fli_cert_kind kind);

enum { FLI_CERT_HOST_MAX = 253 }; /* bytes of a host's name or address */

/* A line of the index. */
enum { FLI_CERT_SERIAL = 16 }; /* bytes; as text, twice as many small hexadecimal digits */
typedef struct {
    char serial[2 * FLI_CERT_SERIAL + 1];
    fli_cert_kind kind;
    char name[FLI_CERT_HOST_MAX + 1];
    int64_t ends;    /* seconds since 1970 */
    int64_t revoked; /* the same; 0: it is not */
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
/* `name` stands for the file in messages. FL_EFORMAT names the first line that is wrong. */
fl_status fli_cert_index_parse(fli_cert_index *x, const char *name, const char *text, size_t n);
fl_status fli_cert_index_load(fli_cert_index *x, const char *path);
/* In the place of what was there, or not at all. */
fl_status fli_cert_index_save(const fli_cert_index *x, const char *path);
/* The last one of that name and kind that holds; NULL: none. */
const fli_cert_line *fli_cert_index_holding(const fli_cert_index *x, fli_cert_kind kind, const char *name, int64_t now);

/* ==== an authority ================================================================================================ */

enum {
    FLI_CERT_CA_DAYS = 3650,
    FLI_CERT_DAYS = 365,
    FLI_CERT_MOST_DAYS = 36500,
    FLI_CERT_HOSTS_MAX = 100,
};

/* A new authority in a folder that is empty or not there yet. `name` is for people. */
fl_status fli_cert_init(fl_ctx *ctx, const char *dir, const char *name, long days);

/* How long a certificate holds (never longer than its authority; 0 or less: it has ended, for tests), and whether
 * another one of that name that still holds is no obstacle. Such a one goes on to hold: it is renewal. */
typedef struct {
    long days;
    int force;
} fli_cert_wish;

/* For a server that is reached under these host names and addresses; known in the index by the first of them. */
fl_status fli_cert_server(fl_ctx *ctx, const char *dir, const char *const *host, size_t hosts, fli_cert_wish wish);
/* For a client of that name (fli_net_name_ok). */
fl_status fli_cert_client(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish);
/* For a person or program that looks on. The name may be a client's as well, and has nothing to do with it. */
fl_status fli_cert_viewer(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish);

/* The same with a key that never leaves its machine. At the client: a key and a request, DIR/key.pem and
 * DIR/request.pem, in a folder that has no key yet. At the authority: makes DIR/clients/NAME/ of a request,
 * with ca.pem and cert.pem alone, which then go to the client. Of the request nothing counts but its name and its key.
 * `name`: whose it was. */
fl_status fli_cert_request(fl_ctx *ctx, const char *dir, const char *name);
fl_status fli_cert_sign(fl_ctx *ctx, const char *dir, const char *request, fli_cert_wish wish,
                        char name[FLI_NET_NAME_MAX + 1]);

/* Puts all certificates of a name into the revocation list, which is then signed again, also if they were there before.
 * *count: how many of them still held. FL_ECONFIG if there is none of that name. */
fl_status fli_cert_revoke(fl_ctx *ctx, const char *dir, const char *name, size_t *count);

typedef void fli_cert_fn(void *arg, const fli_cert_line *line);
/* In the order in which they were made. */
fl_status fli_cert_list(fl_ctx *ctx, const char *dir, fli_cert_fn *each, void *arg);
/* A day, "2027-03-31", in UTC; returns `text`. */
enum { FLI_DAY_MAX = 32 };
const char *fli_day_text(int64_t when, char text[FLI_DAY_MAX]);

/* ==== keys and requests, in memory ================================================================================ */

/* For cert.c and its tests: keys and requests for certificates, by GnuTLS. Keys are on the curve P-256, which every TLS
 * library of the last decade knows; signatures use SHA-256. */

/* PEM, from GnuTLS: to be released by gnutls_free. */
typedef gnutls_datum_t fli_pem;
void fli_pem_wipe(fli_pem *pem); /* a key's */

/* A new key, and the same in PEM. */
fl_status fli_issue_key(fl_ctx *ctx, gnutls_x509_privkey_t *key, fli_pem *pem);
/* The public key and the name in a request in PEM, whose signature is checked. */
fl_status fli_issue_read_request(fl_ctx *ctx, const char *path, char *name, size_t n, gnutls_pubkey_t *out);
/* A request for a certificate of that name, signed with the key. */
fl_status fli_issue_request(fl_ctx *ctx, const char *name, gnutls_x509_privkey_t key, fli_pem *pem);

#endif
