/* The card of the report: what was compared on which problem, by which command and when. It reads everything from
 * settings and results; where methods differ in a line, the line says so. */
#include "study/study.h"

#include "base/number.h"
#include "run/output.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { FACTS_MAX = 16 };

typedef struct {
    const fli_results *r;
    fli_arena *arena;
    fli_fact *facts;
    size_t n;
    fli_text text; /* of the line under construction */
    int failed;
} card;

/* Adds the line, unless it is empty, and begins another. */
static void end_line(card *c, const char *name)
{
    if (c->text.n && c->n < FACTS_MAX) {
        const char *value = fli_arena_strdup(c->arena, fli_text_get(&c->text));
        c->facts[c->n++] = (fli_fact){name, value};
        c->failed |= !value;
    }
    c->failed |= c->text.failed;
    c->text.n = 0;
    if (c->text.s) c->text.s[0] = 0;
}

/* ---- data ---------------------------------------------------------------------------------------------- */

static void add_data(card *c, const fli_settings *settings)
{
    const fli_histogram *h = c->r->histogram;
    fli_text *t = &c->text;
    fli_text_addf(t, "%s: %zu training samples%s", settings->source.item.name, h->samples,
                  h->claims ? " (claimed)" : "");
    if (h->features) fli_text_addf(t, " of %zu features", h->features);
    if (h->classes) fli_text_addf(t, " in %zu classes", h->classes);
    if (h->tests) fli_text_addf(t, "; %zu test samples", h->tests);
    end_line(c, "data");
    fli_text_addf(t, "%zu, each with ", h->all_clients);
    if (h->least < h->most)
        fli_text_addf(t, "%zu to %zu samples, %.1f on average", h->least, h->most,
                      (double)h->samples / (double)h->all_clients);
    else
        fli_text_addf(t, "%zu samples", h->most);
    if (h->claims) fli_text_add(t, " (claimed)");
    end_line(c, "clients");
}

/* "dirichlet (alpha 0.2)": the first key of a kind, which is its main one, and all keys that differ from their
 * defaults. */
static void add_choice(fli_text *t, const fli_choice *choice)
{
    size_t some = 0;
    fli_text_add(t, choice->item.name);
    for (const fl_key *row = choice->item.keys; row && row->name; row++) {
        fli_text value;
        fli_text_init(&value, t->ctx);
        fli_key_print_value(&value, row, choice->params);
        const char *now = fli_text_get(&value);
        int counts = row == choice->item.keys && strcmp(now, "0"); /* 0 means that another key applies */
        if (counts || !row->def || strcmp(row->def, now))
            fli_text_addf(t, "%s%s %s", some++ ? ", " : " (", row->name, now);
        t->failed |= value.failed;
        fli_text_fini(&value);
    }
    if (some) fli_text_add(t, ")");
}

static void add_heterogeneity(card *c, const fli_settings *settings)
{
    const fli_histogram *h = c->r->histogram;
    fli_text *t = &c->text;
    add_choice(t, &settings->partitioner);
    if (isfinite(h->distance)) {
        fli_text_addf(
            t, "; a client's mix of labels is %.2f from that of all on average (0: the same, 1: nothing in common",
            h->distance);
        fli_text_addf(t, h->counted < h->all_clients ? "; first %zu clients)" : ")", h->counted);
    }
    if (h->least && h->most > h->least)
        fli_text_addf(t, "; the largest client has %.3g times the samples of the smallest",
                      (double)h->most / (double)h->least);
    end_line(c, "heterogeneity");
}

/* ---- lines that methods may change --------------------------------------------------------------------- */

typedef void line_fn(card *c, const fli_settings *settings);

static void model_line(card *c, const fli_settings *settings)
{
    add_choice(&c->text, &settings->objective);
    if (settings->model.weight_decay > 0) fli_text_addf(&c->text, ", weight decay %g", settings->model.weight_decay);
}

/* The number of parameters, if the finished trials agree. */
static void parameters_too(card *c)
{
    size_t found = 0;
    for (size_t i = 0; i < fli_results_stride(c->r); i++) {
        size_t n = c->r->outcomes[i].parameters;
        if (n && found && n != found) return;
        if (n) found = n;
    }
    if (found) fli_text_addf(&c->text, "; %zu parameters", found);
}

static void cohort_line(card *c, const fli_settings *settings) { add_choice(&c->text, &settings->sampler); }

/* The number of clients in the last measured round, which may be smaller than the settings want. */
static void numbers_too(card *c)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < fli_results_stride(c->r); i++) {
        const fli_outcome *o = &c->r->outcomes[i];
        double cohort = o->count ? fl_row_get(&o->rows[o->count - 1], "cohort") : NAN;
        if (!(cohort > 0)) continue;
        least = fmin(least, cohort);
        most = fmax(most, cohort);
    }
    if (most > 0) fli_text_addf(&c->text, least < most ? "; %g to %g" : "; %g", least, most);
    if (most > 0) fli_text_addf(&c->text, " of %zu clients in the last round", c->r->histogram->all_clients);
}

static void work_line(card *c, const fli_settings *settings)
{
    static const char *const keys[] = {"local.epochs", "local.steps", "local.batch", "local.lr", "local.momentum"};
    size_t some = 0;
    for (size_t i = settings->local.work.steps > 0; /* then epochs have no effect */ i < sizeof keys / sizeof *keys;
         i++) {
        fli_text value;
        fli_text_init(&value, c->r->ctx);
        fli_settings_print_key(&value, settings, keys[i]);
        if (value.n && strcmp(fli_text_get(&value), "0"))
            fli_text_addf(&c->text, "%s%s %s", some++ ? ", " : "", keys[i] + 6, fli_text_get(&value));
        c->failed |= value.failed;
        fli_text_fini(&value);
    }
}

typedef struct {
    const char *name;
    line_fn *line;             /* from the settings */
    void (*measured)(card *c); /* adds measurements; NULL: none */
} part;

/* Adds the first trial's line, if all settings of the first seed have the same. */
static fl_status add_common(card *c, const part *p)
{
    char *first = NULL;
    int same = 1;
    for (size_t i = 0; i < fli_results_stride(c->r) && same; i++) {
        p->line(c, c->r->trials[i].settings);
        if (!first && !(first = fli_strdup(c->r->ctx, fli_text_get(&c->text)))) return FL_ENOMEM;
        same = !strcmp(first, fli_text_get(&c->text));
        c->text.n = 0;
        if (c->text.s) c->text.s[0] = 0;
    }
    fli_text_add(&c->text, same ? first : "not the same for all, see the settings below");
    if (same && p->measured) p->measured(c);
    end_line(c, p->name);
    fli_free(first);
    return FL_OK;
}

/* ---- by whom, when ------------------------------------------------------------------------------------- */

/* When the newest run ended: unlike the current time, it is the same when the page is written again. */
static time_t newest(const fli_results *r)
{
    time_t last = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct stat st;
        char *path = r->outcomes[i].state == FLI_TRIAL_DONE && r->trials[i].folder
                         ? fli_strf(r->ctx, "%s/" FLI_MANIFEST_NAME, r->trials[i].folder)
                         : NULL;
        if (path && !stat(path, &st) && st.st_mtime > last) last = st.st_mtime;
        fli_free(path);
    }
    return last;
}

static void add_origin(card *c)
{
    char date[64];
    struct tm tm;
    time_t when = c->r->ended ? c->r->ended : newest(c->r);
    if (c->r->command) fli_text_add(&c->text, c->r->command);
    end_line(c, "command");
    if (when && gmtime_r(&when, &tm) && strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm))
        fli_text_add(&c->text, date);
    end_line(c, "last run ended");
    fli_text_add(&c->text, "fedloom " FL_VERSION);
    end_line(c, "version");
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static fl_status fill(card *c)
{
    static const part common[] = {
        {"model", model_line, parameters_too}, {"cohort", cohort_line, numbers_too}, {"local work", work_line, NULL}};
    fl_status status = FL_OK;
    if (c->r->histogram->all_clients) {
        add_data(c, c->r->trials->settings);
        add_heterogeneity(c, c->r->trials->settings);
    }
    for (size_t i = 0; i < sizeof common / sizeof *common && !status; i++) status = add_common(c, &common[i]);
    add_origin(c);
    return status ? status : c->failed ? FL_ENOMEM : FL_OK;
}

fl_status fli_problem_facts(const fli_results *r, fli_arena *a, fli_report *out)
{
    card c = {.r = r, .arena = a, .facts = fli_arena_alloc(a, FACTS_MAX, sizeof *c.facts)};
    if (!c.facts) return FL_ENOMEM;
    if (!r->count || !r->trials->settings) return FL_OK;
    fli_text_init(&c.text, r->ctx);
    fl_status status = fill(&c);
    fli_text_fini(&c.text);
    out->facts = c.facts;
    out->fact_count = c.n;
    return status;
}
