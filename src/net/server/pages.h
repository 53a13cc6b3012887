/* What pages of the server work with. A new page is a function here, in a file of its own, and a line in pages.c. */
#ifndef FLI_NET_SERVER_PAGES_H
#define FLI_NET_SERVER_PAGES_H

#include "net/common/federation_info.h"
#include "net/server/dispatch.h"
#include "net/server/http.h"
#include "net/server/journal.h"
#include "net/server/roster.h"

#include <pthread.h>

/* All that pages see: the argument of each is one. */
typedef struct {
    fl_ctx *ctx; /* of whoever started the server: for nobody else while it serves */
    fl_server *server;
    fli_federation_outline outline;
    fli_roster *roster;
    fli_dispatch *dispatch;
    fli_journal *journal;
    fli_net_counters counters;
    fli_net_log log;
    double begun;
    double silence;       /* seconds after which a client is given up */
    pthread_mutex_t lock; /* guards all below */
    char run[65];         /* which run, in hexadecimal digits; "": it has not begun */
} fli_page_context;

extern const fli_page fli_pages[];

/* fli_http_spec's: says in the log who it is that comes, and that there are two. */
const char *fli_page_claim(void *desk, uint32_t client, const fli_http_request *r, double *again, char *sentence,
                           size_t n);

#endif
