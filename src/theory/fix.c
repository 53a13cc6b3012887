/* `fedloom check --fix`: changes settings, turn by turn, until the conditions of the method's theorem hold or no
 * setting helps; and prints the changes. study/check_all.c fixes an experiment's methods one by one. */
#include "base/number.h"
#include "format/yaml.h"
#include "theory/check.h"

#include <string.h>

enum { TURNS = 8, LONGEST_VALUE = 60 };

static const char *text_in(fli_changes *c, const fli_text *t)
{
    return fli_text_ok(t) ? NULL : fli_arena_strdup(&c->arena, fli_text_get(t));
}

static const char *value_of(fli_changes *c, const fli_settings *s, const char *key)
{
    fli_text t;
    fli_text_init(&t, c->arena.ctx);
    fli_settings_print_key(&t, s, key);
    const char *out = text_in(c, &t);
    fli_text_fini(&t);
    return out;
}

/* "(17), (18) third; Remark 1" */
static const char *reason(fli_changes *c, const fli_check *check, const fli_fix *f)
{
    fli_text t;
    fli_text_init(&t, c->arena.ctx);
    for (size_t i = 0; i < check->found.count; i++) {
        const fli_condition_seen *s = &check->found.seen[i];
        if (fli_condition_fails(s) && fli_fix_is_for(f, s->name)) fli_text_addf(&t, "%s%s", t.n ? ", " : "", s->name);
    }
    if (f->why) fli_text_addf(&t, "; %s", f->why);
    const char *out = text_in(c, &t);
    fli_text_fini(&t);
    return out;
}

/* If a key is changed again the first reason is kept: it names the mistake in the file. */
static fl_status note(fli_changes *c, const fli_check *check, const fli_fix *f)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->at[i].key, f->key)) return FL_OK;
    if (c->count == FLI_CHANGES_MAX) return FL_OK;
    fli_change *new = &c->at[c->count++];
    *new =
        (fli_change){.key = f->key, .was = value_of(c, check->plan.settings, f->key), .because = reason(c, check, f)};
    return new->was &&new->because ? FL_OK : FL_ENOMEM;
}

static fl_status apply_row(fl_config *cfg, const fli_fix *f)
{
    char set[128];
    fli_snprintf(set, sizeof set, "%s=%s", f->key, f->value);
    return fl_config_set(cfg, set);
}

/* Removes the rows that multiply a value if there are other rows, and returns whether it did. Their factor is how much
 * a condition fails now, and the other rows may change that: they are computed again after these have been applied. */
static int postpone_relative(fl_fixes *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) kept += !rows->at[i].relative;
    if (!kept || kept == rows->count) return 0;
    kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (!rows->at[i].relative) rows->at[kept++] = rows->at[i];
    rows->count = kept;
    return 1;
}

static fl_status apply(fl_config *cfg, const fli_check *check, const fl_fixes *rows, fli_changes *c)
{
    fl_status s = FL_OK;
    for (size_t i = 0; i < rows->count && !s; i++) {
        s = note(c, check, &rows->at[i]);
        if (!s) s = apply_row(cfg, &rows->at[i]);
    }
    return s;
}

/* Reads the changed keys' current values; *moved: whether one differs from before. */
static fl_status renew(fli_changes *c, const fli_check *now, int *moved)
{
    *moved = 0;
    for (size_t i = 0; i < c->count; i++) {
        fli_change *x = &c->at[i];
        const char *before = x->now ? x->now : x->was;
        if (!(x->now = value_of(c, now->plan.settings, x->key))) return FL_ENOMEM;
        *moved |= strcmp(before, x->now) != 0;
    }
    return FL_OK;
}

/* Drops rows whose value equals the old one. */
static void drop_unchanged(fli_changes *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->at[i].was, c->at[i].now)) c->at[kept++] = c->at[i];
    c->count = kept;
}

fl_status fli_fix_config(fl_config *cfg, const fli_check *first, fli_changes *out)
{
    const fli_check *now = first;
    fli_check checks[2]; /* the newest, and the one before */
    fl_status s = FL_OK;
    int moved = 1;
    *out = (fli_changes){0};
    fli_arena_init(&out->arena, cfg->ctx);
    for (size_t turn = 0; turn < TURNS && !s && moved && now->fixes.count; turn++) {
        fli_check *next = &checks[turn % 2];
        fl_fixes rows = now->fixes;
        int postponed = turn == 0 && postpone_relative(&rows);
        s = apply(cfg, now, &rows, out);
        if (s) break;
        s = fli_check_again(cfg, first, next);
        if (now != first) fli_check_fini(&checks[(turn + 1) % 2]);
        now = next;
        if (!s) s = renew(out, now, &moved);
        moved |= postponed;
    }
    if (now != first) fli_check_fini(now == &checks[0] ? &checks[0] : &checks[1]);
    if (!s) drop_unchanged(out);
    return s;
}

void fli_changes_free(fli_changes *c) { fli_arena_fini(&c->arena); }

/* Merges rows: newer ones replace earlier ones of the same key. *moved: whether a value has changed. */
static void take_rows(fl_fixes *rows, const fl_fixes *newer, int *moved)
{
    *moved = 0;
    for (size_t k = 0; k < newer->count; k++) {
        const fli_fix *f = &newer->at[k];
        size_t i = 0;
        while (i < rows->count && strcmp(rows->at[i].key, f->key)) i++;
        if (i == FLI_FIXES_MAX) continue;
        if (i == rows->count)
            rows->at[rows->count++] = (fli_fix){.conditions = f->conditions, .key = f->key, .why = f->why};
        *moved |= strcmp(rows->at[i].value, f->value) != 0;
        memcpy(rows->at[i].value, f->value, sizeof f->value);
    }
}

/* One turn: applies the rows, checks again, and merges the rows of that check. */
static fl_status try_rows(fl_config *copy, fli_check *c, int *moved)
{
    fli_check next;
    fl_status s = FL_OK;
    for (size_t i = 0; i < c->fixes.count && !s; i++) s = apply_row(copy, &c->fixes.at[i]);
    if (s) return s;
    if (!(s = fli_check_again(copy, c, &next))) {
        take_rows(&c->fixes, &next.fixes, moved);
        c->left = fli_check_failing(&next);
    }
    fli_check_fini(&next);
    return s;
}

fl_status fli_settle_fixes(const fl_config *cfg, fli_check *c)
{
    fl_config *copy = c->fixes.count ? fl_config_copy(cfg) : NULL;
    fl_status s = c->fixes.count && !copy ? FL_ENOMEM : FL_OK;
    int moved = copy != NULL;
    c->left = fli_check_failing(c);
    if (copy) copy->ranks = cfg->ranks;
    postpone_relative(&c->fixes);
    fli_log_quiet(c->plan.ctx, 1); /* everything was logged before */
    for (size_t turn = 0; turn < TURNS && !s && moved; turn++) s = try_rows(copy, c, &moved);
    fli_log_quiet(c->plan.ctx, 0);
    fl_config_free(copy);
    if (!s || s == FL_ENOMEM) return s;
    fli_clear(c->plan.ctx); /* rows that conflict with other keys are still useful advice */
    return FL_OK;
}

/* ---- in words -------------------------------------------------------------------------------------------- */

/* Lists with a value per client are cut. */
static void add_was(fli_text *t, const char *was)
{
    size_t n = strlen(was);
    fli_text_addn(t, was, n > LONGEST_VALUE ? LONGEST_VALUE : n);
    if (n > LONGEST_VALUE) fli_text_add(t, "...");
}

fl_status fli_changes_remark(fli_changes *c, const fli_node *root, fli_remark *out)
{
    for (size_t i = 0; i < c->count; i++) {
        const fli_change *x = &c->at[i];
        const fli_node *at = fli_yaml_get(root, x->key);
        char section[64] = "";
        size_t n = strcspn(x->key, ".");
        if (!at && n < sizeof section) at = fli_yaml_get(root, memcpy(section, x->key, n)); /* `algorithm: fedprox` */
        fli_text t;
        fli_text_init(&t, c->arena.ctx);
        fli_text_add(&t, *x->was ? "was " : "new");
        add_was(&t, x->was);
        fli_text_addf(&t, ", asked for by %s", x->because);
        out[i] = (fli_remark){at, text_in(c, &t)};
        fli_text_fini(&t);
        if (!out[i].text) return FL_ENOMEM;
    }
    return FL_OK;
}

void fli_changes_print(fli_text *t, const fli_changes *c, const fli_check *again)
{
    size_t left = fli_check_failing(again), assumed = 0;
    for (size_t i = 0; i < c->count; i++) {
        const fli_change *x = &c->at[i];
        fli_text_addf(t, "changed  %s = %s, was ", x->key, x->now);
        add_was(t, *x->was ? x->was : "not there");
        fli_text_addf(t, ": asked for by %s\n", x->because);
    }
    for (size_t i = 0; i < again->found.count; i++) {
        const fli_condition_seen *s = &again->found.seen[i];
        assumed += s->kind == FLI_CONDITION_ASSUMED;
        if (fli_condition_fails(s))
            fli_text_addf(t, "left     %s: %s%s\n", s->name, s->formula, s->has_fix ? "" : "; no setting for this one");
    }
    if (!again->found.count)
        fli_text_add(t, "no step-size conditions are known here for this method\n");
    else if (left)
        fli_text_addf(t, "checked again: %zu of %zu conditions fail: the theorem does not apply\n", left,
                      again->found.count);
    else
        fli_text_addf(t, "checked again: all conditions hold%s: the theorem applies%s\n", fli_check_extent(again),
                      assumed ? ", if what is assumed is true" : "");
}

/* ---- a single run ---------------------------------------------------------------------------------------- */

/* Writes the whole configuration, resolved, with remarks. */
static fl_status write_config(fl_config *cfg, fli_changes *c, fli_text *out)
{
    fli_remark remarks[FLI_CHANGES_MAX];
    const fli_settings *settings;
    fli_node *root = NULL;
    fli_text all;
    fl_status s = fli_config_settings(cfg, &settings);
    if (s) return s;
    fli_text_init(&all, cfg->ctx);
    fli_settings_print(&all, settings);
    s = fli_text_ok(&all);
    if (!s) s = fli_yaml_parse(cfg->ctx, &c->arena, "the fixed configuration", fli_text_get(&all), all.n, &root);
    if (!s) s = fli_changes_remark(c, root, remarks);
    if (!s) {
        fli_text_addf(out, "# made by `fedloom check --fix`: %zu key%s changed for the theorem of %s\n", c->count,
                      c->count == 1 ? "" : "s", settings->algorithm.item.name);
        fli_yaml_print(out, root, remarks, c->count);
        s = fli_text_ok(out);
    }
    fli_text_fini(&all);
    return s;
}

/* Reads the written text as a user's file is read, and checks it. */
static fl_status check_text(fl_ctx *ctx, const fli_plan *like, const fli_text *written, fli_check *again)
{
    fli_node *root = NULL;
    fl_config *cfg = fl_config_new(ctx);
    if (!cfg) return FL_ENOMEM;
    fl_status s = fli_yaml_parse(ctx, &cfg->arena, "the fixed configuration", fli_text_get(written), written->n, &root);
    if (!s) s = fli_config_merge(cfg, root);
    if (!s) s = fli_check_make(cfg, like, again);
    fl_config_free(cfg);
    return s;
}

fl_status fl_check_fix(fl_config *cfg, fl_text_fn *report, void *report_arg, fl_text_fn *file, void *file_arg,
                       size_t *left)
{
    fli_check first, again = {0};
    fli_changes changes = {0};
    fli_text written, said;
    fli_clear(cfg->ctx);
    fli_text_init(&written, cfg->ctx);
    fli_text_init(&said, cfg->ctx);
    fl_status s = fli_check_make(cfg, NULL, &first);
    fli_log_quiet(cfg->ctx, 1);
    if (!s) s = fli_fix_config(cfg, &first, &changes);
    if (!s) s = write_config(cfg, &changes, &written);
    if (!s) s = check_text(cfg->ctx, &first.plan, &written, &again);
    if (!s) {
        fli_changes_print(&said, &changes, &again);
        *left = fli_check_failing(&again);
        s = fli_text_ok(&said);
    }
    if (!s) report(report_arg, fli_text_get(&said));
    if (!s) file(file_arg, fli_text_get(&written));
    fli_log_quiet(cfg->ctx, 0);
    fli_check_fini(&again);
    fli_changes_free(&changes);
    fli_check_fini(&first);
    fli_text_fini(&said);
    fli_text_fini(&written);
    return s;
}
