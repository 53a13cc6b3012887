/* Rules between keys: what no row of a section's table can say by itself. They are rows of tables, too, and a table is
 * looked at to its end, so that a configuration with four conflicts reports four, each with its place.
 *
 * There are two tables: what settings say alone (rules_settings.c), and what is known only with the data
 * (rules_data.c). Every row has an example that breaks it, and a test that runs all of them. */
#ifndef FLI_CONFIG_RULES_H
#define FLI_CONFIG_RULES_H

#include "algo/algo.h"
#include "config/settings.h"

/* What rules look at. */
typedef struct {
    fl_ctx *ctx;
    const fli_node *root; /* what the settings came from, for places */
    const fli_settings *settings;
    uint32_t unbound; /* sections with mistakes of their own, as bits: rules about them have to wait */
    /* with the data; before, and where it cannot be made, NULL */
    const fli_fed *fed;
    const fli_model *model;
    const fli_solvers *solvers;
    fli_pace pace;  /* of asynchronous methods; buffer 0: not known */
    size_t at_work; /* clients of asynchronous methods at a time */
    int compared;   /* one of several runs of a comparison: what only some methods have may be asked of all */
} fli_known;

/* The first of the method's solvers that cannot use such data or such a model; NULL: all can. */
const fli_solver *fli_known_culprit(const fli_known *k);

typedef struct {
    const char *keys; /* what it is about, separated by blanks: who is to blame comes first; NULL ends a table */
    int (*broken)(const fli_known *k);
    const char *sentence; /* {section.key} stands for its value, {solver} for the culprit's name */
    const char *example;  /* settings that break it, over those of fli_rules_base */
    /* Instead of a predicate and a sentence: complains itself, by fli_fail. `sentence` then says what it is about. */
    fl_status (*check)(const fli_known *k);
} fli_rule;

extern const fli_rule fli_settings_rules[], fli_data_rules[];
extern const char fli_rules_base[]; /* a configuration that breaks none */

/* Problems found so far, of which there may be several. */
typedef struct {
    const fli_known *known;
    fli_text said; /* a line for each */
    fl_status status;
} fli_problems;

/* Begins with what the context's error already says. */
void fli_problems_init(fli_problems *p, const fli_known *k);
/* Adds the error that a check has just left in the context, if its status says so. The place of each line is that of
 * the first key it speaks of, else that of the first of `keys` that was given. */
void fli_problems_note(fli_problems *p, fl_status status, const char *keys);
/* Adds what a table finds. */
void fli_problems_look(fli_problems *p, const fli_rule *rules);
/* Whether there is no point in going on: a problem that is not the configuration's. */
int fli_problems_fatal(const fli_problems *p);
/* Puts all of them into the context; returns the first one's status. */
fl_status fli_problems_fini(fli_problems *p);

#endif
