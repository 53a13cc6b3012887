/* What a model sees of stored images: crops, moves, mirror images, each image by its own scale. */
#include "runs.h"

#include "data/dataset.h"
#include "data/federation/federation.h"

/* ---- padded crops ------------------------------------------------------------------------------------------ */

enum { SIDE = 9, PIXELS = 2 * SIDE * SIDE };

static fli_dataset *pictures(fixture *f, size_t n)
{
    fli_dataset *ds = NULL;
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_U8, n, PIXELS, 2, &ds));
    for (size_t i = 0; i < n * PIXELS; i++) ((uint8_t *)ds->x)[i] = (uint8_t)(1 + (i * 37 + i / PIXELS * 101) % 251);
    ds->shape[0] = 2;
    ds->shape[1] = ds->shape[2] = SIDE;
    ds->segments = 2;
    ds->scale = fli_alloc(f->ctx, 2, sizeof(double));
    ds->shift = fli_alloc(f->ctx, 2, sizeof(double));
    ds->scale[0] = 0.5, ds->scale[1] = 0.25, ds->shift[0] = -3, ds->shift[1] = -5;
    ds->augment = FLI_AUGMENT_CIFAR;
    return ds;
}

/* Which of the 81 x 2 crops this is, as down * 18 + right * 2 + mirrored; -1 if none. */
static int crop_of(const fli_dataset *ds, size_t sample, const double *got)
{
    const uint8_t *x = (const uint8_t *)ds->x + sample * PIXELS;
    for (int k = 0; k < 162; k++) {
        int down = k / 18 - 4, right = k / 2 % 9 - 4, same = 1;
        for (int i = 0; same && i < PIXELS; i++) {
            int c = i / (SIDE * SIDE), row = i / SIDE % SIDE - down, column = i % SIDE - right;
            int inside = row >= 0 && row < SIDE && column >= 0 && column < SIDE;
            int from = (c * SIDE + row) * SIDE + (k & 1 ? SIDE - 1 - column : column);
            same = got[i] == (inside ? x[from] : 0) * ds->scale[c] + ds->shift[c]; /* a black pixel, then normalised */
        }
        if (same) return k;
    }
    return -1;
}

/* Padded crops. */
static void training_draws_every_padded_crop(void **state)
{
    enum { N = 40, EPOCHS = 60 };
    fixture *f = *state;
    fli_dataset *ds = pictures(f, N);
    fli_batch b;
    fli_rng turn, other;
    uint32_t idx[N];
    int seen[162] = {0}, kinds = 0, mirrored = 0, first[N], changed = 0;
    double row[PIXELS];
    fli_rng_init(&turn, 5, FLI_RNG_BATCH, 3, 7);
    assert_ok(f->ctx, fli_batch_init(f->ctx, &fli_ops_f64, PIXELS, N, &b));
    for (uint32_t i = 0; i < N; i++) idx[i] = i;
    for (uint32_t e = 0; e < EPOCHS; e++) {
        b.n = N;
        fli_batch_augment(&b, ds, idx, &turn, e);
        for (size_t i = 0; i < N; i++) {
            int k = crop_of(ds, i, (double *)b.x + i * PIXELS);
            assert_true(k >= 0);
            if (!e) first[i] = k;
            changed += k != first[i];
            kinds += !seen[k]++;
            mirrored += k & 1;
        }
    }
    /* 2,400 draws of 162 kinds: each is expected 14.8 times */
    assert_int_equal(kinds, 162);
    for (int k = 0; k < 162; k++) assert_true(seen[k] < 40);
    assert_true(abs(mirrored - N * EPOCHS / 2) < 150);
    assert_true(changed > N * (EPOCHS - 1) * 9 / 10);

    /* In another batch, after the stream has moved on: the same change. With another round or client: another one. */
    uint32_t some[3] = {17, 4, 30};
    for (int i = 0; i < 11; i++) fli_rng_u32(&turn);
    b.n = 3;
    fli_batch_augment(&b, ds, some, &turn, 0);
    for (size_t i = 0; i < 3; i++) assert_int_equal(crop_of(ds, some[i], (double *)b.x + i * PIXELS), first[some[i]]);
    for (uint32_t k = 0; k < 3; k++) {
        int equal = 0;
        fli_rng_init(&other, k == 2 ? 6 : 5, FLI_RNG_BATCH, k == 0 ? 4 : 3, k == 1 ? 8 : 7);
        b.n = N;
        fli_batch_augment(&b, ds, idx, &other, 0);
        for (size_t i = 0; i < N; i++) equal += crop_of(ds, i, (double *)b.x + i * PIXELS) == first[i];
        assert_true(equal < 5);
    }
    fli_batch_gather(&b, ds, idx, N); /* evaluation sees no changes */
    fli_dataset_row(ds, 3, row);
    assert_memory_equal(row, (double *)b.x + 3 * PIXELS, sizeof row);
    fli_batch_fini(&b);
    fli_dataset_free(ds);
}

/* ---- crops ------------------------------------------------------------------------------------------------- */

enum { CROP = 6, CROPPED = 2 * CROP * CROP, PLACES = SIDE - CROP + 1, WAYS = 2 * PLACES * PLACES };

/* Which of the 4 x 4 x 2 crops this is, as top * 8 + left * 2 + mirrored; -1 if none. */
static int part_of(const fli_dataset *ds, size_t sample, const double *got)
{
    const uint8_t *x = (const uint8_t *)ds->x + sample * PIXELS;
    for (int k = 0; k < WAYS; k++) {
        int top = k / (2 * PLACES), left = k / 2 % PLACES, same = 1;
        for (int i = 0; same && i < CROPPED; i++) {
            int c = i / (CROP * CROP), row = i / CROP % CROP + top, column = i % CROP;
            int from = (c * SIDE + row) * SIDE + left + (k & 1 ? CROP - 1 - column : column);
            same = got[i] == x[from] * ds->scale[c] + ds->shift[c];
        }
        if (same) return k;
    }
    return -1;
}

/* Draws the first n images for an epoch; out: which part of its image each draw shows. */
static void draw_parts(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, size_t n, const fli_rng *turn,
                       uint32_t epoch, int *out)
{
    b->n = n;
    fli_batch_augment(b, ds, idx, turn, epoch);
    for (size_t i = 0; i < n; i++) {
        out[i] = part_of(ds, i, (double *)b->x + i * CROPPED);
        assert_true(out[i] >= 0);
    }
}

static void evaluation_sees_the_middle_crop(void **state)
{
    enum { N = 40, EPOCHS = 30, MIDDLE = (SIDE - CROP) / 2 * (2 * PLACES + 2) };
    fixture *f = *state;
    fli_dataset *ds = pictures(f, N);
    fli_batch b;
    fli_rng turn;
    uint32_t idx[N];
    int seen[WAYS] = {0}, parts[N];
    double row[CROPPED];
    assert_ok(f->ctx, fli_dataset_crop(f->ctx, CROP, ds));
    assert_ok(f->ctx, fli_dataset_check(f->ctx, ds, "cropped"));
    ds->augment = FLI_AUGMENT_CROP;
    assert_true(ds->dim == CROPPED && ds->shape[1] == CROP && fli_dataset_length(ds) == PIXELS);
    assert_int_equal(fli_dataset_stored(ds), N * PIXELS);
    fli_rng_init(&turn, 5, FLI_RNG_BATCH, 3, 7);
    assert_ok(f->ctx, fli_batch_init(f->ctx, &fli_ops_f64, CROPPED, N, &b));
    for (uint32_t i = 0; i < N; i++) idx[i] = i;
    for (uint32_t e = 0; e < EPOCHS; e++) {
        draw_parts(&b, ds, idx, N, &turn, e, parts);
        for (size_t i = 0; i < N; i++) seen[parts[i]]++;
    }
    for (int k = 0; k < WAYS; k++) assert_true(seen[k] > 10 && seen[k] < 80); /* 37.5 are expected */

    fli_batch_gather(&b, ds, idx, N);
    for (size_t i = 0; i < N; i++) {
        fli_dataset_row(ds, i, row);
        assert_int_equal(part_of(ds, i, row), MIDDLE);
        assert_memory_equal(row, (double *)b.x + i * CROPPED, sizeof row);
        assert_int_equal(b.label[i], ds->label[i]);
    }
    fli_batch_fini(&b);
    fli_dataset_free(ds);
}

/* ---- a share of them --------------------------------------------------------------------------------------- */

/* A quarter of the draws take a crop, by itself in every epoch; the others keep the middle. Half of each are
 * mirrored. */
static void cropped_in_part(void **state)
{
    enum { N = 40, EPOCHS = 60, DRAWS = N * EPOCHS, MIDDLE = 1 * 8 + 1 * 2 };
    fixture *f = *state;
    fli_dataset *ds = pictures(f, N);
    fli_batch b;
    fli_rng turn;
    uint32_t idx[N];
    int seen[WAYS] = {0}, other = 0, stays[N] = {0}, parts[N];
    assert_ok(f->ctx, fli_dataset_crop(f->ctx, CROP, ds));
    ds->augment = FLI_AUGMENT_CROP;
    ds->still = (uint64_t)(0.75 * FLI_CROP_DRAWS);
    fli_rng_init(&turn, 5, FLI_RNG_BATCH, 3, 7);
    assert_ok(f->ctx, fli_batch_init(f->ctx, &fli_ops_f64, CROPPED, N, &b));
    for (uint32_t i = 0; i < N; i++) idx[i] = i;
    for (uint32_t e = 0; e < EPOCHS; e++) {
        draw_parts(&b, ds, idx, N, &turn, e, parts);
        for (size_t i = 0; i < N; i++) {
            seen[parts[i]]++;
            stays[i] += parts[i] / 2 * 2 == MIDDLE;
        }
    }
    /* the middle is one of 16 crops, too: 0.75 + 0.25 / 16 of 2400 draws, and a deviation of 21 */
    for (int k = 0; k < WAYS; k++) other += k / 2 * 2 == MIDDLE ? 0 : seen[k];
    assert_true(abs(DRAWS - other - 1838) < 85);
    assert_true(abs(seen[MIDDLE] - seen[MIDDLE + 1]) < 170);
    for (int k = 0; k < WAYS; k++) assert_true(seen[k] > 0);
    for (size_t i = 0; i < N; i++) assert_true(stays[i] > 0 && stays[i] < EPOCHS); /* no image is chosen for good */

    ds->still = (uint64_t)FLI_CROP_DRAWS; /* mirrors alone */
    draw_parts(&b, ds, idx, N, &turn, 0, parts);
    for (size_t i = 0; i < N; i++) assert_int_equal(parts[i] / 2 * 2, MIDDLE);
    fli_batch_fini(&b);
    fli_dataset_free(ds);
}

/* Padded images likewise: what does not move lies where it is stored. */
static void moved_in_part(void **state)
{
    enum { N = 40, EPOCHS = 30, HERE = 4 * 18 + 4 * 2 };
    fixture *f = *state;
    fli_dataset *ds = pictures(f, N);
    fli_batch b;
    fli_rng turn;
    uint32_t idx[N];
    int here = 0;
    ds->still = (uint64_t)(0.5 * FLI_CROP_DRAWS);
    fli_rng_init(&turn, 5, FLI_RNG_BATCH, 3, 7);
    assert_ok(f->ctx, fli_batch_init(f->ctx, &fli_ops_f64, PIXELS, N, &b));
    for (uint32_t i = 0; i < N; i++) idx[i] = i;
    for (uint32_t e = 0; e < EPOCHS; e++) {
        b.n = N;
        fli_batch_augment(&b, ds, idx, &turn, e);
        for (size_t i = 0; i < N; i++) here += crop_of(ds, i, (double *)b.x + i * PIXELS) / 2 * 2 == HERE;
    }
    assert_true(abs(here - 607) < 70); /* 1200 draws: 0.5 + 0.5 / 81, and a deviation of 17 */
    fli_batch_fini(&b);
    fli_dataset_free(ds);
}

/* ---- once ---------------------------------------------------------------------------------------------------- */

/* A set that is the same, so that it can be asked what was drawn. */
static fli_dataset *cropped_pictures(fixture *f, size_t n, int augment)
{
    fli_dataset *ds = pictures(f, n);
    if (augment == FLI_AUGMENT_CROP) assert_ok(f->ctx, fli_dataset_crop(f->ctx, CROP, ds));
    ds->augment = augment;
    return ds;
}

/* Frozen samples are one of the draws, the same ones whatever is frozen beside them; the others are as they were. */
static void frozen_of(fixture *f, int augment)
{
    enum { N = 400, MIDDLE = 1 * 8 + 1 * 2, HERE = 4 * 18 + 4 * 2 };
    fli_dataset *raw = cropped_pictures(f, N, augment), *ds[3];
    uint32_t idx[N];
    double row[PIXELS], again[PIXELS];
    int kinds = 0, seen[162] = {0}, differ = 0;
    for (uint32_t i = 0; i < N; i++) idx[i] = i;
    for (int k = 0; k < 3; k++) ds[k] = cropped_pictures(f, N, augment);
    assert_ok(f->ctx, fli_dataset_freeze(f->ctx, ds[0], 9, idx, N / 2));
    assert_ok(f->ctx, fli_dataset_freeze(f->ctx, ds[1], 9, idx + 100, N - 100));
    assert_ok(f->ctx, fli_dataset_freeze(f->ctx, ds[2], 10, idx, N));
    for (size_t i = 0; i < N; i++) {
        fli_dataset_row(ds[0], i, row);
        int k = augment == FLI_AUGMENT_CROP ? part_of(raw, i, row) : crop_of(raw, i, row);
        assert_true(k >= 0);
        if (i >= N / 2) assert_int_equal(k, augment == FLI_AUGMENT_CROP ? MIDDLE : HERE);
        if (i < N / 2) kinds += !seen[k]++;
        fli_dataset_row(ds[1], i, again);
        if (i >= 100 && i < N / 2) assert_memory_equal(row, again, raw->dim * sizeof *row);
        fli_dataset_row(ds[2], i, again);
        differ += memcmp(row, again, raw->dim * sizeof *row) != 0;
    }
    assert_true(kinds > (augment == FLI_AUGMENT_CROP ? 30 : 90)); /* of 32, of 162 in 200 draws */
    assert_true(differ > 360);
    for (int k = 0; k < 3; k++) fli_dataset_free(ds[k]);
    fli_dataset_free(raw);
}

static void frozen_samples_are_drawn_once(void **state)
{
    frozen_of(*state, FLI_AUGMENT_CIFAR);
    frozen_of(*state, FLI_AUGMENT_CROP);
}

/* What a program has lent stays as it is, and one scale per pixel is refused. */
static void frozen_of_others(void **state)
{
    fixture *f = *state;
    fli_dataset *mine = pictures(f, 3), *lent = pictures(f, 3);
    const uint32_t idx[3] = {0, 1, 2};
    uint8_t before[3 * PIXELS];
    fli_free(lent->x);
    lent->x = mine->x;
    lent->borrows = FLI_BORROWS_SAMPLES;
    memcpy(before, mine->x, sizeof before);
    assert_ok(f->ctx, fli_dataset_freeze(f->ctx, lent, 1, idx, 3));
    assert_memory_equal(before, mine->x, sizeof before);
    assert_memory_not_equal(before, lent->x, sizeof before);
    lent->segments = PIXELS;
    assert_fails(f->ctx, fli_dataset_freeze(f->ctx, lent, 1, idx, 3), FL_ECONFIG, "162 scales for 2 channels");
    fli_dataset_free(lent);
    fli_dataset_free(mine);
}

/* One scale per pixel, as `unit` has for images that are not bytes. */
static void crops_of_scaled_pixels(void **state)
{
    fixture *f = *state;
    fli_dataset *ds = NULL;
    double whole[18], part[8];
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F32, 3, 18, 2, &ds));
    for (size_t i = 0; i < 54; i++) ((float *)ds->x)[i] = (float)((i * 7) % 13) - 5;
    memcpy(ds->shape, (size_t[]){2, 3, 3}, sizeof ds->shape);
    assert_ok(f->ctx, fli_normalize_sets(f->ctx, FLI_NORM_UNIT, NULL, NULL, ds, NULL));
    fli_dataset_row(ds, 1, whole);
    assert_ok(f->ctx, fli_dataset_crop(f->ctx, 2, ds));
    fli_dataset_row(ds, 1, part);
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < 4; i++) assert_true(part[c * 4 + i] == whole[c * 9 + i / 2 * 3 + i % 2]);
    fli_dataset_free(ds);
}

/* ---- every image by itself ----------------------------------------------------------------------------------- */

/* What is seen has mean 0 and deviation 1, and is a multiple of the pixels of that part, plus a constant. */
static void standardised(const double *raw, const double *got, size_t n, double accuracy)
{
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; i++) mean += raw[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += (raw[i] - mean) * (raw[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++)
        assert_near(got[i], (raw[i] - mean) / fmax(sqrt(var), 1 / sqrt((double)n)), accuracy);
}

/* By the same random looks at the raw pixels: a set that is the same but for its scale draws the same. */
static void each_of(fixture *f, int augment, fli_xkind kind, const fli_ops *ops, double accuracy)
{
    enum { N = 5 };
    fli_dataset *raw = pictures(f, N), *ds = pictures(f, N);
    fli_batch a, b;
    fli_rng turn;
    uint32_t idx[N] = {3, 0, 4, 1, 2};
    raw->scale[0] = raw->scale[1] = 1, raw->shift[0] = raw->shift[1] = 0;
    if (kind != FLI_X_U8) {
        double *x = fli_alloc(f->ctx, N * PIXELS, sizeof *x);
        for (size_t i = 0; i < N * PIXELS; i++)
            if (kind == FLI_X_F64)
                x[i] = ((uint8_t *)ds->x)[i];
            else
                ((float *)x)[i] = ((uint8_t *)ds->x)[i];
        fli_free(ds->x);
        ds->x = x;
        ds->kind = kind;
    }
    fli_free(ds->scale);
    fli_free(ds->shift);
    ds->scale = ds->shift = NULL;
    assert_ok(f->ctx, fli_normalize_sets(f->ctx, FLI_NORM_IMAGE, NULL, NULL, ds, NULL));
    if (augment == FLI_AUGMENT_CROP) {
        assert_ok(f->ctx, fli_dataset_crop(f->ctx, CROP, ds));
        assert_ok(f->ctx, fli_dataset_crop(f->ctx, CROP, raw));
    }
    ds->augment = raw->augment = augment;
    fli_rng_init(&turn, 1, FLI_RNG_BATCH, 2, 3);
    assert_ok(f->ctx, fli_batch_init(f->ctx, &fli_ops_f64, ds->dim, N, &a));
    assert_ok(f->ctx, fli_batch_init(f->ctx, ops, ds->dim, N, &b));
    for (uint32_t e = 0; e < 20; e++) {
        double got[PIXELS];
        a.n = b.n = N;
        if (e && augment) {
            fli_batch_augment(&a, raw, idx, &turn, e);
            fli_batch_augment(&b, ds, idx, &turn, e);
        } else {
            fli_batch_gather(&a, raw, idx, N);
            fli_batch_gather(&b, ds, idx, N);
        }
        for (size_t i = 0; i < N; i++) {
            ops->to_f64(ds->dim, (char *)b.x + i * ds->dim * ops->size, got);
            standardised((double *)a.x + i * ds->dim, got, ds->dim, accuracy);
        }
    }
    fli_batch_fini(&a);
    fli_batch_fini(&b);
    fli_dataset_free(raw);
    fli_dataset_free(ds);
}

static void each_image_is_normalized_after_drawing(void **state)
{
    static const fli_xkind kinds[] = {FLI_X_U8, FLI_X_F32, FLI_X_F64};
    for (int augment = FLI_AUGMENT_NONE; augment <= FLI_AUGMENT_CROP; augment++)
        for (size_t k = 0; k < 3; k++) {
            each_of(*state, augment, kinds[k], &fli_ops_f64, 1e-12);
            each_of(*state, augment, kinds[k], &fli_ops_f32, 2e-6);
        }
}

/* An image of one colour has no deviation to divide by. */
static void one_colour(void **state)
{
    fixture *f = *state;
    fli_dataset *ds = NULL;
    double row[9];
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_U8, 1, 9, 2, &ds));
    memset(ds->x, 77, 9);
    ds->shape[1] = ds->shape[2] = 3;
    assert_ok(f->ctx, fli_normalize_sets(f->ctx, FLI_NORM_IMAGE, NULL, NULL, ds, NULL));
    fli_dataset_row(ds, 0, row);
    for (int i = 0; i < 9; i++) assert_near(row[i], 0, 1e-12);
    fli_dataset_free(ds);
}

/* ---- whole runs -------------------------------------------------------------------------------------------- */

#define RUN                                                                                                            \
    "rounds: 6\ndata: {kind: digits, samples: 300, test_samples: 60, crop: 20, normalize: image}\n"                    \
    "partition: {kind: iid, clients: 5}\nlocal: {batch: 12, lr: 0.2, epochs: 3}\n"                                     \
    "model: {kind: cnn, layers: \"conv 6x5 same, pool 2, fc 20\"}\n"

/* Evaluation sees the middle, whatever training sees: the losses at the start are the same. */
static void random_crops_leave_evaluation_alone(void **state)
{
    double start, random_start;
    double plain = final_loss(*state, RUN, "data.augment=none", &start);
    double random = final_loss(*state, RUN, "data.augment=crop", &random_start);
    assert_true(plain < 0.7 * start);
    assert_true(start == random_start && random != plain && random < start);
}

/* A federation's training samples alone are drawn, by the seed; its tests see the middle. */
#define ONCE                                                                                                           \
    "data: {kind: digits, samples: 300, test_samples: 60, crop: 20, test_fraction: 0.2, augment: crop, augment_once: " \
    "true, unlabelled: 0.5}\npartition: {kind: iid, clients: 5}\nmodel: softmax\n"

static int same_row(const fli_dataset *a, const fli_dataset *b, uint32_t i)
{
    double x[400], y[400];
    fli_dataset_row(a, i, x);
    fli_dataset_row(b, i, y);
    return !memcmp(x, y, sizeof x);
}

static void drawn_once(void **state)
{
    fixture *f = *state;
    fl_run *runs[] = {run_new(f, ONCE, ""), run_new(f, ONCE, ""), run_new(f, ONCE, "data.augment_once=false")};
    const fli_fed *once = runs[0]->plan.fed, *again = runs[1]->plan.fed, *never = runs[2]->plan.fed;
    int changed = 0, same = 0;
    for (size_t c = 0; c < 5; c++) {
        fli_view v;
        assert_ok(f->ctx, fli_view_open(f->ctx, once, c, &v));
        for (size_t i = 0; i < v.n_train + v.n_unlabelled; i++) {
            changed += !same_row(once->train, never->train, v.train[i]);
            same += same_row(once->train, again->train, v.train[i]);
        }
        for (size_t i = 0; i < v.n_test; i++) assert_true(same_row(once->train, never->train, v.test[i]));
        fli_view_close(&v);
    }
    assert_int_equal(same, 240);
    assert_true(changed > 220);
    for (uint32_t i = 0; i < 60; i++) assert_true(same_row(once->test, never->test, i));
    for (int k = 0; k < 3; k++) fl_run_free(runs[k]);
}

static void impossible_image_settings_are_refused(void **state)
{
    refuse(*state, "data: {kind: digits, crop: 29}\npartition: {kind: iid, clients: 4}\nmodel: softmax\n",
           "data.crop is 29, but the images have only 28 x 28 pixels");
    refuse(*state, "data: {kind: blobs, crop: 2}\npartition: {kind: iid, clients: 4}\nmodel: softmax\n",
           "data.crop is for images");
    refuse(*state, "data: {kind: blobs, normalize: image}\npartition: {kind: iid, clients: 4}\nmodel: softmax\n",
           "normalize image is for images");
    refuse(*state, "data: {kind: synthetic, on_demand: true, crop: 2}\nmodel: softmax\n", "images that are stored");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(training_draws_every_padded_crop),
        FIXTURE_TEST(evaluation_sees_the_middle_crop),
        FIXTURE_TEST(crops_of_scaled_pixels),
        FIXTURE_TEST(each_image_is_normalized_after_drawing),
        FIXTURE_TEST(one_colour),
        FIXTURE_TEST(random_crops_leave_evaluation_alone),
        FIXTURE_TEST(cropped_in_part),
        FIXTURE_TEST(moved_in_part),
        FIXTURE_TEST(frozen_samples_are_drawn_once),
        FIXTURE_TEST(frozen_of_others),
        FIXTURE_TEST(drawn_once),
        FIXTURE_TEST(impossible_image_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
