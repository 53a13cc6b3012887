/* Two layers over libmicrohttpd: open connections, with a thread that shuts slow ones and watches TLS handshakes; and
 * requests, from the head to the reply. */
#include "net/server/http.h"

#include "base/number.h"
#include "base/os.h"
#include "net/common/protocol.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <math.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ==== open connections ============================================================================================ */

/* A thread shuts connections that take too long to send a request. A time limit that starts again at every byte is not
 * enough: a handshake or headers could arrive byte by byte.
 *
 * The same thread watches TLS handshakes that wait for the other side. With epoll, libmicrohttpd takes a connection for
 * readable until one of its own reads has failed. Reads of a handshake do not count, so it would call gnutls_handshake
 * again and again, without a pause. A handshake that has nothing to read is suspended here instead, and resumed when
 * its socket is readable. */

enum {
    FIRST_SECONDS = 15, /* from connecting to the complete head of a request */
    IDLE_SECONDS = 75   /* from the end of a request to the complete head of the next one */
};

typedef struct connections connections;

typedef struct connection {
    connections *all;
    struct MHD_Connection *connection;
    int fd;
    int handshake_read; /* the handshake needs no more input; only the thread that serves the connection uses it */
    int watched;        /* `events` has its descriptor */
    int suspended;      /* until its socket is readable */
    double until;       /* when to shut it; 0: a request is being answered */
    struct connection *next, **at;
} connection;

struct connections {
    fli_net_counters *counters;
    pthread_t thread;
    int events, closing;  /* epoll of suspended connections and of the eventfd `closing`, which wakes the thread */
    pthread_mutex_t lock; /* guards all below, and every connection; taken before libmicrohttpd's own locks */
    connection *first;
    int closed;
};

/* ---- handshakes ---------------------------------------------------------------------------------------------- */

/* Called within gnutls_handshake, on the thread that serves the connection; gnutls_handshake then returns
 * GNUTLS_E_AGAIN. A connection that cannot be watched is polled instead, and still works. */
static void suspend(connection *k)
{
    connections *l = k->all;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = k};
    pthread_mutex_lock(&l->lock);
    if (!l->closed && !k->suspended &&
        !epoll_ctl(l->events, k->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, k->fd, &event)) {
        k->watched = k->suspended = 1;
        MHD_suspend_connection(k->connection);
    }
    pthread_mutex_unlock(&l->lock);
}

/* Caller holds the lock. Once the lock is released, the connection may be closed, and `k` freed, at any moment. */
static void resume(connection *k)
{
    if (k->suspended) MHD_resume_connection(k->connection);
    k->suspended = 0;
}

static ssize_t pull(gnutls_transport_ptr_t own, void *bytes, size_t n)
{
    connection *k = own;
    ssize_t got = recv(k->fd, bytes, n, 0);
    int error = errno;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK) && !k->handshake_read) suspend(k);
    errno = error;
    return got;
}

/* The output of a handshake fits into the socket's buffer, even if the other side does not read it. */
static ssize_t push(gnutls_transport_ptr_t own, const giovec_t *pieces, int n)
{
    struct msghdr m = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)n};
    return sendmsg(((connection *)own)->fd, &m, MSG_NOSIGNAL);
}

/* gnutls_handshake_hook_func: the other side's last message has arrived. */
static int note_end(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming, const gnutls_datum_t *m)
{
    (void)type, (void)when, (void)m;
    if (incoming) ((connection *)gnutls_transport_get_ptr(session))->handshake_read = 1;
    return 0;
}

static void watch_handshake(connection *k)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(k->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    gnutls_session_t session = i ? i->tls_session : NULL;
    if (!session) return;
    gnutls_transport_set_ptr(session, k);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_vec_push_function(session, push);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, note_end);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* *own: the pointer that libmicrohttpd keeps for us in its connection; NULL: the connection is not watched. */
static void connections_add(connections *l, struct MHD_Connection *c, void **own)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    connection *k = i ? calloc(1, sizeof *k) : NULL;
    *own = k;
    if (!k) return; /* not watched; libmicrohttpd's own time limit still applies */
    k->all = l;
    k->connection = c;
    k->fd = i->connect_fd;
    k->until = fli_clock_now() + FIRST_SECONDS;
    watch_handshake(k);
    pthread_mutex_lock(&l->lock);
    k->next = l->first;
    k->at = &l->first;
    if (k->next) k->next->at = &k->next;
    l->first = k;
    pthread_mutex_unlock(&l->lock);
}

static void connections_remove(connections *l, void **own)
{
    connection *k = *own;
    if (!k) return;
    pthread_mutex_lock(&l->lock);
    *k->at = k->next;
    if (k->next) k->next->at = k->at;
    pthread_mutex_unlock(&l->lock);
    free(k);
    *own = NULL;
}

/* busy: a request of this connection is being answered. */
static void connections_busy(connections *l, struct MHD_Connection *c, int busy)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    connection *k = i ? i->socket_context : NULL;
    if (!k) return;
    pthread_mutex_lock(&l->lock);
    k->until = busy ? 0 : fli_clock_now() + IDLE_SECONDS;
    pthread_mutex_unlock(&l->lock);
}

/* Caller holds the lock. A connection leaves the list before its descriptor is closed, so no descriptor here belongs to
 * another connection. */
static void shut_slow(connections *l)
{
    double now = fli_clock_now();
    for (connection *k = l->first; k; k = k->next) {
        if (k->until <= 0 || k->until > now) continue;
        shutdown(k->fd, SHUT_RDWR);
        k->until = 0;
        atomic_fetch_add(&l->counters->cut_off, 1);
    }
}

/* EPOLLONESHOT: a reported descriptor is not reported again until its connection is suspended again. Only this thread
 * resumes connections, and connections_close after it has joined this thread. So the connection of an event exists. */
static void *watch(void *all)
{
    enum { MOST = 64, SECOND = 1000 };
    connections *l = all;
    struct epoll_event event[MOST];
    double looked = fli_clock_now();
    for (int closed = 0; !closed;) {
        int n = epoll_wait(l->events, event, MOST, SECOND);
        pthread_mutex_lock(&l->lock);
        for (int i = 0; i < n; i++)
            if (event[i].data.ptr) resume(event[i].data.ptr);
        if (fli_clock_now() >= looked + 1) {
            shut_slow(l);
            looked = fli_clock_now();
        }
        closed = l->closed;
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

static int open_events(connections *l)
{
    struct epoll_event event = {.events = EPOLLIN};
    l->events = epoll_create1(EPOLL_CLOEXEC);
    l->closing = eventfd(0, EFD_CLOEXEC);
    return l->events >= 0 && l->closing >= 0 && !epoll_ctl(l->events, EPOLL_CTL_ADD, l->closing, &event);
}

static void close_events(connections *l)
{
    if (l->events >= 0) close(l->events);
    if (l->closing >= 0) close(l->closing);
}

static fl_status connections_new(fl_ctx *ctx, fli_net_counters *counters, connections **out)
{
    connections *l = fli_alloc(ctx, 1, sizeof *l);
    *out = NULL;
    if (!l) return FL_ENOMEM;
    l->counters = counters;
    int made = pthread_mutex_init(&l->lock, NULL) ? 0 : 1;
    if (open_events(l) && made && !pthread_create(&l->thread, NULL, watch, l)) {
        *out = l;
        return FL_OK;
    }
    close_events(l);
    if (made) pthread_mutex_destroy(&l->lock);
    fli_free(l);
    return fli_fail(ctx, FL_ESYSTEM, "a lock, a thread or what it waits for cannot be created");
}

/* Call before the connections are closed: from here on none is suspended. */
static void connections_close(connections *l)
{
    pthread_mutex_lock(&l->lock);
    l->closed = 1;
    pthread_mutex_unlock(&l->lock);
    eventfd_write(l->closing, 1);
    pthread_join(l->thread, NULL);
    pthread_mutex_lock(&l->lock);
    for (connection *k = l->first; k; k = k->next) resume(k);
    pthread_mutex_unlock(&l->lock);
}

static void connections_free(connections *l)
{
    if (!l) return;
    while (l->first) { /* connections whose end libmicrohttpd has not reported */
        connection *k = l->first;
        l->first = k->next;
        free(k);
    }
    close_events(l);
    pthread_mutex_destroy(&l->lock);
    fli_free(l);
}

/* ==== requests ==================================================================================================== */

enum {
    THREADS = 4,
    STALL_SECONDS = 20,            /* seconds without any progress of a request or a reply */
    CONNECTION_MEMORY = 16 * 1024, /* headers */
    SPARE_FILES = 128,             /* descriptors for everything but connections */
    CONNECTIONS_SHARED = 16384,    /* connections for any number of clients */
    CONNECTIONS_PER_CLIENT = 4,    /* connections more for each client */
    UPLOADS = 2,                   /* bodies of one client at the same time */
    ALWAYS_SECONDS = 60,           /* seconds that a body may always take */
    GRACE_SECONDS = 10,            /* seconds before the rate of a body is checked */
    RETRY_SECONDS = 2,
    CLOCK_SECONDS = 300, /* seconds for which a client may try again if its certificate is outside its dates */
    SENTENCE = 512
};

struct fli_http {
    fli_http_spec spec;
    struct MHD_Daemon *daemon;
    connections *connections;
    uint16_t port;
    unsigned room;
    atomic_uchar *uploads; /* bodies being received, by client */
    atomic_size_t bodies;  /* bytes of bodies being received, uploads excluded */
};

/* A request under way; the public part comes first. */
typedef struct {
    fli_http_request shown;
    fli_http *http;
    struct MHD_Connection *connection;
    const fli_page *page;
    unsigned char *body;
    size_t length, arrived; /* of the body */
    size_t reserved;        /* of the room of all bodies */
    double begun, until;
    int held;     /* it has been suspended */
    int uploads;  /* counted in http->uploads */
    int lost;     /* the upload could not be written: the rest of the body is read and dropped */
    int answered; /* a reply was sent */
} request;

/* ---- replies ------------------------------------------------------------------------------------------------ */

fli_reply fli_reply_text(unsigned code, const char *type, char *text)
{
    if (!text) return (fli_reply){.code = MHD_HTTP_SERVICE_UNAVAILABLE, .retry = RETRY_SECONDS};
    return (fli_reply){.code = code, .type = type, .body = text, .n = strlen(text), .release = free, .owner = text};
}

fli_reply fli_reply_json(char *text) { return fli_reply_text(MHD_HTTP_OK, "application/json", text); }

fli_reply fli_reply_error(unsigned code, const char *fmt, ...)
{
    char sentence[SENTENCE], word[SENTENCE + 2], *text = malloc(SENTENCE + 32);
    va_list ap;
    va_start(ap, fmt);
    fli_vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    if (text) fli_snprintf(text, SENTENCE + 32, "{\"error\": %s}\n", fli_net_quote(sentence, word, sizeof word));
    return fli_reply_text(code, "application/json", text);
}

fli_reply fli_reply_refused(const char *sentence, double again, int by_clock)
{
    char word[SENTENCE + 2], now[FLI_NET_STAMP], more[32] = "", clock[64] = "", *text = malloc(SENTENCE + 160);
    fli_net_stamp(now);
    if (again > 0) fli_snprintf(more, sizeof more, ", \"again\": %.0f", again);
    if (by_clock) fli_snprintf(clock, sizeof clock, ", \"clock\": \"%s\"", now);
    if (text)
        fli_snprintf(text, SENTENCE + 160, "{\"error\": %s%s%s}\n", fli_net_quote(sentence, word, sizeof word), more,
                     clock);
    return fli_reply_text(MHD_HTTP_FORBIDDEN, "application/json", text);
}

static int set_headers(struct MHD_Response *m, const fli_reply *reply)
{
    char seconds[16];
    fli_snprintf(seconds, sizeof seconds, "%u", reply->retry);
    return MHD_add_response_header(m, FLI_NET_HEADER, fli_net_version_text()) == MHD_YES &&
           MHD_add_response_header(m, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
           MHD_add_response_header(m, "X-Content-Type-Options", "nosniff") == MHD_YES &&
           (!reply->type || MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type) == MHD_YES) &&
           (!reply->policy || (MHD_add_response_header(m, "Content-Security-Policy", reply->policy) == MHD_YES &&
                               MHD_add_response_header(m, "Referrer-Policy", "no-referrer") == MHD_YES)) &&
           (reply->code != MHD_HTTP_FORBIDDEN || /* a refused client must not keep a connection */
            MHD_add_response_header(m, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES) &&
           (!reply->allow || MHD_add_response_header(m, MHD_HTTP_HEADER_ALLOW, reply->allow) == MHD_YES) &&
           (reply->code != MHD_HTTP_UPGRADE_REQUIRED ||
            (MHD_add_response_header(m, MHD_HTTP_HEADER_UPGRADE, FLI_NET_UPGRADE) == MHD_YES &&
             MHD_add_response_header(m, MHD_HTTP_HEADER_CONNECTION, MHD_HTTP_HEADER_UPGRADE) == MHD_YES)) &&
           (!reply->retry || MHD_add_response_header(m, MHD_HTTP_HEADER_RETRY_AFTER, seconds) == MHD_YES);
}

/* Sends both pieces without a copy. */
static struct MHD_Response *make_response(const fli_reply *reply)
{
    struct MHD_IoVec piece[2] = {{reply->front, reply->front_n}, {reply->body, reply->n}};
    if (reply->front) return MHD_create_response_from_iovec(piece, reply->n ? 2 : 1, reply->release, reply->owner);
    if (reply->release)
        return MHD_create_response_from_buffer_with_free_callback_cls(reply->n, (void *)reply->body, reply->release,
                                                                      reply->owner);
    return MHD_create_response_from_buffer(reply->n, (void *)reply->body, MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result send_reply(request *r, const fli_reply *reply)
{
    enum MHD_Result ok = MHD_NO;
    struct MHD_Response *m = make_response(reply);
    r->answered = 1;
    if (!m && reply->release) reply->release(reply->owner);
    if (m && set_headers(m, reply)) ok = MHD_queue_response(r->connection, reply->code, m);
    if (m) MHD_destroy_response(m);
    MHD_set_connection_option(r->connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)IDLE_SECONDS);
    if (!ok) return ok;
    fli_net_counters *c = r->http->spec.counters;
    atomic_fetch_add(&c->bytes_out, reply->front_n + reply->n);
    fli_net_tally_add(&c->replies, r->page ? (size_t)(r->page - r->http->spec.pages) : FLI_NET_PAGES, reply->code);
    return ok;
}

/* ---- waiting -------------------------------------------------------------------------------------------------- */

void fli_http_hold(fli_http_request *shown)
{
    request *r = (request *)shown;
    r->held = 1;
    shown->wait = 0;
    MHD_suspend_connection(r->connection);
}

void fli_http_wake(fli_http_request *shown) { MHD_resume_connection(((request *)shown)->connection); }

/* ---- the head of a request ------------------------------------------------------------------------------------ */

static const char *header_of(const request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static fli_reply turn_away(const request *r, fli_reply reply)
{
    atomic_fetch_add(&r->http->spec.counters->turned_away, 1);
    return reply;
}

/* A viewer gets no name here: a client may have the same name, and a viewer takes no part. Of the pages for viewers a
 * client gets only those of FLI_PAGE_BOTH. */
static const char *check_certificate(request *r, gnutls_session_t session, fli_peer *who, char *sentence, size_t n)
{
    int look = (r->page->traits & FLI_PAGE_LOOK) != 0, both = (r->page->traits & FLI_PAGE_BOTH) != 0;
    const char *wrong = fli_trust_check(r->http->spec.trust, session, who, sentence, n);
    if (wrong) return wrong;
    int viewer = who->kind == FLI_CERT_VIEWER;
    if (viewer != look && !both) {
        fli_snprintf(sentence, n, "the certificate of %s is a %s's, and this page is for %ss", who->name,
                     fli_cert_kind_name(who->kind), fli_cert_kind_name(look ? FLI_CERT_VIEWER : FLI_CERT_CLIENT));
        return sentence;
    }
    if (!viewer) fli_snprintf(r->shown.name, sizeof r->shown.name, "%s", who->name);
    return NULL;
}

/* Finds the caller's name: over TLS from its certificate, else from the header. */
static fli_reply identify(request *r)
{
    const fli_http_spec *o = &r->http->spec;
    char sentence[SENTENCE], word[300];
    const char *wrong = NULL, *said = header_of(r, FLI_NET_NAME);
    fli_peer who = {0};
    if (o->tls) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        wrong = i ? check_certificate(r, i->tls_session, &who, sentence, sizeof sentence) : "there is no TLS session";
    } else if (said && fli_net_name_ok(said)) {
        fli_snprintf(r->shown.name, sizeof r->shown.name, "%s", said);
    } else if (said || !(r->page->traits & FLI_PAGE_LOOK)) {
        wrong = "over plain HTTP the header " FLI_NET_NAME " must say a client's name";
    }
    if (!wrong) return (fli_reply){0};
    atomic_fetch_add(&o->counters->unauthorized, 1);
    fli_net_say_bounded(o->log, who.revoked ? "revoked" : "unauthorized", "reason=%s",
                        fli_net_quote(wrong, word, sizeof word));
    return fli_reply_refused(wrong, who.by_clock ? CLOCK_SECONDS : 0, who.by_clock);
}

/* Each path has one page, with one method. */
static fli_reply find_page(request *r, const char *method, const char *path)
{
    int get;
    for (const fli_page *p = r->http->spec.pages; p->path; p++) {
        if (strcmp(p->path, path)) continue;
        get = !strcmp(p->method, MHD_HTTP_METHOD_GET);
        if (!strcmp(p->method, method) || (get && !strcmp(method, MHD_HTTP_METHOD_HEAD))) {
            r->page = p;
            return (fli_reply){0};
        }
        fli_reply reply = fli_reply_error(MHD_HTTP_METHOD_NOT_ALLOWED, "this page knows no such method");
        reply.allow = get ? "GET, HEAD" : p->method;
        return turn_away(r, reply);
    }
    return turn_away(r, fli_reply_error(MHD_HTTP_NOT_FOUND, "there is no such page"));
}

/* DNS rebinding: a web page whose host name resolves to this machine must not reach the server through a browser. */
static fli_reply check_host(const request *r)
{
    if (r->http->spec.tls || fli_host_is_local(header_of(r, MHD_HTTP_HEADER_HOST))) return (fli_reply){0};
    return turn_away(r, fli_reply_error(MHD_HTTP_FORBIDDEN, "plain HTTP is for this machine alone"));
}

static fli_reply check_version(const request *r)
{
    char sentence[SENTENCE];
    const char *wrong = fli_net_version_wrong(header_of(r, FLI_NET_HEADER), sentence, sizeof sentence);
    if (!wrong || (r->page->traits & FLI_PAGE_LOOK)) return (fli_reply){0};
    return turn_away(r, fli_reply_error(MHD_HTTP_UPGRADE_REQUIRED, "%s", wrong));
}

static void note_origin(request *r)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct sockaddr_storage from = {0};
    if (i && i->client_addr)
        memcpy(&from, i->client_addr,
               i->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    fli_address_text(&from, r->shown.address);
}

/* Only for pages by which a client takes part: reading the federation is no sign of life. */
static fli_reply claim(request *r)
{
    const fli_http_spec *o = &r->http->spec;
    char sentence[SENTENCE];
    double again = 0;
    if (!fli_instance_read(header_of(r, FLI_NET_INSTANCE), &r->shown.instance))
        return turn_away(r, fli_reply_error(MHD_HTTP_BAD_REQUEST, "the header " FLI_NET_INSTANCE
                                                                  " is two numbers of 16 hexadecimal digits each"));
    note_origin(r);
    if (r->shown.client == FLI_NO_CLIENT) return (fli_reply){0};
    const char *wrong = o->claim(o->arg, r->shown.client, &r->shown, &again, sentence, sizeof sentence);
    if (wrong) return fli_reply_refused(wrong, again, 0);
    o->heard(o->arg, r->shown.client);
    return (fli_reply){0};
}

static fli_reply find_client(request *r)
{
    const fli_http_spec *o = &r->http->spec;
    r->shown.client = *r->shown.name ? o->find(o->arg, r->shown.name) : FLI_NO_CLIENT;
    fli_reply reply = r->page->traits & (FLI_PAGE_JOINED | FLI_PAGE_ACTS) ? claim(r) : (fli_reply){0};
    if (reply.code) return reply;
    if (r->shown.client != FLI_NO_CLIENT || !(r->page->traits & FLI_PAGE_JOINED)) return (fli_reply){0};
    char *text = malloc(160);
    if (text) fli_snprintf(text, 160, "{\"error\": \"%s has not joined\", \"join\": true}\n", r->shown.name);
    return fli_reply_text(MHD_HTTP_CONFLICT, "application/json", text);
}

/* ?wait=SECONDS, digits only. */
static void read_wait(request *r)
{
    const char *text = MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, "wait");
    double seconds = 0;
    for (; text && *text >= '0' && *text <= '9'; text++)
        seconds = fmin(10 * seconds + (*text - '0'), FLI_NET_WAIT_MOST);
    r->shown.wait = text && !*text ? seconds : 0;
}

/* ---- bodies ---------------------------------------------------------------------------------------------------- */

/* Parses a Content-Length; returns 0 if it is not a number. */
static int read_length(const char *text, size_t *out)
{
    size_t n = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (n > SIZE_MAX / 20) return 0;
        n = 10 * n + (size_t)(*text - '0');
    }
    *out = n;
    return !*text;
}

static fli_reply come_back(const request *r, const char *sentence)
{
    fli_reply reply = fli_reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "%s", sentence);
    reply.retry = RETRY_SECONDS;
    atomic_fetch_add(&r->http->spec.counters->busy, 1);
    return reply;
}

/* Reserves room for the body, among all bodies and among the client's own. */
static fli_reply reserve(request *r)
{
    fli_http *h = r->http;
    int uploads = (r->page->traits & FLI_PAGE_UPLOAD) != 0; /* bounded by server.memory and the disk */
    if (!uploads && atomic_fetch_add(&h->bodies, r->length) + r->length > h->spec.bodies) {
        atomic_fetch_sub(&h->bodies, r->length);
        r->length = 0;
        return come_back(r, "there is no room for more bodies just now");
    }
    r->reserved = uploads ? 0 : r->length;
    atomic_fetch_add(&h->spec.counters->body_bytes, r->length);
    if (r->shown.client != FLI_NO_CLIENT) {
        r->uploads = 1;
        if (atomic_fetch_add(&h->uploads[r->shown.client], 1) >= UPLOADS)
            return come_back(r, "this client is sending too much at the same time");
    }
    if (uploads) r->shown.upload = h->spec.upload(h->spec.arg, &r->shown, r->length);
    if (!r->shown.upload && (!uploads || r->length <= FLI_NET_SMALL_BODY)) r->body = malloc(r->length + 1);
    return r->body || r->shown.upload ? (fli_reply){0} : come_back(r, "there is no memory for this body just now");
}

/* Rejects duplicate Content-Length headers: a proxy could use the other one (request smuggling). */
static enum MHD_Result count_length(void *lengths, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind, (void)value;
    *(int *)lengths += !strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return MHD_YES;
}

static fli_reply expect_body(request *r)
{
    int lengths = 0;
    const char *said = header_of(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    size_t length, most = r->page->most ? r->page->most(r->http->spec.arg) : 0;
    int chunked = header_of(r, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL;
    if (chunked || (r->page->most && !said))
        return turn_away(r, fli_reply_error(MHD_HTTP_LENGTH_REQUIRED, "a body must say its length beforehand"));
    if (!said) return (fli_reply){0};
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, count_length, &lengths);
    if (lengths > 1) return turn_away(r, fli_reply_error(MHD_HTTP_BAD_REQUEST, "a body has one length"));
    if (!read_length(said, &length) || length > most)
        return turn_away(r, fli_reply_error(MHD_HTTP_CONTENT_TOO_LARGE, "a body may have %zu bytes here", most));
    r->length = length;
    if (!length) return (fli_reply){0};
    MHD_set_connection_option(r->connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)STALL_SECONDS);
    return reserve(r);
}

double fli_http_due(size_t length, size_t slowest, double seconds)
{
    return fmin((double)length / ALWAYS_SECONDS, (double)slowest) * (seconds - GRACE_SECONDS);
}

void fli_http_upload_failed(const fli_net_log *log, const fli_http_request *r, const char *why)
{
    char word[SENTENCE + 2];
    fli_net_say_bounded(log, "upload-failed", "client=%u name=%s reason=%s", r->client, r->name,
                        fli_net_quote(why, word, sizeof word));
}

/* Only logs the loss: the reply cannot be sent before the whole body has come. */
static void lose_upload(request *r)
{
    char why[SENTENCE];
    fli_incoming_why(r->shown.upload, why, sizeof why);
    fli_http_upload_failed(r->http->spec.log, &r->shown, why);
    fli_incoming_free(r->shown.upload);
    r->shown.upload = NULL;
    r->lost = 1;
}

/* Returns MHD_NO to close the connection. */
static enum MHD_Result take_piece(request *r, const char *piece, size_t *n)
{
    const fli_http_spec *o = &r->http->spec;
    double seconds = fli_clock_now() - r->begun;
    if (*n > r->length - r->arrived) return MHD_NO;
    if (r->body)
        memcpy(r->body + r->arrived, piece, *n);
    else if (r->shown.upload && fli_incoming_add(r->shown.upload, piece, *n))
        lose_upload(r);
    r->arrived += *n;
    atomic_fetch_add(&o->counters->bytes_in, *n);
    *n = 0;
    if (r->shown.client != FLI_NO_CLIENT) o->heard(o->arg, r->shown.client);
    if ((double)r->arrived >= fli_http_due(r->length, o->slowest, seconds)) return MHD_YES;
    atomic_fetch_add(&o->counters->cut_off, 1);
    fli_net_say_bounded(o->log, "slow", "name=%s bytes=%zu of=%zu seconds=%.0f", r->shown.name, r->arrived, r->length,
                        seconds);
    return MHD_NO;
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

static enum MHD_Result begin(fli_http *h, struct MHD_Connection *c, const char *path, const char *method, void **state)
{
    request *r = calloc(1, sizeof *r);
    if (!r) return MHD_NO;
    *state = r;
    r->http = h;
    r->connection = c;
    r->begun = fli_clock_now();
    r->shown.client = FLI_NO_CLIENT;
    connections_busy(h->connections, c, 1);
    atomic_fetch_add(&h->spec.counters->requests, 1);
    fli_reply reply = find_page(r, method, path);
    if (!reply.code) reply = check_host(r);
    if (!reply.code) reply = check_version(r);
    if (!reply.code) reply = identify(r);
    if (!reply.code) reply = find_client(r);
    if (!reply.code) reply = expect_body(r);
    if (reply.code) return send_reply(r, &reply);
    read_wait(r);
    return MHD_YES;
}

static enum MHD_Result finish(request *r)
{
    if (r->arrived < r->length) return MHD_NO;
    r->shown.body = r->body;
    r->shown.n = r->length;
    if (r->held) r->shown.wait = 0;
    fli_reply reply =
        r->lost ? come_back(r, "this body cannot be kept just now") : r->page->answer(r->http->spec.arg, &r->shown);
    return reply.code ? send_reply(r, &reply) : MHD_YES;
}

/* libmicrohttpd calls this for the head of a request, for pieces of its body, and at its end or when it was woken. */
static enum MHD_Result handle(void *http, struct MHD_Connection *c, const char *path, const char *method,
                              const char *version, const char *piece, size_t *n, void **state)
{
    request *r = *state;
    (void)version;
    if (!r) return begin(http, c, path, method, state);
    if (*n && r->answered) {
        *n = 0;
        return MHD_YES;
    }
    if (*n) return take_piece(r, piece, n);
    return r->answered ? MHD_YES : finish(r);
}

static void completed(void *http, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why)
{
    fli_http *h = http;
    request *r = *state;
    (void)why;
    connections_busy(h->connections, c, 0);
    if (!r) return;
    if (r->uploads) atomic_fetch_sub(&h->uploads[r->shown.client], 1);
    atomic_fetch_sub(&h->spec.counters->body_bytes, r->length);
    atomic_fetch_sub(&h->bodies, r->reserved);
    fli_incoming_free(r->shown.upload);
    free(r->body);
    free(r);
    *state = NULL;
}

static void connected(void *http, struct MHD_Connection *c, void **own, enum MHD_ConnectionNotificationCode what)
{
    fli_http *h = http;
    const union MHD_ConnectionInfo *tls = MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        connections_add(h->connections, c, own);
        if (h->spec.tls && tls) fli_trust_show(h->spec.trust, tls->tls_session);
        atomic_fetch_add(&h->spec.counters->connections, 1);
    } else {
        connections_remove(h->connections, own);
        atomic_fetch_sub(&h->spec.counters->connections, 1);
    }
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

/* The number of connections to accept: as many as the process may have descriptors, some excepted for other use. But
 * each stranger's connection takes 25 KiB before its first request, so the number is bounded by the clients and a
 * constant. */
static unsigned make_room(size_t clients)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l)) return 512;
    if (l.rlim_cur < l.rlim_max) {
        struct rlimit more = {l.rlim_max, l.rlim_max};
        if (!setrlimit(RLIMIT_NOFILE, &more)) l = more;
    }
    rlim_t most = l.rlim_cur < 1000000 ? l.rlim_cur : 1000000,
           useful = CONNECTIONS_SHARED + CONNECTIONS_PER_CLIENT * (rlim_t)clients;
    if (most > useful) most = useful;
    return most > 2 * SPARE_FILES ? (unsigned)(most - SPARE_FILES) : SPARE_FILES;
}

static struct MHD_Daemon *start_daemon(fli_http *h, const struct sockaddr *address)
{
    const fli_tls_files *t = h->spec.tls;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_KEY, 0, t ? t->key : NULL},
        {MHD_OPTION_HTTPS_MEM_CERT, 0, t ? t->cert : NULL},
        {MHD_OPTION_HTTPS_MEM_TRUST, 0, t ? t->ca : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    if (t) flags |= MHD_USE_TLS;
    if (address->sa_family == AF_INET6) flags |= MHD_USE_DUAL_STACK;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, handle, h, MHD_OPTION_SOCK_ADDR, address, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
        MHD_OPTION_CONNECTION_LIMIT, h->room, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)FIRST_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_LISTEN_BACKLOG_SIZE, 4096u, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, h->spec.per_address, MHD_OPTION_NOTIFY_COMPLETED, completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, connected, h, MHD_OPTION_ARRAY, t ? tls : none, MHD_OPTION_END);
}

static fl_status start(fl_ctx *ctx, fli_http *h)
{
    const struct sockaddr_storage *address = &h->spec.address;
    char text[FLI_ADDRESS_TEXT];
    h->room = make_room(h->spec.clients);
    errno = 0;
    h->daemon = start_daemon(h, (const struct sockaddr *)address);
    if (!h->daemon)
        return fli_fail(ctx, FL_ESYSTEM, "%s: cannot be served there: %s", fli_address_text(address, text),
                        errno ? strerror(errno) : "the server did not start");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info) h->port = info->port;
    return FL_OK;
}

fl_status fli_http_new(fl_ctx *ctx, const fli_http_spec *spec, fli_http **out)
{
    fli_http *h = fli_alloc(ctx, 1, sizeof *h);
    *out = NULL;
    if (!h) return FL_ENOMEM;
    h->spec = *spec;
    h->uploads = fli_alloc(ctx, spec->clients, sizeof *h->uploads);
    fl_status s = h->uploads ? connections_new(ctx, spec->counters, &h->connections) : FL_ENOMEM;
    if (!s) s = start(ctx, h);
    if (s)
        fli_http_free(h);
    else
        *out = h;
    return s;
}

void fli_http_free(fli_http *h)
{
    if (!h) return;
    if (h->connections) connections_close(h->connections);
    if (h->daemon) MHD_stop_daemon(h->daemon);
    connections_free(h->connections);
    fli_free(h->uploads);
    fli_free(h);
}

uint16_t fli_http_port(const fli_http *h) { return h->port; }
unsigned fli_http_room(const fli_http *h) { return h->room; }
