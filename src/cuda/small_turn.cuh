/* What the kernels of whole turns of small networks have in common: small.cu, small_one.cuh. */
#ifndef FLI_CUDA_SMALL_TURN_CUH
#define FLI_CUDA_SMALL_TURN_CUH

#include "cuda/small_plan.h"

namespace
{

enum { QUAD = SMALL_QUAD };
#define NOWHERE SMALL_NOWHERE

/* Of one step; `decay` is wd and rho. */
template <class T> struct step_rates {
    T lr, decay, momentum;
};

/* What a step adds to the gradient. */
template <class T> static __device__ __forceinline__ T term_of(const fli_cuda_lane &lane, uint32_t at)
{
    return lane.term ? (T)lane.times * __ldcg((const T *)lane.term + at) : (T)0;
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

/* Four stored values, of which `count` are there. */
template <class STORED>
static __device__ __forceinline__ void load_stored(const STORED *from, uint32_t count, STORED v[QUAD])
{
    for (uint32_t j = 0; j < QUAD; j++) v[j] = j < count ? from[j] : (STORED)0;
}
static __device__ __forceinline__ uint32_t load_bytes(const uint8_t *from, uint32_t count)
{
    uint32_t word = 0;
    if (count >= QUAD && (size_t)from % 4 == 0) return *(const uint32_t *)from;
    for (uint32_t j = 0; j < QUAD && j < count; j++) word |= (uint32_t)from[j] << (8 * j);
    return word;
}
static __device__ __forceinline__ void load_stored(const uint8_t *from, uint32_t count, uint8_t v[QUAD])
{
    const uint32_t word = load_bytes(from, count);
    for (uint32_t j = 0; j < QUAD; j++) v[j] = (uint8_t)(word >> (8 * j));
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
