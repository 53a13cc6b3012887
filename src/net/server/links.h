/* Open connections, and those that take too long to say what they want: a handshake or headers that arrive byte by byte
 * look busy to whoever looks at the last byte alone. A thread shuts them.
 *
 * The same thread watches TLS handshakes that wait for their other side. With epoll libmicrohttpd takes a connection
 * for readable until a read of its own has failed. Reads of a handshake do not count, so it would call gnutls_handshake
 * for all of them again and again, without a pause. A handshake that can read nothing is suspended here instead, and
 * resumed when its socket has something. */
#ifndef FLI_NET_SERVER_LINKS_H
#define FLI_NET_SERVER_LINKS_H

#include "base/ctx.h"
#include "net/server/state.h"

#include <microhttpd.h>

enum {
    FLI_LINK_FIRST = 15, /* seconds from connecting to a whole head of a request, */
    FLI_LINK_IDLE = 75   /* and from one request's end to the next one's head */
};

typedef struct fli_links fli_links;

fl_status fli_links_new(fl_ctx *ctx, fli_net_counters *counters, fli_links **out);
/* Before connections are closed: none is suspended any more, nor will be. */
void fli_links_close(fli_links *l);
void fli_links_free(fli_links *l); /* closed, and no connection is left */

/* A connection is there; *link is its own. It is gone. */
void fli_links_add(fli_links *l, struct MHD_Connection *c, void **link);
void fli_links_remove(fli_links *l, void **link);
/* It has a request that is being answered, or none any more. */
void fli_links_busy(fli_links *l, struct MHD_Connection *c, int busy);

#endif
