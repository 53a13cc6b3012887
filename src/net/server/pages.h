/* The pages of a server, and what they work with. A new page is a function in pages.c and a line of the table there. */
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
    fl_ctx *ctx; /* of the thread that started the server: no other one uses it while it serves */
    fl_server *server;
    fli_federation_summary federation;
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

/* fli_http_spec.upload */
fli_incoming *fli_page_upload(void *context, const fli_http_request *r, size_t n);
/* fli_http_spec.claim: logs a process that takes part as a client for the first time, and a second one. */
const char *fli_page_claim(void *context, uint32_t client, const fli_http_request *r, double *again, char *sentence,
                           size_t n);

#endif
