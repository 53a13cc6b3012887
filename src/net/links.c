#include "net/links.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

typedef struct link {
    int fd;
    double until; /* 0: a request is being answered */
    struct link *next, **at;
} link_;

struct fli_links {
    fli_net_counters *counters;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below, and every link */
    pthread_cond_t closing;
    link_ *first;
    int closed;
};

void fli_links_add(fli_links *l, struct MHD_Connection *c, void **own)
{
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    link_ *k = i ? calloc(1, sizeof *k) : NULL;
    *own = k;
    if (!k) return; /* it is not watched, and the limits of its own still hold */
    k->fd = i->connect_fd;
    k->until = fli_clock_now() + FLI_LINK_FIRST;
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

static void *watch(void *links)
{
    fli_links *l = links;
    pthread_mutex_lock(&l->lock);
    while (!l->closed) {
        fli_clock_wait(&l->closing, &l->lock, fli_clock_now() + 1);
        shut_slow(l);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

fl_status fli_links_new(fl_ctx *ctx, fli_net_counters *counters, fli_links **out)
{
    fli_links *l = fli_alloc(ctx, 1, sizeof *l);
    *out = NULL;
    if (!l) return FL_ENOMEM;
    l->counters = counters;
    int made = 0;
    if (!pthread_mutex_init(&l->lock, NULL)) made = 1;
    if (made == 1 && !fli_clock_cond(&l->closing)) made = 2;
    if (made == 2 && !pthread_create(&l->thread, NULL, watch, l)) {
        *out = l;
        return FL_OK;
    }
    if (made > 1) pthread_cond_destroy(&l->closing);
    if (made > 0) pthread_mutex_destroy(&l->lock);
    fli_free(l);
    return fli_fail(ctx, FL_ESYSTEM, "a lock or a thread cannot be created");
}

void fli_links_free(fli_links *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->closed = 1;
    pthread_cond_broadcast(&l->closing);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    while (l->first) { /* connections that were never told to be gone */
        link_ *k = l->first;
        l->first = k->next;
        free(k);
    }
    pthread_cond_destroy(&l->closing);
    pthread_mutex_destroy(&l->lock);
    fli_free(l);
}
