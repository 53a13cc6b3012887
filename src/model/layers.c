/* Reads the line that describes a network. Every complaint says which layer it is about. */
#include "model/layers.h"

#include <string.h>

typedef struct {
    fl_ctx *ctx;
    const char *at, *end; /* the rest of the layer that is being read */
    size_t number;        /* of the layer, from 1 */
    fli_layer *layer;
} reader;

static fl_status complain(reader *r, const char *what)
{
    return fli_fail(r->ctx, FL_ECONFIG, "model.layers, layer %zu, \"%.*s\": %s", r->number, r->layer->length,
                    r->layer->text, what);
}

static int blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

static void skip_blanks(reader *r)
{
    while (r->at < r->end && blank(*r->at)) r->at++;
}

/* Whether the next word is this one; then it is passed. */
static int word(reader *r, const char *w)
{
    size_t n = strlen(w);
    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, w, n)) return 0;
    if (r->at + n < r->end && !blank(r->at[n])) return 0;
    r->at += n;
    return 1;
}

/* A number of 1 to 6 digits. */
static int number(reader *r, size_t *out)
{
    const char *start;
    size_t v = 0;
    skip_blanks(r);
    for (start = r->at; r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - start < 6; r->at++)
        v = 10 * v + (size_t)(*r->at - '0');
    *out = v;
    return r->at > start;
}

static fl_status in_range(reader *r, const char *what, size_t v, size_t low, size_t high)
{
    if (v >= low && v <= high) return FL_OK;
    return fli_fail(r->ctx, FL_ECONFIG, "model.layers, layer %zu, \"%.*s\": %s is %zu, but must be %zu to %zu",
                    r->number, r->layer->length, r->layer->text, what, v, low, high);
}

static fl_status read_options(reader *r)
{
    fli_layer *l = r->layer;
    fl_status s = FL_OK;
    while (!s && (skip_blanks(r), r->at < r->end)) {
        if (word(r, "stride")) {
            if (!number(r, &l->stride)) return complain(r, "stride needs a number, such as stride 2");
            s = in_range(r, "the stride", l->stride, 1, 64);
        } else if (word(r, "pad")) {
            if (!number(r, &l->pad)) return complain(r, "pad needs a number, such as pad 2");
            s = in_range(r, "the padding", l->pad, 0, l->kernel - 1);
        } else if (word(r, "same")) {
            if (l->kernel % 2 == 0) return complain(r, "same needs a window of odd size");
            l->pad = (l->kernel - 1) / 2;
        } else {
            return complain(r, "a convolution is conv CxK, then stride S, and pad P or same");
        }
    }
    return s;
}

static fl_status read_conv(reader *r)
{
    fli_layer *l = r->layer;
    l->kind = FLI_LAYER_CONV;
    l->stride = 1;
    if (!number(r, &l->size) || r->at == r->end || *r->at++ != 'x' || !number(r, &l->kernel))
        return complain(r, "a convolution is given as filters x window, such as conv 64x5");
    fl_status s = in_range(r, "the number of filters", l->size, 1, 65536);
    if (!s) s = in_range(r, "the window", l->kernel, 1, 64);
    return s ? s : read_options(r);
}

static fl_status read_sized(reader *r, fli_layer_kind kind, const char *what, size_t most)
{
    r->layer->kind = kind;
    if (!number(r, &r->layer->size)) return complain(r, "needs a number behind it, as in pool 2 or fc 100");
    skip_blanks(r);
    if (r->at < r->end) return complain(r, "takes one number and nothing else");
    return in_range(r, what, r->layer->size, 1, most);
}

static fl_status read_layer(reader *r)
{
    if (word(r, "conv")) return read_conv(r);
    if (word(r, "pool")) return read_sized(r, FLI_LAYER_MAX_POOL, "the window", 16);
    if (word(r, "avgpool")) return read_sized(r, FLI_LAYER_MEAN_POOL, "the window", 16);
    if (word(r, "fc")) return read_sized(r, FLI_LAYER_FC, "the number of units", 65536);
    return complain(r, "a layer is conv, pool, avgpool or fc");
}

fl_status fli_layers_read(fl_ctx *ctx, const char *line, fli_layer *out, size_t *count)
{
    *count = 0;
    for (const char *p = line;; p++) {
        if (*count == FLI_LAYERS_MAX)
            return fli_fail(ctx, FL_ECONFIG, "model.layers has more than %d layers", (int)FLI_LAYERS_MAX);
        const char *end = p + strcspn(p, ",");
        reader r = {.ctx = ctx, .at = p, .end = end, .number = *count + 1, .layer = &out[*count]};
        skip_blanks(&r);
        while (end > r.at && blank(end[-1])) end--;
        *r.layer = (fli_layer){.text = r.at, .length = (int)(end - r.at > 60 ? 60 : end - r.at)};
        r.end = end;
        if (r.at == end)
            return fli_fail(ctx, FL_ECONFIG, "model.layers: there is nothing where layer %zu should be", r.number);
        fl_status s = read_layer(&r);
        if (s) return s;
        ++*count;
        p += strcspn(p, ",");
        if (!*p) return FL_OK;
    }
}
