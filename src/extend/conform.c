/* fl_conform: tests a method for what the engine promises of every method, on a small federation. Checks on one thread
 * come first; a method that fails there is not run on several. */
#include "algo/user_method.h"
#include "base/file.h"
#include "base/number.h"
#include "extend/conform_problem.h"
#include "extend/conform_trace.h"
#include "fedloom_extend.h"
#include "metric/metric.h"
#include "run/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ==== the problems ========================================================================================== */

/* Twelve clients that take different numbers of steps. The server begins to absorb before nine of them have answered
 * (server/server_state.c), so that clients after them would see what is absorbed too early. */
#define COMMON                                                                                                         \
    "rounds: 4\nseed: 3\nthreads: 1\nsystem: {kind: lognormal, jitter: 0.3}\n"                                         \
    "local: {batch: 5, lr: 0.05, uneven: range, range: [1, 3]}\nmetrics: {gradient: true}\n"
#define CLASSES                                                                                                        \
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50}\n"                                   \
    "partition: {kind: iid, clients: 12}\nmodel: {kind: mlp, hidden: [9]}\n"
#define LINEAR                                                                                                         \
    "data: {kind: linreg, clients: 12, features: 20, min_size: 10, max_size: 30}\n"                                    \
    "model: {kind: least_squares, weight_decay: 0.01}\n"
#define SOME     "participation: {kind: uniform, count: 10}\n"
#define EVERYONE "participation: everyone\n"
#define LEVELS   "bilevel: hyper_representation\n"

const fli_conform_problem fli_conform_problems[] = {
    {"a small network, 10 of 12 clients", COMMON CLASSES SOME},
    {"a small network, everyone", COMMON CLASSES EVERYONE},
    {"two levels, 10 of 12 clients", COMMON CLASSES SOME LEVELS},
    {"two levels, everyone", COMMON CLASSES EVERYONE LEVELS},
    {"linear regression, 10 of 12 clients", COMMON LINEAR SOME},
    {"linear regression, everyone", COMMON LINEAR EVERYONE},
    {NULL, NULL},
};

/* The settings may contain the method's parameters, but not choose another method. */
static fl_status same_method(fl_ctx *ctx, const fl_config *c, const char *method)
{
    const char *kind = fl_config_get(c, "algorithm.kind");
    if (!*kind) kind = fl_config_get(c, "algorithm");
    if (!*kind || !strcmp(kind, method)) return FL_OK; /* an invalid kind is refused later */
    return fli_fail(ctx, FL_ECONFIG, "method %s is to be tried out, but the settings choose %s", method, kind);
}

/* The problem's settings with that method, overridden by the caller's YAML; NULL: none. */
static fl_status make_config(fl_ctx *ctx, const fli_conform_problem *p, const char *method, const char *settings,
                             fl_config **out)
{
    fl_config *c = fl_config_new(ctx);
    char *choice = fli_strf(ctx, "algorithm=%s", method);
    fl_status s = c && choice ? FL_OK : FL_ENOMEM;
    if (!s) s = fl_config_text(c, p->yaml, "the problem");
    if (!s) s = fl_config_set(c, choice);
    if (!s && settings) s = fl_config_text(c, settings, "settings");
    if (!s && settings) s = same_method(ctx, c, method);
    fli_free(choice);
    if (s)
        fl_config_free(c);
    else
        *out = c;
    return s;
}

/* ==== recorded runs ========================================================================================= */

typedef struct {
    fli_trace *trace;
    fl_run *run;
    size_t stop;
} recorder;

/* fl_observer_fn */
static void record(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    recorder *r = arg;
    size_t round = fl_run_round(run);
    (void)measured;
    if (round > r->trace->rounds) return;
    fl_run_model(run, r->trace->x + round * r->trace->n, r->trace->n);
    r->trace->rows[round] = *row;
    r->trace->rows[round].value[fl_metric_place(fl_metric_find("seconds"))] = 0;
    if (r->stop && round >= r->stop) fl_run_stop(r->run);
}

static fl_status go(fl_run *run, size_t stop, fli_trace *t)
{
    recorder r = {t, run, stop};
    t->status = fl_run_go(run, record, &r);
    if (!t->status) return FL_OK;
    if (t->status != FL_EDIVERGED && t->status != FL_ECALLBACK) return t->status; /* not caused by the method */
    t->error = fli_strdup(run->ctx, fl_ctx_error(run->ctx));
    return t->error ? FL_OK : FL_ENOMEM;
}

static fl_status room_for(fl_run *run, fli_trace *t)
{
    t->n = fl_run_parameters(run);
    t->rounds = fl_run_rounds(run);
    t->x = fli_alloc(run->ctx, t->rounds + 1, t->n * sizeof *t->x);
    t->rows = fli_alloc(run->ctx, t->rounds + 1, sizeof *t->rows);
    return t->x && t->rows ? FL_OK : FL_ENOMEM;
}

static void trace_fini(fli_trace *t)
{
    fli_free(t->x);
    fli_free(t->rows);
    fli_free(t->error);
    *t = (fli_trace){0};
}

/* Runs the configuration to its end; a failure that the method may have caused is recorded in the trace, any other is
 * returned. `stop` > 0: stops after this number of rounds, with a checkpoint if `output` is set. */
static fl_status trace_run(fl_config *cfg, size_t stop, fli_trace *out)
{
    fl_run *run = NULL;
    *out = (fli_trace){0};
    fl_status s = fl_run_new(cfg, &run);
    if (!s) s = room_for(run, out);
    if (!s) s = go(run, stop, out);
    fl_run_free(run);
    if (s) trace_fini(out);
    return s;
}

/* Resumes from the checkpoint of that output, with the method of that name. */
static fl_status trace_resume(fl_ctx *ctx, const char *output, const char *method, fli_trace *t)
{
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(ctx);
    fl_status s = cfg ? fl_config_resume(cfg, output) : FL_ENOMEM;
    fli_node *kind = s ? NULL : fli_node_find(fli_node_find(fli_config_change(cfg), "algorithm"), "kind");
    if (kind) kind->text = method; /* with its number, which is not in the file */
    if (!s) s = fl_run_resume(cfg, &run);
    if (!s) s = go(run, 0, t);
    fl_run_free(run);
    fl_config_free(cfg);
    return s;
}

/* ---- comparing ------------------------------------------------------------------------------------------- */

static void describe_models(const double *a, const double *b, size_t n, size_t round, fli_text *what)
{
    size_t differ = 0;
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        if (!memcmp(&a[i], &b[i], sizeof *a)) continue;
        double by = fabs(a[i] - b[i]);
        most = differ++ && !(by > most) && !isnan(by) ? most : by;
    }
    fli_text_addf(what, "differs first after round %zu, in %zu of %zu parameters, by %.2g at most", round, differ, n,
                  most);
}

static int same_rows(const fl_row *a, const fl_row *b, size_t round, fli_text *what)
{
    for (size_t k = 0; fl_metric_at(k); k++) {
        if (!memcmp(&a->value[k], &b->value[k], sizeof a->value[k])) continue;
        fli_text_addf(what, "%s differs first after round %zu: %.9g and %.9g", fl_metric_at(k)->name, round,
                      a->value[k], b->value[k]);
        return 0;
    }
    return 1;
}

/* Whether all bits agree, except for seconds; else writes what differs, as the end of a sentence. */
static int trace_same(const fli_trace *a, const fli_trace *b, fli_text *what)
{
    if (b->status) {
        fli_text_addf(what, "fails: %s", b->error);
        return 0;
    }
    for (size_t r = 0; r <= a->rounds; r++) {
        const double *x = a->x + r * a->n, *y = b->x + r * b->n;
        if (memcmp(x, y, a->n * sizeof *x)) {
            describe_models(x, y, a->n, r, what);
            return 0;
        }
        if (!same_rows(&a->rows[r], &b->rows[r], r, what)) return 0;
    }
    return 1;
}

/* ==== holding a method to its promises ====================================================================== */

enum { SLICE = 7, STOP = 2, SETS = 3, ROOM = 640 };

typedef struct {
    fl_ctx *ctx;
    const char *method, *settings;
    const fli_conform_problem *problem;
    fl_text_fn *out;
    void *arg;
    const fl_method *algo;
    fli_trace f32, f64; /* the reference runs */
    char folder[512];   /* for checkpoints */
    size_t checks, failed;
    fli_text first; /* title and error of the first failed check */
} conform;

/* A run that must equal the reference: settings in addition to the problem's. */
typedef struct {
    const char *title;
    const char *set[SETS]; /* ends with NULL */
    size_t slice;          /* slice of the server's vectors; 0: the default */
    size_t stop;           /* stopped after this round, and resumed; 0: not stopped */
    int single;            /* f32, else f64 */
} way;

/* ---- lines ----------------------------------------------------------------------------------------------- */

/* Prints the result of a check: `wrong` is empty if it holds. */
static fl_status print_line(conform *c, const char *title, const fli_text *wrong)
{
    int holds = !*fli_text_get(wrong);
    fli_text line;
    fli_text_init(&line, c->ctx);
    fli_text_addf(&line, "%-5s %s%s%s", holds ? "ok" : "FAIL", title, holds ? "" : ": ", fli_text_get(wrong));
    fl_status s = fli_text_ok(wrong) ? fli_text_ok(wrong) : fli_text_ok(&line);
    if (!s && !holds && !c->failed) fli_text_addf(&c->first, "%s: %s", title, fli_text_get(wrong));
    fli_text_add(&line, "\n");
    if (!s && c->out) c->out(c->arg, fli_text_get(&line));
    fli_text_fini(&line);
    c->checks++;
    c->failed += !holds;
    return s;
}

/* ---- runs ------------------------------------------------------------------------------------------------ */

static fl_status set_way(conform *c, const way *w, fl_config *cfg)
{
    char output[ROOM];
    fl_status s = fl_config_set(cfg, w->single ? "precision=f32" : "precision=f64");
    /* a server step of an asynchronous method is shorter than a round */
    if (!s && c->algo && fli_algo_is_async(c->algo)) s = fl_config_set(cfg, "rounds=30");
    for (size_t i = 0; !s && i < SETS && w->set[i]; i++) s = fl_config_set(cfg, w->set[i]);
    fli_snprintf(output, sizeof output, "output=\"%s/%zu\"", c->folder, c->checks);
    if (!s && w->stop) s = fl_config_set(cfg, output);
    if (!s && w->stop) s = fl_config_set(cfg, "checkpoint_every=1000"); /* writes only the checkpoint of the stop */
    cfg->slice = w->slice;
    return s;
}

static fl_status config_for(conform *c, const way *w, fl_config **out)
{
    fl_status s = make_config(c->ctx, c->problem, c->method, c->settings, out);
    if (!s && (s = set_way(c, w, *out))) fl_config_free(*out);
    return s;
}

static fl_status run(conform *c, const way *w, fli_trace *out)
{
    fl_config *cfg = NULL;
    fl_status s = config_for(c, w, &cfg);
    if (s) return s;
    s = trace_run(cfg, w->stop, out);
    fl_config_free(cfg);
    return s;
}

/* Resumes such a run after another run, which changes any state that the method keeps outside of checkpoints. */
static fl_status resume(conform *c, const way *w, fli_trace *t)
{
    char output[ROOM];
    way other = *w;
    fli_trace between;
    other.stop = 0;
    fl_status s = run(c, &other, &between);
    if (s) return s;
    trace_fini(&between);
    fli_snprintf(output, sizeof output, "%s/%zu", c->folder, c->checks);
    return trace_resume(c->ctx, output, c->method, t);
}

/* ---- checks ---------------------------------------------------------------------------------------------- */

/* Makes a reference run; one that fails, or ends with numbers that are not finite, cannot be a reference. */
static fl_status make_reference(conform *c, const way *w, fli_trace *t)
{
    fli_text wrong;
    fli_text_init(&wrong, c->ctx);
    fl_status s = run(c, w, t);
    if (!s && t->status) fli_text_addf(&wrong, "%s", t->error);
    const double *last = s ? NULL : t->x + t->rounds * t->n;
    for (size_t i = 0; !s && !t->status && i < t->n; i++) {
        if (last[i] - last[i] == 0) continue;
        fli_text_addf(&wrong, "parameter %zu of the last model is %g", i, last[i]);
        break;
    }
    if (!s) s = print_line(c, w->title, &wrong);
    fli_text_fini(&wrong);
    return s;
}

static fl_status hold_to(conform *c, const fli_trace *want, const way *w)
{
    fli_trace got;
    fli_text wrong;
    fl_status s = run(c, w, &got);
    if (s) return s;
    fli_text_init(&wrong, c->ctx);
    if (w->stop && !got.status) s = resume(c, w, &got);
    trace_same(want, &got, &wrong);
    if (!s) s = print_line(c, w->title, &wrong);
    fli_text_fini(&wrong);
    trace_fini(&got);
    return s;
}

static fl_status hold_to_all(conform *c, const way *ways)
{
    fl_status s = FL_OK;
    for (; !s && ways->title; ways++) s = hold_to(c, ways->single ? &c->f32 : &c->f64, ways);
    return s;
}

/* Checks a setting that only some methods support against a reference with that setting. */
static fl_status hold_to_if_possible(conform *c, const char *setting, const way *w)
{
    way plain = {"", {setting}, .single = w->single};
    fli_trace want;
    fl_status s = run(c, &plain, &want);
    if (s == FL_ECONFIG) return FL_OK; /* the method does not support it */
    if (s) return s;
    if (!want.status) s = hold_to(c, &want, w);
    trace_fini(&want);
    return s;
}

/* Checks that dropped late clients leave no trace. */
static fl_status check_dropped(conform *c)
{
    static const char late[] = "system.wait_for=0.7";
    static const way bytes = {"late clients are dropped: messages as bytes", {late, "executor=loopback"}, .single = 1};
    return hold_to_if_possible(c, late, &bytes);
}

/* fli_after_absorb.call: makes a round of another run, whose outcome does not matter. */
static void step_other(void *other)
{
    int more;
    fl_run **run = other;
    if (*run && !fl_run_step(*run, &more) && more) return;
    fl_run_free(*run);
    *run = NULL;
}

/* Repeats the reference run, with rounds of another run (another seed) within its rounds: these change any state that
 * the method keeps outside of its vectors and numbers. */
static fl_status check_interleaved(conform *c)
{
    static const way mine = {"between its uploads another run takes rounds", {NULL}, .single = 1},
                     others = {"", {"seed=4", "rounds=40"}, .single = 1};
    fl_config *cfg = NULL, *other_cfg = NULL;
    fl_run *other = NULL;
    fli_trace got = {0};
    fli_text wrong;
    fl_status s = config_for(c, &mine, &cfg);
    if (s) return s;
    if (!(s = config_for(c, &others, &other_cfg))) s = fl_run_new(other_cfg, &other);
    cfg->after_absorb = (fli_after_absorb){step_other, &other};
    if (!s) s = trace_run(cfg, 0, &got);
    fli_text_init(&wrong, c->ctx);
    if (!s) trace_same(&c->f32, &got, &wrong);
    if (!s) s = print_line(c, mine.title, &wrong);
    fli_text_fini(&wrong);
    trace_fini(&got);
    fl_run_free(other);
    fl_config_free(other_cfg);
    fl_config_free(cfg);
    return s;
}

/* Checks a regulariser, since a prox uses all entries at once. */
static fl_status check_composite(conform *c)
{
    static const char ball[] = "regularizer={kind: l2_ball, radius: 1}";
    static const way slices = {"with a regulariser: slices of 7 entries", {ball}, .slice = SLICE};
    return hold_to_if_possible(c, ball, &slices);
}

/* ---- bytes ----------------------------------------------------------------------------------------------- */

/* The bytes of one message by the tables. */
static double message_bytes(const fl_part *parts, unsigned moment, const fl_space *space)
{
    double sum = 0;
    for (const fl_part *p = parts; p->name; p++)
        if (fli_part_sent(p, moment))
            sum += p->what == FL_PART_NUMBER ? 8 * (double)fli_part_numbers(p) : (double)fli_bytes(space);
    return sum;
}

/* Adds the bytes of a run in which all clients take part in every round. */
static void add_expected(const fl_run *r, fl_ask ask, double *up, double *down)
{
    const fli_plan *p = &r->plan;
    unsigned moment = fli_algo_moment(p->setup.algo, p->setup.params, &ask);
    *up += (double)p->fed->clients * message_bytes(p->setup.algo->up, moment, &p->model->space);
    *down += (double)p->fed->clients * message_bytes(p->setup.algo->down, moment, &p->model->space);
}

static void expected_bytes(const fl_run *r, double *up, double *down)
{
    const fl_method *a = r->plan.setup.algo;
    const void *params = r->plan.setup.params;
    size_t phases = fli_algo_phases(a, params, 0);
    unsigned first = fli_algo_shows_start(a) ? FLI_ASK_FIRST : 0;
    *up = *down = 0;
    if (fli_exec_warms_up(r->exec)) {
        add_expected(r, (fl_ask){.phases = 1, .warm_up = 1, .flags = first}, up, down);
        first = 0;
    }
    for (size_t round = 0; round < fl_run_rounds(r); round++)
        for (size_t k = 0; k < phases; k++, first = 0)
            add_expected(r, (fl_ask){.phase = (uint32_t)k, .phases = (uint32_t)phases, .flags = first}, up, down);
}

static fl_status compare_bytes(conform *c, fl_run *r)
{
    fli_text wrong;
    double up, down;
    const void *params = r->plan.setup.params;
    if (fli_algo_phases(c->algo, params, 0) != fli_algo_phases(c->algo, params, nextafter(1, 0))) return FL_OK;
    fl_status s = fl_run_go(r, NULL, NULL);
    if (s && s != FL_EDIVERGED && s != FL_ECALLBACK) return s;
    double got_up = fl_row_get(fl_run_row(r), "bytes_up"), got_down = fl_row_get(fl_run_row(r), "bytes_down");
    expected_bytes(r, &up, &down);
    fli_text_init(&wrong, c->ctx);
    if (s)
        fli_text_addf(&wrong, "fails: %s", fl_ctx_error(c->ctx));
    else if (got_up != up || got_down != down)
        fli_text_addf(&wrong, "%.0f up and %.0f down were counted, but the tables say %.0f and %.0f", got_up, got_down,
                      up, down);
    s = print_line(c, "everyone takes part: the bytes of its tables", &wrong);
    fli_text_fini(&wrong);
    return s;
}

/* Checks the counted bytes, if every round is one exchange of whole vectors with the cohort. */
static fl_status check_bytes(conform *c)
{
    static const way everyone = {"", {"participation=everyone"}, .single = 1};
    const fl_method *a = c->algo;
    fl_config *cfg = NULL;
    fl_run *r = NULL;
    if (fli_algo_is_async(a) || a->rounds.exchanges || a->rounds.redraws ||
        a->traits & (FL_METHOD_BYSTANDERS | FL_METHOD_BILEVEL))
        return FL_OK;
    fl_status s = config_for(c, &everyone, &cfg);
    if (s) return s;
    s = fl_run_new(cfg, &r);
    fl_config_free(cfg);
    if (!s) s = compare_bytes(c, r);
    fl_run_free(r);
    return s;
}

/* ---- all of them ----------------------------------------------------------------------------------------- */

/* Chooses the first problem that the method supports; if there is none, returns the first one's error. */
static fl_status choose_problem(conform *c)
{
    static const way plain = {"", {NULL}, .single = 1};
    fl_status first = FL_OK;
    char *why = NULL;
    for (c->problem = fli_conform_problems; c->problem->title; c->problem++) {
        fl_config *cfg = NULL;
        fl_run *r = NULL;
        fl_status s = config_for(c, &plain, &cfg);
        if (!s) s = fl_run_new(cfg, &r);
        if (cfg) fl_config_free(cfg);
        if (!s) c->algo = r->plan.setup.algo;
        fl_run_free(r);
        if (!s) fli_clear(c->ctx);
        if (s && !first) first = s, why = fli_strdup(c->ctx, fl_ctx_error(c->ctx));
        if (s == FL_ECONFIG) continue;
        fli_free(why);
        return s;
    }
    fli_clear(c->ctx);
    fli_fail(c->ctx, first, "%s", why ? why : "out of memory");
    fli_free(why);
    return first;
}

static fl_status check_all(conform *c)
{
    static const way single = {"f32: stays finite", {NULL}, .single = 1}, twofold = {"f64: stays finite", {NULL}};
    static const way on_one[] = {
        {"the same run again", {NULL}, .single = 1},
        {"f32: messages as bytes", {"executor=loopback"}, .single = 1},
        {"f64: messages as bytes", {"executor=loopback"}},
        {"slices of 7 entries", {NULL}, .slice = SLICE, .single = 1},
        {"stopped, and resumed from its checkpoint", {NULL}, .stop = STOP, .single = 1},
        {"the same, with messages as bytes", {"executor=loopback"}, .stop = STOP},
        {NULL},
    };
    static const way on_many[] = {
        {"2 threads", {"threads=2"}, .single = 1},
        {"5 threads", {"threads=5"}},
        {"slices of 7 entries on 5 threads", {"threads=5"}, .slice = SLICE, .single = 1},
        {NULL},
    };
    fl_status s = make_reference(c, &single, &c->f32);
    if (!s) s = make_reference(c, &twofold, &c->f64);
    if (s || c->failed) return s;
    if (!s) s = hold_to_all(c, on_one);
    if (!s) s = check_interleaved(c);
    if (!s) s = check_dropped(c);
    if (!s) s = check_composite(c);
    if (!s) s = check_bytes(c);
    if (s || c->failed) return s;
    return hold_to_all(c, on_many);
}

static fl_status begin(conform *c)
{
    const char *place = getenv("TMPDIR");
    fli_snprintf(c->folder, sizeof c->folder, "%s/fedloom-conform-XXXXXX", place && *place ? place : "/tmp");
    if (mkdtemp(c->folder)) return FL_OK;
    fl_status s = fli_fail(c->ctx, FL_EIO, "%s: no folder for checkpoints can be made", c->folder);
    c->folder[0] = 0;
    return s;
}

fl_status fl_conform(fl_ctx *ctx, const char *method, const char *settings, fl_text_fn *out, void *arg)
{
    conform c = {.ctx = ctx, .method = method, .settings = settings, .out = out, .arg = arg};
    fli_clear(ctx);
    if (!method) return fli_fail(ctx, FL_ECONFIG, "no method is named");
    fli_text_init(&c.first, ctx);
    fli_log_quiet(ctx, 1);
    fl_status s = begin(&c);
    if (!s) s = choose_problem(&c);
    if (!s) s = check_all(&c);
    if (c.folder[0] && fli_remove_folder(ctx, c.folder) && !s) s = FL_EIO;
    fli_log_quiet(ctx, 0);
    if (!s && c.failed) {
        fli_clear(ctx);
        s = fli_fail(ctx, FL_EMISMATCH, "method %s does not conform, on %s: %s", method, c.problem->title,
                     fli_text_get(&c.first));
    }
    trace_fini(&c.f32);
    trace_fini(&c.f64);
    fli_text_fini(&c.first);
    return s;
}
