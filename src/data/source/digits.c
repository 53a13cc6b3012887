/* Drawn digits: 28 x 28 grey images that need no files.
 *
 * A digit is a few strokes (lines and elliptical arcs in the unit square, y pointing down). Each image cuts them into
 * short segments, and bends, shears, scales, turns and moves them at random. A pixel's ink falls off with its distance
 * from the nearest segment, which makes smooth edges; noise is added last. Image s depends on (seed, s) alone. */
#include "data/source.h"

#include <math.h>
#include <string.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, STROKES = 3, ARC_PIECES = 16 };

#define PI 3.14159265358979323846

typedef struct {
    int64_t samples, test_samples;
    double noise, jitter;
} digits_params;

static const fl_key keys[] = {
    FLI_KEY_INT(digits_params, samples, "6000", 1, 1e8, "training images, the same number of each digit"),
    FLI_KEY_INT(digits_params, test_samples, "1000", 0, 1e8, "test images; 0: none"),
    FLI_KEY_REAL(digits_params, noise, "0.1", 0, 10, "deviation of the pixel noise; 1 is full ink"),
    FLI_KEY_REAL(digits_params, jitter, "1", 0, 3, "how much shapes vary; 0: all alike"),
    FLI_KEY_END,
};

/* ---- shapes -------------------------------------------------------------------------------------------- */

typedef struct {
    enum { NONE, LINE, ARC } kind;
    double a[6]; /* line: x0 y0 x1 y1; arc: centre x y, radii x y, from, to in degrees, 90 is down */
} stroke;

typedef struct {
    int digit;
    stroke stroke[STROKES];
} glyph;

/* Sorted by digit; several glyphs of a digit are equally likely. */
static const glyph glyphs[] = {
    {0, {{ARC, {.50, .50, .25, .38, 0, 360}}}},
    {1, {{LINE, {.52, .12, .52, .88}}, {LINE, {.34, .28, .52, .12}}}},
    {1, {{LINE, {.52, .12, .48, .88}}}},
    {2, {{ARC, {.50, .33, .23, .21, 190, 390}}, {LINE, {.70, .435, .26, .88}}, {LINE, {.26, .88, .76, .88}}}},
    {3, {{ARC, {.47, .31, .22, .19, 205, 450}}, {ARC, {.47, .69, .25, .19, 270, 515}}}},
    {4, {{LINE, {.60, .12, .22, .62}}, {LINE, {.22, .62, .80, .62}}, {LINE, {.60, .12, .60, .89}}}},
    {4, {{LINE, {.33, .12, .26, .54}}, {LINE, {.26, .54, .76, .54}}, {LINE, {.67, .14, .65, .89}}}},
    {5, {{LINE, {.72, .12, .33, .12}}, {LINE, {.33, .12, .29, .51}}, {ARC, {.48, .66, .25, .23, 220, 505}}}},
    {6, {{ARC, {.50, .67, .22, .21, 0, 360}}, {ARC, {.66, .65, .38, .53, 180, 258}}}},
    {7, {{LINE, {.24, .13, .76, .13}}, {LINE, {.76, .13, .42, .89}}}},
    {7, {{LINE, {.24, .13, .76, .13}}, {LINE, {.76, .13, .42, .89}}, {LINE, {.42, .50, .74, .50}}}},
    {8, {{ARC, {.50, .31, .19, .19, 0, 360}}, {ARC, {.50, .69, .23, .19, 0, 360}}}},
    {9, {{ARC, {.50, .33, .22, .21, 0, 360}}, {ARC, {.34, .35, .38, .53, 0, 78}}}},
    {9, {{ARC, {.50, .33, .22, .21, 0, 360}}, {LINE, {.72, .33, .64, .89}}}},
};

static const glyph *draw_glyph(fli_rng *r, int digit)
{
    const glyph *first = glyphs, *end = glyphs + sizeof glyphs / sizeof *glyphs;
    while (first->digit != digit) first++;
    const glyph *last = first;
    while (last + 1 < end && last[1].digit == digit) last++;
    return first + fli_rng_below(r, (uint64_t)(last - first) + 1);
}

/* ---- handwriting ------------------------------------------------------------------------------------------- */

typedef struct {
    double a[2][2], shift[2];          /* about the middle of the square */
    double bend[2], wave[2], phase[2]; /* shift of x as a wave in y, and of y as a wave in x */
    double width, ink;
} handwriting;

static handwriting draw_handwriting(fli_rng *r, double jitter)
{
    handwriting h;
    double angle = jitter * fli_rng_range(r, -0.3, 0.3), shear = jitter * fli_rng_range(r, -0.3, 0.3);
    double sx = 0.92 * exp(jitter * fli_rng_range(r, -0.3, 0.15)),
           sy = 0.95 * exp(jitter * fli_rng_range(r, -0.3, 0.08));
    double c = cos(angle), s = sin(angle);
    h.a[0][0] = c * sx;
    h.a[0][1] = (c * shear - s) * sy;
    h.a[1][0] = s * sx;
    h.a[1][1] = (s * shear + c) * sy;
    for (int i = 0; i < 2; i++) {
        h.shift[i] = jitter * fli_rng_range(r, -0.1, 0.1);
        h.bend[i] = jitter * fli_rng_range(r, 0, 0.06);
        h.wave[i] = fli_rng_range(r, 3, 8);
        h.phase[i] = fli_rng_range(r, 0, 2 * PI);
    }
    h.width = 0.08 * exp(jitter * fli_rng_range(r, -0.45, 0.45));
    h.ink = 1 - 0.25 * fmin(jitter, 1) * fli_rng_uniform(r);
    return h;
}

/* A point of the unit square to its pixel coordinates in this handwriting. */
static void to_pixels(const handwriting *h, double x, double y, double out[2])
{
    double u = x - 0.5 + h->bend[0] * sin(h->wave[0] * y + h->phase[0]);
    double v = y - 0.5 + h->bend[1] * sin(h->wave[1] * x + h->phase[1]);
    for (int i = 0; i < 2; i++) out[i] = SIDE * (0.5 + h->a[i][0] * u + h->a[i][1] * v + h->shift[i]);
}

/* Point t in [0, 1] of a stroke. */
static void stroke_point(const stroke *s, double t, double *x, double *y)
{
    const double *a = s->a;
    if (s->kind == LINE) {
        *x = a[0] + t * (a[2] - a[0]);
        *y = a[1] + t * (a[3] - a[1]);
        return;
    }
    double angle = (a[4] + t * (a[5] - a[4])) * PI / 180;
    *x = a[0] + a[2] * cos(angle);
    *y = a[1] + a[3] * sin(angle);
}

/* ---- pixels -------------------------------------------------------------------------------------------- */

static double distance2(const double p[2], const double q[2], double x, double y)
{
    double dx = q[0] - p[0], dy = q[1] - p[1], ex = x - p[0], ey = y - p[1], length2 = dx * dx + dy * dy;
    double t = length2 > 0 ? (ex * dx + ey * dy) / length2 : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    ex -= t * dx;
    ey -= t * dy;
    return ex * ex + ey * ey;
}

/* First and last pixel whose centre may lie within `reach` of the interval a .. b. */
static void span(double a, double b, double reach, int *from, int *to)
{
    *from = (int)fmax(0, floor(fmin(a, b) - reach));
    *to = (int)fmin(SIDE - 1, ceil(fmax(a, b) + reach));
}

/* near2[i]: squared distance of pixel i from the segments drawn so far; looks only at pixels near the segment. */
static void draw_segment(const double p[2], const double q[2], double reach, double *near2)
{
    int x0, x1, y0, y1;
    span(p[0], q[0], reach, &x0, &x1);
    span(p[1], q[1], reach, &y0, &y1);
    for (int y = y0; y <= y1; y++)
        for (int x = x0; x <= x1; x++) {
            double d2 = distance2(p, q, x + 0.5, y + 0.5);
            if (d2 < near2[y * SIDE + x]) near2[y * SIDE + x] = d2;
        }
}

static void draw_image(fli_rng *r, int digit, double noise, double jitter, uint8_t *pixel)
{
    double near2[PIXELS], p[2], q[2], x, y;
    const glyph *g = draw_glyph(r, digit);
    handwriting h = draw_handwriting(r, jitter);
    double half = SIDE * h.width / 2;
    for (int i = 0; i < PIXELS; i++) near2[i] = 1e9;
    for (const stroke *s = g->stroke; s < g->stroke + STROKES && s->kind != NONE; s++) {
        stroke_point(s, 0, &x, &y);
        to_pixels(&h, x, y, p);
        int pieces = s->kind == ARC ? ARC_PIECES : ARC_PIECES / 4;
        for (int i = 1; i <= pieces; i++) {
            stroke_point(s, (double)i / pieces, &x, &y);
            to_pixels(&h, x, y, q);
            draw_segment(p, q, half + 1, near2);
            memcpy(p, q, sizeof p);
        }
    }
    for (int i = 0; i < PIXELS; i++) {
        double cover = 0.5 + half - sqrt(near2[i]); /* of a pixel at this distance from the stroke */
        double v = h.ink * (cover < 0 ? 0 : cover > 1 ? 1 : cover);
        if (noise > 0) v += noise * fli_rng_normal(r);
        pixel[i] = (uint8_t)(v <= 0 ? 0 : v >= 1 ? 255 : v * 255 + 0.5);
    }
}

/* part: 0 training, 1 test */
static fl_status make(fl_ctx *ctx, const digits_params *p, uint64_t seed, uint32_t part, int64_t n, fli_dataset **out)
{
    fl_status s = fli_dataset_new(ctx, FLI_X_U8, (size_t)n, PIXELS, CLASSES, out);
    if (s) return s;
    (*out)->shape[0] = 1;
    (*out)->shape[1] = (*out)->shape[2] = SIDE;
    uint8_t *pixel = (*out)->x;
    for (size_t i = 0; i < (size_t)n; i++, pixel += PIXELS) {
        fli_rng r;
        fli_rng_init(&r, seed, FLI_RNG_DATA, (uint32_t)i, part);
        (*out)->label[i] = (int32_t)(i % CLASSES);
        draw_image(&r, (int)(i % CLASSES), p->noise, p->jitter, pixel);
    }
    return FL_OK;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const digits_params *p = request->params;
    uint64_t seed = request->seed;
    fl_status s = make(ctx, p, seed, 0, p->samples, train);
    if (!s && p->test_samples) s = make(ctx, p, seed, 1, p->test_samples, test);
    if (s) {
        fli_dataset_free(*train);
        *train = NULL;
    }
    return s;
}

const fli_source fli_source_digits = {
    .name = "digits",
    .title = "drawn digits, 28 x 28 grey images that need no files",
    .keys = keys,
    .params_size = sizeof(digits_params),
    .load = load,
};
