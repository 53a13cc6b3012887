/* The layers of a convolutional network, read from a line such as
 *
 *     conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192
 *
 *     conv CxK [stride S] [pad P | same]    C filters of K x K; ReLU behind it
 *     pool K      the largest of each K x K; what does not fill a window at the right and the bottom is left out
 *     avgpool K   the mean of each K x K
 *     fc N        fully connected, N units; ReLU behind it
 *
 * Private to this folder. */
#ifndef FLI_MODEL_LAYERS_H
#define FLI_MODEL_LAYERS_H

#include "base/ctx.h"

typedef enum { FLI_LAYER_CONV, FLI_LAYER_MAX_POOL, FLI_LAYER_MEAN_POOL, FLI_LAYER_FC } fli_layer_kind;

enum { FLI_LAYERS_MAX = 32 };

typedef struct {
    fli_layer_kind kind;
    size_t size;                /* filters, window or units */
    size_t kernel, stride, pad; /* conv */
    const char *text;           /* where it is in the line, for messages */
    int length;
} fli_layer;

/* At most FLI_LAYERS_MAX of them. Only the line itself is judged here, not whether the layers fit the images. */
fl_status fli_layers_read(fl_ctx *ctx, const char *line, fli_layer *out, size_t *count);

#endif
