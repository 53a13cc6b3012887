/* The step of SGD on a few entries of a lane's parameters, for kernels that have just computed their gradient. It is
 * what fli_ops.sgd does:
 *     d = grad + wd z + shift + rho (z - anchor);  m = momentum m + d;  z = z - lr m */
#ifndef FLI_CUDA_UPDATE_CUH
#define FLI_CUDA_UPDATE_CUH

#include "cuda/kernel.cuh"
#include "cuda/kernels.h"

/* V entries from p on; four floats at once: p must be on a line of 16 bytes. */
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
    const T *shift, *anchor;
    T *buffer, *gradient;
    T lr, wd, rho, momentum;
    int add;

    __device__ __forceinline__ void init(const fli_cuda_lane *l, uint32_t step, int added)
    {
        z = (T *)l->z, shift = (const T *)l->shift, anchor = (const T *)l->anchor;
        buffer = (T *)l->buffer, gradient = (T *)l->gradient;
        lr = (T)(l->rates ? l->rates[2 * (size_t)step] : l->lr);
        wd = (T)(l->rates ? l->rates[2 * (size_t)step + 1] : l->wd);
        rho = (T)l->rho, momentum = (T)l->momentum, add = added;
    }

    /* The V entries from `at` on have the gradient g and were `now` before; or the gradient itself is wanted. */
    template <int V> __device__ __forceinline__ void apply(size_t at, const T *g, const T *now) const
    {
        T d[V], v[V];
        if (gradient) {
            if (add) fli_load<V>(gradient + at, d);
            for (int j = 0; j < V; j++) d[j] = add ? d[j] + g[j] : g[j];
            fli_store<V>(gradient + at, d);
            return;
        }
        for (int j = 0; j < V; j++) d[j] = g[j] + wd * now[j];
        if (shift) {
            fli_load<V>(shift + at, v);
            for (int j = 0; j < V; j++) d[j] += v[j];
        }
        if (anchor) {
            fli_load<V>(anchor + at, v);
            for (int j = 0; j < V; j++) d[j] += rho * (now[j] - v[j]);
        }
        if (buffer) {
            fli_load<V>(buffer + at, v);
            for (int j = 0; j < V; j++) d[j] += momentum * v[j];
            fli_store<V>(buffer + at, d);
        }
        for (int j = 0; j < V; j++) v[j] = now[j] - lr * d[j];
        fli_store<V>(z + at, v);
    }
};

#endif
