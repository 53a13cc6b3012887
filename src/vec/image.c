/* Images on the CPU, compiled once per precision and level (precision.h). Channels are last, so the inner loops run
 * over channels: long, contiguous, without dependences. */
#include "vec/ops.h"
#include "vec/precision.h"

#include <string.h>

static void transpose(size_t n, size_t rows, size_t cols, const void *x_, void *y_)
{
    const REAL *restrict x = x_;
    REAL *restrict y = y_;
    for (size_t i = 0; i < n; i++, x += rows * cols, y += rows * cols)
        for (size_t c = 0; c < cols; c++)
            for (size_t r = 0; r < rows; r++) y[c * rows + r] = x[r * cols + c];
}

/* ---- windows -------------------------------------------------------------------------------------------- */

/* Along one axis: positions *from <= i < *to of window `at` lie within the image. Returns *from's position in the
 * image. */
static size_t inside_image(const fli_window *w, size_t at, size_t length, size_t *from, size_t *to)
{
    size_t start = at * w->stride; /* in the padded image */
    *from = start < w->pad ? w->pad - start : 0;
    *to = length + w->pad - start < w->kernel ? length + w->pad - start : w->kernel;
    return start + *from - w->pad;
}

static void unfold_row(const fli_window *w, const REAL *row, size_t ox, REAL *col)
{
    size_t from, to, c = w->channels, ix = inside_image(w, ox, w->width, &from, &to);
    memset(col, 0, from * c * sizeof *col);
    memcpy(col + from * c, row + ix * c, (to - from) * c * sizeof *col);
    memset(col + to * c, 0, (w->kernel - to) * c * sizeof *col);
}

static void unfold(const fli_window *w, const void *x_, void *col_)
{
    const REAL *x = x_;
    REAL *col = col_;
    size_t line = w->kernel * w->channels, from, to;
    for (size_t oy = 0; oy < w->out_height; oy++) {
        size_t iy = inside_image(w, oy, w->height, &from, &to);
        for (size_t ox = 0; ox < w->out_width; ox++)
            for (size_t k = 0; k < w->kernel; k++, col += line)
                if (k < from || k >= to)
                    memset(col, 0, line * sizeof *col);
                else
                    unfold_row(w, x + (iy + k - from) * w->width * w->channels, ox, col);
    }
}

static void fold(const fli_window *w, const void *col_, void *x_)
{
    const REAL *col = col_;
    REAL *x = x_;
    size_t c = w->channels, line = w->kernel * c, from, to, left, right;
    memset(x, 0, w->height * w->width * c * sizeof *x);
    for (size_t oy = 0; oy < w->out_height; oy++) {
        size_t iy = inside_image(w, oy, w->height, &from, &to);
        for (size_t ox = 0; ox < w->out_width; ox++, col += w->kernel * line) {
            size_t ix = inside_image(w, ox, w->width, &left, &right);
            for (size_t k = from; k < to; k++) {
                const REAL *restrict in = col + k * line + left * c;
                REAL *restrict out = x + ((iy + k - from) * w->width + ix) * c;
                for (size_t i = 0; i < (right - left) * c; i++) out[i] += in[i];
            }
        }
    }
}

/* ---- pools ---------------------------------------------------------------------------------------------- */

enum { LANES = 64 };

/* Runs its body for every window: `at` is its first value in the image x, `line` the distance between rows. */
#define EACH_WINDOW(w, n, x, line)                                                                                     \
    for (size_t image_ = 0; image_ < (n); image_++, (x) += (w)->height * (line))                                       \
        for (size_t oy_ = 0; oy_ < (w)->out_height; oy_++)                                                             \
            for (size_t ox_ = 0, at = oy_ * (w)->kernel * (line); ox_ < (w)->out_width;                                \
                 ox_++, at += (w)->kernel * (w)->channels)

/* best[c] = v[c], place[c] = here, where v[c] is larger. Not inlined, because gcc would unroll the caller's loop first
 * and then fail to vectorise. */
__attribute__((noinline)) static void take_larger(size_t channels, const REAL *restrict v, REAL_BITS here,
                                                  REAL *restrict best, REAL_BITS *restrict place)
{
    for (size_t c = 0; c < channels; c++) {
        const REAL a = v[c], b = best[c];
        const REAL_BITS take = (a > b) | (a != a);
        best[c] = take ? a : b;
        place[c] = take ? here : place[c];
    }
}

/* Up to LANES neighbouring channels of a window. Positions are as wide as reals until the end, so that loops
 * vectorise. */
static void max_window(const fli_window *w, size_t channels, const REAL *x, size_t line, uint8_t *which, REAL *y)
{
    REAL_BITS place[LANES] = {0};
    memcpy(y, x, channels * sizeof *y);
    for (size_t i = 0; i < w->kernel; i++)
        for (size_t j = 0; j < w->kernel; j++)
            take_larger(channels, x + i * line + j * w->channels, (REAL_BITS)(i * w->kernel + j), y, place);
    for (size_t c = 0; c < channels; c++) which[c] = (uint8_t)place[c];
}

static void max_pool(const fli_window *w, size_t n, const void *x_, uint8_t *which, void *y_)
{
    const REAL *x = x_;
    REAL *y = y_;
    size_t line = w->width * w->channels;
    EACH_WINDOW(w, n, x, line)
    {
        for (size_t c = 0, k; c < w->channels; c += k, y += k, which += k) {
            k = w->channels - c < LANES ? w->channels - c : LANES;
            max_window(w, k, x + at + c, line, which, y);
        }
    }
}

static void max_pick(const fli_window *w, size_t n, const void *x_, const uint8_t *which, void *y_)
{
    const REAL *x = x_;
    REAL *y = y_;
    size_t line = w->width * w->channels;
    EACH_WINDOW(w, n, x, line)
    {
        for (size_t c = 0; c < w->channels; c++)
            *y++ = x[at + (which[c] / w->kernel) * line + (which[c] % w->kernel) * w->channels + c];
        which += w->channels;
    }
}

/* Zeroes rows and columns at the right and at the bottom that no window covers. */
static void clear_rest(const fli_window *w, size_t n, REAL *x)
{
    if (w->height % w->kernel || w->width % w->kernel) memset(x, 0, n * w->height * w->width * w->channels * sizeof *x);
}

static void max_put(const fli_window *w, size_t n, const void *y_, const uint8_t *which, void *x_)
{
    const REAL *y = y_;
    REAL *x = x_;
    size_t channels = w->channels, line = w->width * channels;
    clear_rest(w, n, x);
    EACH_WINDOW(w, n, x, line)
    {
        for (size_t i = 0; i < w->kernel; i++)
            for (size_t j = 0; j < w->kernel; j++) {
                REAL *restrict out = x + at + i * line + j * channels;
                const uint8_t here = (uint8_t)(i * w->kernel + j);
                for (size_t c = 0; c < channels; c++) out[c] = which[c] == here ? y[c] : 0;
            }
        y += channels;
        which += channels;
    }
}

static void mean_pool(const fli_window *w, size_t n, const void *x_, void *y_)
{
    const REAL *x = x_, share = (REAL)1 / (REAL)(w->kernel * w->kernel);
    REAL *restrict y = y_;
    size_t channels = w->channels, line = w->width * channels;
    EACH_WINDOW(w, n, x, line)
    {
        memset(y, 0, channels * sizeof *y);
        for (size_t i = 0; i < w->kernel; i++)
            for (size_t j = 0; j < w->kernel; j++) {
                const REAL *restrict in = x + at + i * line + j * channels;
                for (size_t c = 0; c < channels; c++) y[c] += in[c];
            }
        for (size_t c = 0; c < channels; c++) y[c] *= share;
        y += channels;
    }
}

static void mean_put(const fli_window *w, size_t n, const void *y_, void *x_)
{
    const REAL *restrict y = y_;
    const REAL share = (REAL)1 / (REAL)(w->kernel * w->kernel);
    REAL *x = x_;
    size_t channels = w->channels, line = w->width * channels;
    clear_rest(w, n, x);
    EACH_WINDOW(w, n, x, line)
    {
        for (size_t i = 0; i < w->kernel; i++)
            for (size_t j = 0; j < w->kernel; j++) {
                REAL *restrict out = x + at + i * line + j * channels;
                for (size_t c = 0; c < channels; c++) out[c] = share * y[c];
            }
        y += channels;
    }
}

/* ---- augmentation --------------------------------------------------------------------------------------- */

static void mirror_row(size_t width, REAL *x)
{
    for (size_t i = 0; i < width / 2; i++) {
        REAL keep = x[i];
        x[i] = x[width - 1 - i];
        x[width - 1 - i] = keep;
    }
}

/* Row `to` of a plane = row `from` moved to the right; from NULL: all fill. `first` is the position of `to` in the
 * image. */
static void move_row(size_t width, const REAL *from, int right, const double *fill, size_t run, size_t first, REAL *to)
{
    size_t by = (size_t)(right < 0 ? -right : right), kept = from && by < width ? width - by : 0;
    size_t start = right > 0 && kept ? by : 0;
    if (kept) memmove(to + start, right < 0 ? from + by : from, kept * sizeof *to);
    for (size_t i = 0; i < width; i++)
        if (i < start || i >= start + kept) to[i] = fill ? (REAL)fill[(first + i) / run] : 0;
}

/* Moves rows in an order in which no row is overwritten before it is read. */
static void shift(size_t channels, size_t height, size_t width, int mirror, int down, int right, const double *fill,
                  size_t run, void *x_)
{
    REAL *x = x_;
    for (size_t r = 0; mirror && r < channels * height; r++) mirror_row(width, x + r * width);
    for (size_t c = 0; c < channels; c++)
        for (size_t k = 0; k < height; k++) {
            size_t r = down > 0 ? height - 1 - k : k, row = c * height + r;
            ptrdiff_t source = (ptrdiff_t)r - down;
            const REAL *from =
                source >= 0 && source < (ptrdiff_t)height ? x + (c * height + (size_t)source) * width : NULL;
            move_row(width, from, right, fill, run, row * width, x + row * width);
        }
}

const fli_image_ops OPS_IMAGE = {
    .transpose = transpose,
    .unfold = unfold,
    .fold = fold,
    .max_pool = max_pool,
    .max_pick = max_pick,
    .max_put = max_put,
    .mean_pool = mean_pool,
    .mean_put = mean_put,
    .shift = shift,
};
