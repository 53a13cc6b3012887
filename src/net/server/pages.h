/* The pages of a server, and their common argument. A new page is a function in pages.c and a line of its table. */
#ifndef FLI_NET_SERVER_PAGES_H
#define FLI_NET_SERVER_PAGES_H

#include "net/common/federation_info.h"
#include "net/server/dispatch.h"
#include "net/server/http.h"
#include "net/server/journal.h"
#include "net/server/roster.h"

#include <pthread.h>

/* The argument of every page. */
typedef struct {
    fl_ctx *ctx; /* of the thread that started the server: other threads must not use it while the server serves */
    fl_server *server;
    fli_federation_summary federation;
    fli_roster *roster;
    fli_dispatch *dispatch;
    fli_journal *journal;
    fli_net_counters counters;
    fli_net_log log;
    double begun;
    double silence;       /* seconds after which a silent client is dropped */
    pthread_mutex_t lock; /* guards all below */
    char run[65];         /* the run's digest in hexadecimal digits; "": not begun */
} fli_page_context;

extern const fli_page fli_pages[];

/* fli_http_spec.upload */
fli_incoming *fli_page_upload(void *context, const fli_http_request *r, size_t n);
/* fli_http_spec.claim: logs a restarted or replaced process, and one that is refused. */
const char *fli_page_claim(void *context, uint32_t client, const fli_http_request *r, double *again, char *sentence,
                           size_t n);

#endif
