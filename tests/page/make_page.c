/* Writes pages and charts of made-up comparisons into a folder, for the browser test and for looking at: make_page
 * FOLDER */
#include "report/report.h"
#include "row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES_MAX = 20, SEEDS = 3, ROWS = 61, CLIENTS = 100, CLASSES = 10 };

static fl_row rows[SERIES_MAX][SEEDS][ROWS];
static fli_curve curves[SERIES_MAX][SEEDS];
static fli_series series[SERIES_MAX];
static size_t histogram[CLIENTS * CLASSES];
static fli_client_end ends[SERIES_MAX][SEEDS][CLIENTS];

static double noise(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 24) * 2 - 1;
}

static const char *const labels[] = {"FedAvg", "FedProx (mu 0.01)", "SCAFFOLD", "FedDyn", "FedNova"};

#define COMMON                                                                                                         \
    "name: digits\nseed: 1\nrounds: 300\ndata:\n  kind: digits\n  samples: 6000\npartition:\n  kind: dirichlet\n"      \
    "  alpha: 0.1\n  clients: 100\nmodel:\n  kind: mlp\n  hidden: [64]\nlocal:\n  epochs: 2\n  batch: 20\n  lr: 0.1\n"
static const char *const configs[] = {COMMON "algorithm:\n  kind: fedavg\n",
                                      COMMON "algorithm:\n  kind: fedprox\n  mu: 0.01\n"};

/* Learning that saturates, faster and higher for some series; SCAFFOLD and such pay with twice the bytes. */
static void make_row(fl_row *row, size_t k, double wobble, size_t i)
{
    double speed = 0.05 + 0.018 * (double)(k * 7 % 5) + 0.009 * wobble, t = 1 - exp(-speed * (double)i);
    double jitter = 0.012 * noise() * exp(-0.02 * (double)i), cost = k % 5 == 2 || k % 5 == 3 ? 2 : 1;
    *row = empty_row();
    *metric(row, "round") = 5 * i;
    *metric(row, "cohort") = 10;
    *metric(row, "test_accuracy") = 0.1 + (0.78 + 0.025 * (double)(k * 3 % 5) + 0.03 * wobble) * t + (i ? jitter : 0);
    *metric(row, "train_accuracy") = fl_row_get(row, "test_accuracy") + 0.03 * t;
    *metric(row, "train_loss") = 2.3 * exp(-2.6 * t) * (1 + 3 * jitter) + 0.02;
    *metric(row, "test_loss") = 2.3 * exp(-2.1 * t) * (1 + 3 * jitter) + 0.08;
    *metric(row, "gradient2") =
        i % 2 ? NAN : 4 * exp(-(0.12 + 0.03 * (double)(k % 5)) * (double)i) * (1 + 0.6 * noise()) + 1e-5;
    *metric(row, "client_q50") = fl_row_get(row, "test_accuracy") - 0.02 + jitter;
    *metric(row, "client_q10") = fl_row_get(row, "test_accuracy") - 0.16 * (1.4 - t) * t - 0.03;
    *metric(row, "bytes_up") = cost * 5 * (double)i * 10 * 203560;
    *metric(row, "seconds") = 5 * (double)i * 0.0149 * (1 + 0.2 * cost + 0.02 * wobble);
}

static void make_series(size_t count)
{
    for (size_t k = 0; k < count; k++) {
        for (size_t s = 0; s < SEEDS; s++) {
            double wobble = noise();
            for (size_t i = 0; i < ROWS; i++) make_row(&rows[k][s][i], k, wobble, i);
            curves[k][s] = (fli_curve){s + 1, rows[k][s], ROWS, 0, ends[k][s], CLIENTS};
        }
        series[k] = (fli_series){labels[k % 5], curves[k], SEEDS, configs[k % 2], k + 1};
    }
}

/* Some clients do well whatever the method, and better methods help those who do not. */
static void make_ends(size_t count)
{
    for (size_t k = 0; k < count; k++)
        for (size_t s = 0; s < SEEDS; s++)
            for (size_t i = 0; i < CLIENTS; i++) {
                double ease = (double)((i * 37 + s * 11) % CLIENTS) / CLIENTS, v = 0.5 + 0.5 * ease;
                ends[k][s][i] =
                    (fli_client_end){(uint32_t)i, 60, v + 0.1 * (double)(k % 5) * (1 - ease) * (0.8 + noise())};
            }
}

/* Most clients hold two or three classes. */
static void make_histogram(void)
{
    for (size_t i = 0; i < CLIENTS; i++)
        for (size_t j = 0; j < CLASSES; j++) {
            double v = noise();
            histogram[i * CLASSES + j] = v > 0.5 ? (size_t)(240 * (v - 0.5)) : v > 0.2 ? (size_t)(20 * (v - 0.2)) : 0;
        }
}

/* What lies behind the table: mean and spread over seeds; where seeds are hard, they are for all methods. */
enum { TABLE_ROWS = 5, TABLE_COLUMNS = 6 };
static double values[TABLE_ROWS][TABLE_COLUMNS][SEEDS];

static void make_values(void)
{
    static const double means[TABLE_ROWS][TABLE_COLUMNS] = {{NAN, 0.812, 140, 285, 0.2134, 4.9},
                                                            {NAN, 0.851, 105, 214, 0.1911, 5.0},
                                                            {NAN, 0.902, 65, 265, 0.1702, 6.3},
                                                            {NAN, 0.898, 70, 1200, 0.1698, 6.4},
                                                            {NAN, 0.795, NAN, NAN, 0.2290, 4.9}};
    static const double spreads[TABLE_ROWS][TABLE_COLUMNS] = {{0, 0.006, 12, 0, 0.0102, 0},
                                                              {0, 0.004, 8, 0, 0.0087, 0},
                                                              {0, 0.003, 4, 0, 0.0051, 0},
                                                              {0, 0.005, 5, 0, 0.0060, 0},
                                                              {0, 0.011, 0, 0, 0.0141, 0}};
    for (size_t i = 0; i < TABLE_ROWS; i++)
        for (size_t k = 0; k < TABLE_COLUMNS; k++)
            for (size_t s = 0; s < SEEDS; s++) values[i][k][s] = means[i][k] + spreads[i][k] * ((double)s - 1);
}

static const fli_fact facts[] = {
    {"data", "digits: 6000 training samples of 784 features in 10 classes; 1000 test samples"},
    {"clients", "100, each with 21 to 180 samples, 60.0 on average"},
    {"command", "fedloom compare digits.yaml --seeds 3 --set 'model.hidden=[64]'"},
};

static const fl_better better[] = {FL_BETTER_NEITHER, FL_BETTER_HIGH, FL_BETTER_LOW,
                                   FL_BETTER_LOW,     FL_BETTER_LOW,  FL_BETTER_LOW};
static const char *const table[] = {
    "method",
    "test acc.",
    "to 0.8",
    "MB to 0.8",
    "train loss",
    "seconds", /**/
    "FedAvg",
    "0.812 ± 0.006",
    "140 ± 12",
    "285 MB",
    "0.2134 ± 0.0102",
    "4.9", /**/
    "FedProx (mu 0.01)",
    "0.851 ± 0.004",
    "105 ± 8",
    "214 MB",
    "0.1911 ± 0.0087",
    "5.0", /**/
    "SCAFFOLD",
    "0.902 ± 0.003",
    "65 ± 4",
    "265 MB",
    "0.1702 ± 0.0051",
    "6.3", /**/
    "FedDyn",
    "0.898 ± 0.005",
    "70 ± 5",
    "1.2 GB",
    "0.1698 ± 0.0060",
    "6.4", /**/
    "FedNova",
    "0.795 ± 0.011",
    "> 300",
    "–",
    "0.2290 ± 0.0141",
    "4.9",
};

static fli_report make_report(size_t count)
{
    make_ends(count);
    make_series(count);
    make_histogram();
    make_values();
    return (fli_report){
        .title = "Five methods on uneven digits",
        .description = "One hundred clients hold 6000 drawn digits, labels drawn from a Dirichlet distribution with "
                       "alpha 0.1; ten take part in "
                       "a round. How much accuracy does a megabyte buy?",
        .series = series,
        .count = count,
        .table = {table, TABLE_ROWS + 1, TABLE_COLUMNS, better, &values[0][0][0], SEEDS, NULL, 1},
        .facts = facts,
        .fact_count = sizeof facts / sizeof *facts,
        .histogram = histogram,
        .clients = CLIENTS,
        .classes = CLASSES,
        .all_clients = CLIENTS,
        .machine = "AMD EPYC 7B13, 8 threads, OpenBLAS 0.3.21, f32",
        .runs_done = count * SEEDS,
        .runs_planned = count * SEEDS,
    };
}

/* ---- output -------------------------------------------------------------------------------------------- */

static const char *folder;
static fl_ctx *ctx;

static void check(fl_status status, const char *what)
{
    if (status == FL_OK) return;
    fprintf(stderr, "make_page: %s: %s\n", what, fl_ctx_error(ctx));
    exit(1);
}

static void write_text(const char *name, const fli_text *t)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(fli_text_get(t), 1, t->n, f) != t->n || fclose(f)) {
        perror(path);
        exit(1);
    }
}

static void write_page(const char *name, const fli_report *r)
{
    fli_text t;
    fli_text_init(&t, ctx);
    check(fli_page_html(&t, r), name);
    write_text(name, &t);
    fli_text_fini(&t);
}

static void write_charts(const char *prefix, const fli_report *r)
{
    const fl_metric *x, *y;
    for (size_t k = 0; (y = fl_metric_shown(FL_VIEW_CHART, k)); k++)
        for (size_t i = 0; (x = fl_metric_shown(FL_VIEW_AXIS, i)); i++) {
            char name[256];
            fli_text t;
            fli_text_init(&t, ctx);
            snprintf(name, sizeof name, "%s-%s-%s.svg", prefix, fli_y_name(y), fli_x_name(x));
            check(fli_chart_svg(&t, r, x, y, 0), name);
            write_text(name, &t);
            fli_text_fini(&t);
        }
}

/* Under way: the first method is done, the second has begun. */
static void write_live(const char *name, size_t done, size_t second_rows)
{
    fli_report r = make_report(3);
    r.live = 1;
    r.runs_planned = 12;
    r.runs_done = done;
    for (size_t s = 0; s < SEEDS; s++) {
        curves[1][s].count = s == 0 ? second_rows : 0;
        curves[2][s].count = 0;
    }
    r.table.rows = 2;
    write_page(name, &r);
}

/* Texts that would break out of their places if they were not escaped. */
static void write_hostile(void)
{
    static const char evil[] = "</script><script>evil()</script><img src=x onerror=evil()> \"'&amp; \x01\xff";
    static const char *const cells[] = {evil, evil, evil, evil};
    fli_report r = make_report(2);
    r.title = r.description = r.machine = evil;
    series[0].label = series[0].config = evil;
    series[1].label =
        "a label that goes on and on, with every parameter it was given in it, lr=0.1, mu=0.01, epochs=5, batch=20";
    r.table = (fli_grid){cells, 2, 2};
    const fli_fact bad[] = {{evil, evil}};
    r.facts = bad;
    r.fact_count = 1;
    write_page("hostile.html", &r);
    write_charts("hostile", &r);
}

/* Simulated time, which the third method does not have and the others not at their start; the clients' own models. */
static void write_clock(void)
{
    fli_report r = make_report(3);
    for (size_t k = 0; k < 3; k++)
        for (size_t s = 0; s < SEEDS; s++)
            for (size_t i = 0; i < ROWS; i++) {
                fl_row *row = &rows[k][s][i];
                *metric(row, "local_test_accuracy") = fl_row_get(row, "test_accuracy") + 0.02;
                if (k == 2 || i == 0) continue;
                *metric(row, "simulated_seconds") = 40 * (double)(i * (k + 1));
                *metric(row, "staleness") = (double)(k + s);
            }
    write_page("clock.html", &r);
    write_charts("clock", &r);
}

/* Nine methods in eighteen settings, with as many columns as a clock and two targets bring; two methods coincide. */
static void write_grid(void)
{
    enum { METHODS = 9, SETTINGS = 18, COLUMNS = 14 };
    static char names[METHODS][16], text[SETTINGS][COLUMNS][24];
    static const char *cells[(SETTINGS + 1) * COLUMNS] = {
        "method",        "setting",       "seeds",     "test accuracy %", "train loss", "rounds to 0.6", "MB to 0.6",
        "sim. s to 0.6", "rounds to 0.8", "MB to 0.8", "sim. s to 0.8",   "MB up",      "sim. s",        "seconds"};
    static double numbers[SETTINGS][COLUMNS][SEEDS];
    static unsigned char chosen[SETTINGS];
    static fl_better directions[COLUMNS];
    fli_report r = make_report(METHODS);
    memcpy(rows[1], rows[0], sizeof rows[1]);
    for (size_t i = 0; i < SETTINGS; i++) {
        snprintf(names[i / 2], sizeof *names, "Method %zu", i / 2);
        chosen[i] = i % 2;
        for (size_t k = 0; k < COLUMNS; k++) {
            double v = k < 3 ? NAN : 60 + 2 * (double)i + (double)k;
            snprintf(text[i][k], sizeof text[i][k], "%s%zu", k == 1 ? "lr=0." : "", k == 1 ? 1 + i % 2 : (size_t)SEEDS);
            if (k > 2) snprintf(text[i][k], sizeof text[i][k], "%.2f \xc2\xb1 0.12", v);
            cells[(i + 1) * COLUMNS + k] = k ? text[i][k] : names[i / 2];
            for (size_t s = 0; s < SEEDS; s++) numbers[i][k][s] = v + 0.1 * (double)s;
        }
    }
    for (size_t k = 3; k < COLUMNS; k++) directions[k] = k == 3 ? FL_BETTER_HIGH : FL_BETTER_LOW;
    for (size_t k = 0; k < METHODS; k++) {
        series[k].label = names[k];
        series[k].row = 2 * k + 2;
    }
    r.table = (fli_grid){cells, SETTINGS + 1, COLUMNS, directions, &numbers[0][0][0], SEEDS, chosen, 3};
    write_page("grid.html", &r);
}

static void write_odd(void)
{
    fli_report r = make_report(1), none = {.title = "", .description = "", .machine = ""};
    write_page("empty.html", &none);
    write_charts("empty", &none);
    for (size_t s = 0; s < SEEDS; s++) curves[0][s].count = 1;
    r.clients = 12;
    write_page("start.html", &r);
    write_charts("start", &r);
    r = make_report(3);
    for (size_t i = 10; i < ROWS; i++) *metric(&rows[0][0][i], "test_loss") = pow(10, (double)i / 2);
    write_charts("diverged", &r);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_page FOLDER\n");
        return 2;
    }
    folder = argv[1];
    ctx = fl_ctx_new();
    if (!ctx) return 1;
    fli_report r = make_report(5);
    write_page("demo.html", &r);
    write_charts("demo", &r);
    write_live("live1.html", 4, 20);
    write_live("live2.html", 7, 40);
    write_hostile();
    write_clock();
    write_odd();
    write_grid();
    r = make_report(SERIES_MAX);
    write_page("many.html", &r);
    write_charts("many", &r);
    fl_ctx_free(ctx);
    return 0;
}
