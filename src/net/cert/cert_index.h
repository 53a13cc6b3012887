/* The index of an authority: a text, a line per certificate.
 *
 *     fedloom certificates 1 LIST
 *     SERIAL server|client NAME ENDS REVOKED
 *
 * LIST is the number of the newest revocation list; times are seconds since 1970, REVOKED is 0 for those that are
 * not. */
#ifndef FLI_NET_CERT_CERT_INDEX_H
#define FLI_NET_CERT_CERT_INDEX_H

#include "base/ctx.h"

#include <stdint.h>

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
fl_status fli_cert_index_add(fli_cert_index *x, const fli_cert_line *line);
/* The last one of that name and kind that holds; NULL: none. */
const fli_cert_line *fli_cert_index_holding(const fli_cert_index *x, fli_cert_kind kind, const char *name, int64_t now);
/* A host's name or address: letters, digits and what else they have, 1 to FLI_CERT_HOST_MAX bytes. */
int fli_cert_host_ok(const char *host);

#endif
