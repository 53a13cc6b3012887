/* Exports trained networks as ONNX, the format that other runtimes read: a graph of operators, in protocol buffers. The
 * graph's `input` takes samples as in the data (batch x channels x height x width, or batch x features); the graph
 * crops and normalises them, and outputs `logits` and `probabilities`. All numbers are f32: onnxruntime has no double
 * convolutions.
 *
 * This file uses a part of onnx.proto; the numbers of its fields are below, by message. */
#include "model_file/model_file.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/number.h"
#include "format/protobuf.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { IR_VERSION = 8, OPSET = 13 };

/* fields */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14 };
enum { OPSET_VERSION = 2 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_OF = 1, TENSOR_SHAPE = 2, SHAPE_DIM = 1 };
enum { DIM_VALUE = 1, DIM_NAME = 2 };
/* values */
enum { OF_INT = 2, OF_INTS = 7, FLOAT = 1, INT64 = 7 };

/* A graph being written, operator by operator. */
typedef struct {
    fl_ctx *ctx;
    const fl_model *m;
    fli_protobuf b;
    int image;    /* the current value has channels, height and width */
    size_t nodes; /* so far */
    char at[32];  /* name of the last node's output */
} graph;

/* ---- constants ----------------------------------------------------------------------------------------- */

/* Adds a constant and returns room for its values, of `size` bytes each; NULL after a failure. */
static unsigned char *add_constant(graph *g, const char *name, unsigned type, size_t size, size_t dims,
                                   const size_t *shape)
{
    size_t opened = fli_protobuf_open(&g->b, GRAPH_INITIALIZER), n = 1;
    for (size_t i = 0; i < dims; i++) {
        fli_protobuf_number(&g->b, TENSOR_DIMS, shape[i]);
        n *= shape[i];
    }
    fli_protobuf_number(&g->b, TENSOR_TYPE, type);
    fli_protobuf_text(&g->b, TENSOR_NAME, name);
    unsigned char *room = fli_protobuf_room(&g->b, TENSOR_RAW, n * size);
    fli_protobuf_close(&g->b, opened);
    return g->b.status ? NULL : room;
}

/* Writes v as f32; returns the position of the next value. */
static unsigned char *put_float(graph *g, const char *name, double v, unsigned char *to)
{
    float f = (float)v;
    uint32_t bits;
    if (!isfinite(f) && !g->b.status)
        g->b.status = fli_fail(g->ctx, FL_EFORMAT, "%s has the number %g, which is too large for f32", name, v);
    memcpy(&bits, &f, sizeof bits);
    return fli_put_u64(to, bits, sizeof bits);
}

static double parameter(const fl_model *m, size_t i)
{
    return m->info.real == sizeof(float) ? (double)((const float *)m->x)[i] : ((const double *)m->x)[i];
}

/* Adds the tensor of the model at this offset under its own name, which it returns. */
static const char *add_parameters(graph *g, size_t offset)
{
    const fli_tensor *t = g->m->model->tensors;
    size_t shape[4], n = 1;
    while (t->offset != offset) t++;
    size_t dims = fli_tensor_shape(t, shape);
    for (size_t i = 0; i < dims; i++) n *= shape[i];
    unsigned char *to = add_constant(g, t->name, FLOAT, sizeof(float), dims, shape);
    for (size_t i = 0; to && i < n; i++) to = put_float(g, t->name, parameter(g->m, offset + i), to);
    return t->name;
}

static void add_integers(graph *g, const char *name, size_t n, const size_t *v)
{
    unsigned char *to = add_constant(g, name, INT64, sizeof(int64_t), 1, &n);
    for (size_t i = 0; to && i < n; i++) to = fli_put_u64(to, v[i], sizeof(int64_t));
}

/* ---- operators ----------------------------------------------------------------------------------------- */

/* An integer or a list of integers. A list of attributes ends with a NULL name. */
typedef struct {
    const char *name;
    size_t n; /* length of a list; 0: an integer */
    size_t v[4];
} attribute;

static void add_attribute(graph *g, const attribute *a)
{
    size_t opened = fli_protobuf_open(&g->b, NODE_ATTRIBUTE);
    fli_protobuf_text(&g->b, ATTRIBUTE_NAME, a->name);
    for (size_t i = 0; i < a->n; i++) fli_protobuf_number(&g->b, ATTRIBUTE_INTS, a->v[i]);
    if (!a->n) fli_protobuf_number(&g->b, ATTRIBUTE_INT, a->v[0]);
    fli_protobuf_number(&g->b, ATTRIBUTE_TYPE, a->n ? OF_INTS : OF_INT);
    fli_protobuf_close(&g->b, opened);
}

/* `inputs` ends with NULL. The next operator's input is the output, whose name is chosen if `output` is NULL. */
static void add_node(graph *g, const char *type, const char *const *inputs, const attribute *attributes,
                     const char *output)
{
    char name[sizeof g->at];
    size_t opened = fli_protobuf_open(&g->b, GRAPH_NODE);
    fli_snprintf(name, sizeof name, "%s_%zu", type, ++g->nodes);
    for (; *inputs; inputs++) fli_protobuf_text(&g->b, NODE_INPUT, *inputs);
    fli_snprintf(g->at, sizeof g->at, "%s", output ? output : name); /* only now, because an input may point to it */
    fli_protobuf_text(&g->b, NODE_OUTPUT, g->at);
    fli_protobuf_text(&g->b, NODE_NAME, name);
    fli_protobuf_text(&g->b, NODE_OPERATOR, type);
    for (; attributes && attributes->name; attributes++) add_attribute(g, attributes);
    fli_protobuf_close(&g->b, opened);
}

#define INPUTS(...)     ((const char *const[]){__VA_ARGS__, NULL})
#define ATTRIBUTES(...) ((const attribute[]){__VA_ARGS__, {0}})

/* ---- preprocessing ------------------------------------------------------------------------------------- */

/* Adds one number for all values, one per channel, or one per feature, for runs of features of any length. */
static void add_per_run(graph *g, const char *name, const double *v)
{
    const fli_dataset *like = &g->m->like;
    const size_t *stored = g->m->info.shape, one = 1, per_channel[] = {stored[0], 1, 1};
    int channels = g->image && like->segments == stored[0];
    size_t dims = like->segments == 1 ? 1 : g->image ? 3 : 1;
    size_t n = like->segments == 1 || channels ? like->segments : g->m->info.dim;
    const size_t *shape = like->segments == 1 ? &one : channels ? per_channel : g->image ? stored : &g->m->info.dim;
    unsigned char *to = add_constant(g, name, FLOAT, sizeof(float), dims, shape);
    for (size_t i = 0; to && i < n; i++) to = put_float(g, name, v[i / (n / like->segments)], to);
}

static void add_scaling(graph *g)
{
    const fli_dataset *like = &g->m->like;
    if (!like->scale) return;
    add_per_run(g, "input.scale", like->scale);
    add_node(g, "Mul", INPUTS(g->at, "input.scale"), NULL, NULL);
    if (!g->m->shifted) return;
    add_per_run(g, "input.shift", like->shift);
    add_node(g, "Add", INPUTS(g->at, "input.shift"), NULL, NULL);
}

/* Cuts out the middle of the image, as in evaluation. */
static void add_crop(graph *g)
{
    const fli_dataset *like = &g->m->like;
    if (!like->frame[0]) return;
    const fli_crop_sizes z = {(uint32_t)like->shape[1], (uint32_t)like->shape[2], (uint32_t)like->frame[0],
                              (uint32_t)like->frame[1]};
    const fli_crop l = fli_crop_middle(&z);
    add_integers(g, "crop.starts", 2, (const size_t[]){(size_t)l.top, (size_t)l.left});
    add_integers(g, "crop.ends", 2, (const size_t[]){(size_t)l.top + like->shape[1], (size_t)l.left + like->shape[2]});
    add_integers(g, "crop.axes", 2, (const size_t[]){2, 3});
    add_node(g, "Slice", INPUTS(g->at, "crop.starts", "crop.ends", "crop.axes"), NULL, NULL);
}

static void add_mean(graph *g, const char *output)
{
    const attribute axes = {"axes", g->image ? 3 : 1, {1, 2, 3}};
    add_node(g, "ReduceMean", INPUTS(g->at), ATTRIBUTES(axes), output);
}

/* Scales every sample by its own mean and deviation, taken as at least 1/sqrt(n), as in data/images.c. */
static void add_own_scaling(graph *g)
{
    const size_t one = 1;
    char sample[sizeof g->at];
    if (!g->m->like.each) return;
    unsigned char *least = add_constant(g, "input.least_deviation", FLOAT, sizeof(float), 1, &one);
    if (least) put_float(g, "input.least_deviation", 1 / sqrt((double)g->m->like.dim), least);
    memcpy(sample, g->at, sizeof sample);
    add_mean(g, "input.mean");
    add_node(g, "Sub", INPUTS(sample, "input.mean"), NULL, "input.centred");
    add_node(g, "Mul", INPUTS("input.centred", "input.centred"), NULL, NULL);
    add_mean(g, "input.variance");
    add_node(g, "Sqrt", INPUTS("input.variance"), NULL, NULL);
    add_node(g, "Max", INPUTS(g->at, "input.least_deviation"), NULL, "input.deviation");
    add_node(g, "Div", INPUTS("input.centred", "input.deviation"), NULL, NULL);
}

/* ---- layers -------------------------------------------------------------------------------------------- */

static void add_units(graph *g, const fli_net_layer *l, const char *output)
{
    const char *weight = add_parameters(g, l->weight), *bias = add_parameters(g, l->bias);
    if (g->image) add_node(g, "Flatten", INPUTS(g->at), ATTRIBUTES({"axis", 0, {1}}), NULL);
    g->image = 0;
    add_node(g, "Gemm", INPUTS(g->at, weight, bias), ATTRIBUTES({"transB", 0, {1}}), output);
}

static void add_convolution(graph *g, const fli_net_layer *l)
{
    const char *weight = add_parameters(g, l->weight), *bias = add_parameters(g, l->bias);
    add_node(g, "Conv", INPUTS(g->at, weight, bias),
             ATTRIBUTES({"kernel_shape", 2, {l->kernel, l->kernel}}, {"strides", 2, {l->stride, l->stride}},
                        {"pads", 4, {l->pad, l->pad, l->pad, l->pad}}),
             NULL);
}

static void add_pool(graph *g, const char *type, const fli_net_layer *l)
{
    add_node(g, type, INPUTS(g->at),
             ATTRIBUTES({"kernel_shape", 2, {l->kernel, l->kernel}}, {"strides", 2, {l->kernel, l->kernel}}), NULL);
}

static void add_layers(graph *g, const fli_network *net)
{
    for (size_t i = 0; i < net->depth; i++) {
        const fli_net_layer *l = &net->layer[i];
        switch (l->kind) {
        case FLI_NET_FC: add_units(g, l, i + 1 < net->depth ? NULL : "logits"); break;
        case FLI_NET_CONV: add_convolution(g, l); break;
        case FLI_NET_MAX_POOL: add_pool(g, "MaxPool", l); break;
        case FLI_NET_MEAN_POOL: add_pool(g, "AveragePool", l); break;
        }
        if (l->relu) add_node(g, "Relu", INPUTS(g->at), NULL, NULL);
    }
    add_node(g, "Softmax", INPUTS("logits"), ATTRIBUTES({"axis", 0, {1}}), "probabilities");
}

/* ---- the file ------------------------------------------------------------------------------------------ */

/* Adds an input or output of the graph: any number of samples of this shape. */
static void add_value(graph *g, unsigned field, const char *name, size_t dims, const size_t *shape)
{
    size_t value = fli_protobuf_open(&g->b, field);
    fli_protobuf_text(&g->b, VALUE_NAME, name);
    size_t type = fli_protobuf_open(&g->b, VALUE_TYPE), tensor = fli_protobuf_open(&g->b, TYPE_TENSOR);
    fli_protobuf_number(&g->b, TENSOR_OF, FLOAT);
    size_t all = fli_protobuf_open(&g->b, TENSOR_SHAPE);
    for (size_t i = 0; i <= dims; i++) {
        size_t dim = fli_protobuf_open(&g->b, SHAPE_DIM);
        if (i)
            fli_protobuf_number(&g->b, DIM_VALUE, shape[i - 1]);
        else
            fli_protobuf_text(&g->b, DIM_NAME, "batch");
        fli_protobuf_close(&g->b, dim);
    }
    fli_protobuf_close(&g->b, all);
    fli_protobuf_close(&g->b, tensor);
    fli_protobuf_close(&g->b, type);
    fli_protobuf_close(&g->b, value);
}

static void add_graph(graph *g, const fli_network *net)
{
    const fl_model_info *info = &g->m->info;
    size_t opened = fli_protobuf_open(&g->b, MODEL_GRAPH);
    fli_protobuf_text(&g->b, GRAPH_NAME, info->kind);
    add_value(g, GRAPH_INPUT, g->at, g->image ? 3 : 1, g->image ? info->shape : &info->dim);
    add_value(g, GRAPH_OUTPUT, "logits", 1, &info->classes);
    add_value(g, GRAPH_OUTPUT, "probabilities", 1, &info->classes);
    add_scaling(g);
    add_crop(g);
    add_own_scaling(g);
    add_layers(g, net);
    fli_protobuf_close(&g->b, opened);
}

/* Copies the metadata of the model's file. */
static void add_metadata(graph *g)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(g->m->file.header, "__metadata__"), key, value)
    {
        size_t opened = fli_protobuf_open(&g->b, MODEL_METADATA);
        fli_protobuf_text(&g->b, ENTRY_KEY, key);
        fli_protobuf_text(&g->b, ENTRY_VALUE, json_string_value(value));
        fli_protobuf_close(&g->b, opened);
    }
}

static void add_model(graph *g, const fli_network *net)
{
    fli_protobuf_number(&g->b, MODEL_IR, IR_VERSION);
    fli_protobuf_text(&g->b, MODEL_PRODUCER, "fedloom");
    fli_protobuf_text(&g->b, MODEL_VERSION, FL_VERSION);
    size_t opset = fli_protobuf_open(&g->b, MODEL_OPSET);
    fli_protobuf_number(&g->b, OPSET_VERSION, OPSET);
    fli_protobuf_close(&g->b, opset);
    add_metadata(g);
    add_graph(g, net);
}

static int describe(const fl_model *m, fli_network *net)
{
    return m->model && m->model->desc->network && m->model->desc->network(m->model, net) &&
           net->loss == FLI_NET_SOFTMAX;
}

fl_status fl_model_export(fl_ctx *ctx, const fl_model *m, const char *path)
{
    fli_network net;
    fli_clear(ctx);
    if (!m || !path) return fli_fail(ctx, FL_ECONFIG, "an export needs a model and the path of a file");
    size_t n = strlen(path);
    if (n < 6 || strcmp(path + n - 5, ".onnx"))
        return fli_fail(ctx, FL_ECONFIG, "%s: models are exported as ONNX, to files whose names end in .onnx", path);
    if (!describe(m, &net))
        return fli_fail(ctx, FL_ECONFIG, "a model of kind %s is not exported as ONNX: softmax, mlp and cnn are",
                        m->info.kind);
    graph g = {.ctx = ctx, .m = m, .b = {.ctx = ctx}, .at = "input"};
    g.image = m->info.shape[0] > 1 || m->info.shape[1] > 1;
    add_model(&g, &net);
    fl_status s = g.b.status ? g.b.status : fli_file_replace(ctx, path, g.b.p, g.b.n);
    fli_protobuf_fini(&g.b);
    return s;
}
