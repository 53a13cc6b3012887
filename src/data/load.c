#include "data/load.h"

#include "base/number.h"
#include "base/os.h"
#include "format/stream.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- files ---------------------------------------------------------------------------------------------- */

/* `numpy`: the file may be an NPY file. */
static fl_status open_known(fl_ctx *ctx, const char *dir, const char *name, int numpy, fli_stream **out)
{
    char *path;
    const uint8_t *first;
    size_t n;
    *out = NULL;
    fl_status s = fli_find_file(ctx, dir, name, &path);
    if (s) return s;
    s = fli_stream_open(ctx, path, out);
    fli_free(path);
    if (s == FL_OK) s = fli_stream_peek(*out, &first, &n);
    if (s == FL_OK) s = fli_format_check(ctx, fli_stream_path(*out), first, n, numpy);
    if (s == FL_OK) return s;
    fli_stream_close(*out);
    *out = NULL;
    return s;
}

fl_status fli_load_open(fl_ctx *ctx, const char *dir, const char *name, fli_stream **out)
{
    return open_known(ctx, dir, name, 0, out);
}

fl_status fli_load_open_npy(fl_ctx *ctx, const char *name, fli_stream **out)
{
    return open_known(ctx, "", name, 1, out);
}

fl_status fli_load_open_text(fl_ctx *ctx, const char *name, fli_stream **out)
{
    fl_status s = open_known(ctx, "", name, 0, out);
    if (s == FL_OK) s = fli_stream_skip_mark(*out);
    if (s == FL_OK) return s;
    fli_stream_close(*out);
    *out = NULL;
    return s;
}

fl_status fli_load_volume(fl_ctx *ctx, const char *path, const uint64_t *size, size_t count, size_t element,
                          size_t *values)
{
    const uint64_t most = ((uint64_t)64 << 30) / element;
    uint64_t product = 1;
    for (size_t i = 0; i < count; i++) {
        if (!size[i]) return fli_fail(ctx, FL_EFORMAT, "%s: dimension %zu in the header is 0", path, i);
        if (size[i] > most / product)
            return fli_fail(ctx, FL_EFORMAT, "%s: dimension %zu in the header is %" PRIu64 ", which makes over 64 GiB",
                            path, i, size[i]);
        product *= size[i];
    }
    if (count && size[0] >= UINT32_MAX)
        return fli_fail(ctx, FL_EFORMAT, "%s: %" PRIu64 " samples are too many to index", path, size[0]);
    *values = (size_t)product;
    return FL_OK;
}

fl_status fli_load_body(fl_ctx *ctx, fli_stream *s, size_t bytes, const char *what, void **out)
{
    enum { FIRST = 1 << 20 };
    fl_status status = FL_OK;
    size_t have = 0;
    void *p = NULL;
    *out = NULL;
    while (status == FL_OK && have < bytes) {
        size_t want = have < FIRST / 2 ? FIRST : 2 * have;
        if (want > bytes) want = bytes;
        status = fli_grow(ctx, &p, have, want, 1);
        if (status == FL_OK) status = fli_stream_need(s, (char *)p + have, want - have, what);
        have = want;
    }
    if (status == FL_OK)
        *out = p;
    else
        fli_free(p);
    return status;
}

fl_status fli_load_values(fl_ctx *ctx, fli_stream *s, size_t bytes, size_t size, const char *what, int map,
                          fli_dataset *ds)
{
    ds->x = map ? fli_stream_map(s, bytes, size, &ds->map) : NULL;
    return ds->x ? FL_OK : fli_load_body(ctx, s, bytes, what, &ds->x);
}

fl_status fli_load_check_test(fl_ctx *ctx, const char *path, const fli_dataset *train, const fli_dataset *test)
{
    if (test->dim != train->dim || memcmp(test->shape, train->shape, sizeof test->shape))
        return fli_fail(
            ctx, FL_EFORMAT, "%s: samples of %zu x %zu x %zu features, but those for training are %zu x %zu x %zu",
            path, test->shape[0], test->shape[1], test->shape[2], train->shape[0], train->shape[1], train->shape[2]);
    return FL_OK;
}

fl_status fli_load_origin(fl_ctx *ctx, const char *path, fli_dataset *ds)
{
    ds->origin = fli_strdup(ctx, path);
    return ds->origin ? FL_OK : FL_ENOMEM;
}

fl_status fli_load_hand_out(fl_status status, fli_dataset *a, fli_dataset *b, fli_dataset **train, fli_dataset **test)
{
    if (status == FL_OK) {
        *train = a;
        *test = b;
    } else {
        fli_dataset_free(a);
        fli_dataset_free(b);
    }
    return status;
}

/* ---- text ----------------------------------------------------------------------------------------------- */

/* Reads short decimals without exponent: at most 15 digits over a power of ten up to 10^15 are a quotient of two exact
 * doubles, so one division rounds correctly. Returns 0 for anything else, which strtod must read. */
static int read_short(const char *p, double *out)
{
    static const double power[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    uint64_t digits = 0;
    int count = 0, behind = 0, point = 0, minus = *p == '-';
    if (*p == '-' || *p == '+') p++;
    for (; *p && count <= 15; p++) {
        if (*p == '.' && !point) {
            point = 1;
            continue;
        }
        if (*p < '0' || *p > '9') return 0;
        digits = 10 * digits + (uint64_t)(*p - '0');
        count++;
        behind += point;
    }
    if (!count || count > 15) return 0;
    double v = (double)digits / power[behind];
    *out = minus ? -v : v;
    return 1;
}

const char *fli_number_read(const char *text, double largest, double *out)
{
    char *end;
    double v = 0;
    if (!read_short(text, &v)) {
        if (!*text || strchr(" \t\r\n\v\f", *text) || strpbrk(text, "xXpP")) return FLI_NO_NUMBER;
        v = fli_strtod(text, &end);
        if (end == text || *end) return FLI_NO_NUMBER;
        if (!isfinite(v)) return isinf(v) && strpbrk(text, "0123456789") ? "is too large" : "is not a finite number";
    }
    if (fabs(v) > largest) return "is too large for precision f32; precision: f64 keeps it, unless storage is f32";
    *out = v;
    return NULL;
}
