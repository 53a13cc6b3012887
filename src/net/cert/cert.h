/* Certificates of a federation: an authority in a folder that says who may serve and who may join.
 *
 *     DIR/ca.pem            the authority's certificate
 *     DIR/ca-key.pem        its key, mode 600: whoever has it can let anybody join
 *     DIR/crl.pem           the revocation list, signed
 *     DIR/index             every certificate ever made here: serial, kind, name, when it ends, when it was revoked
 *     DIR/server/           what the server's machine gets: ca.pem, cert.pem, key.pem, crl.pem
 *     DIR/clients/NAME/     what a client's machine gets:   ca.pem, cert.pem, key.pem
 *     DIR/viewers/NAME/     the same of somebody who looks on and takes no part
 *
 * Folders have mode 700 and keys 600 from the moment they exist. Files and folders are put in place whole; a
 * certificate is in the index before anybody can have it, so that it can always be revoked. One process at a time
 * changes an authority; another one waits for it a little, and then fails with FL_EBUSY. */
#ifndef FLI_NET_CERT_CERT_H
#define FLI_NET_CERT_CERT_H

#include "base/ctx.h"
#include "net/cert/cert_index.h"
#include "net/common/protocol.h"

#include <time.h>

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
/* For somebody who looks on: a name of the same kind, which may be a client's as well and has nothing to do with it. */
fl_status fli_cert_viewer(fl_ctx *ctx, const char *dir, const char *name, fli_cert_wish wish);

/* The same with a key that never leaves its machine. At the client: a key and a request, DIR/key.pem and
 * DIR/request.pem, in a folder that has no key yet. At the authority: makes DIR/clients/NAME/ of a request,
 * with ca.pem and cert.pem alone, which then go to the client. Of the request nothing counts but its name and its key.
 * `name`: whose it was. */
fl_status fli_cert_request(fl_ctx *ctx, const char *dir, const char *name);
fl_status fli_cert_sign(fl_ctx *ctx, const char *dir, const char *request, fli_cert_wish wish,
                        char name[FLI_NET_NAME_MAX + 1]);

/* Puts all certificates of a name into the revocation list, which is signed anew, also if they were there before.
 * *count: how many of them still held. FL_ECONFIG if there is none of that name. */
fl_status fli_cert_revoke(fl_ctx *ctx, const char *dir, const char *name, size_t *count);

typedef void fli_cert_fn(void *arg, const fli_cert_line *line);
/* In the order in which they were made. */
fl_status fli_cert_list(fl_ctx *ctx, const char *dir, fli_cert_fn *each, void *arg);
/* A day, "2027-03-31", in UTC; returns `text`. */
enum { FLI_DAY_MAX = 32 };
const char *fli_day_text(int64_t when, char text[FLI_DAY_MAX]);

#endif
