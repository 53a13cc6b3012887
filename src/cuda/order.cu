/* Mini-batches of whole turns: a block per lane. A shuffle (fli_rng_shuffle) swaps every place, from the last to the
 * second, with a random one before it or with itself. All threads draw whom a place is swapped with: the numbers of a
 * stream are a function of where they stand in it. Then a warp swaps, as many places at a time as have nothing to do
 * with each other. */
#include "base/philox.h"
#include "cuda/kernel.cuh"
#include "cuda/kernels.h"

namespace
{

enum {
    THREADS = 512,
    WARP = 32,
    CHUNK = 1024, /* swaps that are drawn at a time */
    ROOM = 8192,  /* samples that are shuffled in shared memory; more lie in the lane's own work */
    MARKS = 4096, /* a power of two */
    NOBODY = 255
};

struct shuffler {
    uint32_t order[ROOM];
    uint32_t with[CHUNK];
    uint8_t mark[MARKS];      /* which thread of the warp is about to swap with a place, by the place's last bits */
    unsigned long long taken; /* numbers of 32 bits, from the stream */
    int rejected;
};

__device__ uint32_t one_of(const uint32_t v[4], uint32_t i) { return i < 2 ? (i ? v[1] : v[0]) : i == 2 ? v[2] : v[3]; }

/* fli_rng_u32, after `at` others. */
__device__ uint32_t number_at(const fli_cuda_drawing *d, unsigned long long at)
{
    if (at < d->left) return d->out[4 - d->left + at];
    at -= d->left;
    const uint32_t ctr[4] = {d->ctr[0] + (uint32_t)(at / 4), d->ctr[1], d->ctr[2], d->ctr[3]};
    uint32_t out[4];
    fli_philox(d->key, ctr, out);
    return one_of(out, (uint32_t)(at % 4));
}

__device__ uint64_t wide_number_at(const fli_cuda_drawing *d, unsigned long long at)
{
    uint64_t low = number_at(d, at);
    return low | (uint64_t)number_at(d, at + 1) << 32;
}

/* By one thread, for streams in which a number is rejected. */
__device__ void draw_one_by_one(shuffler *m, const fli_cuda_drawing *d, uint32_t top, uint32_t count)
{
    for (uint32_t t = 0; t < count; t++) {
        uint64_t v;
        do {
            v = wide_number_at(d, m->taken);
            m->taken += 2;
        } while (!fli_philox_fair(v, top - t));
        m->with[t] = (uint32_t)(v % (top - t));
    }
}

/* Whom the places top - 1, top - 2, ... are swapped with. */
__device__ void draw(shuffler *m, const fli_cuda_drawing *d, uint32_t top, uint32_t count)
{
    for (uint32_t t = threadIdx.x; t < count; t += THREADS) {
        uint64_t v = wide_number_at(d, m->taken + 2 * t);
        if (!fli_philox_fair(v, top - t)) m->rejected = 1;
        m->with[t] = (uint32_t)(v % (top - t));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (m->rejected)
            draw_one_by_one(m, d, top, count);
        else
            m->taken += 2 * count;
        m->rejected = 0;
    }
    __syncthreads();
}

/* How many of the warp's swaps, from thread 0's on, can be done at once: none of them touches what one before it does.
 * Places of which marks do not keep apart count as one, which is safe. */
__device__ uint32_t at_once(shuffler *m, int there, uint32_t place, uint32_t with)
{
    const uint32_t lane = threadIdx.x;
    if (there) m->mark[with % MARKS] = (uint8_t)lane;
    __syncwarp();
    int clash = !there || m->mark[with % MARKS] != lane || m->mark[place % MARKS] < lane;
    unsigned clashes = __ballot_sync(0xffffffffu, clash);
    if (there) m->mark[with % MARKS] = NOBODY;
    if (clashes & 1) return 1; /* thread 0's own mark was taken over */
    return clashes ? (uint32_t)__ffs((int)clashes) - 1 : (uint32_t)WARP;
}

/* Swaps them, by the first warp. */
__device__ void swap(shuffler *m, uint32_t *v, uint32_t top, uint32_t count)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t at = done + threadIdx.x;
        int there = at < count;
        uint32_t place = there ? top - 1 - at : 0, with = there ? m->with[at] : 0;
        uint32_t some = at_once(m, there, place, with);
        if (threadIdx.x < some) {
            uint32_t a = v[place], b = v[with];
            v[place] = b;
            v[with] = a;
        }
        __syncwarp();
        done += some;
    }
}

__device__ void shuffle(shuffler *m, const fli_cuda_drawing *d, uint32_t *v, uint32_t n)
{
    for (uint32_t top = n; top > 1;) {
        uint32_t count = top - 1 < CHUNK ? top - 1 : (uint32_t)CHUNK;
        draw(m, d, top, count);
        if (threadIdx.x < WARP) swap(m, v, top, count);
        __syncthreads();
        top -= count;
    }
}

/* A pass: where its samples are shuffled, and where the mini-batches go. */
struct pass {
    uint32_t *v, *out;
    uint32_t n, size, steps; /* steps of an epoch; 0: all fit into one batch, and keep their order */
    uint32_t next;           /* the step in which the next epoch begins */
};

/* samples NULL: 0, 1, ... */
__device__ pass pass_begin(const uint32_t *samples, uint32_t n, uint32_t size, uint32_t *v, uint32_t *out)
{
    pass p = {v, out, n, size, size < n ? (n + size - 1) / size : 0, size < n ? 0 : UINT32_MAX};
    uint32_t *to = p.steps ? v : out;
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) to[i] = samples ? samples[i] : i;
    return p;
}

__device__ void pass_epoch(shuffler *m, const fli_cuda_drawing *d, pass *p)
{
    shuffle(m, d, p->v, p->n);
    size_t room = (size_t)(d->steps - p->next) * p->size;
    uint32_t *to = p->out + (size_t)p->next * p->size;
    for (uint32_t i = threadIdx.x; i < p->n && i < room; i += THREADS) to[i] = p->v[i];
    p->next = d->steps - p->next > p->steps ? p->next + p->steps : UINT32_MAX;
}

__global__ void __launch_bounds__(THREADS) draw_lanes(const fli_cuda_drawing *lanes)
{
    __shared__ shuffler m;
    const fli_cuda_drawing *d = lanes + blockIdx.x;
    for (uint32_t i = threadIdx.x; i < MARKS; i += THREADS) m.mark[i] = NOBODY;
    if (threadIdx.x == 0) {
        m.taken = 0;
        m.rejected = 0;
    }
    uint32_t *v = (size_t)d->n + d->rest_n <= ROOM ? m.order : d->work;
    pass plain = pass_begin(d->samples, d->n, d->size, v, d->order);
    pass rest = pass_begin(NULL, d->rest_n, d->rest_size, v + d->n, d->rest);
    __syncthreads();
    for (;;) {
        uint32_t step = plain.next < rest.next ? plain.next : rest.next;
        if (step >= d->steps) break;
        if (plain.next == step) pass_epoch(&m, d, &plain);
        if (rest.next == step) pass_epoch(&m, d, &rest);
    }
}

} // namespace

extern "C" void fli_cuda_draw(fli_stream s, const fli_cuda_drawing *lanes, uint32_t count)
{
    if (count) FLI_LAUNCH(s, draw_lanes, count, THREADS, 0, lanes);
}
