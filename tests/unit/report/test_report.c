/* Curves, axes, charts and the page, without a browser (tests/page has one). */
#include "check.h"
#include "row.h"
#include "report/internal.h"
#include "report/report.h"

#include <float.h>

static int setup(void **state)
{
    *state = fl_ctx_new();
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    fl_ctx_free(*state);
    return 0;
}

static const fl_metric *named(fl_view view, const char *name)
{
    const fl_metric *m;
    size_t k = 0;
    while ((m = fl_metric_shown(view, k)) && strcmp(m->shown[view].label, name)) k++;
    if (!m) fail_msg("no quantity %s", name);
    return m;
}
static const fl_metric *y_named(const char *name) { return named(FL_VIEW_CHART, name); }
static const fl_metric *x_named(const char *name) { return named(FL_VIEW_AXIS, name); }

/* ---- a small checker of well-formed XML ---------------------------------------------------------------- */

enum { DEEP = 64 };

static int is_name(char c)
{
    return c == '-' || c == ':' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static const char *check_entity(const char *s)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(s, known[i], strlen(known[i]))) return s + strlen(known[i]);
    fail_msg("unescaped &: %.40s", s);
    return s;
}

/* From behind the name of a tag to behind its '>': attributes in double quotes, nothing else. *empty: it closed
 * itself. */
static const char *check_attributes(const char *s, int *empty)
{
    for (*empty = 0;;) {
        while (*s == ' ' || *s == '\n') s++;
        if (*s == '>') return s + 1;
        if (s[0] == '/' && s[1] == '>') {
            *empty = 1;
            return s + 2;
        }
        const char *name = s;
        while (is_name(*s)) s++;
        if (s == name || s[0] != '=' || s[1] != '"') fail_msg("bad attribute: %.40s", name);
        for (s += 2; *s != '"';) {
            if (*s == 0 || *s == '<') fail_msg("bad attribute value: %.40s", name);
            s = *s == '&' ? check_entity(s) : s + 1;
        }
        s++;
    }
}

/* Every tag closed in order, everything escaped, no character that XML forbids. */
static void assert_well_formed(const char *s)
{
    const char *open[DEEP];
    size_t depth = 0, length[DEEP], elements = 0;
    if (!strncmp(s, "<?xml", 5)) s = strstr(s, "?>") + 2;
    while (*s) {
        if ((unsigned char)*s < 0x20 && *s != '\n') fail_msg("control character %d", *s);
        if (*s == '&') {
            s = check_entity(s);
        } else if (s[0] == '<' && s[1] == '/') {
            assert_true(depth > 0);
            depth--;
            if (strncmp(s + 2, open[depth], length[depth]) || s[2 + length[depth]] != '>')
                fail_msg("closes wrongly: %.40s", s);
            s += length[depth] + 3;
        } else if (*s == '<') {
            int empty;
            assert_true(depth < DEEP);
            open[depth] = ++s;
            while (is_name(*s)) s++;
            length[depth] = (size_t)(s - open[depth]);
            if (length[depth] == 0 || (depth == 0 && elements > 0)) fail_msg("bad element: %.40s", s);
            s = check_attributes(s, &empty);
            if (!empty) depth++;
            elements++;
        } else {
            s++;
        }
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 0);
}

static size_t occurrences(const char *s, const char *what)
{
    size_t n = 0;
    while ((s = strstr(s, what))) {
        n++;
        s += strlen(what);
    }
    return n;
}

/* No coordinate came from a number that was not finite. */
static void assert_finite_text(const char *s)
{
    for (const char *d = s; (d = strstr(d, " d=\""));) {
        d += 4;
        size_t n = strcspn(d, "\"");
        for (size_t i = 0; i < n; i++)
            if (!strchr("MLHVhvlamz0123456789.- ", d[i])) fail_msg("path holds '%c': %.60s", d[i], d);
    }
}

static char *chart(fl_ctx *ctx, const fli_report *r, const char *x, const char *y, int for_page)
{
    fli_text t;
    fli_text_init(&t, ctx);
    assert_ok(ctx, fli_chart_svg(&t, r, x_named(x), y_named(y), for_page));
    char *copy = strdup(fli_text_get(&t));
    fli_text_fini(&t);
    assert_well_formed(copy);
    assert_finite_text(copy);
    return copy;
}

static char *page(fl_ctx *ctx, const fli_report *r)
{
    fli_text t;
    fli_text_init(&t, ctx);
    assert_ok(ctx, fli_page_html(&t, r));
    char *copy = strdup(fli_text_get(&t));
    fli_text_fini(&t);
    return copy;
}

/* ---- made-up reports ----------------------------------------------------------------------------------- */

enum { ROWS = 9, SERIES_MAX = 20 };

typedef struct {
    fl_row rows[SERIES_MAX][2][ROWS];
    fli_curve curves[SERIES_MAX][2];
    fli_series series[SERIES_MAX];
    char labels[SERIES_MAX][32];
    fli_report report;
} sample;

/* Two runs per series; accuracy and loss are smooth, gradients not measured. */
static sample *make_sample(size_t count)
{
    sample *s = calloc(1, sizeof *s);
    for (size_t k = 0; k < count; k++) {
        for (size_t c = 0; c < 2; c++) {
            for (size_t i = 0; i < ROWS; i++) {
                double t = (double)i / ROWS;
                fl_row *row = &s->rows[k][c][i];
                *row = empty_row();
                *metric(row, "round") = i * 10;
                *metric(row, "train_loss") = exp(-3 * t);
                *metric(row, "train_accuracy") = t;
                *metric(row, "test_loss") = 1 - t / 2;
                *metric(row, "test_accuracy") = t * (0.9 + 0.1 * (double)c);
                *metric(row, "bytes_up") = 1e6 * (double)i;
                *metric(row, "seconds") = 0.5 * (double)i;
            }
            s->curves[k][c] = (fli_curve){7 + c, s->rows[k][c], ROWS};
        }
        snprintf(s->labels[k], sizeof s->labels[k], "method %zu", k);
        s->series[k] = (fli_series){s->labels[k], s->curves[k], 2, "rounds: 80\n"};
    }
    s->report = (fli_report){.title = "title",
                             .description = "",
                             .series = s->series,
                             .count = count,
                             .machine = "machine",
                             .runs_done = 2 * count,
                             .runs_planned = 2 * count};
    return s;
}

/* One series of one run with these values of test loss, at rounds 0, 1, ... */
static sample *make_loss(const double *loss, size_t n)
{
    sample *s = make_sample(1);
    assert_true(n <= ROWS);
    for (size_t i = 0; i < n; i++) {
        *metric(&s->rows[0][0][i], "round") = i;
        *metric(&s->rows[0][0][i], "test_loss") = *metric(&s->rows[0][0][i], "train_loss") = loss[i];
    }
    s->curves[0][0].count = n;
    s->series[0].count = 1;
    return s;
}

/* ---- curves -------------------------------------------------------------------------------------------- */

static fl_row row_of(double round, double test_loss, double seconds)
{
    fl_row row = empty_row();
    *metric(&row, "round") = round;
    *metric(&row, "test_loss") = test_loss;
    *metric(&row, "seconds") = seconds;
    return row;
}

static void averages_runs(void **state)
{
    fl_ctx *ctx = *state;
    fl_row a[4] = {row_of(0, 1, 0), row_of(5, 2, 1), row_of(10, NAN, 2), row_of(15, 8, 3)};
    fl_row b[3] = {row_of(0, 3, 0), row_of(5, 5, 2), row_of(10, INFINITY, 4)};
    fl_row c[2] = {row_of(0, 8, 0), row_of(5, NAN, 9)};
    fli_curve curves[] = {{1, a, 4}, {2, b, 3}, {3, c, 2}};
    fli_series s = {"s", curves, 3, ""};
    fli_curve_point *p;
    size_t n;
    assert_ok(ctx, fli_series_points(ctx, &s, x_named("rounds"), y_named("test-loss"), &p, &n));
    assert_int_equal(n, 3); /* the third row has no finite value at all */
    assert_int_equal(p[0].n, 3);
    assert_near(p[0].mean, 4, 1e-15);
    assert_near(p[0].high - 4, sqrt(13), 1e-14); /* ((1-4)^2 + (3-4)^2 + (8-4)^2) / 2 */
    assert_near(4 - p[0].low, sqrt(13), 1e-14);
    assert_near(p[0].q10, 1 + 0.2 * 2, 1e-14); /* a tenth of the way through 1, 3, 8 */
    assert_near(p[0].q90, 3 + 0.8 * 5, 1e-14);
    assert_int_equal(p[1].n, 2);
    assert_near(p[1].x, 5, 0);
    assert_near(p[1].mean, 3.5, 1e-15);
    assert_near(p[1].high, 3.5 + sqrt(4.5), 1e-14);
    assert_int_equal(p[2].n, 1);
    assert_near(p[2].x, 15, 0);
    assert_true(p[2].low == 8 && p[2].mean == 8 && p[2].high == 8);
    fli_free(p);
    assert_ok(ctx, fli_series_points(ctx, &s, x_named("seconds"), y_named("test-loss"), &p, &n));
    assert_near(p[1].x, 1.5, 1e-15); /* the mean over the runs that count */
    fli_free(p);
}

/* One run is slow and ends early: behind its last row the other one's places lie before the mean of both, and then go
 * on. */
static void curves_do_not_turn_back(void **state)
{
    fl_ctx *ctx = *state;
    fl_row slow[2] = {row_of(0, 9, 0), row_of(0, 5, 10)};
    fl_row fast[5] = {row_of(0, 7, 0), row_of(0, 3, 2), row_of(0, 2, 4), row_of(0, 1, 6), row_of(0, 0.5, 8)};
    fli_curve curves[] = {{1, slow, 2}, {2, fast, 5}};
    fli_series s = {"s", curves, 2, ""};
    fli_curve_point *p;
    size_t n;
    assert_ok(ctx, fli_series_points(ctx, &s, x_named("seconds"), y_named("test-loss"), &p, &n));
    assert_int_equal(n, 4);
    assert_true(p[0].x == 0 && p[1].x == 6 && p[1].mean == 4);
    assert_true(p[2].x == 6 && p[2].mean == 1 && p[2].row == 3 && p[3].x == 8);
    fli_free(p);
}

static void survives_extremes_in_means(void **state)
{
    fl_ctx *ctx = *state;
    fl_row a[1] = {row_of(0, DBL_MAX, 0)}, b[1] = {row_of(0, DBL_MAX / 2, 0)};
    fli_curve curves[] = {{1, a, 1}, {2, b, 1}};
    fli_series s = {"s", curves, 2, ""};
    fli_curve_point *p;
    size_t n;
    assert_ok(ctx, fli_series_points(ctx, &s, x_named("rounds"), y_named("test-loss"), &p, &n));
    assert_int_equal(n, 1);
    assert_true(isfinite(p[0].mean) && isfinite(p[0].low) && isfinite(p[0].high));
    assert_near(p[0].mean / DBL_MAX, 0.75, 1e-12);
    fli_free(p);
}

static void knows_what_was_measured(void **state)
{
    (void)state;
    sample *s = make_sample(2);
    assert_true(fli_report_has(&s->report, y_named("test-accuracy")));
    assert_false(fli_report_has(&s->report, y_named("gradient")));
    *metric(&s->rows[1][1][ROWS - 1], "gradient2") = 1;
    assert_true(fli_report_has(&s->report, y_named("gradient")));
    assert_true(fli_report_has(&s->report, x_named("rounds")));
    assert_false(fli_report_has(&s->report, x_named("simulated")));
    *metric(&s->rows[0][0][3], "simulated_seconds") = 0;
    assert_true(fli_report_has(&s->report, x_named("simulated")));
    s->report.count = 0;
    assert_false(fli_report_has(&s->report, y_named("test-accuracy")));
    assert_false(fli_report_has(&s->report, x_named("rounds")));
    free(s);
}

/* Every quantity is the field it says. */
static void quantities_are_their_fields(void **state)
{
    fl_ctx *ctx = *state;
    fl_row row = empty_row();
    fli_curve curve = {1, &row, 1};
    fli_series s = {"s", &curve, 1, ""};
    const struct {
        const char *name;
        double *field;
    } ys[] = {{"local-test-accuracy", metric(&row, "local_test_accuracy")},
              {"local-test-loss", metric(&row, "local_test_loss")},
              {"local-train-loss", metric(&row, "local_train_loss")},
              {"local-train-accuracy", metric(&row, "local_train_accuracy")},
              {"regularizer", metric(&row, "regularizer")},
              {"staleness", metric(&row, "staleness")},
              {"cluster-accuracy", metric(&row, "cluster_accuracy")},
              {"cluster-nmi", metric(&row, "cluster_nmi")}};
    *metric(&row, "simulated_seconds") = 42;
    for (size_t i = 0; i < sizeof ys / sizeof *ys; i++) {
        fli_curve_point *p;
        size_t n;
        assert_ok(ctx, fli_series_points(ctx, &s, x_named("simulated"), y_named(ys[i].name), &p, &n));
        assert_int_equal(n, 0);
        fli_free(p);
        *ys[i].field = 0.25 + (double)i;
        assert_ok(ctx, fli_series_points(ctx, &s, x_named("simulated"), y_named(ys[i].name), &p, &n));
        assert_int_equal(n, 1);
        assert_true(p[0].x == 42 && p[0].mean == 0.25 + (double)i && p[0].row == 0);
        fli_free(p);
    }
}

/* ---- axes ---------------------------------------------------------------------------------------------- */

static size_t labelled(const fli_axis *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->count; i++) n += a->ticks[i].label[0] != 0;
    return n;
}

/* Whatever the range: ticks within it, in order, at distinct labels, and enough of them. */
static void assert_sound(const fli_axis *a, double lo, double hi)
{
    if (!(isfinite(a->lo) && isfinite(a->hi) && a->lo < a->hi))
        fail_msg("axis %g..%g for %g..%g", a->lo, a->hi, lo, hi);
    double width = a->hi - a->lo;
    if (fabs(lo) < 1e307 && fabs(hi) < 1e307 && (a->lo > lo + 1e-9 * width || a->hi < hi - 1e-9 * width))
        fail_msg("axis %g..%g does not cover %g..%g", a->lo, a->hi, lo, hi);
    if (labelled(a) < 2 || labelled(a) > 15) fail_msg("%zu labels on %g..%g", labelled(a), lo, hi);
    for (size_t i = 0; i < a->count; i++) {
        double place = fli_axis_place(a, a->ticks[i].value);
        if (!(place >= 0 && place <= 1)) fail_msg("tick %g of %g..%g at %g", a->ticks[i].value, lo, hi, place);
        if (i > 0 && a->ticks[i].value <= a->ticks[i - 1].value) fail_msg("ticks of %g..%g out of order", lo, hi);
        for (size_t j = 0; j < i; j++)
            if (a->ticks[i].label[0] && !strcmp(a->ticks[i].label, a->ticks[j].label))
                fail_msg("label %s twice on %g..%g", a->ticks[i].label, lo, hi);
    }
}

static void ticks_cover_any_range(void **state)
{
    (void)state;
    static const double ends[] = {-DBL_MAX, -1e20, -1234.5, -1,     -0.1, -1e-9,   0,    1e-310,
                                  1e-30,    1e-9,  0.001,   0.0999, 0.1,  0.5,     0.97, 1,
                                  1.01,     2.3,   9.99,    10,     4321, 1000000, 1e20, DBL_MAX};
    size_t n = sizeof ends / sizeof *ends;
    fli_axis a;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++)
            for (int log = 0; log <= (ends[i] > 0); log++) {
                fli_axis_init(&a, y_named("test-loss"), ends[i], ends[j], log, 1, 6);
                if (!(log && ends[i] < 1e-300)) assert_sound(&a, ends[i], ends[j]);
                assert_true(a.lo < a.hi && isfinite(a.hi));
            }
}

static void ticks_are_round(void **state)
{
    (void)state;
    fli_axis a;
    fli_axis_init(&a, y_named("test-loss"), 0.03, 0.94, 0, 1, 6);
    static const char *const expected[] = {"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"};
    assert_int_equal(a.count, 6);
    for (size_t i = 0; i < 6; i++) assert_string_equal(a.ticks[i].label, expected[i]);
    assert_near(fli_axis_place(&a, 0.25), 0.25, 1e-12);
    fli_axis_init(&a, x_named("rounds"), 0, 3, 0, 0, 6); /* no half rounds */
    assert_int_equal(a.count, 4);
    assert_string_equal(a.ticks[3].label, "3");
    fli_axis_init(&a, y_named("gradient"), 1e-7, 1e-2, 1, 1, 6);
    assert_int_equal(labelled(&a), 6);
    assert_near(fli_axis_place(&a, sqrt(1e-7 * 1e-2)), 0.5, 1e-9);
    assert_near(fli_axis_place(&a, -1), 0, 0);
    size_t first = 0;
    while (!a.ticks[first].label[0]) first++;
    assert_string_equal(a.ticks[first].label, "10^-7");
    fli_axis_init(&a, y_named("gradient"), 1e-7, 1e-2, 1, 0, 6);
    assert_string_equal(a.ticks[a.count - 1].label, "10^-2"); /* at the end itself */
}

static void axes_have_units(void **state)
{
    (void)state;
    fli_axis a;
    static const struct {
        const char *x;
        double most;
        const char *unit, *label;
    } cases[] = {{"bytes", 900, "bytes", "800"}, {"bytes", 4e4, "kB", "40"},    {"bytes", 6e6, "MB", "6"},
                 {"bytes", 3e9, "GB", "3.0"},    {"seconds", 0.5, "ms", "500"}, {"seconds", 30, "s", "30"},
                 {"seconds", 1800, "min", "30"}, {"seconds", 36000, "h", "10"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fli_axis_init(&a, x_named(cases[i].x), 0, cases[i].most, 0, 0, 6);
        assert_string_equal(a.unit, cases[i].unit);
        assert_string_equal(a.ticks[a.count - 1].label, cases[i].label);
    }
    fli_axis_init(&a, y_named("test-loss"), 0, 3e-5, 0, 1, 6);
    assert_string_equal(a.unit, "10^-5");
    fli_axis_init(&a, y_named("test-accuracy"), 0.9, 1.03, 0, 1,
                  6); /* mean and deviation pass 1, an accuracy does not */
    assert_near(a.hi, 1, 1e-12);
}

/* ---- charts -------------------------------------------------------------------------------------------- */

static int is_log(fl_ctx *ctx, const sample *s, const char *y)
{
    char *svg = chart(ctx, &s->report, "rounds", y, 1);
    int log = strstr(svg, "data-log=\"1\"") != NULL;
    free(svg);
    return log;
}

static void chooses_log_axis(void **state)
{
    fl_ctx *ctx = *state;
    static const struct {
        double values[3];
        int train, test;
    } cases[] = {{{2, 1, 0.5}, 1, 1},   {{2, 1, 0}, 0, 0},     {{2, 1, -1}, 0, 0},
                 {{1e5, 1, 0.5}, 1, 1}, {{2, NAN, 0.5}, 1, 1}, {{1, 1, 1}, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample *s = make_loss(cases[i].values, 3);
        assert_int_equal(is_log(ctx, s, "train-loss"), cases[i].train);
        assert_int_equal(is_log(ctx, s, "test-loss"), cases[i].test);
        free(s);
    }
}

static void draws_odd_values(void **state)
{
    fl_ctx *ctx = *state;
    static const double cases[][3] = {{0, 0, 0},
                                      {NAN, NAN, NAN},
                                      {-DBL_MAX, 0, DBL_MAX},
                                      {DBL_MIN / 4, DBL_MIN, DBL_MIN / 8},
                                      {1e-320, 1, 1e308},
                                      {1, INFINITY, NAN},
                                      {5, 5, 5},
                                      {-INFINITY, -3, -2},
                                      {1, 1 + 1e-15, 1},
                                      {1e15, 1e15 + 1, 1e15 + 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n = 0; n <= 3; n++)
            for (int for_page = 0; for_page < 2; for_page++) {
                sample *s = make_loss(cases[i], n);
                free(chart(ctx, &s->report, "rounds", "test-loss", for_page));
                free(chart(ctx, &s->report, "rounds", "train-loss", for_page));
                free(s);
            }
}

static void draws_where_the_values_are(void **state)
{
    fl_ctx *ctx = *state;
    static const double values[] = {0, 1, 0.5};
    sample *s = make_loss(values, 3);
    char *svg = chart(ctx, &s->report, "rounds", "test-loss", 1);
    double left, top, right, bottom, x[3], y[3];
    assert_int_equal(sscanf(strstr(svg, "data-box=\"") + 10, "%lf %lf %lf %lf", &left, &top, &right, &bottom), 4);
    const char *d = strstr(strstr(svg, "class=\"line"), "d=\"M") + 4;
    assert_int_equal(sscanf(d, "%lf %lfL%lf %lfL%lf %lf\"", &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]), 6);
    for (int i = 0; i < 3; i++) {
        assert_near(x[i], left + (right - left) * i / 2, 0.06);
        assert_near(y[i], bottom - (bottom - top) * values[i], 0.06);
    }
    free(svg);
    free(s);
}

static void draws_nothing_and_much(void **state)
{
    fl_ctx *ctx = *state;
    fli_report none = {.title = "", .description = "", .machine = ""};
    char *svg = chart(ctx, &none, "bytes", "gradient", 0);
    assert_non_null(strstr(svg, "nothing measured yet"));
    free(svg);
    sample *s = make_sample(SERIES_MAX);
    svg = chart(ctx, &s->report, "seconds", "test-accuracy", 1);
    assert_int_equal(occurrences(svg, "class=\"series "), SERIES_MAX);
    assert_int_equal(occurrences(svg, "class=\"band\""), SERIES_MAX);
    free(svg);
    svg = chart(ctx, &s->report, "seconds", "test-accuracy", 0);
    for (size_t k = 0; k < SERIES_MAX; k++) assert_int_equal(occurrences(svg, s->labels[k]) > 0, 1);
    assert_null(strstr(svg, "class=\"series"));
    free(svg);
    free(s);
}

static void looks_differ(void **state)
{
    fl_ctx *ctx = *state;
    fli_text marks[32];
    for (size_t k = 0; k < 32; k++) {
        fli_text_init(&marks[k], ctx);
        fli_style_marker(&marks[k], k, 0, 0);
        for (size_t j = 0; j < k; j++)
            assert_true(fli_style_colour(j) != fli_style_colour(k) || fli_style_dash(j) != fli_style_dash(k));
        for (size_t j = k < 6 ? 0 : k - 6; j < k; j++)
            assert_string_not_equal(fli_text_get(&marks[j]), fli_text_get(&marks[k]));
    }
    for (size_t k = 0; k < 32; k++) fli_text_fini(&marks[k]);
}

/* A run of many rows is thinned to the picture, and no peak is lost. */
static void thins_long_runs(void **state)
{
    fl_ctx *ctx = *state;
    enum { LONG = 50000 };
    fl_row *rows = calloc(LONG, sizeof *rows);
    for (size_t i = 0; i < LONG; i++) {
        rows[i] = empty_row();
        *metric(&rows[i], "round") = i;
        *metric(&rows[i], "test_accuracy") = i == 31234 ? 1 : 0.5 + 0.1 * (double)(i % 2);
    }
    fli_curve curve = {1, rows, LONG};
    fli_series series = {"long", &curve, 1, ""};
    fli_report r = {.title = "", .description = "", .machine = "", .series = &series, .count = 1};
    char *svg = chart(ctx, &r, "rounds", "test-accuracy", 1);
    assert_true(strlen(svg) < 50000);
    double left, top;
    assert_int_equal(sscanf(strstr(svg, "data-box=\"") + 10, "%lf %lf", &left, &top), 2);
    char peak[32];
    snprintf(peak, sizeof peak, " %.0fL", top);
    assert_non_null(strstr(svg, peak));
    free(svg);
    char *html = page(ctx, &r);
    assert_true(strlen(html) < 300000);
    assert_int_equal(occurrences(strstr(html, "\"runs\":[["), ",1,"), 1); /* the peak is in the data, too */
    free(html);
    free(rows);
}

/* The least of every stretch of points is kept, also where the stretch after it begins lower. */
static void thinning_keeps_what_is_least(void **state)
{
    enum { LONG = 50000, KEPT = 600, STRETCH = (4 * LONG + KEPT - 1) / KEPT };
    fl_row *rows = calloc(LONG, sizeof *rows);
    for (size_t i = 0; i < LONG; i++) { /* it falls, but each second point is higher than the one before */
        rows[i] = empty_row();
        *metric(&rows[i], "round") = i;
        *metric(&rows[i], "test_loss") = 2 * LONG - (i ^ 1);
    }
    fli_curve curve = {1, rows, LONG};
    fli_series series = {"long", &curve, 1, ""};
    fli_report r = {.title = "", .description = "", .machine = "", .series = &series, .count = 1};
    char *html = page(*state, &r), *runs = strstr(html, "\"runs\":[[");
    *strchr(runs, ']') = 0;
    for (size_t i = 0; i + STRETCH <= LONG; i += STRETCH) {
        char value[32];
        snprintf(value, sizeof value, ",%zu,", 2 * LONG - (i + STRETCH - 1));
        if (!strstr(runs, value)) fail_msg("the least of rows %zu to %zu is lost", i, i + STRETCH - 1);
    }
    free(html);
    free(rows);
}

/* ---- foreign text -------------------------------------------------------------------------------------- */

static const char evil[] = "</script><b>\"'&\x01\xff\xc3(\xed\xa0\x80]]>";

/* Panels of dots: any values, any words. */
static void draws_panels(void **state)
{
    static const char *const words[] = {"<b>&\"", "\xff\x01", "a word that is far too long to be shown"};
    const fli_panel_dot dots[] = {{0.1, 0.5, 0, FLI_DOT_OWN},
                                  {NAN, 0.7, 1, FLI_DOT_OWN},
                                  {1, NAN, 0, FLI_DOT_PLAIN},
                                  {-INFINITY, INFINITY, 1, FLI_DOT_PLAIN},
                                  {DBL_MAX, -DBL_MAX, 1, FLI_DOT_WINNER},
                                  {0, 1e-300, 0, FLI_DOT_PLAIN}};
    const fli_panel panels[] = {
        {.title = "<A&>", .x_title = "x", .from = 0.01, .to = 1, .log = 1, .dots = dots, .count = 6},
        {.title = "", .x_title = "y", .from = -1, .to = 1, .dots = dots, .count = 6},
        {.title = "w", .x_title = "w", .words = words, .word_count = 3, .dots = dots, .count = 6},
        {.title = "nothing"},
        {.title = "none", .x_title = "none", .from = 0, .to = 1},
    };
    const size_t seeds[] = {1, 3};
    fli_text t;
    fli_text_init(&t, *state);
    const fli_panels all = {"<t>", y_named("train-loss"), "&", 2, panels, 5, seeds, 2};
    assert_int_equal(fli_panels_svg(&t, &all), FL_OK);
    assert_well_formed(fli_text_get(&t));
    assert_null(strstr(fli_text_get(&t), "\"nan"));
    assert_null(strstr(fli_text_get(&t), "inf\""));
    fli_text_fini(&t);
}

/* Hollow when tried with few seeds, larger when tried with all; the legend has dots, too. */
static void dots_go_by_seeds(void **state)
{
    const fli_panel_dot dots[] = {{0.1, 0.5, 0, FLI_DOT_PLAIN}, {0.2, 0.6, 1, FLI_DOT_PLAIN},
                                  {0.3, 0.7, 1, FLI_DOT_PLAIN}, {0.4, 0.8, 2, FLI_DOT_PLAIN},
                                  {0.5, 0.9, 2, FLI_DOT_PLAIN}, {0.6, 0.4, 2, FLI_DOT_PLAIN}};
    const fli_panel panel = {.title = "x", .x_title = "x", .from = 0, .to = 1, .dots = dots, .count = 6};
    const fli_panel empty = {.title = "x"};
    const size_t seeds[] = {1, 2, 3};
    const fli_panels none = {.title = "t",
                             .y = y_named("train-loss"),
                             .y_title = "",
                             .columns = 1,
                             .panels = &empty,
                             .count = 1,
                             .seeds = seeds,
                             .rungs = 3};
    fli_panels all = none;
    size_t hollow[2], small[2], large[2];
    all.panels = &panel;
    for (int k = 0; k < 2; k++) {
        fli_text t;
        fli_text_init(&t, *state);
        assert_int_equal(fli_panels_svg(&t, k ? &all : &none), FL_OK);
        hollow[k] = occurrences(fli_text_get(&t), "r=\"3.0\" fill=\"#fff\"");
        small[k] = occurrences(fli_text_get(&t), "r=\"3.0\"") - hollow[k];
        large[k] = occurrences(fli_text_get(&t), "r=\"4.0\"");
        fli_text_fini(&t);
    }
    assert_int_equal(hollow[1] - hollow[0], 1);
    assert_int_equal(small[1] - small[0], 2);
    assert_int_equal(large[1] - large[0], 3);
}

static void markup_is_escaped(void **state)
{
    fli_text t;
    fli_text_init(&t, *state);
    fli_markup_text(&t, "<a href=\"x\">'&\x02\xff\xc3\xa9</a>");
    assert_string_equal(fli_text_get(&t),
                        "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9&lt;/a&gt;");
    fli_text_fini(&t);
    fli_text_init(&t, *state);
    fli_markup_json(&t, "</script>\"\\\n&\xff\xc3\xa9");
    assert_string_equal(fli_text_get(&t), "\"\\u003c/script\\u003e\\u0022\\u005c\\u000a\\u0026\\ufffd\xc3\xa9\"");
    fli_text_fini(&t);
    fli_text_init(&t, *state);
    fli_markup_clip(&t, "\xc3\xa9t\xc3\xa9<", 4);
    fli_markup_clip(&t, "abcdef", 3);
    assert_string_equal(fli_text_get(&t), "\xc3\xa9t\xc3\xa9&lt;ab\xe2\x80\xa6");
    assert_int_equal(fli_markup_length("\xc3\xa9t\xc3\xa9<"), 4);
    fli_text_fini(&t);
}

static void charts_escape(void **state)
{
    sample *s = make_sample(2);
    s->report.title = s->series[1].label = evil;
    char *svg = chart(*state, &s->report, "rounds", "test-accuracy", 0);
    assert_null(strstr(svg, "</script"));
    assert_non_null(strstr(svg, "&lt;/script&gt;&lt;b&gt;&quot;&#39;&amp;\xef\xbf\xbd\xef\xbf\xbd"));
    free(svg);
    free(s);
}

/* ---- page ---------------------------------------------------------------------------------------------- */

static void page_escapes(void **state)
{
    static const char *const cells[] = {evil, evil, evil, evil};
    sample *s = make_sample(2);
    s->report.title = s->report.description = s->report.machine = s->series[0].label = s->series[0].config = evil;
    s->report.table = (fli_grid){cells, 2, 2};
    char *html = page(*state, &s->report);
    assert_int_equal(occurrences(html, "</script"), 2); /* the data and the program */
    assert_int_equal(occurrences(html, "<script"), 2);
    assert_null(strstr(html, "]]>"));
    for (const char *c = html; *c; c++) assert_true((unsigned char)*c >= 0x20 || *c == '\n');
    free(html);
    free(s);
}

static void page_holds_everything(void **state)
{
    static const char *const cells[] = {
        "method", "test acc.", "to 0.9", "MB up", "note",   "method 0", "0.91 \xc2\xb1 0.01", "30", "1.5 GB",
        "x",      "method 1",  "0.95",   "> 80",  "900 MB", "y"};
    static const size_t histogram[] = {5, 0, 1, 9};
    static const fli_fact facts[] = {{"data", "digits & more"}, {"command", "fedloom compare <x>"}};
    sample *s = make_sample(2);
    s->report.table = (fli_grid){cells, 3, 5};
    s->report.histogram = histogram;
    s->report.clients = s->report.classes = 2;
    s->report.all_clients = 50;
    s->report.facts = facts;
    s->report.fact_count = 2;
    char *html = page(*state, &s->report);
    assert_int_equal(occurrences(html, "<figure class=\"chart\""), 4); /* what was measured */
    assert_non_null(strstr(html, "<dt>data</dt><dd>digits &amp; more</dd>"));
    assert_non_null(strstr(html, "<dd>fedloom compare &lt;x&gt;</dd>"));
    assert_non_null(strstr(html, "The first 2 of 50 clients"));
    assert_non_null(strstr(html, "<rect class=\"heat\" x=\"0\" width=\"10\""));
    assert_non_null(strstr(html, "<rect class=\"heat\" x=\"10\" width=\"10\""));
    assert_non_null(strstr(html, "\"counts\":[5,0,1,9]"));
    assert_non_null(strstr(html, "seeds 7, 8<"));
    assert_non_null(strstr(html, ">4 runs<"));
    assert_non_null(strstr(html, ">2 methods<"));
    assert_non_null(strstr(html, "fedloom " FL_VERSION " \xc2\xb7 machine"));
    assert_non_null(strstr(html, "default-src 'none'"));
    assert_null(strstr(html, "connect-src"));
    assert_null(strstr(html, "http://www.w3.org/1999"));
    assert_true(strstr(html, "id=\"results\"") < strstr(html, "id=\"problem\"")); /* what came out is first */
    assert_true(strstr(html, "id=\"problem\"") < strstr(html, "id=\"curves\""));
    free(html);
    s->report.live = 1;
    s->report.runs_done = 3;
    html = page(*state, &s->report);
    assert_non_null(strstr(html, "running, 3 of 4 runs"));
    assert_non_null(strstr(html, "connect-src 'self'"));
    free(html);
    free(s);
}

/* An axis that nobody measured is not offered; on one that some did, the others have no place. */
static void page_offers_what_was_measured(void **state)
{
    sample *s = make_sample(2);
    char *html = page(*state, &s->report);
    assert_null(strstr(html, "\"x-simulated\""));
    assert_null(strstr(html, "simulated time"));
    assert_int_equal(occurrences(html, "{\"name\":\"rounds\",\"title\":\"rounds\",\"unit\":\"count\""), 1);
    free(html);
    for (size_t c = 0; c < 2; c++)
        for (size_t i = 1; i < ROWS; i++) *metric(&s->rows[1][c][i], "simulated_seconds") = 100 * (double)(i + c);
    html = page(*state, &s->report);
    assert_int_equal(occurrences(html, "\"x-simulated\""), 1);
    assert_int_equal(occurrences(html, "{\"name\":\"simulated\",\"title\":\"simulated time\",\"unit\":\"seconds\""), 1);
    /* the first series has no clock, the second none at its start; places are written once for all charts */
    assert_int_equal(occurrences(html, ",[null,null,null,null,null,null,null,null,null]],\"runs\":["), 1);
    assert_int_equal(occurrences(html, ",[null,150,250,350,450,550,650,750,850]],\"runs\":["), 1);
    assert_int_equal(occurrences(html, "{\"x\":\"test-accuracy\",\"runs\":[["), 6);
    assert_int_equal(occurrences(html, "[1,0.944444,"), 4); /* test loss: a list per seed */
    free(html);
    free(s);
}

static void page_is_small(void **state)
{
    fli_report none = {.title = "", .description = "", .machine = "", .live = 1};
    char *html = page(*state, &none);
    assert_true(strlen(html) < 90000);
    assert_non_null(strstr(html, "Nothing has been measured yet"));
    free(html);
    assert_true(strlen(fli_page_css) > 1000 && strlen(fli_js_page) > 1000);
}

/* Many series of long runs stay within a few megabytes. */
static void page_stays_modest(void **state)
{
    enum { LONG = 3000, SEEDS = 5 };
    fl_row *rows = calloc(LONG, sizeof *rows);
    fli_curve curves[SEEDS];
    sample *s = make_sample(18);
    for (size_t i = 0; i < LONG; i++) {
        rows[i] = s->rows[0][0][i % ROWS];
        *metric(&rows[i], "round") = i;
        *metric(&rows[i], "gradient2") = 1 / (double)(i + 1);
        *metric(&rows[i], "client_q10") = *metric(&rows[i], "client_q50") = 0.123456 * (double)(i % 7);
    }
    for (size_t c = 0; c < SEEDS; c++) curves[c] = (fli_curve){c, rows, LONG};
    for (size_t k = 0; k < 18; k++) s->series[k] = (fli_series){s->labels[k], curves, SEEDS, ""};
    char *html = page(*state, &s->report);
    assert_true(strlen(html) < 6000000);
    free(html);
    free(rows);
    free(s);
}

/* ---- noise --------------------------------------------------------------------------------------------- */

static void judges_noise_by_pairs(void **state)
{
    (void)state;
    static const double a[] = {0.9, 0.5, 0.7}, b[] = {0.89, 0.48, 0.69}, c[] = {0.7, 0.9, 0.45};
    fli_paired p = fli_noise_paired(a, b, 3); /* 0.01, 0.02, 0.01: seeds differ far more than methods do */
    assert_int_equal(p.n, 3);
    assert_near(p.mean, 0.04 / 3, 1e-15);
    assert_near(p.half, 4.303 * sqrt(1e-4 / 3) / sqrt(3), 1e-12);
    assert_false(fli_noise_apart(&p));
    p = fli_noise_paired((const double[]){0.9, 0.5, 0.7}, (const double[]){0.8, 0.41, 0.6}, 3);
    assert_true(fli_noise_apart(&p));
    p = fli_noise_paired(a, c, 3);
    assert_false(fli_noise_apart(&p));
    p = fli_noise_paired(a, b, 1);
    assert_false(fli_noise_apart(&p)); /* one seed says nothing of noise */
    assert_true(isinf(p.half));
    p = fli_noise_paired((const double[]){1, NAN, 3}, (const double[]){2, 5, NAN}, 3);
    assert_int_equal(p.n, 1);
    p = fli_noise_paired((const double[]){3, 3}, (const double[]){2, 2}, 2); /* bytes have no noise */
    assert_true(fli_noise_apart(&p));
    p = fli_noise_paired((const double[]){3, 3}, (const double[]){3, 3}, 2);
    assert_false(fli_noise_apart(&p));
}

enum { NOISY_ROWS = 4, NOISY_COLUMNS = 3, NOISY_SEEDS = 3 };

/* A table of four methods: accuracy, which the test says, and bytes, of which the last method needs half. */
typedef struct {
    double values[NOISY_ROWS][NOISY_COLUMNS][NOISY_SEEDS];
    fli_grid grid;
} noisy;

static void make_noisy(noisy *n, const double accuracy[NOISY_ROWS][NOISY_SEEDS])
{
    static const char *const cells[] = {"method", "accuracy", "MB",     "A",  "a-cell", "20",     "B", "b-cell",
                                        "20",     "C",        "c-cell", "20", "D",      "d-cell", "10"};
    static const fl_better better[] = {FL_BETTER_NEITHER, FL_BETTER_HIGH, FL_BETTER_LOW};
    for (size_t i = 0; i < NOISY_ROWS; i++)
        for (size_t s = 0; s < NOISY_SEEDS; s++) {
            n->values[i][0][s] = NAN;
            n->values[i][1][s] = accuracy[i][s];
            n->values[i][2][s] = i == 3 ? 10 : 20;
        }
    n->grid = (fli_grid){.cells = cells,
                         .rows = 5,
                         .columns = 3,
                         .better = better,
                         .values = &n->values[0][0][0],
                         .seeds = NOISY_SEEDS,
                         .goal = 1};
}

static char *page_of(fl_ctx *ctx, const fli_grid *grid)
{
    sample *s = make_sample(1);
    s->report.table = *grid;
    char *html = page(ctx, &s->report);
    free(s);
    return html;
}

static void bold_is_beyond_noise(void **state)
{
    static const double clear[][3] = {{90, 91, 92}, {80, 81, 82.5}, {70, 70, 71}, {60, 61, 60}};
    static const double tied[][3] = {{90, 91, 92}, {91, 90.5, 91}, {70, 70, 71}, {60, 61, 60}};
    static const double missing[][3] = {{90, 91, 92}, {99, NAN, 99}, {70, 70, 71}, {60, 61, 60}};
    noisy n;
    make_noisy(&n, clear);
    char *html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "<b>a-cell</b></td>"));
    assert_non_null(strstr(html, "<b>10</b></td>")); /* half the bytes in every seed */
    assert_non_null(strstr(html, "<b>A</b> (a-cell) leads in accuracy, ahead of <b>B</b> (b-cell) by 9.83"));
    assert_non_null(strstr(html, "better than every other row beyond noise. "));
    assert_non_null(strstr(html, "its 95 % interval over the 3 seeds (Student's t) leaves out 0"));
    free(html);
    make_noisy(&n, tied);
    html = page_of(*state, &n.grid);
    assert_null(strstr(html, "<b>a-cell</b></td>"));
    assert_int_equal(occurrences(html, "<span class=\"tied\">a-cell</span></td>"), 1);
    assert_int_equal(occurrences(html, "<span class=\"tied\">b-cell</span></td>"), 1);
    assert_null(strstr(html, "<span class=\"tied\">c-cell"));
    assert_non_null(strstr(html,
                           "not beyond noise: <b>B</b> (b-cell) cannot be told from it with 3 seeds. The others are "
                           "behind."));
    free(html);
    make_noisy(&n, missing); /* a seed failed: it does not take part */
    html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "<b>a-cell</b></td>"));
    assert_null(strstr(html, "<b>b-cell</b></td>"));
    free(html);
}

/* A row that lacks a seed is not compared, by the verdict neither: not as the next, nor as one of a single seed. */
static void the_verdict_is_of_whole_rows(void **state)
{
    static const double near[][3] = {{90, 91, 92}, {89, NAN, 92}, {70, 70, 71}, {60, 61, 60}};
    static const double alone[][3] = {{90, 91, 92}, {89, NAN, 92}, {70, NAN, NAN}, {NAN, NAN, NAN}};
    noisy n;
    make_noisy(&n, near);
    char *html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "<b>A</b> (a-cell) leads in accuracy, ahead of <b>C</b> (c-cell) by "));
    free(html);
    make_noisy(&n, alone);
    html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "<b>A</b> ends at a-cell (accuracy).</p>"));
    free(html);
}

/* Where no method is above what the largest class's share gives, none is said to lead. */
static void chance_has_no_winner(void **state)
{
    static const double low[][3] = {{9.8, 9.9, 10}, {9, 9.1, 9.2}, {8, 8.1, 8.2}, {7, 7.1, 7.2}};
    static const double near[][3] = {{10.4, 10.5, 10.6}, {9, 9.1, 9.2}, {8, 8.1, 8.2}, {7, 7.1, 7.2}};
    static const double above[][3] = {{10.7, 10.8, 10.9}, {9, 9.1, 9.2}, {8, 8.1, 8.2}, {7, 7.1, 7.2}};
    noisy n;
    make_noisy(&n, low);
    n.grid.chance = 10;
    n.grid.chance_noise = 0.6;
    char *html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "Nothing was learnt: the best, <b>A</b>, ends at a-cell (accuracy), not above 10, "
                                 "which a model has that always answers the largest class of the test samples.</p>"));
    assert_null(strstr(html, "leads in"));
    free(html);
    make_noisy(&n, near);
    n.grid.chance = 10;
    n.grid.chance_noise = 0.6;
    html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "It cannot be told whether anything was learnt: the best, <b>A</b>, ends at a-cell "
                                 "(accuracy), not above 10, which a model has that always answers the largest class of "
                                 "the test samples, by more than noise (0.6 with this number of test samples).</p>"));
    assert_null(strstr(html, "leads in"));
    free(html);
    make_noisy(&n, above);
    n.grid.chance = 10;
    n.grid.chance_noise = 0.6;
    html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "<b>A</b> (a-cell) leads in accuracy"));
    assert_null(strstr(html, "learnt"));
    free(html);
}

static void stopped_is_said(void **state)
{
    sample *s = make_sample(2);
    s->report.runs_done = 3;
    s->report.stopped = "with 3 of 4 runs done";
    char *html = page(*state, &s->report);
    assert_non_null(strstr(html, ">stopped with 3 of 4 runs done</span>"));
    free(html);
    s->report.live = 1; /* it goes on */
    html = page(*state, &s->report);
    assert_non_null(strstr(html, "running, 3 of 4 runs"));
    assert_null(strstr(html, "stopped with"));
    free(html);
    free(s);
}

/* Rows with the same mean are named in the order of the table, each once. */
static void the_verdict_names_equals_in_their_order(void **state)
{
    static const double equal[][3] = {{90, 91, 92}, {92, 90, 91}, {91, 92, 90}, {60, 61, 60}};
    noisy n;
    make_noisy(&n, equal);
    char *html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "<b>A</b> (a-cell) comes out first in accuracy, but not beyond noise: <b>B</b> "
                                 "(b-cell) and <b>C</b> (c-cell) cannot be told from it with 3 seeds. One is behind."));
    free(html);
}

/* Of many that are alike three are named. */
static void the_verdict_counts_equals(void **state)
{
    enum { ALIKE = 7, COLUMNS = 2 };
    static const char *const cells[] = {"method", "accuracy", "A", "a", "B", "b", "C", "c",
                                        "D",      "d",        "E", "e", "F", "f", "G", "g"};
    static const fl_better better[] = {FL_BETTER_NEITHER, FL_BETTER_HIGH};
    double values[ALIKE][COLUMNS][NOISY_SEEDS];
    for (size_t i = 0; i < ALIKE; i++)
        for (size_t s = 0; s < NOISY_SEEDS; s++) {
            values[i][0][s] = NAN;
            values[i][1][s] = 90 + (double)((i + s) % 3);
        }
    const fli_grid grid = {.cells = cells,
                           .rows = ALIKE + 1,
                           .columns = COLUMNS,
                           .better = better,
                           .values = &values[0][0][0],
                           .seeds = NOISY_SEEDS,
                           .goal = 1};
    char *html = page_of(*state, &grid);
    assert_non_null(strstr(html, "not beyond noise: <b>B</b> (b), <b>C</b> (c), <b>D</b> (d) and 3 others cannot be "
                                 "told from it with 3 seeds."));
    free(html);
}

static void one_seed_has_no_bold(void **state)
{
    static const double clear[][3] = {{90, 91, 92}, {80, 81, 82.5}, {70, 70, 71}, {60, 61, 60}};
    double values[NOISY_ROWS][NOISY_COLUMNS];
    noisy n;
    make_noisy(&n, clear);
    for (size_t i = 0; i < NOISY_ROWS; i++)
        for (size_t k = 0; k < NOISY_COLUMNS; k++) values[i][k] = n.values[i][k][0];
    n.grid.values = &values[0][0];
    n.grid.seeds = 1;
    char *html = page_of(*state, &n.grid);
    assert_null(strstr(html, "<b>a-cell</b></td>"));
    assert_non_null(
        strstr(html, "<b>A</b> (a-cell) comes out first in accuracy, before <b>B</b> (b-cell). With one seed"));
    assert_non_null(strstr(html, "noise cannot be judged, and no number is set in bold"));
    free(html);
    const char *cells[15];
    memcpy(cells, n.grid.cells, sizeof cells);
    cells[4] = cells[7] = "90.0"; /* A and B, as far as it is shown */
    n.grid.cells = cells;
    html = page_of(*state, &n.grid);
    assert_non_null(strstr(html, "<b>A</b> and <b>B</b> (90.0) come out alike in accuracy.</p>"));
    free(html);
}

/* Settings: the star, the counts, and who is judged. */
static void settings_are_counted(void **state)
{
    static const double acc[][3] = {{90, 91, 92}, {95, 96, 97}, {70, 70, 71}, {60, 61, 60}};
    static const unsigned char chosen[] = {0, 1, 1, 0};
    sample *s = make_sample(2);
    noisy n;
    make_noisy(&n, acc);
    n.grid.chosen = chosen;
    s->report.table = n.grid;
    s->series[0].row = 2;
    s->series[1].row = 3;
    char *html = page(*state, &s->report);
    assert_non_null(strstr(html, ">2 methods in 4 settings<"));
    assert_non_null(strstr(html, "B&#160;*</th>"));
    assert_null(strstr(html, "A&#160;*</th>"));
    assert_non_null(strstr(html, "* marks the best setting of each method"));
    assert_non_null(strstr(html, "<b>B</b> (b-cell) leads in accuracy, ahead of <b>C</b>"));
    assert_int_equal(occurrences(strstr(html, "<tbody>"), "</svg>B&#160;*"), 1); /* the key stands at its row */
    free(html);
    free(s);
}

/* ---- what differs, and for whom ------------------------------------------------------------------------ */

static void shows_what_differs(void **state)
{
    sample *s = make_sample(2);
    s->series[0].config = "name: one\nrounds: 80\nlocal:\n  lr: 0.1\n  batch: 20\nalgorithm:\n  kind: fedavg\n";
    s->series[1].config =
        "name: two\nrounds: 80\nlocal:\n  lr: 0.2\n  batch: 20\nalgorithm:\n  kind: fedprox\n  mu: 0.<1\n";
    char *html = page(*state, &s->report);
    char *part = strstr(html, "id=\"settings\"");
    assert_non_null(part);
    assert_int_equal(occurrences(part, "<thead><tr><th scope=\"col\">setting</th><th scope=\"col\">method 0</th>"
                                       "<th scope=\"col\">method 1</th></tr></thead>"),
                     1);
    assert_non_null(strstr(part, "<th scope=\"row\">local.lr</th><td data-label=\"method 0\">0.1</td>"
                                 "<td data-label=\"method 1\">0.2</td>"));
    assert_non_null(strstr(part, "<th scope=\"row\">algorithm.mu</th><td data-label=\"method 0\">\xe2\x80\x93</td>"
                                 "<td data-label=\"method 1\">0.&lt;1</td>"));
    assert_non_null(strstr(part, "<th scope=\"row\">algorithm.kind</th>"));
    assert_null(strstr(part, "<th scope=\"row\">name"));
    assert_null(strstr(part, "<th scope=\"row\">rounds"));
    assert_non_null(strstr(part, "<pre tabindex=\"0\">rounds: 80\nlocal.batch: 20\n</pre>"));
    free(html);
    s->series[1].config = s->series[0].config;
    html = page(*state, &s->report);
    assert_non_null(strstr(html, "All settings are the same."));
    free(html);
    fli_series many[60];
    for (size_t k = 0; k < 60; k++) many[k] = s->series[k % 2];
    s->report.series = many;
    s->report.count = 60;
    html = page(*state, &s->report);
    assert_null(strstr(html, "id=\"settings\"")); /* no table has sixty columns */
    free(html);
    free(s);
}

static void shows_who_gains(void **state)
{
    static const fli_client_end base[2][4] = {{{0, 10, 0.5}, {1, 10, 0.6}, {2, 10, 0.7}, {3, 10, 0.8}},
                                              {{0, 10, 0.5}, {1, 10, 0.6}, {2, 10, 0.7}, {3, 10, NAN}}};
    static const fli_client_end other[2][4] = {{{0, 10, 0.75}, {1, 10, 0.6}, {2, 10, 0.6}, {3, 10, 0.9}},
                                               {{0, 10, 0.6}, {1, 10, 0.3}, {2, 10, 0.8}, {3, 10, 0.9}}};
    sample *s = make_sample(2);
    s->series[1].label = "FedAvg (lr=1)"; /* others are held against it, wherever it stands */
    for (size_t c = 0; c < 2; c++) {
        s->curves[1][c].clients = base[c];
        s->curves[0][c].clients = other[c];
        s->curves[0][c].client_count = s->curves[1][c].client_count = 4;
    }
    char *html = page(*state, &s->report), *part = strstr(html, "id=\"clients\"");
    assert_non_null(part);
    assert_non_null(strstr(part, "Gains and losses are against FedAvg (lr=1)"));
    assert_non_null(strstr(part, "data-label=\"gain\" data-value=\"4\">4</td>"));
    assert_non_null(strstr(part, "data-label=\"lose\" data-value=\"2\">2</td>")); /* one stays, one is not known */
    assert_non_null(strstr(part, ">+25.0 (client 0, seed 7)</td>"));
    assert_non_null(strstr(part, ">-30.0 (client 1, seed 8)</td>"));
    assert_non_null(strstr(part, "data-label=\"worst\" data-value=\"30\">30.0</td>"));
    assert_int_equal(occurrences(part, "<figure class=\"chart\""), 2);
    assert_non_null(strstr(html, "\"client-change\":{"));
    free(html);
    s->series[0].curves = s->series[1].curves; /* without clients there is no such part */
    for (size_t c = 0; c < 2; c++) s->curves[1][c].client_count = 0;
    html = page(*state, &s->report);
    assert_null(strstr(html, "id=\"clients\""));
    free(html);
    free(s);
}

/* Largest first; of many clients the rest is counted. */
static void shows_what_clients_claim(void **state)
{
    size_t claims[150] = {[4] = 600, [7] = 250};
    sample *s = make_sample(1);
    claims[9] = 150;
    s->report.claims = claims;
    s->report.claim_count = 12;
    char *html = page(*state, &s->report), *part = strstr(html, "id=\"clients\"");
    assert_non_null(part);
    assert_non_null(strstr(part, "The largest claim is client 4&#39;s: 600 of 1000, 60.0 %.</p>"));
    const char *first = strstr(part, "client 4</th>"), *next = strstr(part, "client 7</th>");
    assert_true(first && next && first < next);
    assert_non_null(strstr(part, "data-label=\"samples (claimed)\" data-value=\"250\">250</td>"));
    assert_non_null(strstr(part, "data-label=\"share %\" data-value=\"15\">15.0</td>"));
    assert_int_equal(occurrences(part, "data-label=\"share %\""), 12);
    assert_null(strstr(part, "Accuracy at the end"));
    free(html);
    s->report.claim_count = 150;
    html = page(*state, &s->report);
    assert_non_null(strstr(html, " The table has the 100 largest of 150.</p>"));
    assert_int_equal(occurrences(html, "data-label=\"share %\""), 100);
    free(html);
    free(s);
}

/* Mean minus deviation is below 0 here, and would plunge to the axis' end; a band between quantiles does not. */
static void bands_do_not_plunge(void **state)
{
    sample *s = make_sample(1);
    for (size_t c = 0; c < 2; c++)
        for (size_t i = 0; i < ROWS; i++) *metric(&s->rows[0][c][i], "train_loss") = c ? 1 : 0.01;
    char *svg = chart(*state, &s->report, "rounds", "train-loss", 1);
    double left, top, right, bottom, low = 0;
    assert_int_equal(sscanf(strstr(svg, "data-box=\"") + 10, "%lf %lf %lf %lf", &left, &top, &right, &bottom), 4);
    for (const char *d = strstr(svg, "class=\"band\" d=\"") + 16; *d != '"'; d++) {
        double x, y;
        if ((*d == 'M' || *d == 'L') && sscanf(d + 1, "%lf %lf", &x, &y) == 2) low = fmax(low, y);
    }
    assert_true(low < bottom - 1);
    assert_non_null(strstr(svg, "training loss, log scale")); /* the axis is marked */
    assert_non_null(strstr(svg, "<desc>Logarithmic axis. method 0: from 0.505 to 0.505.</desc>"));
    free(svg);
    svg = chart(*state, &s->report, "rounds", "test-accuracy", 1);
    assert_null(strstr(svg, "log scale"));
    assert_non_null(strstr(svg, "<title>test accuracy against rounds</title>"));
    free(svg);
    free(s);
}

/* Every allocation fails once: a status comes back, and nothing leaks (the sanitizer build looks). */
static void survives_no_memory(void **state)
{
    static const double clear[][3] = {{90, 91, 92}, {80, 81, 82.5}, {70, 70, 71}, {60, 61, 60}};
    static const fli_client_end ends[] = {{0, 10, 0.5}, {1, 10, 0.6}};
    fl_ctx *ctx = *state;
    sample *s = make_sample(2);
    fl_status status = FL_ENOMEM;
    size_t k;
    noisy n;
    make_noisy(&n, clear);
    s->report.table = n.grid;
    for (size_t i = 0; i < 4; i++) {
        s->curves[i / 2][i % 2].clients = ends;
        s->curves[i / 2][i % 2].client_count = 2;
    }
    for (k = 1; status != FL_OK && k < 10000; k++) {
        fli_text t;
        fli_text_init(&t, ctx);
        fli_ctx_fail_alloc(ctx, k);
        status = fli_page_html(&t, &s->report);
        fli_ctx_fail_alloc(ctx, 0);
        assert_true(status == FL_OK || status == FL_ENOMEM);
        fli_text_fini(&t);
        fli_clear(ctx);
    }
    assert_int_equal(status, FL_OK);
    assert_true(k > 20);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(averages_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(curves_do_not_turn_back, setup, teardown),
        cmocka_unit_test_setup_teardown(survives_extremes_in_means, setup, teardown),
        cmocka_unit_test_setup_teardown(knows_what_was_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(quantities_are_their_fields, setup, teardown),
        cmocka_unit_test(ticks_cover_any_range),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(axes_have_units),
        cmocka_unit_test_setup_teardown(chooses_log_axis, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_odd_values, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_where_the_values_are, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_nothing_and_much, setup, teardown),
        cmocka_unit_test_setup_teardown(looks_differ, setup, teardown),
        cmocka_unit_test_setup_teardown(thins_long_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(thinning_keeps_what_is_least, setup, teardown),
        cmocka_unit_test_setup_teardown(draws_panels, setup, teardown),
        cmocka_unit_test_setup_teardown(dots_go_by_seeds, setup, teardown),
        cmocka_unit_test_setup_teardown(markup_is_escaped, setup, teardown),
        cmocka_unit_test_setup_teardown(charts_escape, setup, teardown),
        cmocka_unit_test_setup_teardown(page_escapes, setup, teardown),
        cmocka_unit_test_setup_teardown(page_holds_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(page_offers_what_was_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(page_is_small, setup, teardown),
        cmocka_unit_test_setup_teardown(page_stays_modest, setup, teardown),
        cmocka_unit_test(judges_noise_by_pairs),
        cmocka_unit_test_setup_teardown(bold_is_beyond_noise, setup, teardown),
        cmocka_unit_test_setup_teardown(the_verdict_is_of_whole_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(chance_has_no_winner, setup, teardown),
        cmocka_unit_test_setup_teardown(stopped_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(the_verdict_names_equals_in_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(the_verdict_counts_equals, setup, teardown),
        cmocka_unit_test_setup_teardown(one_seed_has_no_bold, setup, teardown),
        cmocka_unit_test_setup_teardown(settings_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(shows_what_differs, setup, teardown),
        cmocka_unit_test_setup_teardown(shows_who_gains, setup, teardown),
        cmocka_unit_test_setup_teardown(shows_what_clients_claim, setup, teardown),
        cmocka_unit_test_setup_teardown(bands_do_not_plunge, setup, teardown),
        cmocka_unit_test_setup_teardown(survives_no_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
