/* What of a stored image is seen, for the processor and for devices alike: arithmetic with places alone. */
#ifndef FLI_DATA_AUGMENT_H
#define FLI_DATA_AUGMENT_H

#include "base/philox.h"

typedef enum {
    FLI_AUGMENT_NONE,
    FLI_AUGMENT_CIFAR, /* images: a random crop after padding by 4 black pixels, and every other time a mirror image */
    FLI_AUGMENT_CROP   /* cropped images: another part of the frame, and every other time a mirror image */
} fli_augment;
#define FLI_AUGMENT_WORDS "none|cifar|crop"
#define FLI_SIGHT_DRAWS   0x1p32 /* values of a random number */

/* Height and width of what a model sees, and of the stored image: a frame of 0 is the same. */
typedef struct {
    uint32_t height, width, frame_height, frame_width;
} fli_crop_sizes;

/* A crop from (top, left), mirrored if so, then moved by (down, right) within its frame. What comes in from outside is
 * a stored 0. A sight either crops or moves. */
typedef struct {
    uint32_t top, left;
    int32_t mirror, down, right;
} fli_crop;

/* Lines and columns of the stored image that are seen. */
typedef struct {
    uint32_t top, bottom, left, right;
} fli_crop_part;

/* As evaluation looks. */
FLI_BOTH fli_crop fli_crop_middle(const fli_crop_sizes *z)
{
    fli_crop l = {0, 0, 0, 0, 0};
    if (!z->frame_height) return l;
    l.top = (z->frame_height - z->height) / 2;
    l.left = (z->frame_width - z->width) / 2;
    return l;
}

/* Training, by four random numbers. A crop of a padded image is the image moved within its frame. Values of
 * the last number below `still` keep the middle of the image, which is mirrored or not like the others. */
FLI_BOTH fli_crop fli_crop_random(int augment, uint64_t still, const fli_crop_sizes *z, const uint32_t bits[4])
{
    enum { PAD = 4 };
    fli_crop l = fli_crop_middle(z);
    l.mirror = (int32_t)fli_philox_part(bits[2], 2);
    if (bits[3] < still) return l;
    if (augment == FLI_AUGMENT_CIFAR) {
        l.down = (int32_t)fli_philox_part(bits[0], 2 * PAD + 1) - PAD;
        l.right = (int32_t)fli_philox_part(bits[1], 2 * PAD + 1) - PAD;
    } else {
        l.top = fli_philox_part(bits[0], z->frame_height - z->height + 1);
        l.left = fli_philox_part(bits[1], z->frame_width - z->width + 1);
    }
    return l;
}

/* How much a move cuts off at the beginning. */
FLI_BOTH uint32_t fli_crop_cut(uint32_t length, int32_t by)
{
    return by >= 0 ? 0 : (uint32_t)-by < length ? (uint32_t)-by : length;
}

FLI_BOTH fli_crop_part fli_crop_seen(const fli_crop_sizes *z, const fli_crop *l)
{
    int32_t right = l->mirror ? -l->right : l->right; /* in terms of the image before it was mirrored */
    fli_crop_part p;
    p.top = l->top + fli_crop_cut(z->height, l->down);
    p.bottom = l->top + z->height - fli_crop_cut(z->height, -l->down);
    p.left = l->left + fli_crop_cut(z->width, right);
    p.right = l->left + z->width - fli_crop_cut(z->width, -right);
    return p;
}

#endif
