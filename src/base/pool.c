/* Workers of the pool sleep on a condition variable between jobs. Within a job the next item comes from an atomic
 * counter, so a worker takes the only lock once per job. */
#include "base/pool.h"

#include "base/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

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
