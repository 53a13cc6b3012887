/* Layers of units, many lanes at once: which kernel, how many blocks. The kernels are in dense_product.cuh (forward,
 * backward), dense_step.cuh and, for double precision, dense_plain.cuh. */
#include "cuda/dense.h"
#include "cuda/dense_plain.cuh"
#include "cuda/dense_product.cuh"
#include "cuda/dense_step.cuh"

static uint32_t pieces(size_t n, size_t size) { return (uint32_t)((n + size - 1) / size); }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Of the device; all of one machine are taken to be alike, and results do not depend on it. */
static uint32_t processors(void)
{
    static int count;
    char name[128];
    double memory;
    int major, minor, driver;
    if (!count && fli_cuda_describe(0, name, sizeof name, &memory, &major, &minor, &count, &driver)) count = 1;
    return (uint32_t)count;
}

static uint32_t rows_of(const fli_cuda_batch *b) { return least(b->most, b->room); }

/* Vectors and matrices start on lines of 256 bytes, so their rows are on lines of 16 if: */
static int weights_aligned(const fc_layer &l) { return l.weight % 4 == 0 && l.inputs % 4 == 0; }

/* What a launch of a product is told. */
struct fc_call {
    fli_stream stream;
    fli_cuda_batch batch;
    fc_layer layer;
    const float *in, *h;
    float *out;
};

/* ---- forward, backward --------------------------------------------------------------------------------- */

template <int SPLIT, int BACK, int VEC, class CUT> static void launch_product(const fc_call &c)
{
    static_assert(!BACK || CUT::TM % 32 == 0, "tiles along m come in lines of 32");
    dim3 grid(pieces(BACK ? c.layer.inputs : c.layer.units, CUT::TM), pieces(rows_of(&c.batch), CUT::TN),
              c.batch.lanes);
    auto kernel = fc_product<SPLIT, BACK, VEC, CUT>;
    FLI_LAUNCH(c.stream, kernel, grid, dim3(CUT::THREADS), (size_t)CUT::BYTES, c.batch, c.layer, c.in, c.h, c.out);
}

/* With tiles of n for the rows: 50 want 7 of them, more rows come in several blocks. */
template <int SPLIT, int BACK, int VEC, int MT, int WM, int WK> static void product_rows(const fc_call &c)
{
    uint32_t rows = rows_of(&c.batch);
    if (rows <= 16)
        launch_product<SPLIT, BACK, VEC, fc_cut<MT, 2, WM, WK>>(c);
    else if (rows <= 32 || (rows > 56 && rows <= 64))
        launch_product<SPLIT, BACK, VEC, fc_cut<MT, 4, WM, WK>>(c);
    else
        launch_product<SPLIT, BACK, VEC, fc_cut<MT, 7, WM, WK>>(c);
}

template <int SPLIT> static void forward(const fc_call &c, fli_fc_cut cut)
{
    if (!weights_aligned(c.layer)) return product_rows<SPLIT, 0, 0, 2, 1, 4>(c);
    switch (cut) {
    case FLI_FC_16: return product_rows<SPLIT, 0, 1, 1, 1, 8>(c);
    case FLI_FC_32: return product_rows<SPLIT, 0, 1, 2, 1, 4>(c);
    case FLI_FC_64: return product_rows<SPLIT, 0, 1, 2, 2, 4>(c);
    default: return product_rows<SPLIT, 0, 1, 1, 7, 1>(c);
    }
}
template <int SPLIT> static void backward(const fc_call &c)
{
    if (weights_aligned(c.layer) && c.layer.units % 4 == 0)
        product_rows<SPLIT, 1, 1, 2, 1, 4>(c);
    else
        product_rows<SPLIT, 1, 0, 2, 1, 4>(c);
}

template <int WHAT> static void plain(const fc_call &c, const void *error, int add)
{
    const fc_layer &l = c.layer;
    dim3 grid(pieces(WHAT == FC_FORWARD ? l.units : l.inputs, PLAIN_TILE),
              pieces(WHAT == FC_STEP ? l.units : rows_of(&c.batch), PLAIN_TILE), c.batch.lanes);
    auto kernel = fc_plain<WHAT, double>;
    FLI_LAUNCH(c.stream, kernel, grid, dim3(PLAIN_THREADS), (size_t)0, c.batch, l, (const double *)(const void *)c.in,
               (const double *)error, (const double *)(const void *)c.h, (double *)(void *)c.out, add);
}

extern "C" void fli_cuda_fc_forward_cut(fli_stream s, fli_cuda_type type, const fli_net_layer *l,
                                        const fli_cuda_batch *b, const void *in, void *out, fli_fc_cut cut)
{
    const fc_call c = {s, *b, fc_layer_of(l), (const float *)in, NULL, (float *)out};
    if (type == FLI_CUDA_F64) return plain<FC_FORWARD>(c, NULL, 0);
    if (type == FLI_CUDA_F32) return forward<1>(c, cut);
    forward<0>(c, cut);
}

/* Large blocks read the samples less often; small ones keep all processors busy where there are few lanes. */
static fli_fc_cut best_cut(size_t units, uint32_t lanes)
{
    if (pieces(units, 64) * lanes >= 2 * processors()) return FLI_FC_64;
    return pieces(units, 32) * lanes >= processors() ? FLI_FC_32 : FLI_FC_16;
}
extern "C" void fli_cuda_fc_forward(fli_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                                    const void *in, void *out)
{
    fli_cuda_fc_forward_cut(s, type, l, b, in, out, best_cut(fli_net_out(l), b->lanes));
}

extern "C" void fli_cuda_fc_backward(fli_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                                     const void *error, const void *h, void *below)
{
    const fc_call c = {s, *b, fc_layer_of(l), (const float *)error, (const float *)h, (float *)below};
    if (type == FLI_CUDA_F64) {
        fc_call d = c;
        d.in = NULL;
        return plain<FC_BACKWARD>(d, error, 0);
    }
    if (type == FLI_CUDA_F32) return backward<1>(c);
    backward<0>(c);
}

/* ---- step ---------------------------------------------------------------------------------------------- */

template <int SPLIT, int VEC, int EVEC, class S> static void launch_step(const fc_call &c, const float *error, int add)
{
    fc_work work = {pieces(c.layer.inputs, S::TC), pieces(c.layer.units, S::TU), pieces(rows_of(&c.batch), S::ROWS)};
    uint64_t all = (uint64_t)work.pieces * work.unit_blocks * c.batch.lanes;
    uint32_t room = processors() * (S::WARPS > 7 ? 1 : S::WARPS > 4 ? 2 : 3);
    auto kernel = fc_step<SPLIT, VEC, EVEC, S>;
    FLI_LAUNCH(c.stream, kernel, dim3(all < room ? (uint32_t)all : room), dim3(S::THREADS), S::bytes(work.turns),
               c.batch, c.layer, work, error, c.in, add);
}

template <int SPLIT, class S> static void step_aligned(const fc_call &c, const float *error, int add)
{
    if (!weights_aligned(c.layer))
        launch_step<SPLIT, 0, 0, S>(c, error, add);
    else if (c.layer.units % 4)
        launch_step<SPLIT, 1, 0, S>(c, error, add);
    else
        launch_step<SPLIT, 1, 1, S>(c, error, add);
}
template <int SPLIT, int WARPS> static void step_rows(const fc_call &c, const float *error, int add)
{
    uint32_t rows = rows_of(&c.batch);
    if (rows <= 16)
        step_aligned<SPLIT, fc_stride<2, WARPS>>(c, error, add);
    else if (rows <= 32 || (rows > 56 && rows <= 64))
        step_aligned<SPLIT, fc_stride<4, WARPS>>(c, error, add);
    else
        step_aligned<SPLIT, fc_stride<7, WARPS>>(c, error, add);
}
template <int SPLIT> static void step(const fc_call &c, const float *error, int add, fli_fc_warps warps)
{
    switch (warps) {
    case FLI_FC_WARPS_4: return step_rows<SPLIT, 4>(c, error, add);
    case FLI_FC_WARPS_7: return step_rows<SPLIT, 7>(c, error, add);
    default: return step_rows<SPLIT, 13>(c, error, add);
    }
}

extern "C" void fli_cuda_fc_step_warps(fli_stream s, fli_cuda_type type, const fli_net_layer *l,
                                       const fli_cuda_batch *b, const void *error, const void *in, int add,
                                       fli_fc_warps warps)
{
    const fc_call c = {s, *b, fc_layer_of(l), (const float *)in, NULL, NULL};
    if (type == FLI_CUDA_F64) return plain<FC_STEP>(c, error, add);
    if (type == FLI_CUDA_F32) return step<1>(c, (const float *)error, add, warps);
    step<0>(c, (const float *)error, add, warps);
}
extern "C" void fli_cuda_fc_step(fli_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                                 const void *error, const void *in, int add)
{
    fli_cuda_fc_step_warps(s, type, l, b, error, in, add, fli_net_out(l) > 64 ? FLI_FC_WARPS_7 : FLI_FC_WARPS_4);
}
