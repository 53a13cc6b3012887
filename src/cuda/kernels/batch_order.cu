/* Mini-batches of whole turns: a block per lane. A shuffle (fli_rng_shuffle) swaps every place i, from the last to the
 * second, with with[i], a random place <= i. All threads draw these numbers at once, because a stream's number is a
 * function of its position. The swaps need no order either: place p has its original content when i is swapped, unless
 * a place was swapped with p before; the last such place j left its own content of that time in p. So each thread finds
 * the final content of a place on its own, in a few jumps. */
#include "base/philox.h"
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"

namespace
{

enum {
    THREADS = 512,
    ROOM = 2048 /* samples shuffled in shared memory; for more, the lane's `work` is used */
};
#define NOBODY UINT32_MAX

/* Arrays with a number per sample. */
struct shuffler {
    uint32_t *with;        /* [i]: the place swapped with place i */
    uint32_t *head, *next; /* head[p]: a place swapped with p; next[i]: the next place with the same partner */
    uint32_t *shuffled;
};

/* Shared by the block. */
struct stream {
    unsigned long long taken; /* numbers of 32 bits */
    int rejected;
};

__device__ uint32_t one_of(const uint32_t v[4], uint32_t i) { return i < 2 ? (i ? v[1] : v[0]) : i == 2 ? v[2] : v[3]; }

/* The group of four numbers of the stream that contains the number after `at` others. */
__device__ void four_at(const fli_cuda_drawing *d, unsigned long long at, uint32_t out[4])
{
    const uint32_t ctr[4] = {d->ctr[0] + (uint32_t)((at - d->left) / 4), d->ctr[1], d->ctr[2], d->ctr[3]};
    fli_philox(d->key, ctr, out);
}

/* fli_rng_u32, after `at` others. */
__device__ uint32_t number_at(const fli_cuda_drawing *d, unsigned long long at)
{
    uint32_t out[4];
    if (at < d->left) return d->out[4 - d->left + at];
    four_at(d, at, out);
    return one_of(out, (uint32_t)((at - d->left) % 4));
}

/* fli_rng_u64 */
__device__ uint64_t wide_number_at(const fli_cuda_drawing *d, unsigned long long at)
{
    uint32_t out[4], place = (uint32_t)((at - d->left) % 4);
    if (at < d->left || place == 3) return number_at(d, at) | (uint64_t)number_at(d, at + 1) << 32;
    four_at(d, at, out);
    return one_of(out, place) | (uint64_t)one_of(out, place + 1) << 32;
}

/* The draw by one thread, for streams with a rejected number. */
__device__ void draw_one_by_one(const shuffler &m, stream *s, const fli_cuda_drawing *d, uint32_t n)
{
    for (uint32_t i = n - 1; i > 0; i--) {
        uint64_t v;
        do {
            v = wide_number_at(d, s->taken);
            s->taken += 2;
        } while (!fli_philox_fair(v, i + 1));
        m.with[i] = (uint32_t)(v % (i + 1));
    }
}

/* Sets `with`, and empties the lists of swaps. */
__device__ void draw(const shuffler &m, stream *s, const fli_cuda_drawing *d, uint32_t n)
{
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        uint64_t v = wide_number_at(d, s->taken + 2 * (n - 1 - i));
        if (i && !fli_philox_fair(v, i + 1)) s->rejected = 1;
        m.with[i] = (uint32_t)(v % (i + 1));
        m.head[i] = NOBODY;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (s->rejected)
            draw_one_by_one(m, s, d, n);
        else
            s->taken += 2 * (n - 1);
        s->rejected = 0;
    }
    __syncthreads();
}

/* The last place swapped with p before place i, which is the first one after i. NOBODY: p still has its original
 * content. */
__device__ uint32_t last_before(const shuffler &m, uint32_t p, uint32_t i)
{
    uint32_t last = NOBODY;
    for (uint32_t j = m.head[p]; j != NOBODY; j = m.next[j])
        if (j > i && j < last) last = j;
    return last;
}

__device__ void shuffle(const shuffler &m, stream *s, const fli_cuda_drawing *d, uint32_t *v, uint32_t n)
{
    draw(m, s, d, n);
    for (uint32_t i = threadIdx.x; i < n; i += THREADS)
        if (i) m.next[i] = atomicExch(&m.head[m.with[i]], i); /* in any order */
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        uint32_t place = m.with[i];
        for (uint32_t j = last_before(m, place, i); j != NOBODY; j = last_before(m, place, place)) place = j;
        m.shuffled[i] = v[place];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) v[i] = m.shuffled[i];
    __syncthreads();
}

/* A pass: the memory of its shuffle, and its mini-batches. */
struct pass {
    uint32_t *v, *out;
    uint32_t n, size, steps; /* steps of an epoch; 0: all samples fit into one batch and keep their order */
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

__device__ void pass_epoch(const shuffler &m, stream *s, const fli_cuda_drawing *d, pass *p)
{
    shuffle(m, s, d, p->v, p->n);
    size_t room = (size_t)(d->steps - p->next) * p->size;
    uint32_t *to = p->out + (size_t)p->next * p->size;
    for (uint32_t i = threadIdx.x; i < p->n && i < room; i += THREADS) to[i] = p->v[i];
    p->next = d->steps - p->next > p->steps ? p->next + p->steps : UINT32_MAX;
}

__global__ void __launch_bounds__(THREADS) draw_lanes(const fli_cuda_drawing *lanes)
{
    __shared__ uint32_t near[FLI_CUDA_DRAW_WORK * ROOM];
    __shared__ stream s;
    const fli_cuda_drawing *d = lanes + blockIdx.x;
    if (threadIdx.x == 0) {
        s.taken = 0;
        s.rejected = 0;
    }
    const size_t all = (size_t)d->n + d->rest_n;
    uint32_t *v = all <= ROOM ? near : d->work;
    const shuffler m = {v + all, v + 2 * all, v + 3 * all, v + 4 * all};
    pass plain = pass_begin(d->samples, d->n, d->size, v, d->order);
    pass rest = pass_begin(NULL, d->rest_n, d->rest_size, v + d->n, d->rest);
    __syncthreads();
    for (;;) {
        uint32_t step = plain.next < rest.next ? plain.next : rest.next;
        if (step >= d->steps) break;
        if (plain.next == step) pass_epoch(m, &s, d, &plain);
        if (rest.next == step) pass_epoch(m, &s, d, &rest);
    }
}

} // namespace

extern "C" void fli_cuda_draw(fli_cuda_stream s, const fli_cuda_drawing *lanes, uint32_t count)
{
    if (count) FLI_LAUNCH(s, draw_lanes, count, THREADS, 0, lanes);
}
