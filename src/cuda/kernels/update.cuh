/* The step of SGD on a few entries of a lane's parameters, for kernels that have just computed their gradient:
 *     d = grad + (wd + rho) z + times term;  m = momentum m + d;  z = z - lr m */
#ifndef FLI_CUDA_UPDATE_CUH
#define FLI_CUDA_UPDATE_CUH

#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"

/* V entries from p on; four floats at once: p must be aligned to 16 bytes. */
template <int V, typename T> static __device__ __forceinline__ void fli_load(const T *p, T *v)
{
    for (int j = 0; j < V; j++) v[j] = p[j];
}
template <> __device__ __forceinline__ void fli_load<4, float>(const float *p, float *v)
{
    const float4 q = *(const float4 *)p;
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
}
template <int V, typename T> static __device__ __forceinline__ void fli_store(T *p, const T *v)
{
    for (int j = 0; j < V; j++) p[j] = v[j];
}
template <> __device__ __forceinline__ void fli_store<4, float>(float *p, const float *v)
{
    *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
}

template <typename T> struct fli_update {
    T *z;
    const T *term;
    T *buffer, *gradient;
    T lr, decay, times, momentum;
    int add;

    __device__ __forceinline__ void init(const fli_cuda_lane *l, uint32_t step, int added)
    {
        z = (T *)l->z, term = (const T *)l->term;
        buffer = (T *)l->buffer, gradient = (T *)l->gradient;
        lr = (T)(l->rates ? l->rates[2 * (size_t)step] : l->lr);
        decay = (T)((l->rates ? l->rates[2 * (size_t)step + 1] : l->wd) + l->rho);
        times = (T)l->times, momentum = (T)l->momentum, add = added;
    }

    /* The step of Q groups of V entries, from at[q] on, with gradient g; `now` receives the new values. With
     * lane.gradient writes the gradient instead. Groups with there[q] 0 are skipped. All groups are read before any is
     * written, so that a thread waits once. */
    template <int Q, int V>
    __device__ __forceinline__ void groups(const size_t *at, const int *there, T (*g)[V], T (*now)[V]) const
    {
        T v[Q][V] = {};
        if (gradient) {
            if (add) {
                read<Q, V>(gradient, at, there, v);
                each<Q, V>([&](int q, int j) { g[q][j] += v[q][j]; });
            }
            return write<Q, V>(gradient, at, there, g);
        }
        if (term) read<Q, V>(term, at, there, v);
        step<Q, V>(at, there, v, g, now);
    }
    /* The same for a step whose entries of the term, if any, are loaded already. */
    template <int Q, int V>
    __device__ __forceinline__ void step(const size_t *at, const int *there, const T (*terms)[V], T (*g)[V],
                                         T (*now)[V]) const
    {
        T v[Q][V];
        each<Q, V>([&](int q, int j) { g[q][j] += decay * now[q][j]; });
        if (term) each<Q, V>([&](int q, int j) { g[q][j] += times * terms[q][j]; });
        if (buffer) {
            read<Q, V>(buffer, at, there, v);
            each<Q, V>([&](int q, int j) { g[q][j] += momentum * v[q][j]; });
            write<Q, V>(buffer, at, there, g);
        }
        each<Q, V>([&](int q, int j) { now[q][j] -= lr * g[q][j]; });
        write<Q, V>(z, at, there, now);
    }
    /* V entries from `at` on. */
    template <int V> __device__ __forceinline__ void apply(size_t at, const T *g, const T *now) const
    {
        const int there = 1;
        T grad[1][V], was[1][V];
        for (int j = 0; j < V; j++) grad[0][j] = g[j], was[0][j] = now[j];
        groups<1, V>(&at, &there, grad, was);
    }

    template <int Q, int V, class F> static __device__ __forceinline__ void each(F f)
    {
#pragma unroll
        for (int i = 0; i < Q * V; i++) f(i / V, i % V);
    }
    template <int Q, int V>
    static __device__ __forceinline__ void read(const T *from, const size_t *at, const int *there, T (*v)[V])
    {
#pragma unroll
        for (int q = 0; q < Q; q++) {
            for (int j = 0; j < V; j++) v[q][j] = 0;
            if (there[q]) fli_load<V>(from + at[q], v[q]);
        }
    }
    template <int Q, int V>
    static __device__ __forceinline__ void write(T *to, const size_t *at, const int *there, const T (*v)[V])
    {
#pragma unroll
        for (int q = 0; q < Q; q++)
            if (there[q]) fli_store<V>(to + at[q], v[q]);
    }
};

#endif
