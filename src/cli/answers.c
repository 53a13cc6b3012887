/* What may be answered to the questions of `fedloom init`: each answer is held against what there is, and tried. */
#include "cli/data_file.h"
#include "cli/draft.h"
#include "cli/json_out.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ANSWER_LEN = DRAFT_TEXT };

/* ---- words ---------------------------------------------------------------------------------------- */

/* fl_name_fn over a section of the configuration. */
static const char *kind_at(const void *section, size_t i) { return fl_kind_at(section, i); }

static int is_known(const char *section, const char *name)
{
    char meant[MEANT_LEN];
    const char *known;
    for (size_t i = 0; (known = fl_kind_at(section, i)); i++)
        if (!strcmp(known, name)) return 1;
    say("there is no %s called %s%s `fedloom list %s` shows what there is", section, name,
        *args_meant(fl_nearest(name, kind_at, section), meant) ? meant : ";", section);
    return 0;
}

/* Takes the first word off; 0: there is none. */
static int next_word(const char **rest, char *word, size_t size)
{
    *rest += strspn(*rest, " \t");
    size_t n = strcspn(*rest, " \t");
    snprintf(word, size, "%.*s", (int)n, *rest);
    *rest += n;
    return n > 0;
}

/* The same, but what is left is one word if it is the name of a file or folder, which may have blanks. */
static int next_path(const char **rest, char *word, size_t size)
{
    struct stat st;
    *rest += strspn(*rest, " \t");
    size_t n = strlen(*rest);
    if (n >= size || stat(*rest, &st)) return next_word(rest, word, size);
    snprintf(word, size, "%s", *rest);
    *rest += n;
    return 1;
}

/* A whole number from 1; 0: it is none. */
static size_t count_of(const char *word)
{
    char *end;
    unsigned long long v = strtoull(word, &end, 10);
    return isdigit((unsigned char)*word) && !*end && v <= 1000000000 ? (size_t)v : 0;
}

/* ---- data ------------------------------------------------------------------------------------------------------ */

/* Adds ", KEY: 'VALUE'" to what is in the braces; 0: no room, or a value that YAML has no plain quotes for. */
static int add_key(draft *d, const char *key, const char *value)
{
    size_t n = strlen(d->data), room = sizeof d->data - n;
    if (strlen(value) * 2 + strlen(key) + 8 > room || strpbrk(value, "\n\r\t")) return 0;
    n += (size_t)snprintf(d->data + n, room, ", %s: '", key);
    for (; *value; value++) {
        if (*value == '\'') d->data[n++] = '\'';
        d->data[n++] = *value;
    }
    snprintf(d->data + n, sizeof d->data - n, "'");
    return 1;
}

/* Key number i of a kind that tells where its files are: those that must be given, or the folder. NULL past the
 * last. */
static const char *place_key(const json_t *kind, size_t i)
{
    json_t *key;
    size_t k, required = 0, n = 0;
    const char *folder = NULL, *found = NULL;
    json_array_foreach(json_object_get(kind, "keys"), k, key)
    {
        const char *name = json_string_value(json_object_get(key, "name"));
        int must = json_is_null(json_object_get(key, "default"));
        required += must;
        if (must && n++ == i) found = name;
        if (!strcmp(name, "dir")) folder = name;
    }
    return required || i ? found : folder;
}

/* "KIND", "KIND PATH" or "KIND PATH PATH". */
static int take_kind(fl_ctx *ctx, draft *d, const char *kind, const char *rest)
{
    json_t *about = NULL;
    char path[ANSWER_LEN];
    const char *key;
    size_t n = 0;
    int fits = 1;
    if (!is_known("data", kind)) return CLI_USAGE;
    fl_ctx_format(ctx, FL_FORMAT_JSON);
    if (fl_list(ctx, "data", kind, json_take, &about)) return say_error(ctx), CLI_FAILED;
    snprintf(d->data, sizeof d->data, "kind: %s", kind);
    while (fits && next_path(&rest, path, sizeof path)) fits = (key = place_key(about, n++)) && add_key(d, key, path);
    key = place_key(about, n);
    int missing = fits && key && strcmp(key, "dir") != 0;
    if (missing) say("data %s needs %s: `%s PATH`", kind, key, kind);
    if (!fits) say("data %s does not take %s", kind, path);
    json_decref(about);
    d->by_name = n > 0;
    return missing || !fits ? CLI_USAGE : CLI_OK;
}

static int is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* A file by its ending, or a kind and where it is. */
int answer_data(fl_ctx *ctx, draft *d, const char *answer)
{
    char word[ANSWER_LEN];
    const char *rest = answer;
    next_path(&rest, word, sizeof word);
    const data_format *f = data_format_of(word);
    int code = f ? take_kind(ctx, d, f->kind, answer) : CLI_OK;
    if (!f && is_folder(word)) {
        say("%s is a folder: say what is in it, as in `idx %s` or `image_folder %s`", word, word, word);
        return CLI_USAGE;
    }
    if (!f && strpbrk(word, "/.")) {
        say("%s: the ending of its name does not say what it is (%s); `KIND %s` does", word, data_endings, word);
        return CLI_USAGE;
    }
    if (!f) code = take_kind(ctx, d, word, rest);
    if (!code && f && f->also_key && !add_key(d, f->also_key, f->also_is)) code = CLI_USAGE;
    return code ? code : draft_look(ctx, d);
}

/* ---- the other four --------------------------------------------------------------------------------------------- */

int answer_split(fl_ctx *ctx, draft *d, const char *answer)
{
    const char *rest = answer;
    char kind[DRAFT_NAME], count[DRAFT_NAME];
    next_word(&rest, kind, sizeof kind);
    if (!is_known("partition", kind)) return CLI_USAGE;
    int given = next_word(&rest, count, sizeof count);
    size_t clients = given ? count_of(count) : 0;
    if (given && !clients) {
        say("%s is not a number of clients: `%s 20`, say", count, kind);
        return CLI_USAGE;
    }
    snprintf(d->partition, sizeof d->partition, "%s", kind);
    d->clients = clients;
    return draft_look(ctx, d);
}

int answer_model(fl_ctx *ctx, draft *d, const char *answer)
{
    if (!is_known("model", answer)) return CLI_USAGE;
    snprintf(d->model, sizeof d->model, "%s", answer);
    return draft_fits(ctx, d, "fedavg", 1);
}

static void remove_blanks(const char *from, char *to, size_t size)
{
    size_t n = 0;
    for (; *from && n + 1 < size; from++)
        if (*from != ' ' && *from != '\t') to[n++] = *from;
    to[n] = 0;
}

/* Whether runs of all methods can be made. */
static int all_fit(fl_ctx *ctx, const draft *d, int tell)
{
    char name[DRAFT_NAME];
    for (size_t i = 0; draft_method(d, i, name); i++)
        if (draft_fits(ctx, d, name, tell)) return 0;
    return 1;
}

/* Whether method i is known, and was not named before. */
static int is_another(const draft *d, size_t i, const char *name)
{
    char before[DRAFT_NAME];
    if (!is_known("algorithm", name)) return 0;
    for (size_t k = 0; k < i && draft_method(d, k, before); k++)
        if (!strcmp(before, name)) return say("%s is named twice: once is enough", name), 0;
    return 1;
}

/* Some methods want everyone in every round. If one does, all of them are compared so. */
int answer_methods(fl_ctx *ctx, draft *d, const char *answer)
{
    char name[DRAFT_NAME];
    remove_blanks(answer, d->methods, sizeof d->methods);
    if (!*d->methods) return say("no method is named: `fedavg,scaffold`, say"), CLI_USAGE;
    for (size_t i = 0; draft_method(d, i, name); i++)
        if (!is_another(d, i, name)) return CLI_USAGE;
    for (d->everyone = 0; d->everyone < 2; d->everyone++)
        if (all_fit(ctx, d, d->everyone)) return CLI_OK;
    return CLI_USAGE;
}

int answer_length(fl_ctx *ctx, draft *d, const char *answer)
{
    const char *rest = answer;
    char count[DRAFT_NAME], device[DRAFT_NAME];
    next_word(&rest, count, sizeof count);
    if (!(d->rounds = count_of(count))) {
        say("%s is not a number of rounds: `50 cpu`, say", count);
        return CLI_USAGE;
    }
    snprintf(d->device, sizeof d->device, "%s", next_word(&rest, device, sizeof device) ? device : "cpu");
    return all_fit(ctx, d, 1) ? CLI_OK : CLI_USAGE;
}
