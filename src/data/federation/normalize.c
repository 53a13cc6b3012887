/* Scale and shift of features. Every method ends in  value * scale + shift  with one pair per segment: the whole row, a
 * channel, or a single feature. A constant feature has scale 1.
 *
 * Sparse data must stay sparse and give the same results as when they are dense, so shifting a zero is refused. */
#include "data/federation/federation.h"

#include <math.h>
#include <string.h>

static fl_status allocate(fl_ctx *ctx, fli_dataset *ds, size_t segments)
{
    ds->scale = fli_alloc(ctx, segments, sizeof *ds->scale);
    ds->shift = fli_alloc(ctx, segments, sizeof *ds->shift);
    if (!ds->scale || !ds->shift) return FL_ENOMEM;
    ds->segments = segments;
    return FL_OK;
}

static fl_status bytes_to_unit(fl_ctx *ctx, fli_dataset *ds)
{
    fl_status s = allocate(ctx, ds, 1);
    if (!s) ds->scale[0] = 1.0 / 255;
    return s;
}

static double inverse(double v) { return v > 0 ? 1 / v : 1; }

static fl_status would_fill(fl_ctx *ctx, const char *how)
{
    return fli_fail(ctx, FL_ECONFIG,
                    "normalize %s would shift the zeros of sparse data; use unit or columns, or storage: dense if the "
                    "data fit into memory",
                    how);
}

/* ---- unit and columns ------------------------------------------------------------------------------------- */

/* Folds one more value of a feature into its divisor. The divisor starts at 0, and a zero value does not change it. */
typedef double measure(double so_far, double value);

static double largest(double so_far, double value) { return fmax(so_far, fabs(value)); }
static double norm(double so_far, double value) { return hypot(so_far, value); }

static void measure_features(const fli_dataset *ds, measure *f, double *row, double *size)
{
    if (fli_dataset_sparse(ds)) {
        const float *narrow = ds->x;
        const double *wide = ds->x;
        for (size_t k = 0; k < ds->row[ds->n]; k++)
            size[ds->col[k]] = f(size[ds->col[k]], ds->kind == FLI_X_CSR64 ? wide[k] : (double)narrow[k]);
        return;
    }
    for (size_t i = 0; i < ds->n; i++) {
        fli_dataset_row(ds, i, row);
        for (size_t j = 0; j < ds->dim; j++) size[j] = f(size[j], row[j]);
    }
}

static fl_status divide_by(fl_ctx *ctx, measure *f, fli_dataset *ds)
{
    double *size = fli_alloc(ctx, 2 * ds->dim, sizeof *size); /* the divisors, then a row */
    if (!size) return FL_ENOMEM;
    measure_features(ds, f, size + ds->dim, size);
    fl_status s = allocate(ctx, ds, ds->dim);
    for (size_t j = 0; !s && j < ds->dim; j++) ds->scale[j] = inverse(size[j]);
    fli_free(size);
    return s;
}

static fl_status unit(fl_ctx *ctx, fli_dataset *ds)
{
    return ds->kind == FLI_X_U8 ? bytes_to_unit(ctx, ds) : divide_by(ctx, largest, ds);
}

/* ---- standard ------------------------------------------------------------------------------------------ */

/* out[segment] += sum over the segment's values of (x - mean[segment])^2, or of x if mean is NULL. */
static void sums(const fli_dataset *ds, size_t segments, const double *mean, double *row, double *out)
{
    size_t run = ds->dim / segments;
    for (size_t i = 0; i < ds->n; i++) {
        fli_dataset_row(ds, i, row);
        for (size_t g = 0; g < segments; g++) {
            const double *x = row + g * run;
            double sum = 0;
            if (mean)
                for (size_t j = 0; j < run; j++) sum += (x[j] - mean[g]) * (x[j] - mean[g]);
            else
                for (size_t j = 0; j < run; j++) sum += x[j];
            out[g] += sum;
        }
    }
}

/* Mean and deviation per segment. Two passes avoid cancellation. */
static void moments(const fli_dataset *ds, size_t segments, double *row, double *mean, double *std)
{
    double count = (double)ds->n * (double)(ds->dim / segments);
    sums(ds, segments, NULL, row, mean);
    for (size_t g = 0; g < segments; g++) mean[g] /= count;
    sums(ds, segments, mean, row, std);
    for (size_t g = 0; g < segments; g++) std[g] = sqrt(std[g] / count);
}

static int is_image(const fli_dataset *ds) { return ds->shape[1] > 1; }

static fl_status standard(fl_ctx *ctx, fli_dataset *ds)
{
    if (fli_dataset_sparse(ds)) return would_fill(ctx, "standard");
    size_t segments = is_image(ds) ? ds->shape[0] : ds->dim;
    double *row = fli_alloc(ctx, ds->dim + 2 * segments, sizeof *row);
    if (!row) return FL_ENOMEM;
    double *mean = row + ds->dim, *std = mean + segments;
    moments(ds, segments, row, mean, std);
    fl_status s = allocate(ctx, ds, segments);
    for (size_t g = 0; !s && g < segments; g++) {
        ds->scale[g] = inverse(std[g]);
        ds->shift[g] = -mean[g] * ds->scale[g];
    }
    fli_free(row);
    return s;
}

/* ---- given --------------------------------------------------------------------------------------------- */

static fl_status check_values(fl_ctx *ctx, const char *name, const fl_reals *list, size_t channels)
{
    if (list->n == 1 || list->n == channels) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "normalize %s has %zu values, but the data take 1 or %zu", name, list->n,
                    channels);
}

static fl_status given(fl_ctx *ctx, const fl_reals *mean, const fl_reals *std, fli_dataset *ds)
{
    size_t channels = is_image(ds) ? ds->shape[0] : ds->dim, segments = mean->n > std->n ? mean->n : std->n;
    fl_status s = check_values(ctx, "given: mean", mean, channels);
    if (!s) s = check_values(ctx, "given: std", std, channels);
    for (size_t g = 0; !s && g < std->n; g++)
        if (!(std->v[g] > 0))
            s = fli_fail(ctx, FL_ECONFIG, "normalize given: std is %g, but must be larger than 0", std->v[g]);
    if (!s && fli_dataset_sparse(ds)) s = would_fill(ctx, "given");
    if (!s) s = allocate(ctx, ds, segments);
    double unit_of = ds->kind == FLI_X_U8 ? 255 : 1;
    for (size_t g = 0; !s && g < segments; g++) {
        double m = mean->v[mean->n > 1 ? g : 0], d = std->v[std->n > 1 ? g : 0];
        ds->scale[g] = 1 / (unit_of * d);
        ds->shift[g] = -m / d;
    }
    return s;
}

/* ---- affine -------------------------------------------------------------------------------------------- */

/* Scale and shift as configured: one pair for all, per channel, or per feature. Sparse data take one per feature. */
static fl_status affine(fl_ctx *ctx, const fl_reals *scale, const fl_reals *shift, fli_dataset *ds)
{
    int sparse = fli_dataset_sparse(ds);
    size_t segments = sparse ? ds->dim : scale->n;
    for (size_t g = 0; sparse && g < shift->n; g++)
        if (shift->v[g] != 0) return would_fill(ctx, "affine with a shift");
    if (!segments || ds->dim % segments || (scale->n > 1 && scale->n != ds->dim && scale->n != ds->shape[0]))
        return fli_fail(ctx, FL_ECONFIG, "normalize affine: scale has %zu values, but the data take 1, %zu or %zu",
                        scale->n, ds->shape[0], ds->dim);
    fl_status s = shift->n ? check_values(ctx, "affine: shift", shift, scale->n) : FL_OK;
    if (!s) s = allocate(ctx, ds, segments);
    for (size_t g = 0; !s && g < segments; g++) {
        ds->scale[g] = scale->v[scale->n > 1 ? g : 0];
        if (shift->n) ds->shift[g] = shift->v[shift->n > 1 ? g : 0];
    }
    return s;
}

/* ---- image --------------------------------------------------------------------------------------------- */

static fl_status image(fl_ctx *ctx, fli_dataset *ds)
{
    if (fli_dataset_sparse(ds) || !is_image(ds))
        return fli_fail(ctx, FL_ECONFIG,
                        "normalize image is for images, but the data has samples of %zu features in a row", ds->dim);
    ds->each = 1;
    return FL_OK;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static fl_status copy(fl_ctx *ctx, const fli_dataset *from, fli_dataset *to)
{
    if (to) to->each = from->each;
    if (!from->scale || !to) return FL_OK;
    fl_status s = allocate(ctx, to, from->segments);
    if (s) return s;
    memcpy(to->scale, from->scale, from->segments * sizeof *to->scale);
    memcpy(to->shift, from->shift, from->segments * sizeof *to->shift);
    return FL_OK;
}

/* f32 and f64 reals may be mixed; bytes and sparse rows are normalised differently, so both sets must have them. */
static fl_status check_alike(fl_ctx *ctx, const fli_dataset *train, const fli_dataset *test)
{
    static const char *const words[] = {"bytes", "f32", "f64", "sparse", "sparse"};
    int bytes = (test->kind == FLI_X_U8) != (train->kind == FLI_X_U8);
    if (test->dim == train->dim && !bytes && fli_dataset_sparse(test) == fli_dataset_sparse(train)) return FL_OK;
    return fli_fail(ctx, FL_EFORMAT,
                    "the test samples (%zu features, %s) are not stored like the training samples (%zu features, %s)",
                    test->dim, words[test->kind], train->dim, words[train->kind]);
}

fl_status fli_normalize_sets(fl_ctx *ctx, int how, const fl_reals *first, const fl_reals *second, fli_dataset *train,
                             fli_dataset *test)
{
    fl_status s = test ? check_alike(ctx, train, test) : FL_OK;
    if (s) return s;
    if (!train->dim && how != FLI_NORM_AUTO && how != FLI_NORM_NONE)
        return fli_fail(ctx, FL_ECONFIG, "data.normalize must be auto or none: the samples have no features");
    switch ((fli_normalize)how) {
    case FLI_NORM_AUTO:
        if (train->kind == FLI_X_U8) s = bytes_to_unit(ctx, train);
        break;
    case FLI_NORM_NONE: break;
    case FLI_NORM_UNIT: s = unit(ctx, train); break;
    case FLI_NORM_STANDARD: s = standard(ctx, train); break;
    case FLI_NORM_COLUMNS: s = divide_by(ctx, norm, train); break;
    case FLI_NORM_GIVEN: s = given(ctx, first, second, train); break;
    case FLI_NORM_IMAGE: s = image(ctx, train); break;
    case FLI_NORM_AFFINE: s = affine(ctx, first, second, train); break;
    }
    return s ? s : copy(ctx, train, test);
}
