/* Losses of rows beside the CPU's: a softmax model on one sample that is 0 has its biases for logits, and the gradient
 * of its biases is the error of the row. Some rows are far beyond what probabilities can hold. */
#include "fixture.h"

#include "cuda/kernels/kernels.h"
#include "device_memory.h"
#include "order.h"

enum { LANES = 2, ROOM = 24, PLAIN = 11, REST = 7, SAMPLES = 5 };
static const double alpha_p = 0.8, alpha_r = 0.35;

/* ---- rows ------------------------------------------------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    const fli_ops *ops;
    fli_cuda_type type;
    size_t classes, width; /* width: of a row of logits */
    fli_rng rng;
    fli_semi semi;
    fli_model *m;
    fli_batch batch; /* of the sample that is 0 */
    void *scratch, *g;
    double *z, *p, *y; /* logits of one model, of another, and labels: ROOM rows per lane */
    int32_t label[SAMPLES];
    uint32_t order[LANES][PLAIN], rest[LANES][REST];
} problem;

static double *random_rows(problem *q, size_t width)
{
    double *z = fli_alloc(q->ctx, LANES * ROOM * width, sizeof *z);
    for (size_t i = 0; i < LANES * ROOM * width; i++) {
        double far = i / width % 4 == 1 ? 300 : i / width % 4 == 3 ? 0 : 2; /* all alike where it is 0 */
        z[i] = (float)(far * fli_rng_normal(&q->rng));
    }
    return z;
}

static double *random_labels(problem *q)
{
    double *y = fli_alloc(q->ctx, LANES * REST * q->classes, sizeof *y);
    for (size_t i = 0; i < LANES * REST; i++) {
        if (i % 4 == 2) continue; /* no label */
        fli_rng_dirichlet(&q->rng, 0.3, q->classes, y + i * q->classes);
        for (size_t k = 0; k < q->classes; k++) y[i * q->classes + k] = (float)y[i * q->classes + k];
    }
    return y;
}

static void problem_up(problem *q, fl_ctx *ctx, const char *model, size_t classes, const fli_ops *ops)
{
    const fli_model_desc *d = model_named(model);
    *q = (problem){.ctx = ctx,
                   .ops = ops,
                   .type = ops->size == 8 ? FLI_CUDA_F64 : FLI_CUDA_F32,
                   .classes = classes,
                   .width = d->logits ? classes : 1,
                   .semi = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = alpha_p, .alpha_r = alpha_r}};
    fli_rng_init(&q->rng, 3, FLI_RNG_TEST, 0, (uint32_t)classes);
    assert_ok(ctx, fli_model_new(ctx, d, NULL, ops, 1, classes, 0, &q->m));
    if (d->logits) assert_ok(ctx, fli_model_use_semi(ctx, q->m, &q->semi));
    assert_ok(ctx, fli_model_batch(ctx, q->m, 1, &q->batch));
    q->batch.n = 1;
    q->scratch = fli_alloc(ctx, fli_model_scratch(q->m, 1), 1);
    q->g = fli_alloc(ctx, 2 * q->m->space.n, ops->size);
    q->z = random_rows(q, q->width);
    q->p = random_rows(q, q->width);
    q->y = random_labels(q);
    for (size_t i = 0; i < SAMPLES; i++) q->label[i] = (int32_t)fli_rng_below(&q->rng, classes);
    for (size_t l = 0; l < LANES; l++) {
        for (size_t i = 0; i < PLAIN; i++) q->order[l][i] = (uint32_t)fli_rng_below(&q->rng, SAMPLES);
        for (size_t i = 0; i < REST; i++) q->rest[l][i] = (uint32_t)fli_rng_below(&q->rng, REST);
    }
}

static void problem_down(problem *q)
{
    fli_free(q->z);
    fli_free(q->p);
    fli_free(q->y);
    fli_free(q->g);
    fli_free(q->scratch);
    fli_batch_fini(&q->batch);
    fli_model_free(q->m);
}

static int32_t label_of(const problem *q, size_t l, size_t i) { return q->label[q->order[l][i]]; }

/* ---- there ------------------------------------------------------------------------------------------------ */

typedef struct {
    fli_cuda_lane lane[LANES];
    fli_cuda_lane *lanes;
    void *z, *p, *label;
    double *sum, *out;
    fli_cuda_loss loss;
    fli_cuda_batch batch;
} device;

static void *reals_there(const problem *q, const double *v, size_t n)
{
    void *reals = fli_alloc(q->ctx, n, q->ops->size);
    q->ops->from_f64(n, v, reals);
    void *at = there(n * q->ops->size, reals);
    fli_free(reals);
    return at;
}

/* The second lane has fewer rows of either kind, and mixes in another way. */
static void device_up(const problem *q, int rest, device *d)
{
    memset(d, 0, sizeof *d);
    for (size_t l = 0; l < LANES; l++) {
        fli_cuda_lane *a = &d->lane[l];
        a->order = there(sizeof q->order[l], q->order[l]);
        a->n = a->size = PLAIN - (uint32_t)l * 2;
        a->mix = l ? 0 : 0.4;
        if (!rest) continue;
        a->rest = there(sizeof q->rest[l], q->rest[l]);
        a->rest_n = a->rest_size = REST - (uint32_t)l;
        a->y = reals_there(q, q->y + l * REST * q->classes, REST * q->classes);
    }
    d->lanes = there(sizeof d->lane, d->lane);
    d->z = reals_there(q, q->z, LANES * ROOM * q->width);
    d->p = there(LANES * ROOM * q->classes * q->ops->size, NULL);
    d->label = there(sizeof q->label, q->label);
    d->sum = there(2 * LANES * sizeof *d->sum, (double[2 * LANES]){0});
    d->out = there(LANES * ROOM * q->classes * sizeof *d->out, NULL);
    d->loss = (fli_cuda_loss){q->m->desc->logits ? FLI_NET_SOFTMAX : FLI_NET_LOGISTIC, (uint32_t)q->classes, d->label,
                              alpha_p, alpha_r};
    d->batch = (fli_cuda_batch){.lane = d->lanes, .lanes = LANES, .most = ROOM, .room = ROOM};
}

static void device_down(device *d)
{
    void *all[] = {d->lanes, d->z, d->p, d->label, d->sum, d->out};
    for (size_t l = 0; l < LANES; l++) {
        void *of_lane[] = {(void *)(uintptr_t)d->lane[l].order, (void *)(uintptr_t)d->lane[l].rest,
                           (void *)(uintptr_t)d->lane[l].y};
        for (size_t i = 0; i < 3; i++)
            if (of_lane[i]) fli_cuda_release(of_lane[i]);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fli_cuda_release(all[i]);
}

static void set_logits(const problem *q, const device *d, const double *z)
{
    void *again = reals_there(q, z, LANES * ROOM * q->width);
    assert_int_equal(fli_cuda_move(stream(), d->z, again, LANES * ROOM * q->width * q->ops->size), 0);
    assert_int_equal(fli_cuda_wait(stream()), 0);
    fli_cuda_release(again);
}

static double *reals_here(const problem *q, const void *v, size_t n)
{
    void *reals = fli_alloc(q->ctx, n, q->ops->size);
    double *out = fli_alloc(q->ctx, n, sizeof *out);
    here(n * q->ops->size, v, reals);
    q->ops->to_f64(n, reals, out);
    fli_free(reals);
    return out;
}

/* ---- the CPU's -------------------------------------------------------------------------------------------- */

/* A model whose logits are z. */
static void *with_logits(const problem *q, const double *z)
{
    char *x = fli_alloc(q->ctx, q->m->space.n, q->ops->size);
    q->ops->from_f64(q->classes, z, fli_at(q->ops, x, q->classes));
    return x;
}

/* Row i of lane l: error and loss; p NULL: one model, else the mixture with it. */
typedef struct {
    double loss;
    size_t hit;
} value;

static value expect(problem *q, const device *d, size_t l, size_t i, const double *p, double *error)
{
    size_t n = d->lane[l].n, plain = i < n;
    const double *z = q->z + (l * ROOM + i) * q->classes;
    const double *y = plain ? NULL : q->y + (l * REST + q->rest[l][i - n]) * q->classes;
    void *x = with_logits(q, z), *h = p ? with_logits(q, p + (l * ROOM + i) * q->classes) : NULL;
    void *nu = fli_alloc(q->ctx, q->classes, q->ops->size), *own_g = fli_at(q->ops, q->g, q->m->space.n);
    value v = {0, 0};
    if (y) q->ops->from_f64(q->classes, y, nu);
    if (plain) q->batch.label[0] = label_of(q, l, i);
    if (p) {
        fli_pair_grad(q->m, h, x, d->lane[l].mix, &q->batch, plain, nu, q->g, own_g, q->scratch);
        v.loss = fli_pair_loss(q->m, h, x, d->lane[l].mix, &q->batch, plain, nu, &v.hit, q->scratch);
    } else if (y) {
        v.loss = q->m->latent->grad(q->m, x, &q->batch, 0, nu, q->g, q->scratch);
    } else {
        v.loss = q->m->desc->grad(q->m, x, &q->batch, q->g, &v.hit, q->scratch);
    }
    q->ops->to_f64(q->classes, fli_at(q->ops, p ? own_g : q->g, q->classes), error);
    for (size_t k = 0; k < q->classes; k++) error[k] /= (double)(plain ? n : d->lane[l].rest_n);
    fli_free(x);
    fli_free(h);
    fli_free(nu);
    return v;
}

static double tolerance(const problem *q) { return q->ops->size == 8 ? 1e-13 : 3e-7; }

/* Errors there against the CPU's, rows from `first` on; and sums. */
static void assert_rows(problem *q, const device *d, const double *p, size_t first, const double *got,
                        const double *sum)
{
    double *want = fli_alloc(q->ctx, q->classes, sizeof *want);
    for (size_t l = 0; l < LANES; l++) {
        size_t rows = d->lane[l].n + d->lane[l].rest_n, hits = 0;
        double loss = 0;
        for (size_t i = 0; i < rows; i++) {
            value v = expect(q, d, l, i, p, want);
            loss += v.loss;
            hits += v.hit;
            for (size_t k = 0; got && i >= first && k < q->classes; k++)
                assert_near(got[(l * ROOM + i - first) * q->classes + k], want[k], tolerance(q));
        }
        if (!sum) continue;
        assert_near(sum[2 * l], loss, 10 * tolerance(q) * fmax(1, fabs(loss)));
        assert_int_equal((size_t)sum[2 * l + 1], hits);
    }
    fli_free(want);
}

/* ---- tests ------------------------------------------------------------------------------------------------ */

static const size_t class_counts[] = {2, 10, 33, 200};
enum { COUNTS = sizeof class_counts / sizeof *class_counts };

static void check_model(problem *q, int rest)
{
    device d;
    double sum[2 * LANES];
    device_up(q, rest, &d);
    fli_cuda_rows_loss(stream(), q->type, &d.loss, &d.batch, NULL, d.z, d.sum);
    here(sizeof sum, d.sum, sum);
    fli_cuda_rows_error(stream(), q->type, &d.loss, &d.batch, d.z);
    double *got = reals_here(q, d.z, LANES * ROOM * q->classes);
    assert_rows(q, &d, NULL, 0, got, sum);
    fli_free(got);
    device_down(&d);
}

/* The other model's logits come first, as in a turn; its errors are those of a model alone. */
static void check_pair(problem *q, int rest)
{
    device d;
    double sum[2 * LANES], *z = q->z;
    device_up(q, rest, &d);
    set_logits(q, &d, q->p);
    fli_cuda_rows_pair_global(stream(), q->type, &d.loss, &d.batch, d.z, d.p);
    double *got = reals_here(q, d.z, LANES * ROOM * q->classes);
    q->z = q->p;
    assert_rows(q, &d, NULL, 0, got, NULL);
    q->z = z;
    fli_free(got);
    set_logits(q, &d, q->z);
    fli_cuda_rows_loss(stream(), q->type, &d.loss, &d.batch, d.p, d.z, d.sum);
    here(sizeof sum, d.sum, sum);
    fli_cuda_rows_pair_own(stream(), q->type, &d.loss, &d.batch, d.p, d.z);
    got = reals_here(q, d.z, LANES * ROOM * q->classes);
    assert_rows(q, &d, q->p, 0, got, sum);
    fli_free(got);
    device_down(&d);
}

/* A piece that begins within the labelled rows, which the rows of memory follow. */
static void check_piece(problem *q)
{
    enum { FIRST = 6, MOST = 9 };
    device d;
    device_up(q, 1, &d);
    d.batch.first = FIRST;
    d.batch.most = MOST;
    double *z = fli_alloc(q->ctx, LANES * ROOM * q->classes, sizeof *z);
    for (size_t l = 0; l < LANES; l++)
        memcpy(z + l * ROOM * q->classes, q->z + (l * ROOM + FIRST) * q->classes, MOST * q->classes * sizeof *z);
    set_logits(q, &d, z);
    fli_cuda_rows_error(stream(), q->type, &d.loss, &d.batch, d.z);
    double *got = reals_here(q, d.z, LANES * ROOM * q->classes), *want = fli_alloc(q->ctx, q->classes, sizeof *want);
    for (size_t l = 0; l < LANES; l++)
        for (size_t i = 0; i < MOST; i++) {
            expect(q, &d, l, FIRST + i, NULL, want);
            for (size_t k = 0; k < q->classes; k++)
                assert_near(got[(l * ROOM + i) * q->classes + k], want[k], tolerance(q));
        }
    /* what is behind the piece stays */
    assert_near(got[MOST * q->classes], z[MOST * q->classes], 0);
    fli_free(want);
    fli_free(got);
    fli_free(z);
    device_down(&d);
}

static void softmax_rows(void **state)
{
    for (size_t i = 0; i < COUNTS; i++)
        for (const fli_ops *const *ops = fli_ops_list; *ops; ops++) {
            problem q;
            problem_up(&q, ((fixture *)*state)->ctx, "softmax", class_counts[i], *ops);
            for (int rest = 0; rest < 2; rest++) {
                check_model(&q, rest);
                check_pair(&q, rest);
            }
            check_piece(&q);
            problem_down(&q);
        }
}

static void logistic_rows(void **state)
{
    for (const fli_ops *const *ops = fli_ops_list; *ops; ops++) {
        problem q;
        device d;
        double sum[2 * LANES];
        problem_up(&q, ((fixture *)*state)->ctx, "logistic", 2, *ops);
        device_up(&q, 0, &d);
        fli_cuda_rows_loss(stream(), q.type, &d.loss, &d.batch, NULL, d.z, d.sum);
        here(sizeof sum, d.sum, sum);
        fli_cuda_rows_error(stream(), q.type, &d.loss, &d.batch, d.z);
        double *got = reals_here(&q, d.z, LANES * ROOM);
        for (size_t l = 0; l < LANES; l++) {
            char z[ROOM * sizeof(double)];
            int32_t label[PLAIN];
            size_t n = d.lane[l].n, hits;
            double want[PLAIN];
            for (size_t i = 0; i < n; i++) label[i] = label_of(&q, l, i);
            q.ops->from_f64(n, q.z + l * ROOM, z);
            double loss = q.ops->logistic_xent(n, label, 1 / (double)n, z, &hits);
            q.ops->to_f64(n, z, want);
            for (size_t i = 0; i < n; i++) assert_near(got[l * ROOM + i], want[i], tolerance(&q));
            assert_near(sum[2 * l], loss, 1e-12 * loss);
            assert_int_equal((size_t)sum[2 * l + 1], hits);
        }
        fli_free(got);
        device_down(&d);
        problem_down(&q);
    }
}

/* Against softmax in double; as logits they are what they were. */
static void outputs_are_probabilities(void **state)
{
    problem q;
    device d;
    problem_up(&q, ((fixture *)*state)->ctx, "softmax", 33, &fli_ops_f32);
    device_up(&q, 0, &d);
    double *out = fli_alloc(q.ctx, LANES * ROOM * q.classes, sizeof *out), *p = fli_alloc(q.ctx, q.classes, sizeof *p);
    for (int logits = 0; logits < 2; logits++) {
        fli_cuda_rows_outputs(stream(), q.type, &d.loss, &d.batch, logits, d.z, d.out);
        here(LANES * ROOM * q.classes * sizeof *out, d.out, out);
        for (size_t l = 0; l < LANES; l++)
            for (size_t i = 0; i < d.lane[l].n; i++) {
                size_t row = (l * ROOM + i) * q.classes;
                memcpy(p, q.z + row, q.classes * sizeof *p);
                if (!logits) fli_ops_f64.softmax(1, q.classes, p);
                for (size_t k = 0; k < q.classes; k++) assert_near(out[row + k], p[k], 1e-12);
            }
    }
    fli_free(p);
    fli_free(out);
    device_down(&d);
    problem_down(&q);
}

/* The same bits, whichever thread comes first. */
static void order_does_not_matter(void **state)
{
    problem q;
    device d;
    double sum[FLI_ORDERS][2 * LANES];
    problem_up(&q, ((fixture *)*state)->ctx, "softmax", 33, &fli_ops_f64);
    for (int order = 0; order < FLI_ORDERS; order++) {
        fli_emulated_order((fli_order)order);
        device_up(&q, 1, &d);
        fli_cuda_rows_loss(stream(), q.type, &d.loss, &d.batch, NULL, d.z, d.sum);
        here(sizeof *sum, d.sum, sum[order]);
        assert_memory_equal(sum[order], sum[0], sizeof *sum);
        device_down(&d);
    }
    fli_emulated_order(FLI_ORDER_FORWARD);
    problem_down(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(softmax_rows),
        FIXTURE_TEST(logistic_rows),
        FIXTURE_TEST(outputs_are_probabilities),
        FIXTURE_TEST(order_does_not_matter),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
