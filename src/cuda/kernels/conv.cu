/* Convolutions, as kernels.h has them: chooses the kernels of a layer. */
#include "cuda/kernels/conv.cuh"

static int on_tensor_cores(fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool)
{
    return type != FLI_CUDA_F64 && fli_conv_product_fits(l, pool) && fli_conv_gradient_fits(l, pool);
}

extern "C" size_t fli_cuda_conv_work(fli_cuda_type type, const fli_net_layer *l, const fli_net_layer *pool,
                                     uint32_t lanes, uint32_t room)
{
    (void)room;
    if (!on_tensor_cores(type, l, pool)) return 0;
    size_t product = fli_conv_product_work(l, lanes), gradient = fli_conv_gradient_work(l, pool, lanes);
    return product > gradient ? product : gradient;
}

extern "C" void fli_cuda_conv_forward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                      const fli_net_layer *pool, const fli_cuda_batch *b, const void *in, int chw,
                                      unsigned char *which, void *out, void *work)
{
    if (on_tensor_cores(type, l, pool))
        fli_conv_product_forward(s, type == FLI_CUDA_F32, l, pool, b, (const float *)in, chw, which, (float *)out,
                                 (float *)work);
    else if (type == FLI_CUDA_F64)
        fli_conv_plain_forward(s, l, pool, b, (const double *)in, chw, which, (double *)out);
    else
        fli_conv_plain_forward(s, l, pool, b, (const float *)in, chw, which, (float *)out);
}

extern "C" void fli_cuda_conv_backward(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                       const fli_net_layer *pool, const fli_cuda_batch *b, const void *error, int chw,
                                       const unsigned char *which, const void *h, void *below, void *work)
{
    if (on_tensor_cores(type, l, pool))
        fli_conv_product_backward(s, type == FLI_CUDA_F32, l, pool, b, (const float *)error, chw, which,
                                  (const float *)h, (float *)below, (float *)work);
    else if (type == FLI_CUDA_F64)
        fli_conv_plain_backward(s, l, pool, b, (const double *)error, chw, which, (const double *)h, (double *)below);
    else
        fli_conv_plain_backward(s, l, pool, b, (const float *)error, chw, which, (const float *)h, (float *)below);
}

extern "C" void fli_cuda_conv_step(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l,
                                   const fli_net_layer *pool, const fli_cuda_batch *b, const void *error, int chw,
                                   const unsigned char *which, const void *in, int add, void *work)
{
    if (on_tensor_cores(type, l, pool))
        fli_conv_gradient_step(s, type == FLI_CUDA_F32, l, pool, b, (const float *)error, chw, which, (const float *)in,
                               add, (float *)work);
    else if (type == FLI_CUDA_F64)
        fli_conv_plain_step(s, l, pool, b, (const double *)error, chw, which, (const double *)in, add);
    else
        fli_conv_plain_step(s, l, pool, b, (const float *)error, chw, which, (const float *)in, add);
}
