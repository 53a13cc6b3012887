/* In which order the threads of a block take turns where they are emulated. What a kernel computes may not depend on
 * it. On a GPU there is nothing to choose. */
#ifndef FLI_CUDA_ORDER_H
#define FLI_CUDA_ORDER_H

typedef enum { FLI_ORDER_FORWARD, FLI_ORDER_REVERSE, FLI_ORDER_RANDOM, FLI_ORDERS } fli_order;

/* From the next launch on. At first it is what the environment's FLI_CUDA_ORDER says: forward, reverse, random. */
#ifndef FLI_CUDA_EMULATED
static inline void fli_emulated_order(fli_order order) { (void)order; }
#elif defined __cplusplus
extern "C" void fli_emulated_order(fli_order order);
#else
void fli_emulated_order(fli_order order);
#endif

#endif
