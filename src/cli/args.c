/* The command line: its options and words, and its text. Also a metric's value as text, for all commands that print. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== values of metrics =========================================================================================== */

const char *value_text(const fl_metric *m, double v, char text[VALUE_MAX_LEN])
{
    if (m->unit == FL_UNIT_NONE)
        snprintf(text, VALUE_MAX_LEN, "%.*g", m->digits ? m->digits : 5, v);
    else if (m->unit == FL_UNIT_SHARE || m->unit == FL_UNIT_SCORE)
        snprintf(text, VALUE_MAX_LEN, "%.4f", v);
    else if (m->unit == FL_UNIT_COUNT)
        snprintf(text, VALUE_MAX_LEN, "%.0f", v);
    else if (m->unit == FL_UNIT_BYTES)
        snprintf(text, VALUE_MAX_LEN, "%.1f", v / 1e6);
    else
        snprintf(text, VALUE_MAX_LEN, "%.*f", m->digits ? m->digits : v >= 9.95 ? 1 : 4, v);
    return text;
}

/* ==== the command line as text ==================================================================================== */

/* Quotes a word so that a shell reads it unchanged. */

static void add_quoted(FILE *to, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    }
    fputc('\'', to);
}

char *command_line_text(const char *command_name, int argc, char **argv)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to) return NULL;
    fprintf(to, "%s %s", program, command_name);
    for (int i = 0; i < argc; i++) {
        fputc(' ', to);
        add_quoted(to, argv[i]);
    }
    if (!fclose(to)) return text;
    free(text);
    return NULL;
}

/* ==== options and words =========================================================================================== */

/* `--name`, `--name VALUE`, `--name=VALUE`, plain words; after `--` everything is a plain word. */

void args_free(words *w)
{
    free(w->v);
    *w = (words){0};
}

/* There are never more words than arguments. */
static int add_word(words *w, const char *word, int argc)
{
    if (!w->v) w->v = calloc((size_t)argc + 1, sizeof *w->v);
    if (!w->v) return 0;
    w->v[w->n++] = word;
    return 1;
}

static const option *find(const option *options, const char *arg, size_t n)
{
    for (const option *o = options; o->name; o++)
        if (strlen(o->name) == n && !strncmp(o->name, arg, n)) return o;
    return NULL;
}

const char *args_meant(const char *near, char out[MEANT_LEN])
{
    out[0] = 0;
    if (near) snprintf(out, MEANT_LEN, "; did you mean %.128s?", near);
    return out;
}

/* fl_name_fn: options without their dashes, which would count as matching letters. */
static const char *option_word(const void *options, size_t i)
{
    const char *name = ((const option *)options)[i].name;
    return name ? name + strspn(name, "-") : NULL;
}

static int unknown_option(const char *command_name, const option *options, const char *arg, size_t n)
{
    char name[64], meant[MEANT_LEN], full[80];
    size_t dashes = strspn(arg, "-");
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n - dashes : 0), arg + dashes);
    const char *near = fl_nearest(name, option_word, options);
    if (near) snprintf(full, sizeof full, "%s%s", near[1] ? "--" : "-", near);
    return say_usage(command_name, "%s: unknown option%s", arg, args_meant(near ? full : NULL, meant));
}

static int parse_count(const char *s, size_t *out)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    if (end == s || *end || errno || !v || strchr(s, '-') || v > SIZE_MAX) return 0;
    *out = (size_t)v;
    return 1;
}

static int parse_real(const char *s, double *out)
{
    char *end;
    double v = strtod(s, &end);
    if (end == s || *end || !isfinite(v) || v < 0) return 0;
    *out = v;
    return 1;
}

/* fl_name_fn */
static const char *format_name(const void *unused, size_t i)
{
    static const char *const names[] = {"table", "json", NULL};
    (void)unused;
    return names[i];
}

static int take_format(const char *command_name, const option *o, const char *value)
{
    char meant[MEANT_LEN];
    int i = 0;
    while (format_name(NULL, (size_t)i) && strcmp(format_name(NULL, (size_t)i), value)) i++;
    if (!format_name(NULL, (size_t)i))
        return say_usage(command_name, "%s is %s, but must be table or json%s", o->name, value,
                         args_meant(fl_nearest(value, format_name, NULL), meant));
    *(int *)o->out = i;
    return CLI_OK;
}

static int take_value(const char *command_name, const option *o, const char *value, int argc)
{
    switch (o->type) {
    case OPT_FLAG: *(int *)o->out = 1; return CLI_OK;
    case OPT_TEXT:
        if (!*value) return say_usage(command_name, "%s is empty", o->name);
        *(const char **)o->out = value;
        return CLI_OK;
    case OPT_WORDS:
        if (add_word(o->out, value, argc)) return CLI_OK;
        say("out of memory");
        return CLI_FAILED;
    case OPT_COUNT:
        if (parse_count(value, o->out)) return CLI_OK;
        return say_usage(command_name, "%s is %s, but must be a whole number from 1", o->name, value);
    case OPT_FORMAT: return take_format(command_name, o, value);
    case OPT_REAL:
        if (parse_real(value, o->out)) return CLI_OK;
        return say_usage(command_name, "%s is %s, but must be a number from 0", o->name, value);
    }
    return CLI_USAGE;
}

/* One option at argv[*i], and its value, which may be the next argument. */
static int take_option(const char *command_name, const option *options, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *eq = strchr(arg, '='), *value = eq ? eq + 1 : NULL;
    size_t length = eq ? (size_t)(eq - arg) : strlen(arg);
    const option *o = find(options, arg, length);
    if (!o) return unknown_option(command_name, options, arg, length);
    if (o->type == OPT_FLAG && value) return say_usage(command_name, "%s takes no value", o->name);
    if (o->type != OPT_FLAG && !value) {
        if (*i + 1 == argc) return say_usage(command_name, "%s needs a value", o->name);
        value = argv[++*i];
    }
    return take_value(command_name, o, value, argc);
}

/* During args_show_options: args_parse hands the next option table to `fn` and does not use it. */
static struct {
    void (*fn)(void *arg, const option *options);
    void *arg;
} table_asked_by;

void args_show_options(const command *c, void (*fn)(void *arg, const option *options), void *arg)
{
    table_asked_by.fn = fn;
    table_asked_by.arg = arg;
    c->run(0, NULL);
    table_asked_by.fn = NULL;
}

int args_parse(const char *command_name, const option *options, int argc, char **argv, words *plain)
{
    int only_words = 0, code = CLI_OK;
    if (table_asked_by.fn) {
        table_asked_by.fn(table_asked_by.arg, options);
        return CLI_USAGE;
    }
    for (int i = 0; i < argc && code == CLI_OK; i++) {
        if (!only_words && !strcmp(argv[i], "--"))
            only_words = 1;
        else if (!only_words && argv[i][0] == '-' && argv[i][1])
            code = take_option(command_name, options, argc, argv, &i);
        else if (!add_word(plain, argv[i], argc)) {
            say("out of memory");
            code = CLI_FAILED;
        }
    }
    return code;
}
