/* The live page: a small web server on 127.0.0.1 that serves the newest page while a comparison runs.
 *
 * One thread of libmicrohttpd serves, and fli_live_publish replaces the page. A page is an MHD_Response, which counts
 * its references: one is this file's, and each connection that is sending the page has one. So a reader receives all of
 * the page that it began with.
 *
 * A silent connection does not block others: there is room for hundreds, each must send its request within seconds, and
 * is closed after the answer.
 *
 * Only this machine can connect. A web site in a browser on this machine could still map a name of its own to 127.0.0.1
 * and read the page (DNS rebinding). So the request's Host must be 127.0.0.1 or localhost, with any port, so that
 * tunnels work. */
#include "report/report.h"

#include "base/os.h"
#include "base/number.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    CONNECTIONS = 512,
    SILENT_SECONDS = 2, /* until the request has arrived */
    IDLE_SECONDS = 20,  /* without progress while an answer is sent */
    CONNECTION_MEMORY = 16 * 1024,
    ETAG_SIZE = 64
};

struct fli_live {
    fl_ctx *ctx;
    struct MHD_Daemon *daemon;
    uint16_t port;
    uint64_t origin;    /* distinguishes this server's pages from those of an earlier server at the same port */
    uint64_t published; /* number of pages so far */
    pthread_mutex_t lock;
    /* under the lock: */
    struct MHD_Response *page, *unchanged; /* NULL before the first publish */
    char etag[ETAG_SIZE];                  /* includes the quotes */
};

/* ---- requests (on the server's thread) ------------------------------------------------------------------- */

static int host_is_local(const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    for (size_t i = 0; host && i < 2; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n)) continue;
        if (!host[n]) return 1;
        if (host[n] == ':' && host[n + 1] && !host[n + 1 + strspn(host + n + 1, "0123456789")]) return 1;
    }
    return 0;
}

/* Adds the headers of every answer. */
static int dress(struct MHD_Response *r, const char *type)
{
    return r && MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
           MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
           MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES &&
           MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") == MHD_YES;
}

/* Answers with a refusal in one line. `header` may be NULL. */
static enum MHD_Result refuse(struct MHD_Connection *c, unsigned code, const char *line, const char *header,
                              const char *value)
{
    enum MHD_Result ok = MHD_NO;
    struct MHD_Response *r = MHD_create_response_from_buffer(strlen(line), (void *)line, MHD_RESPMEM_PERSISTENT);
    if (dress(r, "text/plain; charset=utf-8") && (!header || MHD_add_response_header(r, header, value) == MHD_YES))
        ok = MHD_queue_response(c, code, r);
    if (r) MHD_destroy_response(r);
    return ok;
}

/* The tag's quotes make a substring search in the list of tags exact. */
static int knows(const char *if_none_match, const char *etag)
{
    return if_none_match && (!strcmp(if_none_match, "*") || strstr(if_none_match, etag));
}

static enum MHD_Result serve(fli_live *l, struct MHD_Connection *c)
{
    const char *known = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    enum MHD_Result ok;
    pthread_mutex_lock(&l->lock);
    if (!l->page)
        ok = refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "There is no page yet.\n", MHD_HTTP_HEADER_RETRY_AFTER, "1");
    else if (knows(known, l->etag))
        ok = MHD_queue_response(c, MHD_HTTP_NOT_MODIFIED, l->unchanged);
    else
        ok = MHD_queue_response(c, MHD_HTTP_OK, l->page);
    pthread_mutex_unlock(&l->lock);
    return ok;
}

static enum MHD_Result handle(void *live, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *body, size_t *body_size, void **state)
{
    (void)version, (void)body, (void)body_size, (void)state;
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)IDLE_SECONDS);
    if (!host_is_local(MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST)))
        return refuse(c, MHD_HTTP_FORBIDDEN, "This page is for 127.0.0.1 and localhost.\n", NULL, NULL);
    if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "This page can only be read.\n", MHD_HTTP_HEADER_ALLOW,
                      "GET, HEAD");
    if (strcmp(url, "/")) return refuse(c, MHD_HTTP_NOT_FOUND, "There is one page, and it is /.\n", NULL, NULL);
    return serve(live, c);
}

/* ---- publishing ------------------------------------------------------------------------------------------ */

static void drop(struct MHD_Response *r)
{
    if (r) MHD_destroy_response(r);
}

static struct MHD_Response *make_response(char *html, size_t n, const char *etag)
{
    struct MHD_Response *r = html ? MHD_create_response_from_buffer_with_free_callback(n, html, fli_free)
                                  : MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    if (!r) fli_free(html);
    if (r && dress(r, "text/html; charset=utf-8") && MHD_add_response_header(r, MHD_HTTP_HEADER_ETAG, etag) == MHD_YES)
        return r;
    drop(r);
    return NULL;
}

fl_status fli_live_publish(fli_live *l, const char *html)
{
    char etag[ETAG_SIZE];
    char *copy = fli_strdup(l->ctx, html);
    if (!copy) return FL_ENOMEM;
    fli_snprintf(etag, sizeof etag, "\"%llx-%llu\"", (unsigned long long)l->origin, (unsigned long long)++l->published);
    struct MHD_Response *page = make_response(copy, strlen(html), etag), *unchanged = make_response(NULL, 0, etag);
    if (!page || !unchanged) {
        drop(page);
        drop(unchanged);
        return fli_fail(l->ctx, FL_ENOMEM, "out of memory: the live page of %zu bytes could not be published",
                        strlen(html));
    }
    pthread_mutex_lock(&l->lock);
    struct MHD_Response *old_page = l->page, *old_unchanged = l->unchanged;
    l->page = page;
    l->unchanged = unchanged;
    memcpy(l->etag, etag, sizeof etag);
    pthread_mutex_unlock(&l->lock);
    drop(old_page);
    drop(old_unchanged);
    return FL_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------ */

static fl_status start(fli_live *l, uint16_t port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(port)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    errno = 0;
    l->daemon =
        MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC, port, NULL, NULL, handle, l, MHD_OPTION_SOCK_ADDR,
                         (struct sockaddr *)&here, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!l->daemon)
        return fli_fail(l->ctx, FL_ESYSTEM, "127.0.0.1:%u: the live page cannot be served there: %s", (unsigned)port,
                        errno ? strerror(errno) : "the server did not start");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_BIND_PORT);
    l->port = info ? info->port : port;
    return FL_OK;
}

fl_status fli_live_new(fl_ctx *ctx, uint16_t port, fli_live **out)
{
    fli_live *l = fli_alloc(ctx, 1, sizeof *l);
    *out = NULL;
    if (!l) return FL_ENOMEM;
    l->ctx = ctx;
    l->origin = (uint64_t)(fli_clock_now() * 1e6) << 16 ^ (uint64_t)getpid();
    if (pthread_mutex_init(&l->lock, NULL)) {
        fli_free(l);
        return fli_fail(ctx, FL_ESYSTEM, "a lock could not be created");
    }
    fl_status s = start(l, port);
    if (s)
        fli_live_free(l);
    else
        *out = l;
    return s;
}

void fli_live_free(fli_live *l)
{
    if (!l) return;
    if (l->daemon) MHD_stop_daemon(l->daemon);
    drop(l->page);
    drop(l->unchanged);
    pthread_mutex_destroy(&l->lock);
    fli_free(l);
}

uint16_t fli_live_port(const fli_live *l) { return l->port; }
