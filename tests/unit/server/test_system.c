/* How fast devices and links are. */
#include "fixture.h"

#include "server/system.h"
#include "config/config.h"

#include <pthread.h>

/* ---- a system under test ------------------------------------------------------------------------------- */

typedef struct {
    fli_arena arena;
    fli_system *s;
} kind;

/* No rates, 0.5 s per step, 3 s per turn. */
static const fli_system_common slow = {.step_seconds = 0.5, .turn_seconds = 3, .wait_for = 1};
/* The same with links: 100 bytes per second up, 400 down. */
static const fli_system_common linked = {
    .step_seconds = 0.5, .turn_seconds = 3, .up_rate = 100, .down_rate = 400, .deadline = 60, .wait_for = 0.75};

static const fli_system_desc *kind_named(const char *name)
{
    for (const fli_system_desc *const *d = fli_system_list; *d; d++)
        if (!strcmp((*d)->name, name)) return *d;
    fail_msg("there is no system %s", name);
    return NULL;
}

static fl_status kind_try(kind *k, fixture *f, const char *name, const char *params, const fli_system_common *common,
                          size_t clients, uint64_t seed)
{
    const fli_system_desc *d = kind_named(name);
    fli_fed fed = {.clients = clients};
    memset(k, 0, sizeof *k);
    fli_arena_init(&k->arena, f->ctx);
    const void *bound_params = bound(f->ctx, &k->arena, d->keys, d->params_size, params);
    return fli_system_new(f->ctx, d, bound_params, common, &fed, seed, &k->s);
}

static void kind_init(kind *k, fixture *f, const char *name, const char *params, const fli_system_common *common,
                      size_t clients, uint64_t seed)
{
    assert_ok(f->ctx, kind_try(k, f, name, params, common, clients, seed));
}

static void kind_fini(kind *k)
{
    fli_system_free(k->s);
    fli_arena_fini(&k->arena);
}

static const char *trace_path(fixture *f, const char *text, char *out, size_t size)
{
    snprintf(out, size, "path=%s", fixture_write(f, "devices.txt", text));
    return out;
}

/* ---- all kinds ----------------------------------------------------------------------------------------- */

enum { CLIENTS = 40, TURNS = 25 };

typedef struct {
    const fli_system *s;
    double seconds[TURNS][CLIENTS];
} worker;

static void *all_turns_backwards(void *arg)
{
    worker *w = arg;
    for (uint32_t i = CLIENTS; i-- > 0;)
        for (size_t t = TURNS; t-- > 0;) w->seconds[t][i] = fli_system_turn(w->s, t, i, i + t, 10, 20);
    return NULL;
}

/* The order does not matter, nor who asks; another object with the same seed says the same. */
static void every_kind_is_a_function_of_seed_turn_and_client(void **state)
{
    fixture *f = *state;
    char path[600];
    trace_path(f, "0.1 5\n0.2 0 7\n0.3\n", path, sizeof path);
    for (const fli_system_desc *const *d = fli_system_list; *d; d++) {
        kind k, other;
        worker w[3];
        pthread_t thread[3];
        const char *params = !strcmp((*d)->name, "trace")       ? path
                             : !strcmp((*d)->name, "lognormal") ? "link_sigma=0.3;jitter=0.2"
                                                                : "";
        assert_true((*d)->title && (*d)->title[0]);
        kind_init(&k, f, (*d)->name, params, &linked, CLIENTS, 9);
        kind_init(&other, f, (*d)->name, params, &linked, CLIENTS, 9);
        assert_near(k.s->common.deadline, 60, 0); /* kept for others */
        assert_near(k.s->common.wait_for, 0.75, 0);
        for (size_t i = 0; i < 3; i++) {
            w[i].s = i < 2 ? k.s : other.s;
            assert_int_equal(pthread_create(&thread[i], NULL, all_turns_backwards, &w[i]), 0);
        }
        for (size_t i = 0; i < 3; i++) pthread_join(thread[i], NULL);
        for (size_t t = 0; t < TURNS; t++)
            for (uint32_t i = 0; i < CLIENTS; i++) {
                double seconds = fli_system_turn(k.s, t, i, i + t, 10, 20);
                assert_true(isfinite(seconds) && seconds >= 3);
                for (size_t j = 0; j < 3; j++) assert_near(w[j].seconds[t][i], seconds, 0);
            }
        kind_fini(&other);
        kind_fini(&k);
    }
}

/* ---- constant ------------------------------------------------------------------------------------------ */

static void constant_devices_are_equally_fast(void **state)
{
    fixture *f = *state;
    kind k;
    kind_init(&k, f, "constant", "", &slow, 10, 1);
    assert_near(fli_system_turn(k.s, 0, 0, 8, 1e6, 1e9), 3 + 0.5 * 8, 1e-12); /* no rate: no time for bytes */
    assert_near(fli_system_turn(k.s, 7, 9, 0, 0, 0), 3, 1e-12);
    kind_fini(&k);
    kind_init(&k, f, "constant", "", &linked, 10, 1);
    assert_near(fli_system_turn(k.s, 4, 3, 8, 2000, 300), 3 + 0.5 * 8 + 2000.0 / 400 + 300.0 / 100, 1e-12);
    kind_fini(&k);
}

static void rates_out_of_range(void **state)
{
    fixture *f = *state;
    kind k;
    fli_system_common c = slow;
    c.up_rate = 1e-4;
    assert_fails(f->ctx, kind_try(&k, f, "constant", "", &c, 10, 1), FL_ECONFIG, "system.up_rate is 0.0001");
    kind_fini(&k);
    c.up_rate = 0;
    c.down_rate = 1e-320;
    assert_fails(f->ctx, kind_try(&k, f, "constant", "", &c, 10, 1), FL_ECONFIG, "system.down_rate is ");
    kind_fini(&k);
}

/* ---- lognormal ----------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The logarithms of n positive values: median `middle`, deviation `sigma`, and 16% beyond one deviation on each
 * side. */
static void check_lognormal(double *v, size_t n, double middle, double sigma)
{
    double mean = 0, square = 0, root = sqrt((double)n);
    size_t above = 0, below = 0;
    for (size_t i = 0; i < n; i++) {
        v[i] = log(v[i] / middle);
        mean += v[i] / (double)n;
        square += v[i] * v[i] / (double)n;
        above += v[i] > sigma;
        below += v[i] < -sigma;
    }
    qsort(v, n, sizeof *v, by_value);
    assert_near(v[n / 2], 0, 5 * 1.2533 * sigma / root);
    assert_near(mean, 0, 5 * sigma / root);
    assert_near(sqrt(square), sigma, 5 * sigma / (sqrt(2) * root));
    assert_near((double)above / (double)n, 0.158655, 5 * 0.37 / root);
    assert_near((double)below / (double)n, 0.158655, 5 * 0.37 / root);
}

enum { DRAWS = 20000 };

static void lognormal_devices(void **state)
{
    fixture *f = *state;
    kind k, other;
    double *step = calloc(DRAWS, sizeof *step), *up = calloc(DRAWS, sizeof *up), together = 0;
    kind_init(&k, f, "lognormal", "sigma=0.8;link_sigma=0.4", &linked, DRAWS, 3);
    kind_init(&other, f, "lognormal", "sigma=0.8;link_sigma=0.4", &linked, DRAWS, 4);
    for (uint32_t i = 0; i < DRAWS; i++) {
        fli_speed v = fli_system_speed(k.s, 0, i), later = fli_system_speed(k.s, i, i);
        step[i] = v.step;
        up[i] = v.up;
        assert_near(v.down, 4 * v.up, 1e-9 * v.down); /* one link, both ways */
        assert_near(v.extra, 0, 0);
        assert_near(later.step, v.step, 0); /* drawn for good */
        assert_near(later.up, v.up, 0);
        assert_true(fli_system_speed(other.s, 0, i).step != v.step); /* the seed counts */
        assert_near(fli_system_turn(k.s, 1, i, 7, 90, 50), 3 + 7 * v.step + 90 / v.down + 50 / v.up,
                    1e-12 * (3 + 7 * v.step + 90 / v.down + 50 / v.up));
        together += log(v.step / 0.5) / 0.8 * log(v.up / 100) / 0.4 / DRAWS;
    }
    assert_near(together, 0, 5 / sqrt(DRAWS)); /* devices and links are independent */
    check_lognormal(step, DRAWS, 0.5, 0.8);
    check_lognormal(up, DRAWS, 100, 0.4);
    free(step);
    free(up);
    kind_fini(&other);
    kind_fini(&k);
}

/* Straight from the stream, so that the draws cannot change unnoticed. */
static void lognormal_by_hand(void **state)
{
    fixture *f = *state;
    kind k;
    fli_rng rng;
    kind_init(&k, f, "lognormal", "sigma=0.7;link_sigma=0.2;jitter=0.1", &linked, 100, 11);
    fli_rng_init(&rng, 11, FLI_RNG_SYSTEM, UINT32_MAX, 42);
    double device = exp(0.7 * fli_rng_normal(&rng)), link = exp(0.2 * fli_rng_normal(&rng));
    fli_rng_init(&rng, 11, FLI_RNG_SYSTEM, 5, 42);
    double jitter = exp(0.1 * fli_rng_normal(&rng));
    double want = 3 + 6 * 0.5 / device * jitter + 1000 / (400 * link) + 1000 / (100 * link);
    assert_near(fli_system_turn(k.s, 5, 42, 6, 1000, 1000), want, 1e-12 * want);
    kind_fini(&k);
    assert_int_equal(FLI_RNG_SYSTEM, 11); /* part of the results */
}

static void lognormal_jitter(void **state)
{
    fixture *f = *state;
    kind k;
    double *step = calloc(DRAWS, sizeof *step);
    kind_init(&k, f, "lognormal", "sigma=0;jitter=0.3", &linked, 10, 3);
    for (size_t t = 0; t < DRAWS; t++) {
        fli_speed v = fli_system_speed(k.s, t, 4);
        step[t] = v.step;
        assert_near(v.up, 100, 0); /* links do not tremble */
        assert_true(t == 0 || v.step != fli_system_speed(k.s, t - 1, 4).step);
    }
    check_lognormal(step, DRAWS, 0.5, 0.3);
    free(step);
    kind_fini(&k);
    kind_init(&k, f, "lognormal", "sigma=0", &linked, 10, 3); /* all off: everyone alike */
    for (uint32_t i = 0; i < 10; i++) assert_near(fli_system_speed(k.s, i, i).step, 0.5, 0);
    kind_fini(&k);
}

/* One sigma does not move what the other draws, and the widest ones stay finite. */
static void lognormal_parts(void **state)
{
    fixture *f = *state;
    kind both, one, wide;
    kind_init(&both, f, "lognormal", "sigma=0.5;link_sigma=0.3", &linked, 1000, 3);
    kind_init(&one, f, "lognormal", "sigma=0;link_sigma=0.3", &linked, 1000, 3);
    kind_init(&wide, f, "lognormal", "sigma=10;link_sigma=10;jitter=10", &linked, 1000, 3);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_near(fli_system_speed(both.s, 0, i).up, fli_system_speed(one.s, 0, i).up, 0);
        assert_true(isfinite(fli_system_turn(wide.s, 0, i, SIZE_MAX, 1e18, 1e18)));
    }
    kind_fini(&both);
    kind_fini(&one);
    kind_fini(&wide);
}

/* ---- linear -------------------------------------------------------------------------------------------- */

static void linear_devices_slow_down_evenly(void **state)
{
    fixture *f = *state;
    kind k;
    kind_init(&k, f, "linear", "", &slow, 11, 1);
    for (uint32_t i = 0; i < 11; i++) assert_near(fli_system_turn(k.s, i, i, 4, 9, 9), 3 + 2 + 2.0 * i, 1e-12);
    kind_fini(&k);
    kind_init(&k, f, "linear", "slowest=6", &linked, 4, 1);
    assert_near(fli_system_turn(k.s, 0, 2, 1, 400, 100), 3 + 0.5 + 4 + 1 + 1, 1e-12);
    kind_fini(&k);
    kind_init(&k, f, "linear", "", &slow, 1, 1); /* alone: the first client, not the last */
    assert_near(fli_system_turn(k.s, 0, 0, 0, 0, 0), 3, 1e-12);
    kind_fini(&k);
    kind_init(&k, f, "linear", "", &slow, 10000000, 1);
    assert_near(fli_system_turn(k.s, 0, 9999999, 0, 0, 0), 23, 1e-12);
    kind_fini(&k);
}

/* ---- traces -------------------------------------------------------------------------------------------- */

static void trace_is_followed(void **state)
{
    fixture *f = *state;
    kind k;
    char path[600];
    static const double want[4][3] = {{0.25, 100, 400}, {1.5, 50, 400}, {0.5, 100, 20}, {2e-3, 7, 8}};
    static const char *const texts[] = {
        "# seconds up down\n\n0.25\n1.5 50 # a comment\n \t\n0,0,20\n\t2e-3 , 7\t8,\n",
        "0.25\r\n1.5,50\r\n0 0 20\r\n0.002 7 8", /* foreign line ends, none at the end */
    };
    for (size_t n = 0; n < 2; n++) {
        kind_init(&k, f, "trace", trace_path(f, texts[n], path, sizeof path), &linked, 10, 1);
        for (uint32_t i = 0; i < 10; i++) { /* a short trace starts over */
            const double *v = want[i % 4];
            assert_near(fli_system_turn(k.s, i, i, 6, 1000, 300), 3 + 6 * v[0] + 300 / v[1] + 1000 / v[2], 1e-11);
        }
        kind_fini(&k);
    }
    kind_init(&k, f, "trace", trace_path(f, "1 0 5\n", path, sizeof path), &slow, 2, 1); /* no common rate */
    assert_near(fli_system_turn(k.s, 0, 1, 2, 10, 1e9), 3 + 2 + 2, 1e-12);
    kind_fini(&k);
    /* nobody uses the lines behind the last client's */
    kind_init(&k, f, "trace", trace_path(f, "1\n2\nwhatever\n", path, sizeof path), &slow, 2, 1);
    assert_near(fli_system_speed(k.s, 0, 1).step, 2, 0);
    kind_fini(&k);
}

/* More lines than the table first has room for. */
static void long_trace(void **state)
{
    fixture *f = *state;
    enum { LINES = 5000 };
    kind k;
    char *text = calloc(LINES, 16), path[600];
    for (size_t i = 0, at = 0; i < LINES; i++) at += (size_t)sprintf(text + at, "%zu.5 %zu\n", i, i + 1);
    kind_init(&k, f, "trace", trace_path(f, text, path, sizeof path), &slow, 2 * LINES, 1);
    for (uint32_t i = 0; i < 2 * LINES; i++) {
        fli_speed v = fli_system_speed(k.s, 0, i);
        assert_near(v.step, i % LINES + 0.5, 0);
        assert_near(v.up, i % LINES + 1, 0);
    }
    free(text);
    kind_fini(&k);
}

static void bad_traces(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"1\n-0.5\n", "devices.txt:2: '-0.5' is not a time per step"},
        {"# one\n\n1\nfast\n", "devices.txt:4: 'fast' is not a number"},
        {"1 2x\n", "devices.txt:1: '2x' is not a number"},
        {"1 2 3 4\n", "devices.txt:1: '4' is one number too many: a line has at most 3"},
        {"1,2,3,,\n", "devices.txt:1: '' is one number too many"},
        {"1,,3\n", "devices.txt:1: '' is not a number"},
        {",1\n", "devices.txt:1: '' is not a number"},
        {"1 -1\n", "devices.txt:1: '-1' is not a rate"},
        {"1 1 -1\n", "devices.txt:1: '-1' is not a rate"},
        {"1 1e-5\n", "devices.txt:1: '1e-5' is not a rate"},
        {"1 1e19\n", "devices.txt:1: '1e19' is not a rate"},
        {"2e9\n", "devices.txt:1: '2e9' is not a time per step"},
        {"nan\n", "devices.txt:1: 'nan' is not a finite number"},
        {"1 inf\n", "devices.txt:1: 'inf' is not a finite number"},
        {"1e999\n", "devices.txt:1: '1e999' is too large"},
        {"0x10\n", "devices.txt:1: '0x10' is not a number"},
        {"1;2\n", "devices.txt:1: '1;2' is not a number"},
        {"", "devices.txt: the trace is empty"},
        {"\n# nothing\n  \n", "devices.txt: the trace is empty"},
    };
    char path[600];
    kind k;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trace_path(f, cases[i].text, path, sizeof path);
        assert_fails(f->ctx, kind_try(&k, f, "trace", path, &slow, 10, 1), FL_EFORMAT, cases[i].message);
        assert_null(k.s);
        kind_fini(&k);
    }
    snprintf(path, sizeof path, "path=%s", fixture_path(f, "none.txt"));
    assert_fails(f->ctx, kind_try(&k, f, "trace", path, &slow, 10, 1), FL_EIO, "none.txt");
    kind_fini(&k);
}

/* Every allocation of a trace fails in turn; the address sanitizer watches for leaks. */
static void no_memory(void **state)
{
    fixture *f = *state;
    enum { CLIENTS_HERE = 200 };
    const fli_system_desc *d = kind_named("trace");
    char text[4 * CLIENTS_HERE + 1] = "", path[600];
    fli_fed fed = {.clients = CLIENTS_HERE};
    fli_arena a;
    fli_system *s = NULL;
    size_t failed = 0;
    for (size_t i = 0; i < CLIENTS_HERE; i++) strcpy(text + 4 * i, "0.1\n");
    fli_arena_init(&a, f->ctx);
    const void *params = bound(f->ctx, &a, d->keys, d->params_size, trace_path(f, text, path, sizeof path));
    for (; !s; failed++) {
        fli_ctx_fail_alloc(f->ctx, failed + 1);
        fl_status status = fli_system_new(f->ctx, d, params, &slow, &fed, 1, &s);
        fli_ctx_fail_alloc(f->ctx, 0);
        if (!s) assert_fails(f->ctx, status, FL_ENOMEM, "out of memory");
    }
    assert_true(failed > 4);
    fli_system_free(s);
    fli_arena_fini(&a);
}

/* ---- in a configuration -------------------------------------------------------------------------------- */

#define LEAST "data: blobs\nmodel: softmax\n"

static fl_status bind(fixture *f, fli_arena *a, const char *text, fli_settings *out)
{
    fl_config *cfg = fixture_config(f, text);
    fl_status s = fli_settings_bind(f->ctx, a, cfg->root, out);
    fl_config_free(cfg);
    return s;
}

static void system_settings_reach_their_fields(void **state)
{
    fixture *f = *state;
    fli_arena a;
    fli_settings s;
    fli_arena_init(&a, f->ctx);
    assert_ok(f->ctx, bind(f, &a, LEAST, &s));
    assert_ptr_equal(s.devices.item.desc, kind_named("none"));
    assert_near(s.system.step_seconds, 0.001, 0);
    assert_near(s.system.turn_seconds, 0, 0);
    assert_near(s.system.up_rate, 0, 0);
    assert_near(s.system.down_rate, 0, 0);
    assert_near(s.system.deadline, 0, 0);
    assert_near(s.system.wait_for, 1, 0);
    assert_ok(f->ctx, bind(f, &a,
                           LEAST "system: {kind: lognormal, sigma: 1, step_seconds: 2, turn_seconds: 3, up_rate: 4, "
                                 "down_rate: 5, deadline: 6, wait_for: 0.5}\n",
                           &s));
    assert_ptr_equal(s.devices.item.desc, kind_named("lognormal"));
    const double *params = s.devices.params; /* sigma, link_sigma, jitter */
    assert_near(params[0], 1, 0);
    assert_near(params[1], 0, 0);
    assert_near(params[2], 0, 0);
    assert_near(s.system.step_seconds, 2, 0);
    assert_near(s.system.turn_seconds, 3, 0);
    assert_near(s.system.up_rate, 4, 0);
    assert_near(s.system.down_rate, 5, 0);
    assert_near(s.system.deadline, 6, 0);
    assert_near(s.system.wait_for, 0.5, 0);
    assert_ok(f->ctx, bind(f, &a, LEAST "system: linear\n", &s));
    assert_near(*(const double *)s.devices.params, 20, 0);
    fli_arena_fini(&a);
}

static void bad_configurations(void **state)
{
    fixture *f = *state;
    static const char *const cases[][2] = {
        {"system: {kind: lognormal, sigma: -1}\n", "system.sigma is -1"},
        {"system: {sigma: 1}\n", "system.sigma is not a key"}, /* all alike */
        {"system: {kind: linear, slowest: -2}\n", "system.slowest is -2"},
        {"system: {wait_for: 0}\n", "system.wait_for is 0"},
        {"system: {wait_for: 1.5}\n", "system.wait_for is 1.5"},
        {"system: {step_seconds: -1}\n", "system.step_seconds is -1"},
        {"system: {deadline: -1}\n", "system.deadline is -1"},
        {"system: trace\n", "system.path is missing"},
        {"system: lognormall\n", "did you mean lognormal"},
    };
    fli_settings s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        fli_arena a;
        fli_arena_init(&a, f->ctx);
        snprintf(text, sizeof text, LEAST "%s", cases[i][0]);
        assert_fails(f->ctx, bind(f, &a, text, &s), FL_ECONFIG, cases[i][1]);
        fli_arena_fini(&a);
    }
}

static void every_listed_system_is_found(void **state)
{
    (void)state;
    fli_item item;
    const fli_kind *k = fli_kind_find("system");
    assert_non_null(k);
    assert_ptr_equal(fli_kind_find("systems"), k);
    for (const fli_system_desc *const *d = fli_system_list; *d; d++) {
        assert_true(fli_item_find(k, (*d)->name, &item));
        assert_ptr_equal(item.desc, *d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_kind_is_a_function_of_seed_turn_and_client),
        FIXTURE_TEST(constant_devices_are_equally_fast),
        FIXTURE_TEST(rates_out_of_range),
        FIXTURE_TEST(lognormal_devices),
        FIXTURE_TEST(lognormal_by_hand),
        FIXTURE_TEST(lognormal_jitter),
        FIXTURE_TEST(lognormal_parts),
        FIXTURE_TEST(linear_devices_slow_down_evenly),
        FIXTURE_TEST(trace_is_followed),
        FIXTURE_TEST(long_trace),
        FIXTURE_TEST(bad_traces),
        FIXTURE_TEST(no_memory),
        FIXTURE_TEST(system_settings_reach_their_fields),
        FIXTURE_TEST(bad_configurations),
        FIXTURE_TEST(every_listed_system_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
