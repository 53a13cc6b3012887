#include "cli/draft.h"
#include "cli/json_out.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 10 }; /* clients of whom all take part; of more, a fifth does */

void draft_init(draft *d)
{
    *d = (draft){.data = "kind: digits",
                 .partition = "iid",
                 .clients = 2,
                 .model = "softmax",
                 .methods = "fedavg",
                 .rounds = 50,
                 .device = "cpu"};
}

int draft_method(const draft *d, size_t i, char name[DRAFT_NAME])
{
    const char *at = d->methods;
    for (; *at && i; i--) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    snprintf(name, DRAFT_NAME, "%.*s", (int)strcspn(at, ","), at);
    return *at != 0;
}

/* ---- the file ------------------------------------------------------------------------------------------------- */

static void write_data(const draft *d, FILE *f)
{
    fputs("\n# Where samples come from (`fedloom list data`).", f);
    if (d->standard) fputs(" standard: every feature gets mean 0 and deviation 1.", f);
    if (d->held_back) fputs("\n# Of each client's samples a fifth is kept for testing.", f);
    fprintf(f, "\ndata: {%s%s%s}\n", d->data, d->standard ? ", normalize: standard" : "",
            d->held_back ? ", test_fraction: 0.2" : "");
}

static void write_clients(const draft *d, FILE *f)
{
    fputs("\n# Who holds which of them (`fedloom list partitions`).\n", f);
    fprintf(f, "partition: {kind: %s", d->partition);
    if (d->clients) fprintf(f, ", clients: %zu", d->clients);
    fputs("}\n\n# Who takes part in a round (`fedloom list participations`).\n", f);
    if (d->everyone || !d->clients || d->clients <= FEW)
        fputs("participation: everyone\n", f);
    else
        fprintf(f, "participation: {kind: uniform, count: %zu}\n", (d->clients + 4) / 5);
}

static void write_work(const draft *d, FILE *f)
{
    fprintf(
        f,
        "\n# What is trained (`fedloom list models`).\n"
        "model: %s\n"
        "\n"
        "# What a client does in its turn: passes over its samples, samples per step, step size. `fedloom tune FILE`\n"
        "# finds the step size for each method, `fedloom check FILE` says which one theory asks for.\n"
        "local: {epochs: 1, batch: 20, lr: %s}\n",
        d->model, d->classes ? "0.05" : "0.01"); /* squares are steeper */
    fprintf(f,
            "\n# How long, where (`fedloom list devices`), and how often it is measured.\n"
            "rounds: %zu\n"
            "device: %s\n"
            "metrics: {every: %zu}\n",
            d->rounds, d->device, d->rounds > 50 ? d->rounds / 50 : 1);
}

static void write_methods(const draft *d, FILE *f)
{
    char name[DRAFT_NAME];
    fputs(
        "\n# What is compared (`fedloom list algorithms`). A method may have keys of its own, and other keys than the\n"
        "# common ones above: - {label: slow, algorithm: {kind: fedprox, mu: 0.1}, local: {lr: 0.01}}\n"
        "methods:\n",
        f);
    for (size_t i = 0; draft_method(d, i, name); i++) fprintf(f, "  - {label: %s, algorithm: %s}\n", name, name);
    fputs("\n# Each of them with these many seeds: the table has means and deviations.\n"
          "seeds: 3\n",
          f);
}

void draft_write(const draft *d, const char *method, FILE *f)
{
    if (!method)
        fputs("# An experiment, written by `fedloom init`; everything may be changed. `fedloom list` shows what\n"
              "# there is to choose from, `fedloom list settings` the keys that do not depend on a choice.\n"
              "#     fedloom check FILE      which theorems apply\n"
              "#     fedloom compare FILE    runs it: a table, and a report to open in a browser\n",
              f);
    write_data(d, f);
    write_clients(d, f);
    write_work(d, f);
    if (method)
        fprintf(f, "algorithm: %s\n", method);
    else
        write_methods(d, f);
}

/* ---- whether it fits -------------------------------------------------------------------------------------------- */

static const char origin[] = "the answer";

/* The sentences, without their places in a file that nobody sees. */
static void say_why(const fl_ctx *ctx)
{
    const char *line = fl_ctx_error(ctx);
    for (size_t n; *line; line += n + (line[n] == '\n')) {
        n = strcspn(line, "\n");
        size_t place = strncmp(line, origin, sizeof origin - 1) ? 0 : sizeof origin - 1;
        while (place && place < n && strchr(":0123456789 ", line[place])) place++;
        say("%.*s", (int)(n - place), line + place);
    }
}

static fl_config *config_of(fl_ctx *ctx, const draft *d, const char *method)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    fl_config *cfg = fl_config_new(ctx);
    if (f) draft_write(d, method, f);
    int bad = !f || fclose(f) || !cfg || fl_config_text(cfg, text, origin);
    free(text);
    if (!bad) return cfg;
    say_why(ctx);
    fl_config_free(cfg);
    return NULL;
}

static json_int_t number(const json_t *of, const char *key) { return json_integer_value(json_object_get(of, key)); }

/* What the data are decides what suits them. */
static void learn(draft *d, const json_t *about)
{
    const json_t *data = json_object_get(about, "data");
    const json_t *first = json_array_get(json_object_get(about, "clients"), 0);
    const char *stored = json_string_value(json_object_get(data, "stored"));
    d->samples = (size_t)number(data, "train_samples");
    d->classes = (size_t)number(data, "classes");
    d->images = json_object_get(data, "shape") != NULL;
    d->standard = d->by_name && stored && (!strcmp(stored, "f32") || !strcmp(stored, "f64"));
    d->held_back = !number(data, "test_samples") && !number(first, "test");
}

int draft_look(fl_ctx *ctx, draft *d)
{
    json_t *about = NULL;
    d->standard = d->held_back = 0;
    fl_config *cfg = config_of(ctx, d, "fedavg");
    if (!cfg) return CLI_USAGE;
    fl_ctx_format(ctx, FL_FORMAT_JSON);
    fl_status s = fl_data_describe(cfg, 1, NULL, json_take, &about);
    if (s)
        say_why(ctx);
    else
        learn(d, about);
    json_decref(about);
    fl_config_free(cfg);
    return s ? CLI_USAGE : CLI_OK;
}

int draft_fits(fl_ctx *ctx, const draft *d, const char *method, int tell)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(ctx, d, method);
    fl_status s = cfg ? fl_run_new(cfg, &run) : FL_OK;
    if (s && tell) say_why(ctx);
    fl_run_free(run);
    fl_config_free(cfg);
    return s || !cfg ? CLI_USAGE : CLI_OK;
}
