/* Workers of the pool sleep on a condition variable between jobs; within a job the next item comes from an atomic
 * counter, so the only lock is taken once per worker and job. The asynchronous pool has two queues, to do and done,
 * behind one lock. */
#include "base/pool.h"

#include "base/os.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ==== the pool ============================================================================================== */

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

/* ==== the asynchronous pool ================================================================================= */

/* First in, first out. */
typedef struct {
    void **at;
    size_t first, n, room;
} queue;

typedef struct {
    fli_async_pool *pool;
    size_t number;
    pthread_t thread;
} async_worker;

struct fli_async_pool {
    fl_ctx *ctx;
    fli_async_pool_fn *fn;
    void *arg;
    async_worker *workers;
    size_t started, working;
    pthread_mutex_t lock;
    pthread_cond_t given, done; /* an item to do, or the end; an item done */
    queue todo, finished;
    int awake, quit;
    double idle;  /* seconds of all threads, up to `since` */
    double since; /* when that last changed */
};

/* Moves the items to the front and makes room for n, in both queues: a thread that has done an item cannot fail. */
static fl_status room_for(fli_async_pool *p, size_t n)
{
    queue *queues[] = {&p->todo, &p->finished};
    for (size_t i = 0; i < 2; i++) {
        queue *q = queues[i];
        if (q->n) memmove(q->at, q->at + q->first, q->n * sizeof *q->at);
        q->first = 0;
        if (n <= q->room) continue;
        fl_status s = fli_grow(p->ctx, (void **)&q->at, q->n, 2 * n, sizeof *q->at);
        if (s) return s;
        q->room = 2 * n;
    }
    return FL_OK;
}

static void put(queue *q, void *item) { q->at[q->first + q->n++] = item; }

static void *pop(queue *q)
{
    q->n--;
    return q->at[q->first++];
}

/* Caller holds the lock. Called before `awake` or `working` changes. */
static void count_idle(fli_async_pool *p)
{
    double now = fli_clock_now();
    if (p->awake) p->idle += (now - p->since) * (double)(p->started - p->working);
    p->since = now;
}

static void *async_worker_main(void *arg)
{
    const async_worker *own = arg;
    fli_async_pool *p = own->pool;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->quit && !(p->awake && p->todo.n)) pthread_cond_wait(&p->given, &p->lock);
        if (p->quit) break;
        void *item = pop(&p->todo);
        count_idle(p);
        p->working++;
        pthread_mutex_unlock(&p->lock);
        p->fn(p->arg, item, own->number);
        pthread_mutex_lock(&p->lock);
        count_idle(p);
        p->working--;
        put(&p->finished, item);
        pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

fl_status fli_async_pool_new(fl_ctx *ctx, size_t threads, fli_async_pool_fn *fn, void *arg, fli_async_pool **out)
{
    fli_async_pool *p = fli_alloc(ctx, 1, sizeof *p);
    if (!p) return FL_ENOMEM;
    *p = (fli_async_pool){.ctx = ctx, .fn = fn, .arg = arg, .workers = fli_alloc(ctx, threads, sizeof *p->workers)};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->given, NULL);
    pthread_cond_init(&p->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = 0;
    for (size_t i = 0; p->workers && !rc && i < threads; i++) {
        p->workers[i] = (async_worker){.pool = p, .number = i};
        rc = pthread_create(&p->workers[i].thread, NULL, async_worker_main, &p->workers[i]);
        pthread_mutex_lock(&p->lock);
        p->started += !rc;
        pthread_mutex_unlock(&p->lock);
    }
    fl_status s = !p->workers ? FL_ENOMEM
                  : rc        ? fli_fail(ctx, FL_ESYSTEM, "a thread could not be started: %s", strerror(rc))
                              : FL_OK;
    if (s)
        fli_async_pool_free(p);
    else
        *out = p;
    return s;
}

void fli_async_pool_free(fli_async_pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->quit = 1;
    pthread_cond_broadcast(&p->given);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->given);
    pthread_mutex_destroy(&p->lock);
    fli_free(p->todo.at);
    fli_free(p->finished.at);
    fli_free(p->workers);
    fli_free(p);
}

fl_status fli_async_pool_give(fli_async_pool *p, void *item)
{
    pthread_mutex_lock(&p->lock);
    fl_status s = room_for(p, p->todo.n + p->working + p->finished.n + 1);
    if (!s) put(&p->todo, item);
    pthread_cond_signal(&p->given);
    pthread_mutex_unlock(&p->lock);
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

size_t fli_async_pool_take(fli_async_pool *p, double seconds, void **items, size_t most)
{
    struct timespec until = after(seconds);
    size_t n = 0;
    pthread_mutex_lock(&p->lock);
    if (!p->awake) {
        count_idle(p);
        p->awake = 1;
        pthread_cond_broadcast(&p->given);
    }
    while (!p->finished.n && seconds > 0 && !pthread_cond_timedwait(&p->done, &p->lock, &until)) continue;
    while (n < most && p->finished.n) items[n++] = pop(&p->finished);
    pthread_mutex_unlock(&p->lock);
    return n;
}

void fli_async_pool_rest(fli_async_pool *p)
{
    pthread_mutex_lock(&p->lock);
    count_idle(p);
    p->awake = 0;
    while (p->working) pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

double fli_async_pool_idle(fli_async_pool *p)
{
    pthread_mutex_lock(&p->lock);
    count_idle(p);
    double mean = p->idle / (double)p->started;
    pthread_mutex_unlock(&p->lock);
    return mean;
}
