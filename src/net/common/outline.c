#include "net/common/outline.h"

#include "base/number.h"
#include "base/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void append(void *text, const char *more) { fli_text_add(text, more); }

/* The value of a key in a configuration that was printed: "section:" at the start of a line, "  key: value" below it.
 * To be freed by fli_free; NULL: out of memory, "" where there is none. */
static char *value_of(fl_ctx *ctx, const char *printed, const char *section, const char *key)
{
    char head[64], start[64];
    fli_snprintf(head, sizeof head, "\n%s:\n", section);
    fli_snprintf(start, sizeof start, "\n%s%s: ", *section ? "  " : "", key);
    const char *from = *section ? strstr(printed, head) : printed;
    if (from && *section) from += strlen(head) - 1;
    const char *at = from ? strstr(from, start) : NULL;
    for (const char *line = from; *section && at && line && line < at; line = strchr(line + 1, '\n'))
        if (line[1] != ' ') at = NULL; /* that is another section's */
    if (!at) return fli_strdup(ctx, "");
    at += strlen(start);
    return fli_strf(ctx, "%.*s", (int)strcspn(at, "\n"), at);
}

/* Names with commas between them as a list; null where there are none. */
static json_t *names(const char *text)
{
    if (!*text) return json_null();
    json_t *list = json_array();
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        at += strspn(at, " ");
        size_t all = strcspn(at, ","), n = all;
        while (n && at[n - 1] == ' ') n--;
        json_array_append_new(list, json_stringn(at, n));
        at += all;
    }
    return list;
}

/* Names of classes come from the configuration itself: what is printed has the quotes that YAML may want. */
static char *describe_samples(fl_ctx *ctx, const fl_config *cfg, const char *printed)
{
    char *shape = value_of(ctx, printed, "data", "shape"), *classes = value_of(ctx, printed, "data", "classes");
    char *scale = value_of(ctx, printed, "data", "normalize");
    char *precision = value_of(ctx, printed, "", "precision"), *text = NULL;
    if (shape && classes && scale && precision) {
        locale_t before = fli_locale_enter();
        json_t *j =
            json_pack("{s:o*, s:I, s:o, s:s, s:s}", "shape", json_loads(shape, 0, NULL), "classes",
                      (json_int_t)strtoll(classes, NULL, 10), "class_names",
                      names(fl_config_get(cfg, "data.class_names")), "normalize", scale, "precision", precision);
        text = j ? json_dumps(j, JSON_COMPACT) : NULL;
        json_decref(j);
        fli_locale_leave(before);
    }
    char *all[] = {shape, classes, scale, precision};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fli_free(all[i]);
    return text;
}

/* A text without the quotes that YAML may want. */
static char *unquoted(char *text)
{
    size_t n = text ? strlen(text) : 0;
    if (n >= 2 && (*text == '\'' || *text == '"') && text[n - 1] == *text) {
        memmove(text, text + 1, n - 2);
        text[n - 2] = 0;
    }
    return text;
}

fl_status fli_outline_read(fl_ctx *ctx, fl_config *cfg, fli_outline *out)
{
    fli_text printed;
    *out = (fli_outline){0};
    fli_text_init(&printed, ctx);
    fli_text_add(&printed, "\n");
    fl_status s = fl_config_print(cfg, append, &printed);
    if (!s) s = fli_text_ok(&printed);
    if (!s) {
        const char *text = fli_text_get(&printed);
        char *clients = value_of(ctx, text, "partition", "clients");
        out->clients = clients ? (size_t)strtoull(clients, NULL, 10) : 0;
        out->method = value_of(ctx, text, "algorithm", "kind");
        out->model = value_of(ctx, text, "model", "kind");
        out->samples = describe_samples(ctx, cfg, text);
        out->output = unquoted(value_of(ctx, text, "", "output"));
        fli_free(clients);
        if (!out->method || !out->model || !out->samples || !out->output) s = fli_fail(ctx, FL_ENOMEM, "out of memory");
    }
    fli_text_fini(&printed);
    if (s) fli_outline_free(out);
    return s;
}

void fli_outline_free(fli_outline *p)
{
    fli_free(p->method);
    fli_free(p->model);
    fli_free(p->output);
    free(p->samples);
    *p = (fli_outline){0};
}
