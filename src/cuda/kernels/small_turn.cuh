/* What the kernels of whole turns of small networks have in common: small.cu, small_one.cuh. */
#ifndef FLI_CUDA_SMALL_TURN_CUH
#define FLI_CUDA_SMALL_TURN_CUH

#include "cuda/kernels/small_plan.h"

namespace
{

enum { QUAD = SMALL_QUAD };
#define NOWHERE SMALL_NOWHERE

/* Of one step; `decay` is wd and rho. */
template <class T> struct step_rates {
    T lr, decay, times, momentum;
};

/* What a step adds to the gradient, but for `times`. */
template <class T> static __device__ __forceinline__ T term_of(const fli_cuda_lane &lane, uint32_t at)
{
    return lane.term ? __ldcg((const T *)lane.term + at) : (T)0;
}

static __device__ __forceinline__ float exp_of(float a) { return expf(a); }
static __device__ __forceinline__ double exp_of(double a) { return exp(a); }

/* How many rows the next mini-batch has. at: where in the epoch the one before it has ended. */
static __device__ __forceinline__ uint32_t next_rows(const fli_cuda_lane &lane, uint32_t *at)
{
    uint32_t from = *at < lane.n ? *at : 0, n = min(lane.size, lane.n - from);
    *at = from + n;
    return n;
}

/* How the features of a set become inputs, where it is the same for all of them. */
template <class T> struct scaling {
    int alike, scaled;
    T scale, shift;
};

template <class T> static __device__ __forceinline__ scaling<T> scaling_of(const fli_cuda_data &data)
{
    uint32_t run = fli_data_run(data);
    scaling<T> by = {!data.scale || (data.segments == 1 && run > 1), data.scale != nullptr, 1, 0};
    if (by.alike && by.scaled) by.scale = (T)data.scale[0], by.shift = (T)data.shift[0];
    return by;
}

} // namespace

#endif
