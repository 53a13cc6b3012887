#include "net/server/links.h"

#include "base/clock.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct link {
    fli_links *all;
    struct MHD_Connection *connection;
    int fd;
    int shaken;    /* its handshake has read all that it reads; of the thread that serves it */
    int watched;   /* `events` knows its descriptor */
    int suspended; /* until its socket has something */
    double until;  /* 0: a request is being answered */
    struct link *next, **at;
} link_;

struct fli_links {
    fli_net_counters *counters;
    pthread_t thread;
    int events, closing;  /* an epoll of suspended connections and of `closing`, which wakes the thread */
    pthread_mutex_t lock; /* guards all below, and every link; libmicrohttpd's own locks come after it */
    link_ *first;
    int closed;
};

/* ---- handshakes ---------------------------------------------------------------------------------------------- */

/* On the thread that serves the connection, within its gnutls_handshake, which returns GNUTLS_E_AGAIN then. One that
 * cannot be watched is called again and again, and works all the same. */
static void suspend(link_ *k)
{
    fli_links *l = k->all;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = k};
    pthread_mutex_lock(&l->lock);
    if (!l->closed && !k->suspended &&
        !epoll_ctl(l->events, k->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, k->fd, &event)) {
        k->watched = k->suspended = 1;
        MHD_suspend_connection(k->connection);
    }
    pthread_mutex_unlock(&l->lock);
}

/* Behind the lock. From here on the connection may go at any moment, and its link with it, once the lock is open. */
static void resume(link_ *k)
{
    if (k->suspended) MHD_resume_connection(k->connection);
    k->suspended = 0;
}

static ssize_t pull(gnutls_transport_ptr_t link, void *bytes, size_t n)
{
    link_ *k = link;
    ssize_t got = recv(k->fd, bytes, n, 0);
    int error = errno;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK) && !k->shaken) suspend(k);
    errno = error;
    return got;
}

/* What a handshake says has room in the socket, whether the other side reads it or not: it never has to wait. */
static ssize_t push(gnutls_transport_ptr_t link, const giovec_t *pieces, int n)
{
    struct msghdr m = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)n};
    return sendmsg(((link_ *)link)->fd, &m, MSG_NOSIGNAL);
}

/* gnutls_handshake_hook_func: the other side's last word has come. */
static int note_end(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming, const gnutls_datum_t *m)
{
    (void)type, (void)when, (void)m;
    if (incoming) ((link_ *)gnutls_transport_get_ptr(session))->shaken = 1;
    return 0;
}

static void watch_handshake(link_ *k)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(k->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    gnutls_session_t session = i ? i->tls_session : NULL;
    if (!session) return;
    gnutls_transport_set_ptr(session, k);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_vec_push_function(session, push);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST, note_end);
}

/* ---- links --------------------------------------------------------------------------------------------------- */

void fli_links_add(fli_links *l, struct MHD_Connection *c, void **own)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    link_ *k = i ? calloc(1, sizeof *k) : NULL;
    *own = k;
    if (!k) return; /* it is not watched, and the limits of its own still hold */
    k->all = l;
    k->connection = c;
    k->fd = i->connect_fd;
    k->until = fli_clock_now() + FLI_LINK_FIRST;
    watch_handshake(k);
    pthread_mutex_lock(&l->lock);
    k->next = l->first;
    k->at = &l->first;
    if (k->next) k->next->at = &k->next;
    l->first = k;
    pthread_mutex_unlock(&l->lock);
}

void fli_links_remove(fli_links *l, void **own)
{
    link_ *k = *own;
    if (!k) return;
    pthread_mutex_lock(&l->lock);
    *k->at = k->next;
    if (k->next) k->next->at = k->at;
    pthread_mutex_unlock(&l->lock);
    free(k);
    *own = NULL;
}

void fli_links_busy(fli_links *l, struct MHD_Connection *c, int busy)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    link_ *k = i ? i->socket_context : NULL;
    if (!k) return;
    pthread_mutex_lock(&l->lock);
    k->until = busy ? 0 : fli_clock_now() + FLI_LINK_IDLE;
    pthread_mutex_unlock(&l->lock);
}

/* Behind the lock. A link goes before its descriptor is closed, so that none of these is anybody else's. */
static void shut_slow(fli_links *l)
{
    double now = fli_clock_now();
    for (link_ *k = l->first; k; k = k->next) {
        if (k->until <= 0 || k->until > now) continue;
        shutdown(k->fd, SHUT_RDWR);
        k->until = 0;
        atomic_fetch_add(&l->counters->cut_off, 1);
    }
}

/* A descriptor that was reported is not looked at again until its connection is suspended again, and only this thread
 * and fli_links_close, which ends it first, resume one: so whatever an event names is still there. */
static void *watch(void *links)
{
    enum { MOST = 64, SECOND = 1000 };
    fli_links *l = links;
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

static int open_events(fli_links *l)
{
    struct epoll_event event = {.events = EPOLLIN};
    l->events = epoll_create1(EPOLL_CLOEXEC);
    l->closing = eventfd(0, EFD_CLOEXEC);
    return l->events >= 0 && l->closing >= 0 && !epoll_ctl(l->events, EPOLL_CTL_ADD, l->closing, &event);
}

static void close_events(fli_links *l)
{
    if (l->events >= 0) close(l->events);
    if (l->closing >= 0) close(l->closing);
}

fl_status fli_links_new(fl_ctx *ctx, fli_net_counters *counters, fli_links **out)
{
    fli_links *l = fli_alloc(ctx, 1, sizeof *l);
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

void fli_links_close(fli_links *l)
{
    pthread_mutex_lock(&l->lock);
    l->closed = 1;
    pthread_mutex_unlock(&l->lock);
    eventfd_write(l->closing, 1);
    pthread_join(l->thread, NULL);
    pthread_mutex_lock(&l->lock);
    for (link_ *k = l->first; k; k = k->next) resume(k);
    pthread_mutex_unlock(&l->lock);
}

void fli_links_free(fli_links *l)
{
    if (!l) return;
    while (l->first) { /* connections that were never told to be gone */
        link_ *k = l->first;
        l->first = k->next;
        free(k);
    }
    close_events(l);
    pthread_mutex_destroy(&l->lock);
    fli_free(l);
}
