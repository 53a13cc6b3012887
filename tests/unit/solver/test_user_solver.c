/* A local solver of one's own: plain SGD written with what fedloom gives to solvers is fedloom's SGD, for every method
 * that poses for it. */
#include "own.h"

#include "solver/user_solver.h"

#define EXACT  SMALL "precision: f64\n"
#define WALKER "local={solver: walker, batch: 5, lr: 0.1}"

/* What a solver does beside walking, and what it saw. */
typedef struct {
    int fail, missed, whole; /* fail 2: only says so; whole: gradients over all samples */
    double weight;           /* 0: as it comes */
    int weighed;             /* that is said to be right */
    atomic_int calls, running, most;
    atomic_size_t rounds; /* the last one it was asked in */
} walker_arg;

/* z <- z - lr m,  m <- momentum m + grad f_i(z) + shift + rho (z - anchor) */
static int walk(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    walker_arg *a = arg;
    size_t n = l->space.n, real = l->space.real;
    double *g = calloc(2 * n, sizeof *g), *m = g + n, loss;
    int now = atomic_fetch_add(&a->running, 1) + 1, failed = 0;
    atomic_fetch_add(&a->calls, 1);
    atomic_store(&a->rounds, l->round);
    for (int most = atomic_load(&a->most); now > most && !atomic_compare_exchange_weak(&a->most, &most, now);) continue;
    for (size_t k = 0; k < p->steps && !failed; k++) {
        failed = a->whole ? fl_local_loss(l, z, g, &loss) : fl_local_batch(l, z, g, &loss);
        for (size_t i = 0; i < n && !failed; i++) {
            double at = own_get(z, real, i), d = own_get(g, real, i);
            if (p->shift) d += own_get(p->shift, real, i);
            if (p->anchor) d += p->rho * (at - own_get(p->anchor, real, i));
            m[i] = l->momentum * m[i] + d;
            own_put(z, real, i, at - p->lr * m[i]);
        }
    }
    free(g);
    out->missed = a->missed;
    atomic_fetch_sub(&a->running, 1);
    if (a->weight != 0) out->weight = a->weight;
    out->weighed = a->weighed;
    if (a->fail) return fl_failed(f, "out of\nbreath"), a->fail == 1;
    return failed;
}

static void walker_register(fixture *f, walker_arg *arg, unsigned traits)
{
    fl_solver s = {.size = sizeof s, .name = "walker", .arg = arg, .traits = traits, .solve = walk};
    assert_ok(f->ctx, fl_solver_register(f->ctx, &s));
}

static void walker_forget(fixture *f) { assert_ok(f->ctx, fl_forget(f->ctx, "solver", "walker")); }

static double difference(const fl_run *a, const fl_run *b)
{
    double most = 0, *x, *y;
    size_t n = fl_run_parameters(a);
    x = calloc(2 * n, sizeof *x);
    y = x + n;
    assert_int_equal(fl_run_model(b, y, n), n);
    fl_run_model(a, x, n);
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(x[i] - y[i]));
    free(x);
    return most;
}

/* ---- the same as SGD ---------------------------------------------------------------------------------------- */

static const char *const cases[] = {
    "algorithm=fedavg;local.momentum=0.5",
    "algorithm={kind: fedprox, mu: 0.2};local.uneven=range",
    "algorithm=scaffold;model.weight_decay=0.1",
    "algorithm=fedvra;local.epochs=3",
    "algorithm=feddr",
    "algorithm=feddyn",
    "algorithm=fednova;local.momentum=0.9",
    "algorithm=fedlin;participation=everyone",
    "algorithm=fedasync;system=constant;participation={kind: everyone}",
    "model={kind: mlp, hidden: [5], weight_decay: 0.1, weight_decay_by: batch}",
    "local.batch=0;data.samples=6000",
};

static void plain_sgd(void **state)
{
    fixture *f = *state;
    walker_arg arg = {0};
    walker_register(f, &arg, 0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char set[400];
        fl_run *theirs = run_done(f, EXACT, cases[k]);
        snprintf(set, sizeof set, "%s;local.solver=walker", cases[k]);
        fl_run *ours = run_done(f, EXACT, set);
        if (!(difference(ours, theirs) <= 1e-12)) fail_msg("%s: %g", cases[k], difference(ours, theirs));
        assert_true(fl_row_get(fl_run_row(ours), "local_steps") == fl_row_get(fl_run_row(theirs), "local_steps"));
        fl_run_free(theirs);
        if (strstr(set, "fedasync") == NULL) {
            strcat(set, ";executor=loopback");
            fl_run *loop = run_done(f, EXACT, set);
            assert_true(difference(ours, loop) == 0);
            fl_run_free(loop);
        }
        fl_run_free(ours);
    }
    assert_true(atomic_load(&arg.calls) > 0 && atomic_load(&arg.rounds) == 5);
    walker_forget(f);
}

/* Gradients over all samples are those of mini-batches that have all of them. */
static void whole_gradients(void **state)
{
    fixture *f = *state;
    walker_arg arg = {.whole = 1};
    walker_register(f, &arg, 0);
    fl_run *ours = run_done(f, EXACT, "model.weight_decay=0.1;local.batch=0;data.samples=6000;local.solver=walker");
    fl_run *theirs = run_done(f, EXACT, "model.weight_decay=0.1;local.batch=0;data.samples=6000");
    assert_near(difference(ours, theirs), 0, 1e-12);
    fl_run_free(ours);
    fl_run_free(theirs);
    walker_forget(f);
}

/* ---- what those of fedloom may do ---------------------------------------------------------------------------- */

/* A method that comes with fedloom, but with a solver that is registered: "ours". */
static void register_method(fixture *f, const char *name, const char *solver)
{
    fl_method m = *algo_named(name);
    m.size = sizeof m;
    m.name = "ours";
    m.solver = solver;
    m.solver_for = NULL;
    assert_ok(f->ctx, fl_method_register(f->ctx, &m));
}

/* The solvers that come with fedloom can be registered, and have the same bits. */
static void whatever_is_built_in(void **state)
{
    fixture *f = *state;
    static const struct {
        const fl_solver *is;
        const char *method, *solver, *params, *set;
    } all[] = {
        {&fli_solver_sgd, "scaffold", "copy", "", "local.momentum=0.5"},
        {&fli_solver_gradient, "fedlin", "copy|sgd", "", "participation=everyone"},
        {&fli_solver_sgd_gradient, "mime-lite", "copy", "", "local.momentum=0.5"},
        {&fli_solver_pair, "apfl", "copy", "", "local.lr=0.1"},
        {&fli_solver_exact, "feddr", "copy", ", solver: exact",
         "model=least_squares;data={kind: linreg, clients: 8, features: 5};partition=natural"},
        {&fli_solver_accurate, "feddr", "copy", ", solver: accurate, relative: 0.1", "model.weight_decay=0.1"},
        {&fli_solver_gram, "fedgia", "copy", ", variant: gram", "model=logistic;data.classes=2"},
        {&fli_solver_diagonal, "fedgia", "copy", ", variant: diagonal", "model.weight_decay=0.1"},
        {&fli_solver_bilevel, "simfbo", "copy", "", "bilevel=regularization"},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const fl_solver *is = all[k].is;
        fl_solver s = {.size = sizeof s,
                       .name = "copy",
                       .traits = is->traits & (FL_SOLVER_FULL_GRADIENT | FL_SOLVER_READS_RHO),
                       .solve = is->solve,
                       .work = is->work,
                       .vectors = is->vectors,
                       .forget = is->forget};
        char set[400];
        assert_ok(f->ctx, fl_solver_register(f->ctx, &s));
        register_method(f, all[k].method, all[k].solver);
        snprintf(set, sizeof set, "%s;algorithm={kind: %s%s}", all[k].set, all[k].method, all[k].params);
        fl_run *theirs = run_done(f, EXACT, set);
        snprintf(set, sizeof set, "%s;algorithm={kind: ours%s}", all[k].set, all[k].params);
        fl_run *ours = run_done(f, EXACT, set);
        if (difference(ours, theirs) != 0) fail_msg("%s: %g", is->name, difference(ours, theirs));
        assert_true(fl_row_get(fl_run_row(ours), "local_steps") == fl_row_get(fl_run_row(theirs), "local_steps"));
        fl_run_free(theirs);
        fl_run_free(ours);
        assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "ours"));
        assert_ok(f->ctx, fl_forget(f->ctx, "solver", "copy"));
    }
}

static atomic_int kept, forgotten;

/* SGD after the gradient at the start, which is answered, as a user would write it. What clients keep is how often they
 * were asked. */
static int gradient_first(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    void *g = fl_local_work(l, 1), *start = fl_local_vector(l, 2);
    double loss;
    (void)arg;
    if (!*l->kept) {
        atomic_fetch_add(&kept, 1);
        *l->kept = calloc(1, sizeof(int));
    }
    if (++*(int *)*l->kept > 100) return fl_failed(f, "asked too often"), 1;
    if (fl_local_loss(l, p->start, start, &loss)) return 1;
    for (size_t k = 0; k < p->steps; k++) {
        if (fl_local_batch(l, z, g, NULL)) return 1;
        if (p->shift) fl_vec_axpy(&l->space, 1, p->shift, g);
        fl_vec_axpy(&l->space, -p->lr, g, z);
    }
    out->gradient = start;
    out->steps += (l->samples + l->batch - 1) / l->batch;
    return 0;
}

static void forget_count(void *what)
{
    assert_true(*(int *)what > 0);
    atomic_fetch_add(&forgotten, 1);
    free(what);
}

static void with_vectors(void **state)
{
    fixture *f = *state;
    fl_solver s = {.size = sizeof s,
                   .name = "first",
                   .traits = FL_SOLVER_FULL_GRADIENT,
                   .solve = gradient_first,
                   .work = 2,
                   .vectors = 3,
                   .forget = forget_count};
    assert_ok(f->ctx, fl_solver_register(f->ctx, &s));
    register_method(f, "mime-lite", "first");
    fl_run *theirs = run_done(f, EXACT, "algorithm=mime-lite;model.weight_decay=0.1");
    for (int way = 0; way < 2; way++) {
        static const char *const set[] = {"algorithm=ours;model.weight_decay=0.1",
                                          "algorithm=ours;model.weight_decay=0.1;executor=loopback"};
        fl_run *ours = run_done(f, EXACT, set[way]);
        assert_near(difference(ours, theirs), 0, 1e-12);
        assert_true(fl_row_get(fl_run_row(ours), "local_steps") == fl_row_get(fl_run_row(theirs), "local_steps"));
        fl_run_free(ours);
    }
    fl_run_free(theirs);
    assert_true(kept > 0 && kept == forgotten);
    assert_ok(f->ctx, fl_conform(f->ctx, "ours", NULL, NULL, NULL));
    assert_int_equal(kept, forgotten);
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "ours"));
    assert_ok(f->ctx, fl_forget(f->ctx, "solver", "first"));
}

/* ---- its weight --------------------------------------------------------------------------------------------- */

static void count_unsaid(void *arg, fl_log_level level, const char *line)
{
    int *count = arg;
    if (level == FL_LOG_WARNING)
        *count += strstr(line, "is defined for plain SGD: solver walker has not said the weight") ||
                  strstr(line, "divides by the weight of the gradients: solver walker has not said the weight");
}

static int unsaid(fixture *f, const char *set)
{
    int count = 0;
    fl_ctx_on_log(f->ctx, count_unsaid, &count);
    fl_run_free(run_done(f, EXACT, set));
    fl_ctx_on_log(f->ctx, NULL, NULL);
    return count;
}

/* Methods that divide by the weight say once in a run that a solver has left it as it came. */
static void unset_weights_are_warned_of_once(void **state)
{
    fixture *f = *state;
    walker_arg arg = {0};
    walker_register(f, &arg, 0);
    assert_int_equal(unsaid(f, "algorithm=scaffold;threads=3;" WALKER), 1);
    assert_int_equal(unsaid(f, "algorithm=scaffold;local.momentum=0.9;local.lr=0.01;local.solver=walker"), 1);
    assert_int_equal(unsaid(f, "algorithm=fednova;" WALKER), 1);
    assert_int_equal(unsaid(f, "algorithm=fedavg;" WALKER), 0);
    assert_int_equal(unsaid(f, "algorithm=scaffold"), 0);
    arg.weighed = 1;
    assert_int_equal(unsaid(f, "algorithm=scaffold;" WALKER), 0);
    assert_int_equal(unsaid(f, "algorithm=fednova;" WALKER), 0);
    arg = (walker_arg){.weight = 17.5};
    assert_int_equal(unsaid(f, "algorithm=scaffold;" WALKER), 0);
    walker_forget(f);
}

static void with_an_own_objective(void **state)
{
    fixture *f = *state;
    own_arg objective = {0};
    walker_arg arg = {0};
    walker_register(f, &arg, FL_SERIAL);
    fl_objective o = own_softmax(&objective);
    o.traits |= FL_SERIAL;
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
    fl_run *ours = run_done(f, EXACT, "threads=4;model=own_softmax;algorithm=scaffold;" WALKER);
    fl_run *theirs = run_done(f, EXACT, "algorithm=scaffold");
    assert_near(difference(ours, theirs), 0, 1e-12);
    assert_int_equal(atomic_load(&arg.most), 1);
    fl_run_free(ours);
    fl_run_free(theirs);
    own_forget(f);
    walker_forget(f);
}

/* Half the way to where the client's own data would be best, which only the solver knows. */
static int half_way(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    double at = own_get(p->start, l->space.real, 0);
    (void)arg, (void)f;
    out->steps = 1;
    own_put(z, l->space.real, 0, at + 0.5 * (l->client - at));
    return 0;
}

static int no_loss(void *arg, const fl_batch *b, const void *x, void *g, double *loss, size_t *correct, fl_failure *f)
{
    (void)arg, (void)b, (void)x, (void)g, (void)loss, (void)correct;
    return fl_failed(f, "nobody knows"), 1;
}

/* A solver that needs no gradients, where nothing that needs them is measured. */
static void without_gradients(void **state)
{
    fixture *f = *state;
    static const size_t start[] = {0, 3, 4, 9};
    fl_samples samples = {.size = sizeof samples, .n = 9};
    fl_holding who = {.size = sizeof who, .clients = 3, .start = start};
    fl_objective o = {.size = sizeof o, .name = "unknown", .parameters = 1, .batch = no_loss};
    fl_solver s = {.size = sizeof s, .name = "half", .solve = half_way};
    double x = NAN;
    fl_run *run = NULL;
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
    assert_ok(f->ctx, fl_solver_register(f->ctx, &s));
    fl_config *cfg = config_of(f, "rounds: 30\nweights: uniform\nparticipation: everyone\nmodel: unknown\n",
                               "local.solver=half;metrics={train: false, test: false, clients: false}");
    assert_ok(f->ctx, fl_config_data(cfg, &samples, NULL, &who));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    fl_run_model(run, &x, 1);
    assert_near(x, 1, 1e-6); /* the mean of the clients' numbers */
    assert_true(fl_row_get(fl_run_row(run), "local_steps") == 90);
    fl_run_free(run);
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_forget(f->ctx, "model", "unknown"));
    assert_ok(f->ctx, fl_forget(f->ctx, "solver", "half"));
}

static const size_t held[] = {0, 3, 4, 9}; /* clients of the test below, and their samples */

/* Two passes over the client's samples by their numbers: each comes once in a pass, in mini-batches of 2. */
static int passes(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    size_t from = held[l->client], to = held[l->client + 1];
    (void)arg, (void)p, (void)z, (void)out;
    for (int pass = 0; pass < 2; pass++) {
        unsigned seen = 0, all = (1u << to) - (1u << from);
        for (size_t taken = 0; taken < to - from;) {
            const uint32_t *sample;
            double decay = NAN;
            size_t left = to - from - taken, n = fl_local_next(l, &sample, pass ? &decay : NULL);
            if (n != (left < 2 ? left : 2) || (pass && decay != 0.5)) return fl_failed(f, "another mini-batch"), 1;
            for (size_t i = 0; i < n; i++) seen ^= 1u << sample[i];
            taken += n;
        }
        if (seen != all) return fl_failed(f, "not the client's samples"), 1;
    }
    return 0;
}

static void by_number(void **state)
{
    fixture *f = *state;
    fl_samples samples = {.size = sizeof samples, .n = 9};
    fl_holding who = {.size = sizeof who, .clients = 3, .start = held};
    fl_objective o = {.size = sizeof o, .name = "unknown", .parameters = 1, .batch = no_loss};
    fl_solver s = {.size = sizeof s, .name = "passes", .solve = passes};
    fl_run *run = NULL;
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
    assert_ok(f->ctx, fl_solver_register(f->ctx, &s));
    fl_config *cfg = config_of(f, "rounds: 3\nparticipation: everyone\nmodel: {kind: unknown, weight_decay: 0.5}\n",
                               "local={solver: passes, batch: 2};metrics={train: false, test: false, clients: false}");
    assert_ok(f->ctx, fl_config_data(cfg, &samples, NULL, &who));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    fl_run_free(run);
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_forget(f->ctx, "model", "unknown"));
    assert_ok(f->ctx, fl_forget(f->ctx, "solver", "passes"));
}

/* ---- failing ------------------------------------------------------------------------------------------------ */

static void fails(fixture *f, const char *set, fl_status expected, const char *text)
{
    fl_run *run = run_new(f, SMALL, set);
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), expected, text);
    fl_run_free(run);
}

static void a_failing_solver_gives_its_reason(void **state)
{
    fixture *f = *state;
    own_arg objective = {.fail_batch = 1};
    walker_arg arg = {.fail = 1};
    walker_register(f, &arg, 0);
    own_register(f, &objective);
    fails(f, WALKER, FL_ECALLBACK, "solver walker failed at client ");
    /* nobody is asked after that */
    arg.calls = 0;
    fails(f, WALKER ";threads=1", FL_ECALLBACK, ", round 1: out of breath");
    assert_int_equal(arg.calls, 1);
    arg.calls = 0;
    fails(f, WALKER ";executor=loopback", FL_ECALLBACK, ", round 1: out of breath");
    assert_int_equal(arg.calls, 1);
    /* saying so is enough */
    arg.fail = 2;
    fails(f, WALKER ";threads=1", FL_ECALLBACK, ", round 1: out of breath");
    arg = (walker_arg){.weight = -1};
    fails(f, WALKER, FL_ECALLBACK, "its solution has the weight -1, but a weight is positive");
    arg.weight = NAN;
    fails(f, WALKER, FL_ECALLBACK, "its solution has the weight nan");
    arg = (walker_arg){.fail = 1};
    /* the objective's failure comes first, whatever the solver makes of it */
    fails(f, WALKER ";model=own_softmax;metrics={train: false, test: false, clients: false}", FL_ECALLBACK,
          "objective own_softmax failed at client ");
    arg.fail = 0;
    fails(f, WALKER ";model=own_softmax;metrics={train: false, test: false, clients: false}", FL_ECALLBACK,
          ", round 1: no more paper");
    own_forget(f);
    walker_forget(f);
}

static void counts(void *arg, fl_log_level level, const char *line)
{
    (void)level;
    *(int *)arg += strstr(line, "were not solved to their accuracy") != NULL;
}

static void missed_accuracy_is_logged(void **state)
{
    fixture *f = *state;
    int said = 0;
    walker_arg arg = {.missed = 1};
    walker_register(f, &arg, 0);
    fl_ctx_on_log(f->ctx, counts, &said);
    fl_run_free(run_done(f, SMALL, WALKER));
    assert_int_equal(said, 1);
    fl_ctx_on_log(f->ctx, NULL, NULL);
    walker_forget(f);
}

/* ---- choosing ----------------------------------------------------------------------------------------------- */

static void refuse_set(fixture *f, const char *set, const char *text)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, SMALL, set);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, text);
    fl_config_free(cfg);
}

static void a_registered_solver_is_listed(void **state)
{
    fixture *f = *state;
    walker_arg arg = {0};
    collected text = {0};
    assert_string_equal(fl_kind_at("solver", 0), "sgd");
    assert_null(fl_kind_at("solver", 1));
    assert_null(fl_kind_at("solutions", 0));
    walker_register(f, &arg, 0);
    assert_string_equal(fl_kind_at("solvers", 1), "walker");
    assert_null(fl_kind_at("solver", 2));
    assert_ok(f->ctx, fl_list(f->ctx, "solvers", NULL, keep_text, &text));
    assert_non_null(strstr(text.s, "walker           a solver of one's own"));
    assert_ok(f->ctx, fl_list(f->ctx, "solver", "walker", keep_text, &text));
    assert_non_null(strstr(text.s, "  local: {solver: walker}"));
    free(text.s);
    walker_forget(f);
}

static void mistakes_of_a_solver_are_named(void **state)
{
    fixture *f = *state;
    walker_arg arg = {0};
    fl_solver s = {.size = sizeof s, .name = "walker", .arg = &arg, .solve = walk}, bad;
    bad = s, bad.size = 3;
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "fl_solver.size is 3");
    bad = s, bad.name = "sgd";
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "solver sgd comes with fedloom");
    bad = s, bad.name = "sgd_gradient";
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "comes with fedloom");
    bad = s, bad.name = "";
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "a solver needs a name");
    bad = s, bad.solve = NULL;
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "needs the function solve");
    bad = s, bad.traits = FL_SERIAL | 0x40;
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "traits 0x41, of which 0x40 is not known");
    bad = s, bad.vectors = 65;
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "0 work and 65 answer vectors, but at most 64");
    bad = s, bad.work = 65;
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "65 work and 0 answer vectors, but at most 64");
    bad = s, bad.engine = fli_solver_sgd.engine;
    assert_fails(f->ctx, fl_solver_register(f->ctx, &bad), FL_ECONFIG, "has an engine, which is fedloom's own");
    refuse_set(f, WALKER, "local.solver is walker, which is not registered");
    walker_register(f, &arg, 0);
    refuse_set(f, "local.solver=wlker", "did you mean walker?");
    refuse_set(f, WALKER ";algorithm={kind: feddr, solver: exact}", "local.solver must be sgd");
    refuse_set(f, WALKER ";algorithm=mime-lite", "local.solver must be sgd");
    refuse_set(f, WALKER ";algorithm=apfl", "local.solver must be sgd");
    refuse_set(f, WALKER ";data.unlabelled=0.5;semi.labels=projected", "knows nothing of pseudo");
    walker_forget(f);
    assert_null(fli_user_solver("walker"));
    assert_fails(f->ctx, fl_forget(f->ctx, "solver", "walker"), FL_ECONFIG, "no solver called walker");
}

/* The newest of a name, and each by its number, whatever is registered later. */
static void several_of_a_name(void **state)
{
    fixture *f = *state;
    walker_arg arg[3] = {{0}};
    static const char *const name[] = {"walker@1", "walker@2", "walker@3", "walker"};
    for (size_t i = 0; i < 3; i++) walker_register(f, &arg[i], 0);
    for (size_t i = 0; i < 4; i++) {
        size_t own = i < 3 ? i : 2;
        char set[100];
        collected text = {0};
        for (size_t k = 0; k < 3; k++) arg[k].calls = 0;
        snprintf(set, sizeof set, "executor=%s;local.solver=%s", i % 2 ? "loopback" : "threads", name[i]);
        fl_run_free(run_done(f, EXACT, set));
        for (size_t k = 0; k < 3; k++) assert_int_equal(arg[k].calls > 0, k == own);
        fl_config *cfg = config_of(f, EXACT, set);
        assert_ok(f->ctx, fl_config_print(cfg, keep_text, &text));
        assert_non_null(strstr(text.s, "solver: walker\n"));
        fl_config_free(cfg);
        free(text.s);
    }
    refuse_set(f, "local.solver=walker@4", "local.solver is walker@4, which is not registered");
    refuse_set(f, "local.solver=walker@", "local.solver is walker@, which is not registered");
    refuse_set(f, "local.solver=walker@0", "local.solver is walker@0, which is not registered");
    walker_forget(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(plain_sgd),
        FIXTURE_TEST(whole_gradients),
        FIXTURE_TEST(whatever_is_built_in),
        FIXTURE_TEST(with_vectors),
        FIXTURE_TEST(unset_weights_are_warned_of_once),
        FIXTURE_TEST(with_an_own_objective),
        FIXTURE_TEST(without_gradients),
        FIXTURE_TEST(by_number),
        FIXTURE_TEST(a_failing_solver_gives_its_reason),
        FIXTURE_TEST(missed_accuracy_is_logged),
        FIXTURE_TEST(a_registered_solver_is_listed),
        FIXTURE_TEST(mistakes_of_a_solver_are_named),
        FIXTURE_TEST(several_of_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
