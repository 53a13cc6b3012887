/* Solvers and evaluations on the plain twin of a device, against those of the CPU: the same bits, from the same
 * problems. How devices are found, and what they refuse. */
#include "tasks.h"

#include "device/device.h"
#include "solver/minibatch.h"

static const way ways[] = {
    {"sgd", &fli_solver_sgd, "softmax", CLASSES, {7, 0.5}},
    {"sgd, full batches", &fli_solver_sgd, "mlp", CLASSES, {0}},
    {"sgd, one logit", &fli_solver_sgd, "logistic", 2, {.fraction = 0.3}},
    {"sgd, smaller steps", &fli_solver_sgd, "mlp", CLASSES, {7, 0.5, .schedule = {1, 0, 1}}},
    {"sgd, decay by batch", &fli_solver_sgd, "mlp", CLASSES, {7}, .decay_by = FLI_DECAY_BY_BATCH},
    {"sgd, decay by samples", &fli_solver_sgd, "softmax", CLASSES, {7}, .decay_by = FLI_DECAY_BY_SAMPLES},
    {"two-block, labels anew", &fli_solver_blocks, "softmax", CLASSES, {5, 0.5}, FLI_SEMI_CLOSED_FORM},
    {"two-block, labels kept", &fli_solver_blocks, "mlp", CLASSES, {5, .latent = 9}, FLI_SEMI_PROJECTED},
    {"two-block, some at a time", &fli_solver_blocks, "mlp", CLASSES, {5}, FLI_SEMI_PROJECTED, .label_batch = 6},
    {"two-block, decay by batch",
     &fli_solver_blocks,
     "mlp",
     CLASSES,
     {5},
     FLI_SEMI_PROJECTED,
     .decay_by = FLI_DECAY_BY_BATCH},
    {"pair", &fli_solver_pair, "softmax", CLASSES, {6, 0.9}},
    {"pair, smaller steps", &fli_solver_pair, "mlp", CLASSES, {6, 0.9, .schedule = {1, 0, 1}}},
    {"pair, decay by batch", &fli_solver_pair, "mlp", CLASSES, {6}, .decay_by = FLI_DECAY_BY_BATCH},
    {"pair, labels kept", &fli_solver_pair, "mlp", CLASSES, {.fraction = 0.3}, FLI_SEMI_PROJECTED},
    {"pair, labels anew", &fli_solver_pair, "softmax", CLASSES, {5, 0.5}, FLI_SEMI_CLOSED_FORM},
    {"gradient", &fli_solver_gradient, "mlp", CLASSES, {5}},
    {"sgd after a gradient", &fli_solver_sgd_gradient, "softmax", CLASSES, {7, 0.5}},
};

/* The engine that was opened last. */
static fli_engine *opened;

static fl_status open_cpu(fl_ctx *ctx, size_t which, fli_engine **out)
{
    fl_status s = fli_backend_cpu.open(ctx, which, out);
    opened = s ? NULL : *out;
    return s;
}

/* A device with little room: four lanes, so that eight tasks are two blocks. */
static fl_status cramped(fl_ctx *ctx, size_t which, fli_engine_info *out)
{
    (void)ctx;
    (void)which;
    *out = (fli_engine_info){.name = "cramped", .free = 6e6};
    return FL_OK;
}

static double lane_takes(const fli_engine_net *n, size_t lanes, size_t batch, int momentum)
{
    (void)n;
    (void)batch;
    (void)momentum;
    return 1e6 * (double)lanes;
}

typedef struct {
    clients *c;
    fli_backend backend;
    fli_device *d;
    fli_site site;
    fl_space space;
    fli_eval eval;
    void *memory; /* there: the vectors of all tasks' problems */
} site;

static fl_status site_open(clients *c, double memory, site *s)
{
    *s = (site){.c = c, .backend = fli_backend_cpu};
    s->backend.open = open_cpu;
    s->backend.describe = cramped;
    s->backend.net_bytes = lane_takes;
    fli_device_spec spec = {
        .backend = &s->backend, .model = c->model, .fed = c->fed, .sgd = c->way->sgd, .memory = memory};
    return fli_device_new(c->ctx, &spec, &s->d);
}

static void site_init(clients *c, site *s)
{
    assert_ok(c->ctx, site_open(c, 0, s));
    s->site = fli_device_site(s->d);
    assert_int_equal(s->site.lanes, 4);
    s->space = c->model->space;
    s->space.place = s->site.place;
    assert_ok(c->ctx, fli_eval_init(c->ctx, c->model, &s->eval));
    s->eval.elsewhere = s->site.elsewhere;
    s->memory = fli_vector_alloc(c->ctx, &s->space, sizeof c->vectors);
    fli_vector_write(&s->space, sizeof c->vectors, c->vectors, s->memory);
}

static void site_fini(site *s)
{
    fli_vector_free(&s->space, s->memory);
    fli_eval_fini(&s->eval);
    fli_device_free(s->d);
}

/* The address there of what lies at v in the clients' vectors. */
static const void *there(const site *s, const void *v)
{
    return v ? (const char *)s->memory + ((const char *)v - (const char *)s->c->vectors) : NULL;
}

static void pose_there(const site *s, size_t i, void **cache, fli_task *t)
{
    pose(s->c, i, cache, t);
    t->problem.start = there(s, t->problem.start);
    t->problem.anchor = there(s, t->problem.anchor);
    t->problem.shift = there(s, t->problem.shift);
    if (s->c->way->solver == &fli_solver_pair) t->problem.pair.start = there(s, t->problem.pair.start);
}

/* ---- solvers --------------------------------------------------------------------------------------------- */

static void compare(clients *c)
{
    const fl_solver *solver = fli_device_solver(c->way->solver);
    fli_task task[TASKS], *all[TASKS];
    void *cache[TASKS] = {0}, *instance;
    site s;
    assert_non_null(solver);
    assert_int_equal(solver->vectors, c->way->solver->vectors);
    site_init(c, &s);
    fli_open how = {.model = c->model, .sgd = c->way->sgd, .largest = c->fed->largest, .eval = &s.eval};
    assert_ok(c->ctx, fli_solver_open(c->ctx, solver, &how, &instance));
    for (size_t i = 0; i < TASKS; i++) {
        assert_ok(c->ctx, fli_task_init(c->ctx, solver, &s.space, &task[i]));
        pose_there(&s, i, &cache[i], &task[i]);
        all[i] = &task[i];
    }
    fli_solver_run(c->ctx, solver, instance, all, TASKS);
    for (size_t i = 0; i < TASKS; i++) {
        outcome want = alone(c, i), got = outcome_of(c, &s.space, &task[i]);
        if (memcmp(&got, &want, sizeof got))
            fail_msg("%s, %zu bytes: the answer of task %zu is another than the CPU's", c->way->what,
                     c->model->space.ops->size, i);
    }
    assert_ok(c->ctx, s.site.elsewhere->status(s.d, c->ctx));
    for (size_t i = 0; i < TASKS; i++) fli_task_fini(&task[i]);
    forget(solver, cache);
    fli_solver_close(solver, instance);
    site_fini(&s);
}

static void each_way(fl_ctx *ctx, void (*fn)(clients *c))
{
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (const fli_ops *const *o = fli_ops_list; *o; o++) {
            clients c;
            clients_init(&c, ctx, &ways[w], *o);
            fn(&c);
            clients_fini(&c);
        }
}

static void test_solvers_match_the_cpu(void **state) { each_way(((fixture *)*state)->ctx, compare); }

/* No steps: the solution is the start. */
static void test_no_steps(void **state)
{
    fixture *f = *state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        clients c;
        clients_init(&c, f->ctx, &ways[w], &fli_ops_f32);
        for (size_t i = 0; i < TASKS; i += 3) c.problem[i].steps = 0;
        compare(&c);
        clients_fini(&c);
    }
}

/* ---- evaluations ----------------------------------------------------------------------------------------- */

static void same_objective(fli_objective a, fli_objective b)
{
    assert_true(a.value == b.value && a.labelled == b.labelled);
    assert_int_equal(a.correct, b.correct);
}

static void compare_objective(site *s, fli_eval *cpu, size_t i, void *const *kept)
{
    const clients *c = s->c;
    const vectors *v = &c->vectors[i];
    const fli_view *view = &c->view[i];
    double g[MOST], got[MOST];
    void *g_there = fli_vector_alloc(c->ctx, &s->space, sizeof g);
    int mixes = (c->model->desc->traits & FLI_MODEL_SOFTMAX) != 0;
    for (size_t k = 0; k < (mixes ? 3 : 1); k++) {
        double mix = k == 1 ? 0.4 : 1;
        fli_objective_at at = {v->start, k ? v->other : NULL, mix, kept};
        fli_objective_at at_there = {there(s, v->start), k ? there(s, v->other) : NULL, mix, kept};
        same_objective(fli_eval_objective(&s->eval, view, &at_there, k ? NULL : g_there),
                       fli_eval_objective(cpu, view, &at, k ? NULL : g));
        if (k) continue;
        fli_vector_read(&s->space, fli_bytes(&s->space), g_there, got);
        assert_memory_equal(got, g, fli_bytes(&s->space));
        assert_true(fli_eval_second_block(&s->eval, view, &at_there) == fli_eval_second_block(cpu, view, &at));
    }
    fli_vector_free(&s->space, g_there);
}

static void evaluate(clients *c)
{
    site s;
    fli_eval cpu;
    site_init(c, &s);
    assert_ok(c->ctx, fli_eval_init(c->ctx, c->model, &cpu));
    for (size_t i = 0; i < TASKS; i++) {
        void *kept = NULL, *y;
        compare_objective(&s, &cpu, i, NULL);
        compare_objective(&s, &cpu, i, &kept);
        if (!c->model->latent || !c->model->latent->kept || !c->view[i].n_unlabelled) continue;
        assert_ok(c->ctx, fli_latents_kept(c->ctx, c->model, c->view[i].n_unlabelled, &kept, &y));
        c->model->space.ops->fill(c->model->classes, 0, y); /* what a client keeps is looked at */
        compare_objective(&s, &cpu, i, &kept);
        fli_free(kept);
    }
    assert_ok(c->ctx, s.site.elsewhere->status(s.d, c->ctx));
    fli_eval_fini(&cpu);
    site_fini(&s);
}

static void test_objectives_match_the_cpu(void **state) { each_way(((fixture *)*state)->ctx, evaluate); }

/* What was foreseen is not computed again, and is forgotten when it is said that vectors change. */
static void test_foreseen_values_are_computed_once(void **state)
{
    fixture *f = *state;
    clients c;
    site s;
    fli_peek list[TASKS];
    size_t correct;
    double was[TASKS];
    clients_init(&c, f->ctx, &ways[10], &fli_ops_f64);
    site_init(&c, &s);
    const fli_device_eval *e = s.site.elsewhere;
    for (size_t i = 0; i < TASKS; i++) {
        const fli_view *v = &c.view[i];
        const void *own = i % 2 ? there(&s, c.vectors[i].other) : NULL;
        list[i] = (fli_peek){v->ds, v->train, v->n_train, there(&s, c.vectors[i].start), own, 0.3};
    }
    e->foresee(e->arg, list, TASKS);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = TASKS; i-- > 0;) {
            const fli_peek *g = &list[i];
            double got = g->own ? fli_eval_pair(&s.eval, g->ds, g->idx, g->n, g->x, g->own, g->mix, &correct)
                                : fli_eval_loss(&s.eval, g->ds, g->idx, g->n, g->x, NULL, &correct);
            if (round) assert_true(got == was[i]);
            was[i] = got;
        }
        fli_scale(&s.space, 2, (void *)there(&s, c.vectors[0].start)); /* nobody has said so yet */
    }
    e->foresee(e->arg, NULL, 0);
    assert_true(fli_eval_loss(&s.eval, list[0].ds, list[0].idx, list[0].n, list[0].x, NULL, &correct) != was[0]);
    site_fini(&s);
    clients_fini(&c);
}

static void test_logits_match_the_cpu(void **state)
{
    fixture *f = *state;
    clients c;
    site s;
    clients_init(&c, f->ctx, &ways[0], &fli_ops_f64);
    site_init(&c, &s);
    const fli_view *v = &c.view[1];
    fli_eval cpu;
    double *out = calloc(v->n_train * CLASSES, sizeof *out), probability;
    assert_ok(f->ctx, fli_eval_init(f->ctx, c.model, &cpu));
    s.site.elsewhere->logits(s.d, v->ds, v->train, v->n_train, there(&s, c.vectors[1].start), out);
    fli_batch_gather(&cpu.batch, v->ds, v->train, 5);
    const double *want = c.model->desc->logits(c.model, c.vectors[1].start, &cpu.batch, cpu.scratch);
    for (size_t i = 0; i < 5 * CLASSES; i++) assert_near(out[i], want[i], 1e-12);
    assert_int_equal(fli_likeliest(c.model, out, &probability), fli_likeliest(c.model, want, &probability));
    free(out);
    fli_eval_fini(&cpu);
    site_fini(&s);
    clients_fini(&c);
}

/* ---- failures -------------------------------------------------------------------------------------------- */

static fl_status broken_evaluate(fl_ctx *ctx, fli_engine_net *n, const fli_engine_data *data, fli_engine_eval *evals,
                                 size_t count)
{
    (void)n;
    (void)data;
    (void)evals;
    (void)count;
    return fli_fail(ctx, FL_EIO, "the device has fallen off");
}

static void test_failures_are_remembered(void **state)
{
    fixture *f = *state;
    clients c;
    site s;
    size_t correct;
    clients_init(&c, f->ctx, &ways[0], &fli_ops_f32);
    site_init(&c, &s);
    const fli_view *v = &c.view[0];
    fli_backend broken = fli_backend_cpu;
    broken.evaluate = broken_evaluate;
    opened->does = &broken;
    assert_true(isnan(fli_eval_loss(&s.eval, v->ds, v->train, v->n_train, there(&s, c.vectors), NULL, &correct)));
    fli_clear(f->ctx);
    assert_fails(f->ctx, s.site.elsewhere->status(s.d, f->ctx), FL_EIO, "has fallen off");
    site_fini(&s);
    clients_fini(&c);
}

static void test_lanes_fit_the_free_memory(void **state)
{
    fixture *f = *state;
    clients c;
    site s;
    clients_init(&c, f->ctx, &ways[0], &fli_ops_f32);
    assert_fails(f->ctx, site_open(&c, 5.5e6, &s), FL_ENOMEM, "device cramped has 0.0 GiB free");
    assert_ok(f->ctx, site_open(&c, 4.5e6, &s));
    assert_int_equal(fli_device_site(s.d).lanes, 1);
    fli_device_free(s.d);
    clients_fini(&c);
}

static void test_devices_are_found_by_name(void **state)
{
    fixture *f = *state;
    const fli_backend *b;
    size_t which = 9;
    assert_ok(f->ctx, fli_device_find(f->ctx, "twin", &b, &which));
    assert_ptr_equal(b, &fli_backend_cpu);
    assert_int_equal(which, 0);
    assert_ok(f->ctx, fli_device_find(f->ctx, "twin:0", &b, &which));
    assert_fails(f->ctx, fli_device_find(f->ctx, "twin:1", &b, &which), FL_ECONFIG,
                 "there is no twin:1; here they are");
    assert_fails(f->ctx, fli_device_find(f->ctx, "twin:", &b, &which), FL_ECONFIG, "there is no twin:");
    assert_fails(f->ctx, fli_device_find(f->ctx, "twin:0x", &b, &which), FL_ECONFIG, "there is no twin:0x");
    assert_fails(f->ctx, fli_device_find(f->ctx, "twins", &b, &which), FL_ECONFIG,
                 "there is no \"twins\"; there are cpu");
}

static void test_unfit_models_are_refused(void **state)
{
    fixture *f = *state;
    static const way squares = {"", &fli_solver_exact, "least_squares", 0, {0}};
    static const way levels = {"", &fli_solver_bilevel, "mlp", CLASSES, {5}, 0, 1};
    clients c;
    site s;
    clients_init(&c, f->ctx, &squares, &fli_ops_f32);
    assert_fails(f->ctx, site_open(&c, 0, &s), FL_ECONFIG, "does not compute model least_squares");
    clients_fini(&c);
    clients_init(&c, f->ctx, &levels, &fli_ops_f32);
    assert_fails(f->ctx, site_open(&c, 0, &s), FL_ECONFIG, "two-level problems");
    clients_fini(&c);
    assert_null(fli_device_solver(&fli_solver_exact));
    assert_null(fli_device_solver(&fli_solver_bilevel));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_solvers_match_the_cpu),     FIXTURE_TEST(test_no_steps),
        FIXTURE_TEST(test_objectives_match_the_cpu),  FIXTURE_TEST(test_foreseen_values_are_computed_once),
        FIXTURE_TEST(test_logits_match_the_cpu),      FIXTURE_TEST(test_failures_are_remembered),
        FIXTURE_TEST(test_lanes_fit_the_free_memory), FIXTURE_TEST(test_devices_are_found_by_name),
        FIXTURE_TEST(test_unfit_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
