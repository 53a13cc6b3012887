/* Losses: rows of logits become rows of errors, sums or probabilities. A warp has a row; a thread has every 32nd class,
 * so no thread reads what another writes. Labelled rows are computed in the type of the memory, as fli_ops.softmax_xent
 * does; rows with a y and mixtures in double precision, as model/semi.c does, where the formulas are explained. */
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"

#include <math.h>

namespace
{

enum { WARP = 32, ERROR_WARPS = 4, LOSS_WARPS = 16, TINY_LOG = -700 };

__device__ __forceinline__ float real_exp(float v) { return expf(v); }
__device__ __forceinline__ double real_exp(double v) { return exp(v); }

template <typename V> __device__ __forceinline__ V warp_sum(V v)
{
    for (int d = WARP / 2; d; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

/* The largest value of a row and its place: the first one on ties. */
template <typename V> struct largest {
    V value;
    uint32_t at;
};
template <typename V> __device__ __forceinline__ largest<V> warp_largest(largest<V> a)
{
    for (int d = WARP / 2; d; d /= 2) {
        V value = __shfl_xor_sync(0xffffffffu, a.value, d);
        uint32_t at = __shfl_xor_sync(0xffffffffu, a.at, d);
        if (value > a.value || (value == a.value && at < a.at)) a = {value, at};
    }
    return a;
}

/* ---- one row ------------------------------------------------------------------------------------------- */

template <typename T> struct one_row {
    T *z;          /* logits, later errors */
    const T *h;    /* probabilities of the other model of a pair; NULL: none */
    const T *y;    /* NULL: the row is labelled */
    int32_t label; /* of a labelled one */
    double share;  /* one over the number of rows of its kind in the mini-batch */
    double mix;
    uint32_t classes;
    uint32_t thread;
};

/* Every class that this thread has. */
#define FOR_CLASSES(k, r) for (uint32_t k = (r).thread; k < (r).classes; k += WARP)

/* Row `at` of the piece; the row must exist. */
template <typename T>
__device__ one_row<T> row_of(const fli_cuda_loss &loss, const fli_cuda_batch &b, const fli_cuda_lane &lane, uint32_t at,
                             T *z, const T *h)
{
    uint32_t plain = fli_cuda_drawn(lane.n, lane.size, b.step);
    uint32_t rest = fli_cuda_drawn(lane.rest_n, lane.rest_size, b.step);
    uint32_t i = b.first + at;
    one_row<T> r = {z, h, nullptr, 0, 0, lane.mix, loss.classes, threadIdx.x % WARP};
    if (i < plain) {
        r.label = loss.label[lane.order[(size_t)b.step * lane.stride + i]];
        r.share = 1 / (double)plain;
    } else {
        uint32_t y = lane.rest[(size_t)b.step * lane.rest_stride + (i - plain)];
        r.y = (const T *)lane.y + (size_t)y * loss.classes;
        r.share = 1 / (double)rest;
    }
    return r;
}

template <typename T> __device__ largest<T> top_of(const one_row<T> &r)
{
    largest<T> top = {(T)-INFINITY, 0xffffffffu};
    FOR_CLASSES(k, r)
    if (k == r.thread || r.z[k] > top.value) top = {r.z[k], k};
    return warp_largest(top);
}

/* log sum exp, in double. */
template <typename T> __device__ double lse_of(const one_row<T> &r)
{
    double top = (double)top_of(r).value, sum = 0;
    FOR_CLASSES(k, r) sum += exp((double)r.z[k] - top);
    return top + log(warp_sum(sum));
}

/* ---- one model ----------------------------------------------------------------------------------------- */

/* Probabilities in the type of the memory. */
template <typename T> __device__ void probabilities(const one_row<T> &r, T *out)
{
    T top = top_of(r).value, sum = 0;
    FOR_CLASSES(k, r) sum += out[k] = real_exp(r.z[k] - top);
    T inverse = 1 / warp_sum(sum);
    FOR_CLASSES(k, r) out[k] *= inverse;
}

template <typename T> __device__ void labelled_error(const one_row<T> &r)
{
    T factor = (T)r.share;
    probabilities(r, r.z);
    FOR_CLASSES(k, r) r.z[k] = (r.z[k] - (T)(k == (uint32_t)r.label)) * factor;
}

/* The terms of a row with a y. */
struct unlabelled {
    double entropy, cross, mass, label_entropy;
};

/* of log p, given by its class */
template <typename T, typename LOG> __device__ unlabelled unlabelled_terms(const one_row<T> &r, LOG log_of)
{
    unlabelled u = {0, 0, 0, 0};
    FOR_CLASSES(k, r)
    {
        double log_p = log_of(k), nu = (double)r.y[k];
        u.entropy += exp(log_p) * log_p;
        if (nu > 0) u.cross -= nu * log_p;
        if (nu > 0) u.label_entropy += nu * log(nu);
        u.mass += nu;
    }
    return {warp_sum(u.entropy), warp_sum(u.cross), warp_sum(u.mass), warp_sum(u.label_entropy)};
}

__device__ double unlabelled_value(const fli_cuda_loss &loss, const unlabelled &u)
{
    double log_classes = log((double)loss.classes);
    return loss.alpha_p * u.cross + loss.alpha_r * (u.entropy + log_classes + u.label_entropy + u.mass * log_classes);
}

template <typename T> __device__ void unlabelled_error(const fli_cuda_loss &loss, const one_row<T> &r)
{
    double lse = lse_of(r);
    unlabelled u = unlabelled_terms(r, [&](uint32_t k) { return (double)r.z[k] - lse; });
    FOR_CLASSES(k, r)
    {
        double log_p = (double)r.z[k] - lse, p = exp(log_p);
        r.z[k] = (T)(r.share * (loss.alpha_p * (p * u.mass - (double)r.y[k]) + loss.alpha_r * p * (log_p - u.entropy)));
    }
}

/* Two classes by one logit: the first thread's. */
template <typename T> __device__ void logistic_error(const one_row<T> &r)
{
    if (r.thread) return;
    double v = (double)r.z[0], e = exp(-fabs(v));
    double sigmoid = isnan(v) ? v : v >= 0 ? 1 / (1 + e) : e / (1 + e);
    r.z[0] = (T)((sigmoid - r.label) * r.share);
}

template <typename T> __device__ void model_error(const fli_cuda_loss &loss, const one_row<T> &r)
{
    if (loss.loss == FLI_NET_LOGISTIC)
        logistic_error(r);
    else if (r.y)
        unlabelled_error(loss, r);
    else
        labelled_error(r);
}

/* ---- the mixture of a pair ----------------------------------------------------------------------------- */

struct mixture {
    double p, log_q, ratio; /* of the own model, of the mixture q, and p/q */
};

template <typename T> __device__ mixture mixture_of(const one_row<T> &r, double lse, uint32_t k)
{
    double p = exp((double)r.z[k] - lse), q = r.mix * p + (1 - r.mix) * (double)r.h[k];
    return {p, fmax(log(q), (double)TINY_LOG), q > 0 ? p / q : r.mix > 0 ? 1 / r.mix : 0};
}

/* p u, of u = dL/dq */
template <typename T>
__device__ double slope(const fli_cuda_loss &loss, const one_row<T> &r, const mixture &m, uint32_t k)
{
    if (!r.y) return k == (uint32_t)r.label ? -m.ratio : 0;
    double c = 1 + log((double)loss.classes);
    return loss.alpha_r * m.p * (m.log_q + c) - loss.alpha_p * (double)r.y[k] * m.ratio;
}

template <typename T> __device__ void mixed_error(const fli_cuda_loss &loss, const one_row<T> &r)
{
    double lse = lse_of(r), sum = 0;
    FOR_CLASSES(k, r) sum += slope(loss, r, mixture_of(r, lse, k), k);
    sum = warp_sum(sum);
    FOR_CLASSES(k, r)
    {
        mixture m = mixture_of(r, lse, k);
        r.z[k] = (T)(r.mix * r.share * (slope(loss, r, m, k) - m.p * sum));
    }
}

/* ---- a row's terms of a loss --------------------------------------------------------------------------- */

struct loss_sum {
    double loss, hit;
};

template <typename T> __device__ loss_sum logistic_loss(const one_row<T> &r)
{
    double v = (double)r.z[0], e = exp(-fabs(v));
    double loss = isnan(v) ? v : log1p(e) + (v > 0 ? v : 0) - r.label * v;
    return {loss, (double)((v > 0) == (r.label == 1))};
}

template <typename T> __device__ loss_sum labelled_loss(const one_row<T> &r)
{
    largest<T> top = top_of(r);
    T sum = 0;
    FOR_CLASSES(k, r) sum += real_exp(r.z[k] - top.value);
    double at_label = (double)(r.z[r.label] - top.value);
    return {log((double)warp_sum(sum)) - at_label, (double)(top.at == (uint32_t)r.label)};
}

template <typename T> __device__ loss_sum mixed_loss(const fli_cuda_loss &loss, const one_row<T> &r)
{
    double lse = lse_of(r);
    if (r.y) {
        unlabelled u = unlabelled_terms(r, [&](uint32_t k) { return mixture_of(r, lse, k).log_q; });
        return {unlabelled_value(loss, u), 0};
    }
    largest<double> top = {-INFINITY, 0xffffffffu};
    FOR_CLASSES(k, r)
    {
        double log_q = mixture_of(r, lse, k).log_q;
        if (k == r.thread || log_q > top.value) top = {log_q, k};
    }
    top = warp_largest(top);
    return {-mixture_of(r, lse, (uint32_t)r.label).log_q, (double)(top.at == (uint32_t)r.label)};
}

template <typename T> __device__ loss_sum row_loss(const fli_cuda_loss &loss, const one_row<T> &r)
{
    if (loss.loss == FLI_NET_LOGISTIC) return logistic_loss(r);
    if (r.h) return mixed_loss(loss, r);
    if (!r.y) return labelled_loss(r);
    double lse = lse_of(r);
    return {unlabelled_value(loss, unlabelled_terms(r, [&](uint32_t k) { return (double)r.z[k] - lse; })), 0};
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t width_of(const fli_cuda_loss &loss)
{
    return loss.loss == FLI_NET_LOGISTIC ? 1 : loss.classes;
}

/* keep: first receives the probabilities; h: errors are those of the mixture with it. */
template <typename T> __global__ void error_kernel(fli_cuda_loss loss, fli_cuda_batch b, T *z, T *keep, const T *h)
{
    const fli_cuda_lane &lane = b.lane[blockIdx.y];
    uint32_t at = blockIdx.x * ERROR_WARPS + threadIdx.x / WARP, width = width_of(loss);
    size_t row = (size_t)blockIdx.y * b.room + at;
    if (at >= fli_cuda_rows(&lane, &b)) return;
    one_row<T> r = row_of(loss, b, lane, at, z + row * width, h ? h + row * width : h);
    if (keep) probabilities(r, keep + row * width);
    if (h)
        mixed_error(loss, r);
    else
        model_error(loss, r);
}

/* A block has a lane: its warps evaluate rows, LOSS_WARPS at a time, and the first thread adds up. */
template <typename T>
__global__ void loss_kernel(fli_cuda_loss loss, fli_cuda_batch b, const T *h, const T *z, double *sum)
{
    __shared__ loss_sum part[LOSS_WARPS];
    const fli_cuda_lane &lane = b.lane[blockIdx.x];
    uint32_t rows = fli_cuda_rows(&lane, &b), warp = threadIdx.x / WARP, width = width_of(loss);
    loss_sum total = {sum[2 * blockIdx.x], sum[2 * blockIdx.x + 1]};
    for (uint32_t first = 0; first < rows; first += LOSS_WARPS) {
        uint32_t at = first + warp;
        size_t row = (size_t)blockIdx.x * b.room + at;
        if (at < rows) {
            loss_sum l = row_loss(loss, row_of(loss, b, lane, at, (T *)z + row * width, h ? h + row * width : h));
            if (threadIdx.x % WARP == 0) part[warp] = l;
        }
        __syncthreads();
        for (uint32_t i = 0; threadIdx.x == 0 && i < LOSS_WARPS && first + i < rows; i++)
            total = {total.loss + part[i].loss, total.hit + part[i].hit};
        __syncthreads();
    }
    if (threadIdx.x) return;
    sum[2 * blockIdx.x] = total.loss;
    sum[2 * blockIdx.x + 1] = total.hit;
}

/* The probabilities 1 - s and s, each without cancellation; or the equivalent logits 0 and z. */
template <typename T> __device__ void logistic_output(double z, int logits, T *out)
{
    double e = exp(-fabs(z)), likely = 1 / (1 + e), other = e / (1 + e);
    out[0] = logits ? 0 : z > 0 ? other : likely;
    out[1] = logits ? z : z > 0 ? likely : other;
}

template <typename T>
__global__ void output_kernel(fli_cuda_loss loss, fli_cuda_batch b, int logits, const T *z, double *out)
{
    uint32_t at = blockIdx.x * ERROR_WARPS + threadIdx.x / WARP;
    size_t row = (size_t)blockIdx.y * b.room + at;
    if (at >= fli_cuda_rows(&b.lane[blockIdx.y], &b)) return;
    one_row<T> r = {(T *)z + row * width_of(loss), nullptr, nullptr, 0, 0, 0, loss.classes, threadIdx.x % WARP};
    double *to = out + row * loss.classes;
    if (loss.loss == FLI_NET_LOGISTIC) {
        if (!r.thread) logistic_output((double)r.z[0], logits, to);
        return;
    }
    double lse = logits ? 0 : lse_of(r);
    FOR_CLASSES(k, r) to[k] = logits ? (double)r.z[k] : exp((double)r.z[k] - lse);
}

/* ---- launches ------------------------------------------------------------------------------------------ */

/* A warp per row of every lane. */
dim3 grid_of(const fli_cuda_batch *b)
{
    uint32_t rows = b->most < b->room ? b->most : b->room;
    return dim3((rows + ERROR_WARPS - 1) / ERROR_WARPS, b->lanes, 1);
}

void launch_error(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss, const fli_cuda_batch *b, void *z,
                  void *keep, const void *h)
{
    if (type == FLI_CUDA_F64)
        FLI_LAUNCH(s, error_kernel<double>, grid_of(b), dim3(ERROR_WARPS * WARP), 0, *loss, *b, (double *)z,
                   (double *)keep, (const double *)h);
    else
        FLI_LAUNCH(s, error_kernel<float>, grid_of(b), dim3(ERROR_WARPS * WARP), 0, *loss, *b, (float *)z,
                   (float *)keep, (const float *)h);
}

} // namespace

extern "C" void fli_cuda_rows_error(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss,
                                    const fli_cuda_batch *b, void *z)
{
    launch_error(s, type, loss, b, z, nullptr, nullptr);
}

extern "C" void fli_cuda_rows_pair_global(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss,
                                          const fli_cuda_batch *b, void *z, void *p)
{
    launch_error(s, type, loss, b, z, p, nullptr);
}

extern "C" void fli_cuda_rows_pair_own(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss,
                                       const fli_cuda_batch *b, const void *p, void *z)
{
    launch_error(s, type, loss, b, z, nullptr, p);
}

extern "C" void fli_cuda_rows_loss(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss,
                                   const fli_cuda_batch *b, const void *p, const void *z, double *sum)
{
    if (type == FLI_CUDA_F64)
        FLI_LAUNCH(s, loss_kernel<double>, dim3(b->lanes), dim3(LOSS_WARPS * WARP), 0, *loss, *b, (const double *)p,
                   (const double *)z, sum);
    else
        FLI_LAUNCH(s, loss_kernel<float>, dim3(b->lanes), dim3(LOSS_WARPS * WARP), 0, *loss, *b, (const float *)p,
                   (const float *)z, sum);
}

extern "C" void fli_cuda_rows_outputs(fli_cuda_stream s, fli_cuda_type type, const fli_cuda_loss *loss,
                                      const fli_cuda_batch *b, int logits, const void *z, double *out)
{
    if (type == FLI_CUDA_F64)
        FLI_LAUNCH(s, output_kernel<double>, grid_of(b), dim3(ERROR_WARPS * WARP), 0, *loss, *b, logits,
                   (const double *)z, out);
    else
        FLI_LAUNCH(s, output_kernel<float>, grid_of(b), dim3(ERROR_WARPS * WARP), 0, *loss, *b, logits,
                   (const float *)z, out);
}
