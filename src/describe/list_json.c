/* What fl_list shows, as JSON. */
#include "format/json.h"
#include "describe/list.h"
#include "config/settings.h"

#include <string.h>

/* The words that a value may be. */
static void put_choices(fli_json *j, const fli_key *row)
{
    char word[64];
    if (!row->choices && row->type != FLI_BOOL) return;
    fli_json_list(j, "choices");
    for (int i = 0; fli_choice_word(row->choices ? row->choices : "true|false", i, word, sizeof word); i++)
        fli_json_text(j, NULL, word);
    fli_json_end(j);
}

static void put_key(fli_json *j, const fli_key *row)
{
    fli_text type;
    fli_text_init(&type, j->t->ctx);
    fli_key_print_type(&type, row);
    fli_json_map(j, NULL);
    fli_json_text(j, "name", row->name);
    fli_json_text(j, "type", fli_text_get(&type));
    fli_json_text(j, "default", row->def); /* null: it must be given */
    fli_json_text(j, "help", row->help);
    put_choices(j, row);
    fli_json_end(j);
    j->t->failed |= type.failed;
    fli_text_fini(&type);
}

static void put_keys(fli_json *j, const char *name, const fli_key *rows)
{
    fli_json_list(j, name);
    for (const fli_key *row = rows; row && row->name; row++) put_key(j, row);
    fli_json_end(j);
}

void fli_list_kinds_json(fli_text *t)
{
    fli_json j;
    fli_json_init(&j, t);
    fli_json_map(&j, NULL);
    fli_json_list(&j, "kinds");
    for (const fli_kind *k = fli_kinds; k->section; k++) {
        size_t n = 0;
        while (fli_item_name(k, n)) n++;
        fli_json_map(&j, NULL);
        fli_json_text(&j, "name", k->plural);
        fli_json_text(&j, "section", k->section);
        fli_json_text(&j, "title", k->title);
        fli_json_whole(&j, "count", n);
        fli_json_end(&j);
    }
    fli_json_end(&j);
    fli_json_end(&j);
}

void fli_list_items_json(fli_text *t, const fli_kind *kind)
{
    fli_json j;
    fli_item item;
    fli_json_init(&j, t);
    fli_json_map(&j, NULL);
    fli_json_list(&j, kind->plural);
    for (size_t i = 0; kind->item(i, &item); i++) {
        fli_json_map(&j, NULL);
        fli_json_text(&j, "name", item.name);
        fli_json_text(&j, "title", item.title);
        fli_json_end(&j);
    }
    fli_json_end(&j);
    fli_json_end(&j);
}

/* fli_fact_fn */
static void put_fact(void *j, const char *label, const char *text) { fli_json_text(j, label, text); }

fl_status fli_list_item_json(fl_ctx *ctx, fli_text *t, const fli_kind *kind, const fli_item *item)
{
    fli_json j;
    fli_json_init(&j, t);
    fli_json_map(&j, NULL);
    fli_json_text(&j, "section", kind->section);
    fli_json_text(&j, "name", item->name);
    fli_json_text(&j, "title", item->title);
    fli_json_map(&j, "facts");
    fl_status s = fli_list_facts(ctx, item, put_fact, &j);
    fli_json_end(&j);
    put_keys(&j, "keys", item->keys);
    put_keys(&j, "section_keys", fli_settings_common(kind->section));
    fli_json_end(&j);
    return s;
}

void fli_list_settings_json(fli_text *t, const char *section)
{
    fli_json j;
    fli_section s;
    fli_json_init(&j, t);
    fli_json_map(&j, NULL);
    fli_json_list(&j, "sections");
    for (size_t i = 0; fli_settings_section(i, &s); i++) {
        if (section && strcmp(section, s.name)) continue;
        fli_json_map(&j, NULL);
        fli_json_text(&j, "name", s.name);
        fli_json_text(&j, "title", s.title);
        fli_json_text(&j, "kinds", s.kind ? s.kind->plural : NULL);
        put_keys(&j, "keys", s.keys);
        fli_json_end(&j);
    }
    fli_json_end(&j);
    fli_json_end(&j);
}
