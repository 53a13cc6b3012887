/* Pictures in another size. Every pixel that is made is a mean of those around its place, weighted by a triangle: two
 * pixels wide where the picture grows (bilinear), wider in proportion where it shrinks, so that nothing is left out.
 * First along the rows, then along the columns, each rounded to bytes. The weights are whole numbers of 2^-22. All this
 * is what Pillow's resize(..., BILINEAR) does, and so torchvision's Resize, with the same bits up to Pillow 12. Later
 * ones take the columns of tall pictures first, so that some bytes differ by one. */
#include "data/source/picture.h"

#include <math.h>

enum { BITS = 22 };

/* How one axis shrinks or grows: the weights of what pixel o is made of begin at weight[o * most]. */
typedef struct {
    size_t in, out, most;
    size_t *first, *count;
    int32_t *weight;
} filter;

static void fini(filter *f)
{
    fli_free(f->first);
    fli_free(f->count);
    fli_free(f->weight);
}

/* Pixel o, whose weights are w[0 .. most-1] at first. */
static void set_weights(filter *f, size_t o, double *w)
{
    double scale = (double)f->in / (double)f->out, reach = scale < 1 ? 1 : scale, sum = 0;
    double centre = ((double)o + 0.5) * scale, from = centre - reach + 0.5, to = centre + reach + 0.5;
    size_t first = from > 0 ? (size_t)from : 0, end = to < (double)f->in ? (size_t)to : f->in;
    f->first[o] = first;
    f->count[o] = end - first;
    for (size_t k = 0; k < end - first; k++) {
        double away = fabs(((double)(first + k) - centre + 0.5) * (1 / reach));
        sum += w[k] = away < 1 ? 1 - away : 0;
    }
    for (size_t k = 0; k < end - first; k++) f->weight[o * f->most + k] = (int32_t)(0.5 + w[k] / sum * (1 << BITS));
}

static fl_status init(fl_ctx *ctx, size_t in, size_t out, filter *f)
{
    double reach = in > out ? (double)in / (double)out : 1;
    *f = (filter){.in = in, .out = out, .most = 2 * (size_t)ceil(reach) + 1};
    f->first = fli_alloc(ctx, out, sizeof *f->first);
    f->count = fli_alloc(ctx, out, sizeof *f->count);
    f->weight = fli_alloc(ctx, out * f->most, sizeof *f->weight);
    double *w = fli_alloc(ctx, f->most, sizeof *w);
    fl_status s = f->first && f->count && f->weight && w ? FL_OK : FL_ENOMEM;
    for (size_t o = 0; !s && o < out; o++) set_weights(f, o, w);
    fli_free(w);
    return s;
}

/* from: lines x f->in x inner; to: lines x f->out x inner */
static void apply(const filter *f, size_t lines, size_t inner, const uint8_t *from, uint8_t *to)
{
    for (size_t l = 0; l < lines; l++, from += f->in * inner)
        for (size_t o = 0; o < f->out; o++) {
            const int32_t *w = f->weight + o * f->most;
            const uint8_t *p = from + f->first[o] * inner;
            for (size_t i = 0; i < inner; i++) {
                int32_t sum = 1 << (BITS - 1);
                for (size_t k = 0; k < f->count[o]; k++) sum += w[k] * p[k * inner + i];
                *to++ = sum >> BITS > 255 ? 255 : (uint8_t)(sum >> BITS);
            }
        }
}

/* One axis of the picture: lines x in x inner bytes become lines x out x inner. */
static fl_status resample(fl_ctx *ctx, fli_picture *p, size_t lines, size_t in, size_t inner, size_t out)
{
    filter f;
    if (in == out) return FL_OK;
    fl_status s = init(ctx, in, out, &f);
    uint8_t *to = s ? NULL : fli_alloc(ctx, lines * out, inner);
    if (to) {
        apply(&f, lines, inner, p->pixel, to);
        fli_free(p->pixel);
        p->pixel = to;
    }
    fini(&f);
    return to ? FL_OK : FL_ENOMEM;
}

fl_status fli_picture_resize(fl_ctx *ctx, fli_picture *p, size_t height, size_t width)
{
    fl_status s = resample(ctx, p, p->height, p->width, p->channels, width);
    if (!s) p->width = width;
    if (!s) s = resample(ctx, p, 1, p->height, p->width * p->channels, height);
    if (!s) p->height = height;
    return s;
}
