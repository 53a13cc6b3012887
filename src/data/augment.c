/* Random changes to images while a model is trained, so that it does not learn them by heart. */
#include "data/dataset.h"
#include "vec/space.h"

enum { PAD = 4 };

/* 0 .. n-1, from one 32-bit number. */
static int below(fli_rng *r, uint32_t n) { return (int)((uint64_t)fli_rng_u32(r) * n >> 32); }

/* A crop of a padded image is the image moved within its frame. What comes in is a raw 0, which normalisation turns
 * into its shift. */
void fli_batch_augment(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, const fli_rng *turn, uint32_t epoch)
{
    if (ds->augment != FLI_AUGMENT_CIFAR) return;
    const size_t run = ds->scale ? ds->dim / ds->segments : ds->dim;
    for (size_t i = 0; i < b->n; i++) {
        fli_rng r;
        fli_rng_item(turn, FLI_RNG_AUGMENT, epoch, idx[i], &r);
        int down = below(&r, 2 * PAD + 1) - PAD, right = below(&r, 2 * PAD + 1) - PAD, mirror = below(&r, 2);
        b->ops->image->shift(ds->shape[0], ds->shape[1], ds->shape[2], mirror, down, right,
                             ds->scale ? ds->shift : NULL, run, fli_at(b->ops, b->x, i * b->dim));
    }
}
