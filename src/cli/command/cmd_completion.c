/* fedloom completion: scripts for shells, and the candidates that these ask the program for. */
#include "cli/cli.h"

#include <string.h>

/* ==== candidates for a word ======================================================================================= */

/* Candidates: commands, their options and words, and keys and names that the library lists. */

/* The word to complete, and its beginning that is fixed, such as "--set=local." */
typedef struct {
    const char *current; /* all of it, as typed */
    char before[256];    /* prefix of every candidate */
} partial_word;

enum { MEANING_LEN = 72 };

/* Cuts a text to the whole words that fit. */
static void shorten(char *text)
{
    if (strlen(text) + 1 < MEANING_LEN) return;
    text[MEANING_LEN - 1] = 0;
    char *blank = strrchr(text, ' ');
    if (blank) *blank = 0;
}

/* Prints a candidate if it begins with the word; `meaning` may be "". */
static void print_candidate(const partial_word *w, const char *name, const char *ending, const char *meaning)
{
    char word[512], brief[MEANING_LEN + 1];
    snprintf(word, sizeof word, "%s%s%s", w->before, name, ending);
    snprintf(brief, sizeof brief, "%s", meaning);
    shorten(brief);
    if (!strncmp(word, w->current, strlen(w->current))) printf("%s%s%s\n", word, *brief ? "\t" : "", brief);
}

/* Makes the shell offer files or folders. */
static void print_files(void) { puts(":files"); }
static void print_folders(void) { puts(":folders"); }

/* ==== keys, and names of things =================================================================================== */

/* From the library's listings. */

/* fl_list as a document; NULL: unknown. */
static json_t *listing(fl_ctx *ctx, const char *kind, const char *name)
{
    json_t *all = NULL;
    fl_ctx_format(ctx, FL_FORMAT_JSON);
    return fl_list(ctx, kind, name, json_take, &all) ? NULL : all;
}

static const char *text(const json_t *of, const char *key)
{
    const char *s = json_string_value(json_object_get(of, key));
    return s ? s : "";
}

/* A listing is a map that contains one list. */
static json_t *only_list(const json_t *all) { return json_object_iter_value(json_object_iter((json_t *)all)); }

static void offer_items(fl_ctx *ctx, const partial_word *w, const char *kind, const char *meaning)
{
    json_t *all = listing(ctx, kind, NULL), *one;
    size_t i;
    json_array_foreach(only_list(all), i, one)
    {
        if (!json_is_false(json_object_get(one, "here"))) /* a missing device */
            print_candidate(w, text(one, "name"), "", text(one, meaning));
    }
    json_decref(all);
}

/* Offers the things of a kind ("algorithms"), or the kinds if NULL. */
static void offer_kind(fl_ctx *ctx, const partial_word *w, const char *kind)
{
    offer_items(ctx, w, kind, kind && !strcmp(kind, "devices") ? "is" : "title");
    if (kind) return;
    print_candidate(w, "settings", "", "the keys that do not depend on a choice");
    print_candidate(w, "devices", "", "where a run can be computed, on this machine");
}

/* Offers keys that are not in `seen`, and adds them: several kinds have keys of the same name. */
static void offer_keys(const partial_word *w, const json_t *keys, json_t *seen)
{
    json_t *key;
    size_t i;
    json_array_foreach(keys, i, key)
    {
        if (json_object_get(seen, text(key, "name"))) continue;
        print_candidate(w, text(key, "name"), "=", text(key, "help"));
        json_object_set(seen, text(key, "name"), key);
    }
}

/* Offers the values of a key, if they are words. */
static void offer_words(const partial_word *w, const json_t *keys, const char *name, json_t *seen)
{
    json_t *key, *word;
    size_t i, k;
    json_array_foreach(keys, i, key)
    {
        if (strcmp(text(key, "name"), name)) continue;
        json_array_foreach(json_object_get(key, "choices"), k, word)
        {
            const char *value = json_string_value(word);
            if (!json_object_get(seen, value)) print_candidate(w, value, "", "");
            json_object_set(seen, value, word);
        }
    }
}

/* Offers the keys of a section or, with `name`, the values of this key. */
static void offer_section(fl_ctx *ctx, const partial_word *w, const json_t *section, const char *name)
{
    const char *kinds = text(section, "kinds");
    json_t *all = *kinds ? listing(ctx, kinds, NULL) : NULL, *seen = json_object(), *one;
    size_t i, n = json_array_size(only_list(all));
    if (all && !name) print_candidate(w, "kind", "=", text(section, "title"));
    if (all && name && !strcmp(name, "kind")) offer_items(ctx, w, kinds, "title");
    for (i = 0; i <= n; i++) { /* the section's own, then those of its kinds */
        one = i ? listing(ctx, kinds, text(json_array_get(only_list(all), i - 1), "name")) : NULL;
        const json_t *keys = json_object_get(i ? one : section, "keys");
        if (name)
            offer_words(w, keys, name, seen);
        else
            offer_keys(w, keys, seen);
        json_decref(one);
    }
    json_decref(seen);
    json_decref(all);
}

/* Offers top-level keys and sections; some sections may be given by the name of a kind alone. */
static void offer_top(const partial_word *w, const json_t *sections)
{
    json_t *section;
    size_t i;
    json_array_foreach(sections, i, section)
    {
        const char *name = text(section, "name");
        if (!*name) offer_keys(w, json_object_get(section, "keys"), NULL);
        if (*name && *text(section, "kinds")) print_candidate(w, name, "=", text(section, "title"));
        if (*name) print_candidate(w, name, ".", text(section, "title"));
    }
}

static const json_t *find_section(const json_t *sections, const char *name)
{
    json_t *section;
    size_t i;
    json_array_foreach(sections, i, section) if (!strcmp(text(section, "name"), name)) return section;
    return NULL;
}

/* Offers continuations of KEY=VALUE. */
static void offer_setting(fl_ctx *ctx, const partial_word *w)
{
    json_t *all = listing(ctx, "settings", NULL);
    const char *typed = w->current + strlen(w->before), *dot = strchr(typed, '.'), *equals = strchr(typed, '=');
    partial_word own = {.current = w->current};
    char section[64] = "", name[64] = "";
    if (dot && equals && dot > equals) dot = NULL; /* the dot is in the value */
    if (dot) snprintf(section, sizeof section, "%.*s", (int)(dot - typed), typed);
    const char *key = dot ? dot + 1 : typed, *part = equals ? equals + 1 : key;
    if (equals) snprintf(name, sizeof name, "%.*s", (int)(equals - key), key);
    snprintf(own.before, sizeof own.before, "%.*s", (int)(part - w->current), w->current);
    const json_t *top = only_list(all), *within = find_section(top, section), *named = find_section(top, name);
    if (!dot && equals && named)
        offer_items(ctx, &own, text(named, "kinds"), "title"); /* algorithm=NAME */
    else if (dot || equals)
        offer_section(ctx, &own, within, equals ? name : NULL);
    else
        offer_top(&own, top);
    json_decref(all);
}

/* ==== command lines =============================================================================================== */

/* Makes the word's beginning, up to and including the last of a character, the prefix of all candidates. */
static void keep_up_to(partial_word *w, char last)
{
    const char *at = strrchr(w->current, last);
    size_t n = at ? (size_t)(at - w->current) + 1 : 0;
    if (n && n < sizeof w->before) snprintf(w->before, sizeof w->before, "%.*s", (int)n, w->current);
}

/* ---- meanings of options, from the help texts -------------------------------------------------------------------- */

/* The line of an option below "options:"; NULL: none. */
static const char *find_line(const char *help, const char *name)
{
    size_t n = strlen(name);
    const char *line = strstr(help, "options:\n");
    while (line && (line = strchr(line, '\n')) && line[1] == ' ') {
        line++;
        if (!strncmp(line, "  ", 2) && !strncmp(line + 2, name, n) && line[2 + n] == ' ') return line;
    }
    return NULL;
}

/* Reads its meaning as one line, cut to the shown length. */
static void read_meaning(const char *line, char out[MEANING_LEN + 1])
{
    const char *from = strstr(line + 2, "  "), *end = strchr(line, '\n');
    size_t n = 0;
    for (int more = from && from < end; more && n < MEANING_LEN;) {
        from += strspn(from, " ");
        n += (size_t)snprintf(out + n, MEANING_LEN + 1 - n, "%s%.*s", n ? " " : "", (int)(end - from), from);
        more = strspn(end + 1, " ") > 4; /* further lines are indented deeper than options are */
        from = end + 1;
        end = strchr(from, '\n');
    }
}

/* The meaning, also from the help of other commands, which explain some options of this one. */
static const char *meaning_of(const command *c, const char *name, char out[MEANING_LEN + 1])
{
    const char *line = find_line(c->help, name);
    for (size_t i = 0; !line && command_at(i); i++) line = find_line(command_at(i)->help, name);
    out[0] = 0;
    if (line) read_meaning(line, out);
    return out;
}

/* ---- words of a kind ------------------------------------------------------------------------------------------ */

static void offer_commands(const partial_word *w)
{
    for (size_t i = 0; command_at(i); i++) print_candidate(w, command_at(i)->name, "", command_at(i)->summary);
}

static void offer_list(const partial_word *w, const char *const *names)
{
    for (; *names; names++) print_candidate(w, *names, "", "");
}

static void offer_experiments(const partial_word *w)
{
    words files;
    yaml_files(experiments_folder(), &files);
    for (size_t i = 0; i < files.n; i++) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strlen(files.v[i]) - 5, files.v[i]);
        print_candidate(w, name, "", "");
    }
    yaml_files_free(&files);
}

static void offer_metrics(const partial_word *w, fl_view view)
{
    const fl_metric *m;
    for (size_t i = 0; (m = fl_metric_shown(view, i)); i++) print_candidate(w, m->shown[view].label, "", m->title);
}

/* `first`: the plain word before, on which names depend. */
static void offer(fl_ctx *ctx, partial_word *w, option_takes what, const char *first)
{
    static const char *const formats[] = {"table", "json", NULL}, *const pages[] = {"1", "5", NULL},
                             *const shells[] = {"bash", "zsh", "fish", NULL};
    switch (what) {
    case TAKES_ANY: break;
    case TAKES_FILE: print_files(); break;
    case TAKES_FOLDER: print_folders(); break;
    case TAKES_SETTING: offer_setting(ctx, w); break;
    case TAKES_METHODS: keep_up_to(w, ','); /* fall through */
    case TAKES_METHOD: offer_kind(ctx, w, "algorithms"); break;
    case TAKES_MODEL: offer_kind(ctx, w, "models"); break;
    case TAKES_PARTITION: offer_kind(ctx, w, "partitions"); break;
    case TAKES_SOURCE:
        offer_kind(ctx, w, "data");
        print_files();
        break;
    case TAKES_DEVICE: offer_kind(ctx, w, "devices"); break;
    case TAKES_KIND: offer_kind(ctx, w, NULL); break;
    case TAKES_NAME: offer_kind(ctx, w, first); break;
    case TAKES_FORMAT: offer_list(w, formats); break;
    case TAKES_PAGE: offer_list(w, pages); break;
    case TAKES_SHELL: offer_list(w, shells); break;
    case TAKES_ACTION: offer_list(w, cert_actions()); break;
    case TAKES_EXPERIMENT: offer_experiments(w); break;
    case TAKES_QUANTITY: offer_metrics(w, FL_VIEW_CHART); break;
    case TAKES_AXIS: offer_metrics(w, FL_VIEW_AXIS); break;
    }
}

/* ---- the line of a command ------------------------------------------------------------------------------------ */

typedef struct {
    fl_ctx *ctx;
    const command *c;
    const words *line; /* from the command's name on */
} question;

static const option *find(const option *options, const char *word)
{
    size_t n = strcspn(word, "=");
    for (const option *o = options; o->name; o++)
        if (strlen(o->name) == n && !strncmp(o->name, word, n)) return o;
    return NULL;
}

static int was_given(const question *q, const char *name)
{
    for (size_t i = 1; i + 1 < q->line->n; i++)
        if (find((const option[]){{name, OPT_FLAG, NULL}, {0}}, q->line->v[i])) return 1;
    return 0;
}

static void offer_options(const question *q, const partial_word *w, const option *options)
{
    char meaning[MEANING_LEN + 1];
    for (const option *o = options; o->name; o++)
        if (o->type == OPT_WORDS || !was_given(q, o->name))
            print_candidate(w, o->name, "", meaning_of(q->c, o->name, meaning));
    if (!was_given(q, "--help")) print_candidate(w, "--help", "", "how the command is used, with examples");
}

static option_takes value_of(const option *o) { return o->type == OPT_FORMAT ? TAKES_FORMAT : o->takes; }

/* The number of plain words of the command before the last; *first is the one before it. */
static size_t plain_before(const question *q, const option *options, const char **first)
{
    size_t n = 0;
    *first = "";
    for (size_t i = 1; i + 1 < q->line->n; i++) {
        const char *word = q->line->v[i];
        const option *o = find(options, word);
        if (o && o->type != OPT_FLAG && !strchr(word, '='))
            i++;
        else if (*word != '-') {
            *first = word;
            n++;
        }
    }
    return n;
}

/* fl_options_fn: answers with the command's option table. */
static void answer(void *arg, const option *options)
{
    const question *q = arg;
    partial_word w = {.current = q->line->v[q->line->n - 1]};
    const char *last = q->line->v[q->line->n - 2], *first;
    const option *o = find(options, q->line->n > 2 ? last : ""), *own = find(options, w.current);
    if (o && o->type != OPT_FLAG && !strchr(last, '='))
        offer(q->ctx, &w, value_of(o), "");
    else if (own && own->type != OPT_FLAG && strchr(w.current, '=')) {
        snprintf(w.before, sizeof w.before, "%s=", own->name);
        offer(q->ctx, &w, value_of(own), "");
    } else if (*w.current == '-')
        offer_options(q, &w, options);
    else {
        size_t place = plain_before(q, options, &first), most = sizeof q->c->takes / sizeof *q->c->takes;
        offer(q->ctx, &w, q->c->takes[place < most ? place : most - 1], first);
    }
}

/* Prints candidates for the last word (of those after the program's name): one per line, with its meaning after a
 * tab. */
static void print_completions(fl_ctx *ctx, const words *line)
{
    const partial_word w = {.current = line->n ? line->v[line->n - 1] : ""};
    const command *c = line->n > 1 ? command_named(line->v[0]) : NULL;
    if (line->n < 2) {
        offer_commands(&w);
        print_candidate(&w, "help", "", "how a command is used");
        if (*w.current == '-') print_candidate(&w, "--help", "", "what there is");
        if (*w.current == '-') print_candidate(&w, "--version", "", "the version, and what it computes with here");
    } else if (!strcmp(line->v[0], "help") && line->n == 2)
        offer_commands(&w);
    else if (c)
        args_show_options(c, answer, &(question){ctx, c, line});
}

/* ==== the command ================================================================================================= */

/* from packaging/completion, which is also installed for the shells. */
extern const char completion_bash[], completion_zsh[], completion_fish[];

typedef struct {
    const char *name, *script;
} shell;

static const shell shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};
enum { SHELLS = sizeof shells / sizeof *shells };

/* fl_name_fn */
static const char *shell_name(const void *unused, size_t i)
{
    (void)unused;
    return i < SHELLS ? shells[i].name : NULL;
}

static int print_script(const char *name)
{
    char meant[MEANT_LEN];
    for (const shell *s = shells; s < shells + SHELLS; s++)
        if (!strcmp(s->name, name)) return fputs(s->script, stdout), CLI_OK;
    return say_usage("completion", "%s: not one of bash, zsh and fish%s", name,
                     args_meant(fl_nearest(name, shell_name, NULL), meant));
}

static int print_words(const words *line)
{
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) return say("out of memory"), CLI_FAILED;
    print_completions(ctx, line);
    fl_ctx_free(ctx);
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    words plain = {0};
    const option options[] = {{0}};
    int code = args_parse("completion", options, argc, argv, &plain);
    int asks = plain.n && !strcmp(plain.v[0], "words");
    if (!code && !plain.n) code = say_usage("completion", "which SHELL? bash, zsh or fish");
    if (!code && !asks && plain.n > 1) code = say_usage("completion", "%s: one argument too many", plain.v[1]);
    if (!code) code = asks ? print_words(&(words){plain.n - 1, plain.v + 1}) : print_script(plain.v[0]);
    args_free(&plain);
    return code;
}

static const char help[] = "usage: fedloom completion bash | zsh | fish\n"
                           "       fedloom completion words -- WORD...\n"
                           "\n"
                           "Prints a script by which a shell completes commands, options, files, methods,\n"
                           "experiments, and keys and values after --set. An installed fedloom has put these\n"
                           "scripts where the shells look for them; without one, in ~/.bashrc, ~/.zshrc\n"
                           "(after compinit) or ~/.config/fish/config.fish:\n"
                           "\n"
                           "  source <(fedloom completion bash)\n"
                           "  source <(fedloom completion zsh)\n"
                           "  fedloom completion fish | source\n"
                           "\n"
                           "The scripts ask the program itself: `words` prints what the last WORD of a\n"
                           "command line, without `fedloom`, may become, and what that means. `:files` and\n"
                           "`:folders` stand for those that there are.\n"
                           "\n"
                           "examples:\n"
                           "  source <(fedloom completion bash)\n"
                           "  fedloom completion words -- run --set local.\n";

const command cmd_completion = {"completion", "scripts for bash, zsh and fish that complete what is typed",
                                help,         run,
                                RANKS_FIRST,  {TAKES_SHELL, TAKES_ANY}};
