/* Computes which part of a stored image a model sees, from sizes and random numbers alone. Shared by the CPU (images.c)
 * and the device kernels, which apply it to pixels. */
#ifndef FLI_DATA_AUGMENT_H
#define FLI_DATA_AUGMENT_H

#include "base/philox.h"

typedef enum {
    FLI_AUGMENT_NONE,
    FLI_AUGMENT_CIFAR, /* images: a random crop after padding by 4 black pixels; mirrored with probability 1/2 */
    FLI_AUGMENT_CROP   /* cropped images: a random part of the frame; mirrored with probability 1/2 */
} fli_augment;
#define FLI_AUGMENT_WORDS "none|cifar|crop"
#define FLI_CROP_DRAWS    0x1p32 /* values that the random number compared with `still` can take */

/* Height and width of what a model sees, and of the stored image (frame 0: the same). */
typedef struct {
    uint32_t height, width, frame_height, frame_width;
} fli_crop_sizes;

/* A crop from (top, left), mirrored if `mirror`, then moved by (down, right). Pixels moved in from outside are stored
 * zeros. A crop either has an offset or a move, not both. */
typedef struct {
    uint32_t top, left;
    int32_t mirror, down, right;
} fli_crop;

/* The visible rows and columns of the stored image: top <= row < bottom, left <= column < right. */
typedef struct {
    uint32_t top, bottom, left, right;
} fli_crop_part;

/* The crop that evaluation sees: the middle of the frame. */
FLI_BOTH fli_crop fli_crop_middle(const fli_crop_sizes *z)
{
    fli_crop crop = {0, 0, 0, 0, 0};
    if (!z->frame_height) return crop;
    crop.top = (z->frame_height - z->height) / 2;
    crop.left = (z->frame_width - z->width) / 2;
    return crop;
}

/* A training crop from four random numbers. A crop of a padded image is a move of the image within its frame. If
 * bits[3] is below `still`, the middle of the image is kept, mirrored or not like the others. */
FLI_BOTH fli_crop fli_crop_random(int augment, uint64_t still, const fli_crop_sizes *z, const uint32_t bits[4])
{
    enum { PAD = 4 };
    fli_crop crop = fli_crop_middle(z);
    crop.mirror = (int32_t)fli_philox_part(bits[2], 2);
    if (bits[3] < still) return crop;
    if (augment == FLI_AUGMENT_CIFAR) {
        crop.down = (int32_t)fli_philox_part(bits[0], 2 * PAD + 1) - PAD;
        crop.right = (int32_t)fli_philox_part(bits[1], 2 * PAD + 1) - PAD;
    } else {
        crop.top = fli_philox_part(bits[0], z->frame_height - z->height + 1);
        crop.left = fli_philox_part(bits[1], z->frame_width - z->width + 1);
    }
    return crop;
}

/* Rows or columns that a move by `by` cuts off at the beginning. */
FLI_BOTH uint32_t fli_crop_cut(uint32_t length, int32_t by)
{
    return by >= 0 ? 0 : (uint32_t)-by < length ? (uint32_t)-by : length;
}

FLI_BOTH fli_crop_part fli_crop_seen(const fli_crop_sizes *z, const fli_crop *crop)
{
    int32_t right = crop->mirror ? -crop->right : crop->right; /* in terms of the image before it was mirrored */
    fli_crop_part p;
    p.top = crop->top + fli_crop_cut(z->height, crop->down);
    p.bottom = crop->top + z->height - fli_crop_cut(z->height, -crop->down);
    p.left = crop->left + fli_crop_cut(z->width, right);
    p.right = crop->left + z->width - fli_crop_cut(z->width, -right);
    return p;
}

#endif
