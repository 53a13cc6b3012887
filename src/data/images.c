/* Turns a stored image into the one that a model sees: cropped, moved, mirrored, and scaled by the set's numbers or its
 * own. Nothing is allocated: the backend's gather functions write the image into its row of the batch, line by line if
 * it is cropped. The image's own mean and deviation are sums over the stored values. */
#include "data/dataset.h"
#include "vec/space.h"

#include <math.h>
#include <string.h>

static fli_crop_sizes sizes(const fli_dataset *ds)
{
    return (fli_crop_sizes){(uint32_t)ds->shape[1], (uint32_t)ds->shape[2], (uint32_t)ds->frame[0],
                            (uint32_t)ds->frame[1]};
}

/* ---- an image's own scale -------------------------------------------------------------------------------- */

/* The visible rows and columns of a stored image; `width` and `plane` are strides of the stored image. */
typedef struct {
    size_t top, bottom, left, right, width, plane;
} part;

static part seen_part(const fli_dataset *ds, const fli_crop *crop)
{
    size_t height = ds->shape[1], width = ds->shape[2];
    const fli_crop_sizes z = sizes(ds);
    const fli_crop_part p = fli_crop_seen(&z, crop);
    return (part){.top = p.top,
                  .bottom = p.bottom,
                  .left = p.left,
                  .right = p.right,
                  .width = ds->frame[0] ? ds->frame[1] : width,
                  .plane = ds->frame[0] ? ds->frame[0] * ds->frame[1] : height * width};
}

/* Sum of n values from x + at: of (v - mean)^2, or of v if `plain`. */
static double sum_reals(const fli_dataset *ds, size_t at, size_t n, double mean, int plain)
{
    double sum = 0;
    for (size_t i = at; i < at + n; i++) {
        double v = ds->kind == FLI_X_F32 ? (double)((const float *)ds->x)[i] : ((const double *)ds->x)[i];
        sum += plain ? v : (v - mean) * (v - mean);
    }
    return sum;
}

/* Mean and variance of n values: those that are seen, and zeros moved in from outside. Two passes avoid
 * cancellation. */
static void moments_of_reals(const fli_dataset *ds, size_t first, const part *p, double n, double *mean, double *var)
{
    double inside = (double)ds->shape[0] * (double)(p->bottom - p->top) * (double)(p->right - p->left);
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        for (size_t c = 0; c < ds->shape[0]; c++)
            for (size_t y = p->top; y < p->bottom; y++)
                sum += sum_reals(ds, first + c * p->plane + y * p->width + p->left, p->right - p->left, *mean, !pass);
        if (pass)
            *var = (sum + (n - inside) * *mean * *mean) / n;
        else
            *mean = sum / n;
    }
}

/* Exact up to the last division, because sums of bytes are whole numbers. */
static void moments_of_bytes(const fli_dataset *ds, size_t first, const part *p, double n, double *mean, double *var)
{
    uint64_t sum = 0, squares = 0;
    for (size_t c = 0; c < ds->shape[0]; c++)
        for (size_t y = p->top; y < p->bottom; y++) {
            const uint8_t *x = (const uint8_t *)ds->x + first + c * p->plane + y * p->width;
            for (size_t i = p->left; i < p->right; i++) {
                sum += x[i];
                squares += (uint32_t)x[i] * x[i];
            }
        }
    *mean = (double)sum / n;
    *var = ((double)squares * n - (double)sum * (double)sum) / (n * n);
}

/* Scales what is seen to mean 0 and deviation 1. The deviation is taken as at least 1/sqrt(n), as in TensorFlow. */
static void own_scale(const fli_dataset *ds, size_t first, const fli_crop *crop, double *scale, double *shift)
{
    part p = seen_part(ds, crop);
    double n = (double)ds->dim, mean = 0, var = 0;
    if (ds->kind == FLI_X_U8)
        moments_of_bytes(ds, first, &p, n, &mean, &var);
    else
        moments_of_reals(ds, first, &p, n, &mean, &var);
    *scale = 1 / fmax(sqrt(var), 1 / sqrt(n));
    *shift = -mean * *scale;
}

/* ---- one image ------------------------------------------------------------------------------------------- */

/* Gathers n values from position `at` of the set, with one scale for all of them or one for each. */
static void gather_run(const fli_ops *ops, const fli_dataset *ds, size_t at, size_t n, size_t segments,
                       const double *scale, const double *shift, void *out)
{
    const uint32_t here = 0;
    if (ds->kind == FLI_X_U8)
        ops->gather_u8(1, n, (const uint8_t *)ds->x + at, &here, segments, scale, shift, out);
    else if (ds->kind == FLI_X_F32)
        ops->gather_f32(1, n, (const float *)ds->x + at, &here, segments, scale, shift, out);
    else
        ops->gather_f64(1, n, (const double *)ds->x + at, &here, segments, scale, shift, out);
}

/* A feature run is a whole plane or a single feature, so a line has one scale or one per pixel. */
static void gather_crop(const fli_ops *ops, const fli_dataset *ds, size_t first, const fli_crop *crop, size_t run,
                        const double *scale, const double *shift, void *out)
{
    size_t height = ds->shape[1], width = ds->shape[2], plane = ds->frame[0] * ds->frame[1];
    for (size_t c = 0; c < ds->shape[0]; c++)
        for (size_t y = 0; y < height; y++) {
            size_t place = c * plane + (crop->top + y) * ds->frame[1] + crop->left;
            gather_run(ops, ds, first + place, width, run == 1 ? width : 1, scale ? scale + place / run : NULL,
                       shift ? shift + place / run : NULL, fli_at(ops, out, (c * height + y) * width));
        }
}

static void gather_image(const fli_ops *ops, const fli_dataset *ds, size_t sample, const fli_crop *crop, void *out)
{
    size_t length = fli_dataset_length(ds), first = sample * length, segments = ds->each ? 1 : ds->segments;
    size_t run = ds->each || !ds->scale ? length : length / segments;
    double own[2];
    const double *scale = ds->scale, *shift = ds->shift;
    if (ds->each) {
        own_scale(ds, first, crop, &own[0], &own[1]);
        scale = &own[0];
        shift = &own[1];
    }
    if (ds->frame[0])
        gather_crop(ops, ds, first, crop, run, scale, shift, out);
    else
        gather_run(ops, ds, first, length, segments, scale, shift, out);
    if (crop->mirror || crop->down || crop->right)
        ops->image->shift(ds->shape[0], ds->shape[1], ds->shape[2], crop->mirror, crop->down, crop->right,
                          scale ? shift : NULL, run, out);
}

/* ---- batches --------------------------------------------------------------------------------------------- */

void fli_images_gather(const fli_ops *ops, const fli_dataset *ds, const uint32_t *idx, size_t n, void *out)
{
    const fli_crop_sizes z = sizes(ds);
    const fli_crop crop = fli_crop_middle(&z);
    for (size_t i = 0; i < n; i++) gather_image(ops, ds, idx[i], &crop, fli_at(ops, out, i * ds->dim));
}

static fli_crop draw_crop(const fli_dataset *ds, const fli_crop_sizes *z, const fli_rng *turn, uint32_t epoch,
                          uint32_t sample)
{
    fli_rng r;
    uint32_t bits[4];
    fli_rng_item(turn, FLI_RNG_AUGMENT, epoch, fli_dataset_number(ds, sample), &r);
    for (int k = 0; k < 4; k++) bits[k] = fli_rng_u32(&r);
    return fli_crop_random(ds->augment, ds->still, z, bits);
}

void fli_batch_augment(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, const fli_rng *turn, uint32_t epoch)
{
    const fli_crop_sizes z = sizes(ds);
    for (size_t i = 0; i < b->n; i++) {
        const fli_crop crop = draw_crop(ds, &z, turn, epoch, idx[i]);
        gather_image(b->ops, ds, idx[i], &crop, fli_at(b->ops, b->x, i * b->dim));
    }
}

/* ---- images augmented once -------------------------------------------------------------------------------- */

/* Copies line y of channel c of the visible part. Positions outside the image keep what `to` has. */
static void freeze_line(const fli_dataset *ds, const fli_crop *crop, size_t c, size_t y, const char *from, char *to)
{
    size_t size = fli_xkind_size(ds->kind), width = ds->shape[2], line = ds->frame[0] ? ds->frame[1] : width;
    size_t lines = ds->frame[0] ? ds->frame[0] : ds->shape[1];
    int64_t row = (int64_t)y - crop->down;
    if (row < 0 || row >= (int64_t)ds->shape[1]) return;
    from += ((c * lines + crop->top + (size_t)row) * line + crop->left) * size;
    for (size_t x = 0; x < width; x++) {
        int64_t col = (int64_t)x - crop->right;
        if (col < 0 || col >= (int64_t)width) continue;
        memcpy(to + x * size, from + (crop->mirror ? width - 1 - (size_t)col : (size_t)col) * size, size);
    }
}

static void freeze_image(const fli_dataset *ds, const fli_crop_sizes *z, const fli_crop *crop, char *image,
                         char *stored)
{
    size_t size = fli_xkind_size(ds->kind), bytes = fli_dataset_length(ds) * size;
    size_t line = ds->frame[0] ? ds->frame[1] : ds->shape[2], lines = ds->frame[0] ? ds->frame[0] : ds->shape[1];
    const fli_crop middle = fli_crop_middle(z);
    memcpy(image, stored, bytes);
    memset(stored, 0, bytes);
    for (size_t c = 0; c < ds->shape[0]; c++)
        for (size_t y = 0; y < ds->shape[1]; y++)
            freeze_line(ds, crop, c, y, image, stored + ((c * lines + middle.top + y) * line + middle.left) * size);
}

static void *copied(fl_ctx *ctx, const void *v, size_t n, size_t size)
{
    void *own = fli_alloc(ctx, n, size);
    if (own) memcpy(own, v, n * size);
    return own;
}

/* Copies borrowed features and targets, so that they can be changed. For dense sets that are not mapped. */
static fl_status own_samples(fl_ctx *ctx, fli_dataset *ds)
{
    if (!(ds->borrows & FLI_BORROWS_SAMPLES)) return FL_OK;
    void *x = copied(ctx, ds->x, fli_dataset_stored(ds), fli_xkind_size(ds->kind));
    double *target = ds->target ? copied(ctx, ds->target, ds->n, sizeof *target) : NULL;
    if (!x || (ds->target && !target)) {
        fli_free(x);
        fli_free(target);
        return FL_ENOMEM;
    }
    ds->x = x;
    ds->target = target;
    ds->borrows &= ~(unsigned)FLI_BORROWS_SAMPLES;
    return FL_OK;
}

fl_status fli_dataset_freeze(fl_ctx *ctx, fli_dataset *ds, uint64_t seed, const uint32_t *idx, size_t n)
{
    const fli_crop_sizes z = sizes(ds);
    size_t bytes = fli_dataset_length(ds) * fli_xkind_size(ds->kind);
    fli_rng before; /* a stream of no client's turn */
    if (ds->scale && ds->segments > ds->shape[0])
        return fli_fail(ctx, FL_ECONFIG,
                        "data.augment_once moves pixels, but data.normalize has %zu scales for %zu channels; use one "
                        "that scales whole channels or images",
                        ds->segments, ds->shape[0]);
    char *image = fli_alloc(ctx, 1, bytes);
    fl_status s = image ? own_samples(ctx, ds) : FL_ENOMEM;
    fli_rng_init(&before, seed, FLI_RNG_AUGMENT, 0, 0);
    for (size_t i = 0; !s && i < n; i++) {
        const fli_crop crop = draw_crop(ds, &z, &before, 0, idx[i]);
        freeze_image(ds, &z, &crop, image, (char *)ds->x + idx[i] * bytes);
    }
    fli_free(image);
    return s;
}
