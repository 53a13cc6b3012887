#include "server/intake.h"

#include <stdatomic.h>

/* A slice moves from one processor's cache to another's with every thread that absorbs into it: worth it for several
 * uploads only. */
enum { WORTH_IT = 8 };

typedef struct {
    atomic_flag taken; /* by a thread that absorbs into it */
    atomic_size_t absorbed;
} progress;

struct fli_intake {
    fli_coordinator *server;
    fli_exchange *const *list;
    size_t n;
    size_t slices, from, to; /* all of the server's, and those that uploads go to here */
    atomic_uchar *filled;
    atomic_size_t ready; /* exchanges 0 .. ready-1 may be absorbed */
    progress *progress;  /* of every slice */
};

fl_status fli_intake_new(fl_ctx *ctx, fli_coordinator *server, size_t most, fli_intake **out)
{
    fli_intake *in = fli_alloc(ctx, 1, sizeof *in);
    if (!in) return FL_ENOMEM;
    in->server = server;
    in->slices = fli_coordinator_slices(server);
    fli_coordinator_own_slices(server, &in->from, &in->to);
    in->filled = fli_alloc(ctx, most, sizeof *in->filled);
    in->progress = fli_alloc(ctx, in->slices, sizeof *in->progress);
    if (!in->filled || !in->progress) {
        fli_intake_free(in);
        return FL_ENOMEM;
    }
    *out = in;
    return FL_OK;
}

void fli_intake_free(fli_intake *in)
{
    if (!in) return;
    fli_free((void *)in->filled);
    fli_free(in->progress);
    fli_free(in);
}

/* The first `ready` of them are filled. */
static void begin(fli_intake *in, fli_exchange *const *list, size_t n, size_t ready)
{
    in->list = list;
    in->n = n;
    atomic_init(&in->ready, ready);
    for (size_t i = 0; i < in->slices; i++) {
        atomic_flag_clear(&in->progress[i].taken);
        atomic_init(&in->progress[i].absorbed, 0);
    }
}

void fli_intake_open(fli_intake *in, fli_exchange *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) atomic_init(&in->filled[i], 0);
    begin(in, list, n, 0);
}

/* Absorbs into a slice, unless another thread does or fewer than `least` uploads wait. */
static void absorb(fli_intake *in, size_t slice, size_t least)
{
    progress *p = &in->progress[slice];
    size_t at = atomic_load(&p->absorbed), ready = atomic_load(&in->ready);
    if (ready < at + least || atomic_flag_test_and_set(&p->taken)) return;
    for (at = atomic_load(&p->absorbed); at < atomic_load(&in->ready); at++)
        fli_coordinator_absorb_slice(in->server, slice, in->list[at], 0);
    atomic_store(&p->absorbed, at);
    atomic_flag_clear(&p->taken);
}

void fli_intake_filled(void *intake, size_t i)
{
    fli_intake *in = intake;
    if (in->list[i]->status) return;
    atomic_store(&in->filled[i], 1);
    size_t ready = atomic_load(&in->ready);
    while (ready < in->n && atomic_load(&in->filled[ready])) /* a failed exchange goes forward nowhere */
        if (atomic_compare_exchange_weak(&in->ready, &ready, ready + 1)) ready++;
    size_t count = in->to - in->from;
    for (size_t s = 0; s < count; s++) absorb(in, in->from + (s + i) % count, WORTH_IT);
}

/* fli_pool_fn */
static void finish(void *intake, size_t slice, size_t worker)
{
    fli_intake *in = intake;
    (void)worker;
    absorb(in, in->from + slice, 1);
}

void fli_intake_close(fli_intake *in, fli_pool *pool) { fli_pool_run(pool, in->to - in->from, finish, in); }

void fli_intake_all(fli_intake *in, fli_exchange *const *list, size_t n, fli_pool *pool)
{
    begin(in, list, n, n);
    fli_intake_close(in, pool);
}
