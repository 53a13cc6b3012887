/* Workers sleep on a condition variable between jobs; within a job the next item comes from an atomic counter, so the
 * only lock is taken once per worker and job. */
#include "base/pool.h"

#include "base/os.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ==== pool ================================================================================================== */

typedef struct {
    fli_pool *pool;
    size_t number;
    pthread_t thread;
} worker;

struct fli_pool {
    size_t threads;
    worker *workers; /* 1 .. threads-1 are threads; 0 is the caller */
    pthread_mutex_t lock;
    pthread_cond_t start, finished;
    size_t job;     /* grows by one per job: a worker that sees a new number joins in */
    size_t running; /* threads still in the job */
    int quit;
    atomic_size_t next;
    size_t count;
    fli_pool_fn *fn;
    void *arg;
};

static void drain(fli_pool *p, size_t number)
{
    for (;;) {
        size_t item = atomic_fetch_add(&p->next, 1);
        if (item >= p->count) return;
        p->fn(p->arg, item, number);
    }
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    fli_pool *p = w->pool;
    size_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->job == seen && !p->quit) pthread_cond_wait(&p->start, &p->lock);
        if (p->quit) break;
        seen = p->job;
        pthread_mutex_unlock(&p->lock);
        drain(p, w->number);
        pthread_mutex_lock(&p->lock);
        if (!--p->running) pthread_cond_signal(&p->finished);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void stop(fli_pool *p, size_t started)
{
    pthread_mutex_lock(&p->lock);
    p->quit = 1;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 1; i < started; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->finished);
    pthread_cond_destroy(&p->start);
    pthread_mutex_destroy(&p->lock);
    fli_free(p->workers);
    fli_free(p);
}

size_t fli_pool_count(size_t threads)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return threads ? threads : online > 0 ? (size_t)online : 1;
}

fl_status fli_pool_new(fl_ctx *ctx, size_t threads, fli_pool **out)
{
    threads = fli_pool_count(threads);
    fli_pool *p = fli_alloc(ctx, 1, sizeof *p);
    if (!p) return FL_ENOMEM;
    p->workers = fli_alloc(ctx, threads, sizeof *p->workers);
    if (!p->workers) {
        fli_free(p);
        return FL_ENOMEM;
    }
    p->threads = threads;
    atomic_init(&p->next, 0);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->finished, NULL);
    for (size_t i = 1; i < threads; i++) {
        p->workers[i] = (worker){.pool = p, .number = i};
        int rc = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (rc) {
            stop(p, i);
            return fli_fail(ctx, FL_ESYSTEM, "thread %zu of %zu could not be started: %s", i + 1, threads,
                            strerror(rc));
        }
    }
    *out = p;
    return FL_OK;
}

void fli_pool_free(fli_pool *p)
{
    if (p) stop(p, p->threads);
}

size_t fli_pool_threads(const fli_pool *p) { return p->threads; }

void fli_pool_run(fli_pool *p, size_t count, fli_pool_fn *fn, void *arg)
{
    p->count = count;
    p->fn = fn;
    p->arg = arg;
    atomic_store(&p->next, 0);
    if (p->threads == 1 || count < 2) {
        drain(p, 0);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->running = p->threads - 1;
    p->job++;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    drain(p, 0);
    pthread_mutex_lock(&p->lock);
    while (p->running) pthread_cond_wait(&p->finished, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* ==== hands ================================================================================================= */

/* Things in a row: the first comes out first. */
typedef struct {
    void **at;
    size_t first, n, room;
} row;

typedef struct {
    fli_async_pool *hands;
    size_t number;
    pthread_t thread;
} hand;

struct fli_async_pool {
    fl_ctx *ctx;
    fli_async_pool_fn *fn;
    void *arg;
    hand *all;
    size_t started, working;
    pthread_mutex_t lock;
    pthread_cond_t given, done; /* something to do, or the end; something done, or nobody at work */
    row todo, finished;
    int awake, quit;
    double idle;  /* seconds of all threads, up to `since` */
    double since; /* when that last changed */
};

/* Moves the things to the front and makes room for one more, in both rows: a thread that has done something cannot
 * fail. */
static fl_status room_for(fli_async_pool *h, size_t n)
{
    row *rows[] = {&h->todo, &h->finished};
    for (size_t i = 0; i < 2; i++) {
        row *r = rows[i];
        if (r->n) memmove(r->at, r->at + r->first, r->n * sizeof *r->at);
        r->first = 0;
        if (n <= r->room) continue;
        fl_status s = fli_grow(h->ctx, (void **)&r->at, r->n, 2 * n, sizeof *r->at);
        if (s) return s;
        r->room = 2 * n;
    }
    return FL_OK;
}

static void put(row *r, void *thing) { r->at[r->first + r->n++] = thing; }

static void *pop(row *r)
{
    r->n--;
    return r->at[r->first++];
}

/* Behind the lock, before anything changes that matters to it. */
static void count_idle(fli_async_pool *h)
{
    double now = fli_clock_now();
    if (h->awake) h->idle += (now - h->since) * (double)(h->started - h->working);
    h->since = now;
}

static void *hand_main(void *arg)
{
    const hand *own = arg;
    fli_async_pool *h = own->hands;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (!h->quit && !(h->awake && h->todo.n)) pthread_cond_wait(&h->given, &h->lock);
        if (h->quit) break;
        void *thing = pop(&h->todo);
        count_idle(h);
        h->working++;
        pthread_mutex_unlock(&h->lock);
        h->fn(h->arg, thing, own->number);
        pthread_mutex_lock(&h->lock);
        count_idle(h);
        h->working--;
        put(&h->finished, thing);
        pthread_cond_signal(&h->done);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

fl_status fli_async_pool_new(fl_ctx *ctx, size_t threads, fli_async_pool_fn *fn, void *arg, fli_async_pool **out)
{
    fli_async_pool *h = fli_alloc(ctx, 1, sizeof *h);
    if (!h) return FL_ENOMEM;
    *h = (fli_async_pool){.ctx = ctx, .fn = fn, .arg = arg, .all = fli_alloc(ctx, threads, sizeof *h->all)};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->given, NULL);
    pthread_cond_init(&h->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = 0;
    for (size_t i = 0; h->all && !rc && i < threads; i++) {
        h->all[i] = (hand){.hands = h, .number = i};
        rc = pthread_create(&h->all[i].thread, NULL, hand_main, &h->all[i]);
        pthread_mutex_lock(&h->lock);
        h->started += !rc;
        pthread_mutex_unlock(&h->lock);
    }
    fl_status s = !h->all ? FL_ENOMEM
                  : rc    ? fli_fail(ctx, FL_ESYSTEM, "a thread could not be started: %s", strerror(rc))
                          : FL_OK;
    if (s)
        fli_async_pool_free(h);
    else
        *out = h;
    return s;
}

void fli_async_pool_free(fli_async_pool *h)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    h->quit = 1;
    pthread_cond_broadcast(&h->given);
    pthread_mutex_unlock(&h->lock);
    for (size_t i = 0; i < h->started; i++) pthread_join(h->all[i].thread, NULL);
    pthread_cond_destroy(&h->done);
    pthread_cond_destroy(&h->given);
    pthread_mutex_destroy(&h->lock);
    fli_free(h->todo.at);
    fli_free(h->finished.at);
    fli_free(h->all);
    fli_free(h);
}

fl_status fli_async_pool_give(fli_async_pool *h, void *thing)
{
    pthread_mutex_lock(&h->lock);
    fl_status s = room_for(h, h->todo.n + h->working + h->finished.n + 1);
    if (!s) put(&h->todo, thing);
    pthread_cond_signal(&h->given);
    pthread_mutex_unlock(&h->lock);
    return s;
}

/* The time so many seconds from now. */
static struct timespec after(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double whole = floor(seconds);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((seconds - whole) * 1e9);
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}

size_t fli_async_pool_take(fli_async_pool *h, double seconds, void **things, size_t most)
{
    struct timespec until = after(seconds);
    size_t n = 0;
    pthread_mutex_lock(&h->lock);
    if (!h->awake) {
        count_idle(h);
        h->awake = 1;
        pthread_cond_broadcast(&h->given);
    }
    while (!h->finished.n && seconds > 0 && !pthread_cond_timedwait(&h->done, &h->lock, &until)) continue;
    while (n < most && h->finished.n) things[n++] = pop(&h->finished);
    pthread_mutex_unlock(&h->lock);
    return n;
}

void fli_async_pool_rest(fli_async_pool *h)
{
    pthread_mutex_lock(&h->lock);
    count_idle(h);
    h->awake = 0;
    while (h->working) pthread_cond_wait(&h->done, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

double fli_async_pool_idle(fli_async_pool *h)
{
    pthread_mutex_lock(&h->lock);
    count_idle(h);
    double mean = h->idle / (double)h->started;
    pthread_mutex_unlock(&h->lock);
    return mean;
}
