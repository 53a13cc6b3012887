/* Which part of a stored image a model sees, for the processor and for devices alike: arithmetic with positions alone.
 * Applied to pixels in images.c, and on devices by their kernels. */
#ifndef FLI_DATA_AUGMENT_H
#define FLI_DATA_AUGMENT_H

#include "base/philox.h"

typedef enum {
    FLI_AUGMENT_NONE,
    FLI_AUGMENT_CIFAR, /* images: a random crop after padding by 4 black pixels, and every other time a mirror image */
    FLI_AUGMENT_CROP   /* cropped images: another part of the frame, and every other time a mirror image */
} fli_augment;
#define FLI_AUGMENT_WORDS "none|cifar|crop"
#define FLI_CROP_DRAWS    0x1p32 /* values of the random number that `still` is compared with */

/* Height and width of what a model sees, and of the stored image: a frame of 0 is the same. */
typedef struct {
    uint32_t height, width, frame_height, frame_width;
} fli_crop_sizes;

/* A crop from (top, left), mirrored if so, then moved by (down, right) within its frame. What comes in from outside is
 * a stored 0. It either crops or moves. */
typedef struct {
    uint32_t top, left;
    int32_t mirror, down, right;
} fli_crop;

/* Lines and columns of the stored image that are seen. */
typedef struct {
    uint32_t top, bottom, left, right;
} fli_crop_part;

/* What evaluation sees. */
FLI_BOTH fli_crop fli_crop_middle(const fli_crop_sizes *z)
{
    fli_crop crop = {0, 0, 0, 0, 0};
    if (!z->frame_height) return crop;
    crop.top = (z->frame_height - z->height) / 2;
    crop.left = (z->frame_width - z->width) / 2;
    return crop;
}

/* Training, by four random numbers. A crop of a padded image is the image moved within its frame. Values of
 * the last number below `still` keep the middle of the image, which is mirrored or not like the others. */
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

/* How much a move cuts off at the beginning. */
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
