/* Convolutions by oneDNN, in single precision.
 *
 * Primitives are made once, for a few numbers of images (`sizes`), and are read-only: threads share them. A batch is
 * computed in pieces of these sizes, which depend on its length alone, so short batches need no primitives of their
 * own. Images are channels last, where oneDNN is fastest; packing puts a filter into the order that the primitives
 * prefer.
 *
 * With stride 1 the adjoint of a convolution is a convolution with the filter turned around and its channels exchanged.
 * oneDNN computes it about one and a half times as fast as its own backward primitive, so this file uses it.
 *
 * The memory objects that pass arguments to a primitive cannot be shared. They are kept in slots: a call takes a free
 * slot, points its objects at the caller's memory, and gives it back. If all slots are taken, a new one is made, so
 * there are soon as many as threads. oneDNN is told to use one OpenMP thread per caller, because clients already run in
 * parallel. */
#include "model/conv.h"

#ifdef FEDLOOM_ONEDNN

#include "model/model.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* Numbers of images per call of a primitive, descending to 1. */
static const size_t sizes[] = {FLI_CONV_PIECE, 4, 1};
enum { SIZES = sizeof sizes / sizeof *sizes, ARGS = 4, SLOTS = 64 };

/* The calls of each size, then those that reorder a filter. */
enum { FORWARD, BACKWARD, GRADIENT, SIZED, PACK_FORWARD = SIZED * SIZES, PACK_BACKWARD, UNPACK, CALLS };

typedef struct {
    dnnl_primitive_t primitive;
    int args; /* used elements of the following */
    int arg[ARGS];
    dnnl_memory_desc_t md[ARGS];
} call;

typedef struct {
    atomic_int state; /* slot_state */
    dnnl_stream_t stream;
    dnnl_memory_t memory[CALLS][ARGS];
} slot;

typedef enum { ABSENT, FREE, TAKEN } slot_state;

typedef struct {
    fli_conv_shape s;
    const fli_ops *ops;
    int turned; /* backward is a forward with the turned filter */
    dnnl_engine_t engine;
    call call[CALLS];
    size_t packed; /* bytes of the largest packed filter */
    size_t pad;    /* bytes of the primitives' own work space, which follows room for one packed filter */
    slot slot[SLOTS];
} onednn;

/* ---- one thread ----------------------------------------------------------------------------------------- */

/* Functions of the OpenMP runtime that oneDNN was linked with; NULL: it has none. They are looked up at load time,
 * because a library that is loaded later may bring another runtime, which could be found first. */
static void (*set_threads)(int);
static int (*max_threads)(void);

__attribute__((constructor)) static void find_runtime(void)
{
    *(void **)&set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    *(void **)&max_threads = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
}

/* The setting applies to the calling thread. */
static void one_thread(void)
{
    if (set_threads && max_threads && max_threads() != 1) set_threads(1);
}

/* ---- slots ---------------------------------------------------------------------------------------------- */

static void slot_clear(slot *t)
{
    for (size_t k = 0; k < CALLS; k++)
        for (size_t i = 0; i < ARGS; i++) {
            if (t->memory[k][i]) dnnl_memory_destroy(t->memory[k][i]);
            t->memory[k][i] = NULL;
        }
    if (t->stream) dnnl_stream_destroy(t->stream);
    t->stream = NULL;
}

static int slot_fill(onednn *c, slot *t)
{
    int ok = dnnl_stream_create(&t->stream, c->engine, dnnl_stream_default_flags) == dnnl_success;
    for (size_t k = 0; ok && k < CALLS; k++)
        for (int i = 0; ok && i < c->call[k].args; i++)
            ok = dnnl_memory_create(&t->memory[k][i], &c->call[k].md[i], c->engine, DNNL_MEMORY_NONE) == dnnl_success;
    if (!ok) slot_clear(t);
    return ok;
}

/* The first slot always exists: if no other can be made, the caller waits for one. */
static slot *slot_take(onednn *c)
{
    one_thread();
    for (;; sched_yield()) {
        for (size_t i = 0; i < SLOTS; i++) {
            int state = FREE;
            if (atomic_compare_exchange_strong_explicit(&c->slot[i].state, &state, TAKEN, memory_order_acquire,
                                                        memory_order_relaxed))
                return &c->slot[i];
        }
        for (size_t i = 0; i < SLOTS; i++) {
            int state = ABSENT;
            if (!atomic_compare_exchange_strong_explicit(&c->slot[i].state, &state, TAKEN, memory_order_acquire,
                                                         memory_order_relaxed))
                continue;
            if (slot_fill(c, &c->slot[i])) return &c->slot[i];
            atomic_store_explicit(&c->slot[i].state, ABSENT, memory_order_release);
            break;
        }
    }
}

static void slot_give(slot *t) { atomic_store_explicit(&t->state, FREE, memory_order_release); }

/* ---- calls ---------------------------------------------------------------------------------------------- */

/* Setting a handle may clear the unused end of a filter's blocks, so a correct handle is left alone. */
static int point_at(dnnl_memory_t memory, void *place)
{
    void *now;
    if (dnnl_memory_get_data_handle(memory, &now) != dnnl_success) return 0;
    return now == place || dnnl_memory_set_data_handle(memory, place) == dnnl_success;
}

/* `place` has a pointer per argument of the call. There is no way to report a failure from here, so the result, `bytes`
 * at `out`, becomes NaN, which stops a run as diverged. */
static void execute(const onednn *c, size_t which, void *const *place, size_t bytes, void *out)
{
    /* A slot is the mutable part of a constant object; the call that has taken it owns it. */
    slot *t = slot_take((onednn *)c);
    const call *k = &c->call[which];
    dnnl_exec_arg_t args[ARGS];
    int ok = 1;
    for (int i = 0; i < k->args; i++) {
        args[i] = (dnnl_exec_arg_t){k->arg[i], t->memory[which][i]};
        ok &= point_at(t->memory[which][i], place[i]);
    }
    ok = ok && dnnl_primitive_execute(k->primitive, t->stream, k->args, args) == dnnl_success &&
         dnnl_stream_wait(t->stream) == dnnl_success;
    slot_give(t);
    if (!ok) memset(out, 0xFF, bytes);
}

/* The largest size not above n. */
static size_t size_for(size_t n)
{
    size_t k = 0;
    while (sizes[k] > n) k++;
    return k;
}

static void *pad_of(const onednn *c, void *work) { return (char *)work + c->packed; }

/* ---- making primitives ---------------------------------------------------------------------------------- */

static const dnnl_memory_desc_t *query(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

/* Stores the primitive of `pd` and its arguments, the last of which is the work space, as call k. Takes pd. */
static dnnl_status_t keep_call(onednn *c, size_t k, dnnl_primitive_desc_t pd, const int arg[3],
                               const dnnl_query_t what[3])
{
    call *to = &c->call[k];
    for (size_t i = 0; i < 3; i++) {
        to->arg[i] = arg[i];
        to->md[i] = *query(pd, what[i]);
    }
    to->arg[3] = DNNL_ARG_SCRATCHPAD;
    to->md[3] = *query(pd, dnnl_query_scratchpad_md);
    to->args = ARGS;
    size_t pad = dnnl_memory_desc_get_size(&to->md[3]), filter = dnnl_memory_desc_get_size(&to->md[1]);
    if (pad > c->pad) c->pad = pad;
    if (filter > c->packed) c->packed = (filter + 63) / 64 * 64;
    dnnl_status_t status = dnnl_primitive_create(&to->primitive, pd);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

/* The tensors of one convolution. The first size chooses the filter's order, and the others use it. */
typedef struct {
    dnnl_memory_desc_t x, z, w;
    dnnl_dims_t stride, pad;
} tensors;

static dnnl_status_t describe(const onednn *c, size_t n, int turned, const dnnl_memory_desc_t *filter, tensors *t)
{
    const fli_window *in = &c->s.in;
    dnnl_dim_t channels = (dnnl_dim_t)in->channels, outs = (dnnl_dim_t)c->s.outs, k = (dnnl_dim_t)in->kernel;
    dnnl_dim_t pad = (dnnl_dim_t)in->pad, stride = (dnnl_dim_t)in->stride;
    dnnl_dims_t x = {(dnnl_dim_t)n, channels, (dnnl_dim_t)in->height, (dnnl_dim_t)in->width};
    dnnl_dims_t z = {(dnnl_dim_t)n, outs, (dnnl_dim_t)in->out_height, (dnnl_dim_t)in->out_width};
    dnnl_dims_t w = {turned ? channels : outs, turned ? outs : channels, k, k};
    if (turned) pad = k - 1 - pad;
    t->stride[0] = t->stride[1] = stride;
    t->pad[0] = t->pad[1] = pad;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&t->x, 4, turned ? z : x, dnnl_f32, dnnl_nhwc);
    if (!status) status = dnnl_memory_desc_init_by_tag(&t->z, 4, turned ? x : z, dnnl_f32, dnnl_nhwc);
    if (filter && filter->ndims)
        t->w = *filter;
    else if (!status)
        status = dnnl_memory_desc_init_by_tag(&t->w, 4, w, dnnl_f32, dnnl_format_tag_any);
    return status;
}

static dnnl_status_t make_forward(onednn *c, dnnl_primitive_attr_t attr, size_t k, size_t n, int turned,
                                  dnnl_primitive_desc_t *hint)
{
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    static const dnnl_query_t what[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    tensors t;
    dnnl_status_t status = describe(c, n, turned, &c->call[turned ? BACKWARD : FORWARD].md[1], &t);
    if (!status)
        status = dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_direct, &t.x, &t.w,
                                                    NULL, &t.z, t.stride, t.pad, t.pad);
    if (!status) status = dnnl_primitive_desc_create(&pd, &desc, attr, c->engine, NULL);
    if (!status && hint) status = dnnl_primitive_desc_clone(hint, pd);
    return status ? status : keep_call(c, k, pd, args, what);
}

static dnnl_status_t make_backward(onednn *c, dnnl_primitive_attr_t attr, size_t k, size_t n,
                                   dnnl_primitive_desc_t hint)
{
    static const int args[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    static const dnnl_query_t what[] = {dnnl_query_diff_dst_md, dnnl_query_weights_md, dnnl_query_diff_src_md};
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    tensors t;
    dnnl_status_t status = describe(c, n, 0, &c->call[BACKWARD].md[1], &t);
    if (!status)
        status = dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &t.x, &t.w, &t.z, t.stride,
                                                          t.pad, t.pad);
    if (!status) status = dnnl_primitive_desc_create(&pd, &desc, attr, c->engine, hint);
    return status ? status : keep_call(c, k, pd, args, what);
}

static dnnl_status_t make_gradient(onednn *c, dnnl_primitive_attr_t attr, size_t k, size_t n,
                                   dnnl_primitive_desc_t hint)
{
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
    static const dnnl_query_t what[] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md};
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd;
    tensors t;
    dnnl_status_t status = describe(c, n, 0, &c->call[GRADIENT].md[1], &t);
    if (!status)
        status = dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &t.x, &t.w, NULL, &t.z,
                                                             t.stride, t.pad, t.pad);
    if (!status) status = dnnl_primitive_desc_create(&pd, &desc, attr, c->engine, hint);
    return status ? status : keep_call(c, k, pd, args, what);
}

/* Makes the three primitives for n images. */
static dnnl_status_t make_size(onednn *c, dnnl_primitive_attr_t attr, size_t first, size_t n)
{
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status = make_forward(c, attr, first + FORWARD, n, 0, &hint);
    if (!status && c->turned) status = make_forward(c, attr, first + BACKWARD, n, 1, NULL);
    if (!status && !c->turned) status = make_backward(c, attr, first + BACKWARD, n, hint);
    if (!status) status = make_gradient(c, attr, first + GRADIENT, n, hint);
    if (hint) dnnl_primitive_desc_destroy(hint);
    return status;
}

/* Makes call k: a filter from the order `from` to the order `to`. */
static dnnl_status_t make_reorder(onednn *c, size_t k, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to)
{
    dnnl_primitive_desc_t pd;
    call *it = &c->call[k];
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&pd, from, c->engine, to, c->engine, NULL);
    if (status) return status;
    *it = (call){.args = 2, .arg = {DNNL_ARG_FROM, DNNL_ARG_TO}, .md = {*from, *to}};
    status = dnnl_primitive_create(&it->primitive, pd);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

static dnnl_status_t make_reorders(onednn *c)
{
    dnnl_dim_t in = (dnnl_dim_t)c->s.in.channels, out = (dnnl_dim_t)c->s.outs, k = (dnnl_dim_t)c->s.in.kernel;
    dnnl_dims_t w = {out, in, k, k}, turned = {in, out, k, k};
    dnnl_memory_desc_t ours, back;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&ours, 4, w, dnnl_f32, dnnl_oihw);
    if (!status) status = dnnl_memory_desc_init_by_tag(&back, 4, c->turned ? turned : w, dnnl_f32, dnnl_oihw);
    if (!status) status = make_reorder(c, PACK_FORWARD, &ours, &c->call[FORWARD].md[1]);
    if (!status) status = make_reorder(c, PACK_BACKWARD, &back, &c->call[BACKWARD].md[1]);
    if (!status) status = make_reorder(c, UNPACK, &c->call[GRADIENT].md[1], &ours);
    return status;
}

static dnnl_status_t make_all(onednn *c)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = dnnl_engine_create(&c->engine, dnnl_cpu, 0);
    if (!status) status = dnnl_primitive_attr_create(&attr);
    if (!status) status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    for (size_t k = 0; !status && k < SIZES; k++) status = make_size(c, attr, k * SIZED, sizes[k]);
    if (!status) status = make_reorders(c);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return status;
}

/* ---- the kind's calls ----------------------------------------------------------------------------------- */

static void free_onednn(void *c_)
{
    onednn *c = c_;
    if (!c) return;
    for (size_t i = 0; i < SLOTS; i++) slot_clear(&c->slot[i]);
    for (size_t k = 0; k < CALLS; k++)
        if (c->call[k].primitive) dnnl_primitive_destroy(c->call[k].primitive);
    if (c->engine) dnnl_engine_destroy(c->engine);
    fli_free(c);
}

static fl_status make(fl_ctx *ctx, const fli_conv_shape *s, const fli_ops *ops, void **out)
{
    onednn *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->s = *s;
    c->ops = ops;
    c->turned = s->in.stride == 1;
    one_thread();
    dnnl_status_t status = make_all(c);
    if (!status && !slot_fill(c, &c->slot[0])) status = dnnl_out_of_memory;
    if (status) {
        free_onednn(c);
        return fli_fail(ctx, status == dnnl_out_of_memory ? FL_ENOMEM : FL_ESYSTEM,
                        "oneDNN has no convolution of %zu filters of %zu x %zu over %zu channels (status %d)", s->outs,
                        s->in.kernel, s->in.kernel, s->in.channels, (int)status);
    }
    slot_give(&c->slot[0]);
    *out = c;
    return FL_OK;
}

static size_t packed_reals(const void *c) { return ((const onednn *)c)->packed / sizeof(float); }

static size_t work_reals(const void *c_)
{
    const onednn *c = c_;
    return fli_scratch_pad((c->packed + c->pad + sizeof(float) - 1) / sizeof(float));
}

/* out = w with channels exchanged, rows and columns reversed. */
static void turn_filter(const onednn *c, const float *w, float *out)
{
    size_t outs = c->s.outs, ins = c->s.in.channels, taps = c->s.in.kernel * c->s.in.kernel;
    for (size_t o = 0; o < outs; o++)
        for (size_t i = 0; i < ins; i++) {
            const float *from = w + (o * ins + i) * taps;
            float *to = out + (i * outs + o) * taps;
            for (size_t t = 0; t < taps; t++) to[t] = from[taps - 1 - t];
        }
}

static void pack(const void *c_, fli_conv_way way, const void *w, void *packed, void *work)
{
    const onednn *c = c_;
    int turn = way == FLI_CONV_BACKWARD && c->turned;
    if (turn) turn_filter(c, w, work);
    void *place[] = {turn ? work : (void *)w, packed};
    execute(c, way == FLI_CONV_BACKWARD ? PACK_BACKWARD : PACK_FORWARD, place, c->packed, packed);
}

static void unpack(const void *c_, const void *packed, void *g, void *work)
{
    const onednn *c = c_;
    (void)work;
    void *place[] = {(void *)packed, g};
    execute(c, UNPACK, place, c->s.outs * c->s.in.channels * c->s.in.kernel * c->s.in.kernel * sizeof(float), g);
}

/* in, out: values of an image before and after. */
static void sweep(const onednn *c, int which, size_t n, const void *packed, size_t in, const float *x, size_t out,
                  float *z, void *work)
{
    for (size_t at = 0, k; at < n; at += sizes[k]) {
        k = size_for(n - at);
        void *place[] = {(void *)(x + at * in), (void *)packed, z + at * out, pad_of(c, work)};
        execute(c, k * SIZED + (size_t)which, place, sizes[k] * out * sizeof(float), z + at * out);
    }
}

static size_t image(const fli_window *in) { return in->channels * in->height * in->width; }
static size_t filtered(const onednn *c) { return c->s.outs * c->s.in.out_height * c->s.in.out_width; }

static void forward(const void *c_, size_t n, const void *packed, const void *x, void *z, void *work)
{
    const onednn *c = c_;
    sweep(c, FORWARD, n, packed, image(&c->s.in), x, filtered(c), z, work);
}

static void backward(const void *c_, size_t n, const void *packed, const void *dz, void *dx, void *work)
{
    const onednn *c = c_;
    sweep(c, BACKWARD, n, packed, filtered(c), dz, image(&c->s.in), dx, work);
}

/* oneDNN overwrites its result, so a sum needs a second buffer: the start of the work space. */
static void gradient(const void *c_, size_t n, const void *x, const void *dz, int more, void *packed, void *work)
{
    const onednn *c = c_;
    for (size_t at = 0, k; at < n; at += sizes[k], more = 1) {
        k = size_for(n - at);
        void *to = more ? work : packed;
        void *place[] = {(void *)((const float *)x + at * image(&c->s.in)), to,
                         (void *)((const float *)dz + at * filtered(c)), pad_of(c, work)};
        execute(c, k * SIZED + GRADIENT, place, c->packed, to);
        if (more) c->ops->axpy(dnnl_memory_desc_get_size(&c->call[GRADIENT].md[1]) / sizeof(float), 1, work, packed);
    }
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *fli_conv_library(void)
{
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}

static const fli_conv_kind kind = {
    .name = "onednn",
    .make = make,
    .free = free_onednn,
    .packed = packed_reals,
    .work = work_reals,
    .pack = pack,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
    .unpack = unpack,
};

const fli_conv_kind *const fli_conv_onednn = &kind;

#else /* a build without oneDNN */

const fli_conv_kind *const fli_conv_onednn = NULL;

const char *fli_conv_library(void) { return NULL; }

#endif
