/* How the products of layers of units are cut up into blocks of threads, for those who want to compare: dense.cu
 * chooses, fli_cuda_fc_forward and the like (kernels.h) ask it. */
#ifndef FLI_CUDA_KERNELS_DENSE_H
#define FLI_CUDA_KERNELS_DENSE_H

#include "cuda/kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Forward: units per block. Results depend on it in their last bits. */
typedef enum { FLI_FC_16, FLI_FC_32, FLI_FC_CUTS } fli_fc_cut;
void fli_cuda_fc_forward_cut(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                             const void *in, void *out, fli_fc_cut cut);
/* Step and next outputs: warps of a block along units and inputs. Outputs depend on it in their last bits. */
typedef enum { FLI_FC_LINK_1X4, FLI_FC_LINK_2X2, FLI_FC_LINKS } fli_fc_link;
void fli_cuda_fc_link_how(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                          const fli_cuda_batch *next, const void *error, const void *in, const void *x, void *out,
                          fli_fc_link how);
void fli_cuda_fc_link_bytes_how(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_batch *b,
                                const fli_cuda_batch *next, const fli_cuda_data *data, const void *error, void *out,
                                fli_fc_link how);

#ifdef __cplusplus
}
#endif

#endif
