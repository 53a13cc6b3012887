/* Layers of units on a GPU: times every division into blocks (graphs of many launches, the median of some), and
 * compares the results with plain kernels in double precision. By hand:
 *
 *     nvcc -arch=sm_90 -O3 -std=c++17 -D_GNU_SOURCE -Isrc -Iinclude \
 *         bench/cuda/bench_dense.cu src/cuda/kernels/dense.cu src/cuda/kernels/last_layer.cu src/cuda/runtime.c \
 *         src/base/number.c -o bench_dense && ./bench_dense */
#include "cuda/kernels/kernels.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

static void must(cudaError_t e, int line)
{
    if (e == cudaSuccess) return;
    printf("line %d: %s\n", line, cudaGetErrorString(e));
    exit(1);
}
#define MUST(call) must((call), __LINE__)

enum { LAUNCHES = 20, TRIALS = 7 };

/* Microseconds of one `call`. */
static double timed(cudaStream_t s, const std::function<void()> &call)
{
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaEvent_t begin, end;
    call(); /* the first launch sets attributes */
    MUST(cudaStreamSynchronize(s));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < LAUNCHES; i++) call();
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&run, graph, 0));
    MUST(cudaEventCreate(&begin));
    MUST(cudaEventCreate(&end));
    std::vector<double> us;
    for (int i = 0; i < TRIALS + 1; i++) {
        float ms;
        MUST(cudaEventRecord(begin, s));
        MUST(cudaGraphLaunch(run, s));
        MUST(cudaEventRecord(end, s));
        MUST(cudaEventSynchronize(end));
        MUST(cudaEventElapsedTime(&ms, begin, end));
        if (i) us.push_back(1e3 * ms / LAUNCHES);
    }
    std::sort(us.begin(), us.end());
    MUST(cudaGraphExecDestroy(run));
    MUST(cudaGraphDestroy(graph));
    return us[TRIALS / 2];
}

template <typename T> static T *memory(size_t n)
{
    void *p;
    MUST(cudaMalloc(&p, n * sizeof(T)));
    MUST(cudaMemset(p, 0, n * sizeof(T)));
    return (T *)p;
}
__global__ void fill(float *x, size_t n, uint32_t seed, float scale)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u + seed;
        h = (h ^ h >> 15) * 2246822519u, h = (h ^ h >> 13) * 3266489917u, h ^= h >> 16;
        x[i] = scale * ((float)h / 4294967296.0f - 0.5f);
    }
}
__global__ void widen(const float *x, size_t n, double *y)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        y[i] = x[i];
}

/* Lanes of one layer; the first few also as doubles. */
struct problem {
    cudaStream_t s;
    fli_net_layer l;
    uint32_t lanes, rows, room, few;
    size_t parameters;
    float *z, *shift, *in, *out, *error, *below;
    double *wide_z, *wide_in, *wide_out, *wide_error, *wide_below;
    fli_cuda_lane *lane, *wide_lane, *shifted;
    fli_cuda_batch batch, wide_batch;
    int32_t *label;
    uint32_t *order;
};

static void set_lanes(problem *p, int wide)
{
    std::vector<fli_cuda_lane> v(p->lanes);
    for (uint32_t i = 0; i < p->lanes; i++) {
        fli_cuda_lane l = {};
        l.z = wide ? (void *)(p->wide_z + i % p->few * p->parameters) : (void *)(p->z + i * p->parameters);
        l.lr = 1e-3, l.n = p->rows, l.size = p->rows, l.order = p->order;
        v[i] = l;
    }
    fli_cuda_lane *to = memory<fli_cuda_lane>(p->lanes);
    MUST(cudaMemcpy(to, v.data(), v.size() * sizeof v[0], cudaMemcpyHostToDevice));
    fli_cuda_batch b = {to, wide ? p->few : p->lanes, 0, 0, p->rows, p->room, 0, 0};
    (wide ? p->wide_lane : p->lane) = to;
    (wide ? p->wide_batch : p->batch) = b;
    if (wide) return;
    for (uint32_t i = 0; i < p->lanes; i++) v[i].term = p->shift + i * p->parameters, v[i].times = 1;
    p->shifted = memory<fli_cuda_lane>(p->lanes);
    MUST(cudaMemcpy(p->shifted, v.data(), v.size() * sizeof v[0], cudaMemcpyHostToDevice));
}

static void refill(problem *p)
{
    const size_t in = p->l.in[0], out = p->l.out[0], rows = (size_t)p->lanes * p->room;
    fill<<<1024, 256, 0, p->s>>>(p->z, p->lanes * p->parameters, 1, 0.1f);
    fill<<<1024, 256, 0, p->s>>>(p->in, rows * in, 2, 1);
    fill<<<1024, 256, 0, p->s>>>(p->error, rows * out, 3, 0.1f);
    widen<<<1024, 256, 0, p->s>>>(p->z, p->few * p->parameters, p->wide_z);
    widen<<<1024, 256, 0, p->s>>>(p->in, p->few * (size_t)p->room * in, p->wide_in);
    widen<<<1024, 256, 0, p->s>>>(p->error, p->few * (size_t)p->room * out, p->wide_error);
    MUST(cudaStreamSynchronize(p->s));
}

static problem problem_new(cudaStream_t s, size_t in, size_t out, uint32_t lanes, uint32_t rows)
{
    problem p = {};
    p.s = s, p.lanes = lanes, p.rows = rows, p.room = (rows + 7) / 8 * 8, p.few = 2;
    p.l.kind = FLI_NET_FC, p.l.relu = out > 10, p.l.biased = 1;
    for (int i = 0; i < 3; i++) p.l.in[i] = p.l.out[i] = 1;
    p.l.in[0] = in, p.l.out[0] = out, p.l.bias = in * out;
    p.parameters = (in * out + out + 63) / 64 * 64;
    size_t all = (size_t)lanes * p.room, few = (size_t)p.few * p.room;
    p.z = memory<float>(lanes * p.parameters), p.wide_z = memory<double>(p.few * p.parameters);
    p.shift = memory<float>(lanes * p.parameters);
    p.in = memory<float>(all * in), p.wide_in = memory<double>(few * in);
    p.below = memory<float>(all * in), p.wide_below = memory<double>(few * in);
    p.out = memory<float>(all * out), p.wide_out = memory<double>(few * out);
    p.error = memory<float>(all * out), p.wide_error = memory<double>(few * out);
    std::vector<int32_t> label(rows);
    std::vector<uint32_t> order(rows);
    for (uint32_t i = 0; i < rows; i++) label[i] = (int32_t)(i % out), order[i] = i;
    p.label = memory<int32_t>(rows), p.order = memory<uint32_t>(rows);
    MUST(cudaMemcpy(p.label, label.data(), rows * 4, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(p.order, order.data(), rows * 4, cudaMemcpyHostToDevice));
    set_lanes(&p, 0);
    set_lanes(&p, 1);
    refill(&p);
    return p;
}
static void problem_free(problem *p)
{
    void *all[] = {p->shift,   p->shifted,  p->z,          p->in,         p->out,  p->error,     p->below, p->wide_z,
                   p->wide_in, p->wide_out, p->wide_error, p->wide_below, p->lane, p->wide_lane, p->label, p->order};
    for (void *a : all) MUST(cudaFree(a));
}

/* ||got - want|| / ||want||, with `want` as doubles; less: the values before (NULL: 0), so that only the steps are
 * compared. */
static double error_of(const problem *p, const float *got, const double *want, size_t n, const float *less)
{
    std::vector<float> g(n), b(n, 0.0f);
    std::vector<double> w(n);
    MUST(cudaStreamSynchronize(p->s));
    MUST(cudaMemcpy(g.data(), got, n * 4, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(w.data(), want, n * 8, cudaMemcpyDeviceToHost));
    if (less) MUST(cudaMemcpy(b.data(), less, n * 4, cudaMemcpyDeviceToHost));
    double d = 0, of = 0;
    for (size_t i = 0; i < n; i++) d += (g[i] - w[i]) * (g[i] - w[i]), of += (w[i] - b[i]) * (w[i] - b[i]);
    return sqrt(d / of);
}

static const char *type_name(fli_cuda_type t)
{
    return t == FLI_CUDA_F32 ? "fp32" : t == FLI_CUDA_TF32 ? "tf32" : "f64";
}

static void line(const problem *p, fli_cuda_type t, const char *what, double us, double wrong, double passes)
{
    double flops = 2.0 * p->rows * p->l.in[0] * p->l.out[0] * p->lanes,
           bytes = 4.0 * p->l.in[0] * p->l.out[0] * p->lanes;
    printf("%4u lanes %3u rows %4zu->%3zu %s %-15s %8.2f us %7.3f us/lane %6.1f TFLOP/s %5.2f TB/s of weights  error "
           "%.1e\n",
           p->lanes, p->rows, p->l.in[0], p->l.out[0], type_name(t), what, us, us / p->lanes, flops / us * 1e-6,
           bytes * passes / us * 1e-6, wrong);
}

static void bench_forward(problem *p, fli_cuda_type t, int cuts)
{
    static const char *const name[] = {"forward 16", "forward 32", "forward best"};
    refill(p);
    fli_cuda_fc_forward(p->s, FLI_CUDA_F64, &p->l, &p->wide_batch, p->wide_in, p->wide_out);
    for (int cut = cuts ? 0 : FLI_FC_CUTS; cut <= FLI_FC_CUTS; cut++) {
        MUST(cudaMemset(p->out, 0xff, (size_t)p->lanes * p->room * p->l.out[0] * 4));
        double us = timed(p->s, [&] {
            if (cut < FLI_FC_CUTS)
                fli_cuda_fc_forward_cut(p->s, t, &p->l, &p->batch, p->in, p->out, (fli_fc_cut)cut);
            else
                fli_cuda_fc_forward(p->s, t, &p->l, &p->batch, p->in, p->out);
        });
        line(p, t, name[cut], us, error_of(p, p->out, p->wide_out, p->rows * p->l.out[0], NULL), 1);
    }
}
static void bench_backward(problem *p, fli_cuda_type t)
{
    refill(p);
    fli_cuda_fc_backward(p->s, FLI_CUDA_F64, &p->l, &p->wide_batch, p->wide_error, p->wide_in, p->wide_below);
    double us = timed(p->s, [&] { fli_cuda_fc_backward(p->s, t, &p->l, &p->batch, p->error, p->in, p->below); });
    line(p, t, "backward", us, error_of(p, p->below, p->wide_below, p->rows * p->l.in[0], NULL), 1);
}
/* Compares a gradient for the error, and times steps. */
static void bench_step(problem *p, fli_cuda_type t)
{
    auto call = [&] { fli_cuda_fc_step(p->s, t, &p->l, &p->batch, p->error, p->in, 0); };
    refill(p);
    float *before = memory<float>(p->parameters);
    MUST(cudaMemcpy(before, p->z, p->parameters * 4, cudaMemcpyDeviceToDevice));
    fli_cuda_fc_step(p->s, FLI_CUDA_F64, &p->l, &p->wide_batch, p->wide_error, p->wide_in, 0);
    call();
    double wrong = error_of(p, p->z, p->wide_z, p->l.in[0] * p->l.out[0] + p->l.out[0], before);
    MUST(cudaFree(before));
    line(p, t, "step", timed(p->s, call), wrong, 2);
}
static void bench_fused(problem *p, fli_cuda_type t)
{
    static const char *const name[] = {"fused 1x4", "fused 2x2", "fused best"};
    if (!fli_cuda_fc_fused_step_fits(t, &p->l, p->rows)) return;
    for (int how = 0; how <= FLI_FC_FUSED_CUTS; how++) {
        auto call = [&] {
            if (how < FLI_FC_FUSED_CUTS)
                fli_cuda_fc_fused_step_cut(p->s, t, &p->l, &p->batch, &p->batch, p->error, p->in, p->in, p->out,
                                           (fli_fc_fused_cut)how);
            else
                fli_cuda_fc_fused_step(p->s, t, &p->l, &p->batch, &p->batch, p->error, p->in, p->in, p->out);
        };
        refill(p);
        fli_cuda_fc_step(p->s, FLI_CUDA_F64, &p->l, &p->wide_batch, p->wide_error, p->wide_in, 0);
        fli_cuda_fc_forward(p->s, FLI_CUDA_F64, &p->l, &p->wide_batch, p->wide_in, p->wide_out);
        call();
        double wrong = error_of(p, p->out, p->wide_out, p->rows * p->l.out[0], NULL);
        line(p, t, name[how], timed(p->s, call), wrong, 2);
    }
}
/* The same with samples as bytes; errors are not computed. */
static fli_cuda_data bytes_of(const problem *p)
{
    fli_cuda_data d = {};
    d.n = 4 * p->rows, d.dim = d.length = p->l.in[0];
    d.x = memory<unsigned char>(d.n * d.length);
    return d;
}
static void bench_bytes(problem *p, fli_cuda_type t)
{
    static const char *const name[][2] = {{"bytes 1x4", "bytes 1x4 shift"}, {"bytes 2x2", "bytes 2x2 shift"}};
    const fli_cuda_data d = bytes_of(p);
    if (!fli_cuda_fc_fused_step_bytes_fits(t, &p->l, &d, p->rows)) return;
    refill(p);
    for (int i = 0; i < 2 * FLI_FC_FUSED_CUTS; i++) {
        fli_cuda_batch b = p->batch;
        if (i % 2) b.lane = p->shifted; /* with one more vector to read, as in bench_shifted */
        auto call = [&] {
            fli_cuda_fc_fused_step_bytes_cut(p->s, t, &p->l, &b, &b, &d, p->error, p->out, (fli_fc_fused_cut)(i / 2));
        };
        line(p, t, name[i / 2][i % 2], timed(p->s, call), 0, 2 + i % 2);
    }
    MUST(cudaFree((void *)d.x));
}
/* With one more vector to read, as for methods that correct client drift. */
static void bench_shifted(problem *p, fli_cuda_type t)
{
    fli_cuda_batch b = p->batch;
    b.lane = p->shifted;
    refill(p);
    line(p, t, "step shifted", timed(p->s, [&] { fli_cuda_fc_step(p->s, t, &p->l, &b, p->error, p->in, 0); }), 0, 3);
}
static void bench_last(problem *p, fli_cuda_type t)
{
    fli_cuda_loss loss = {FLI_NET_SOFTMAX, (uint32_t)p->l.out[0], p->label, 0, 0};
    if (!fli_cuda_fc_last_fits(t, &p->l, &loss, p->rows)) return;
    refill(p);
    double us = timed(p->s, [&] { fli_cuda_fc_last(p->s, &p->l, &loss, &p->batch, p->in, 1, p->below, 0); });
    line(p, t, "last", us, 0, 2);
}

/* Steps of whole networks, layer by layer, without gathering samples. fused: 2: with bytes, 3: also the last two layers
 * in one kernel. */
static void bench_network(cudaStream_t s, fli_cuda_type t, uint32_t lanes, int middle, int fused)
{
    static const char *const name[] = {"", ", fused", ", fused, bytes", ", fused, bytes, last two at once"};
    problem a = problem_new(s, 784, 200, lanes, 50), m = problem_new(s, 200, 200, lanes, 50);
    problem z = problem_new(s, 200, 10, lanes, 50);
    problem both = problem_new(s, 200, 220, lanes, 50);
    fli_net_layer top = z.l;
    top.weight = m.l.bias + 200, top.bias = top.weight + 2000;
    fli_cuda_loss loss = {FLI_NET_SOFTMAX, 10, z.label, 0, 0};
    const fli_cuda_data d = bytes_of(&a);
    double us = timed(s, [&] {
        if (!fused) fli_cuda_fc_forward(s, t, &a.l, &a.batch, a.in, middle ? m.in : z.in);
        if (middle && fused == 3) {
            fli_cuda_fc_last_two(s, t, &m.l, &top, &loss, &both.batch, m.in, 1, m.below, 0);
            return fli_cuda_fc_fused_step_bytes(s, t, &a.l, &a.batch, &a.batch, &d, m.below, m.in);
        }
        if (middle) fli_cuda_fc_forward(s, t, &m.l, &m.batch, m.in, z.in);
        fli_cuda_fc_last(s, &z.l, &loss, &z.batch, z.in, 1, z.below, 0);
        if (middle) {
            fli_cuda_fc_backward(s, t, &m.l, &m.batch, z.below, m.in, m.below);
            fli_cuda_fc_step(s, t, &m.l, &m.batch, z.below, m.in, 0);
        }
        const float *error = middle ? m.below : z.below;
        if (fused >= 2)
            fli_cuda_fc_fused_step_bytes(s, t, &a.l, &a.batch, &a.batch, &d, error, middle ? m.in : z.in);
        else if (fused)
            fli_cuda_fc_fused_step(s, t, &a.l, &a.batch, &a.batch, error, a.in, a.in, middle ? m.in : z.in);
        else
            fli_cuda_fc_step(s, t, &a.l, &a.batch, error, a.in, 0);
    });
    printf("%4u lanes  50 rows 784-200%s-10 %s all but gathering%s: %8.2f us %7.3f us/lane\n", lanes,
           middle ? "-200" : "", type_name(t), name[fused], us, us / lanes);
    MUST(cudaFree((void *)d.x));
    problem_free(&a), problem_free(&m), problem_free(&z), problem_free(&both);
}

static void bench_layer(cudaStream_t s, size_t in, size_t out, uint32_t lanes, uint32_t rows, int cuts)
{
    problem p = problem_new(s, in, out, lanes, rows);
    for (int t = FLI_CUDA_F32; t <= FLI_CUDA_TF32; t++) {
        bench_forward(&p, (fli_cuda_type)t, cuts);
        bench_backward(&p, (fli_cuda_type)t);
        bench_step(&p, (fli_cuda_type)t);
        bench_shifted(&p, (fli_cuda_type)t);
        if (in == 784) bench_fused(&p, (fli_cuda_type)t), bench_bytes(&p, (fli_cuda_type)t);
        if (out <= 64) bench_last(&p, (fli_cuda_type)t);
    }
    problem_free(&p);
}

int main()
{
    cudaStream_t s;
    MUST(cudaStreamCreate(&s));
    static const size_t layer[][2] = {{784, 200}, {200, 200}, {200, 10}, {2304, 384}, {384, 192}};
    for (uint32_t lanes = 10; lanes <= 100; lanes *= 10)
        for (auto &l : layer) bench_layer(s, l[0], l[1], lanes, 50, l[1] > 10);
    for (uint32_t lanes = 20; lanes <= 40; lanes += 10) bench_layer(s, 784, 200, lanes, 50, 0);
    bench_layer(s, 784, 200, 100, 10, 0);
    bench_layer(s, 784, 200, 100, 20, 0);
    for (uint32_t lanes : {10, 17, 34, 100})
        for (int t = FLI_CUDA_F32; t <= FLI_CUDA_TF32; t++)
            for (int i = 0; i < 8; i++) bench_network(s, (fli_cuda_type)t, lanes, i % 2, i / 2);
    MUST(cudaDeviceSynchronize());
    return 0;
}
