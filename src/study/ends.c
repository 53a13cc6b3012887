/* What the result of a finished run says of its end: clients.csv and the number of parameters. */
#include "study/study.h"

#include "base/file.h"
#include "base/number.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { MOST_BYTES = 1 << 26 };

/* Cell `k` of a line of numbers; NaN: it is empty. */
static double number(const char *line, size_t k)
{
    char *end;
    for (; k; k--) {
        line += strcspn(line, ",\n");
        if (*line == ',') line++;
    }
    double v = fli_strtod(line, &end);
    return end == line || *line == '\n' ? NAN : v;
}

static size_t count(const char *line, size_t k)
{
    double v = number(line, k);
    return v >= 0 && v < 4e9 ? (size_t)v : 0;
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    while ((text = strchr(text, '\n'))) n++, text++;
    return n;
}

/* client,samples,train_loss,accuracy,own_accuracy,own_mix: where clients have models of their own, these count. */
static fl_status take_clients(fl_ctx *ctx, const char *text, fli_outcome *o)
{
    size_t lines = lines_of(text);
    if (lines < 2) return FL_OK;
    o->clients = fli_alloc(ctx, lines - 1, sizeof *o->clients);
    if (!o->clients) return FL_ENOMEM;
    for (const char *line = strchr(text, '\n') + 1; *line && o->client_count < lines - 1;) {
        double own = number(line, 4);
        o->clients[o->client_count++] =
            (fli_client_end){(uint32_t)count(line, 0), count(line, 1), isfinite(own) ? own : number(line, 3)};
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return FL_OK;
}

static void take_parameters(const char *text, size_t n, fli_outcome *o)
{
    json_error_t e;
    locale_t before = fli_locale_enter();
    json_t *json = json_loadb(text, n, 0, &e);
    fli_locale_leave(before);
    json_int_t count = json_integer_value(json_object_get(json, "parameters"));
    o->parameters = count > 0 ? (size_t)count : 0;
    json_decref(json);
}

static fl_status read_file(fl_ctx *ctx, const char *folder, const char *name, char **text, size_t *n)
{
    char *path = fli_strf(ctx, "%s/%s", folder, name);
    fl_status status = path ? fli_file_read(ctx, path, MOST_BYTES, text, n) : FL_ENOMEM;
    fli_free(path);
    return status;
}

void fli_ends_need(fl_study *s, size_t trial)
{
    fli_outcome *o = &s->outcomes[trial];
    const char *folder = s->x.trials[trial].folder;
    char *clients = NULL, *result = NULL;
    size_t n;
    if (o->ends_known || o->state != FLI_TRIAL_DONE || !folder) return;
    o->ends_known = 1;
    if (!read_file(s->ctx, folder, "clients.csv", &clients, &n)) take_clients(s->ctx, clients, o);
    if (!read_file(s->ctx, folder, "result.json", &result, &n)) take_parameters(result, n, o);
    fli_free(clients);
    fli_free(result);
    fli_clear(s->ctx);
}
