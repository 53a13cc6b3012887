#include "remote/packet.h"

#include "base/bytes.h"
#include "base/digest.h"
#include "base/number.h"
#include "format/safetensors.h"

#include <string.h>

enum { VERSION = 2, MAGIC = 8, CHECKSUM_AT = 12, CHECKED_AT = 16, NUMBER_AT = 16, HEADER = 48 + sizeof(fli_digest) };
static const char magic[MAGIC + 1] = "flpacket";

void fl_bytes_free(fl_bytes *b)
{
    if (!b) return;
    fli_free(b->data);
    *b = (fl_bytes){NULL, 0};
}

/* ---- packets --------------------------------------------------------------------------------------------- */

static uint32_t checksum(const unsigned char *bytes, size_t n)
{
    uint32_t crc = fli_crc32c(bytes, CHECKSUM_AT);
    return fli_crc32c_more(crc, bytes + CHECKED_AT, n - CHECKED_AT);
}

/* Writes the header and the head in front of a body whose checksum is `of_body`. */
static void seal(const fli_packet *p, uint32_t of_body, unsigned char *bytes)
{
    unsigned char *at = bytes;
    memcpy(at, magic, MAGIC);
    at = fli_put_u64(at + MAGIC, VERSION, 2);
    at = fli_put_u64(at, p->kind, 2);
    at = fli_put_u64(at, 0, 4);
    at = fli_put_u64(at, p->number, 8);
    at = fli_put_u64(at, p->client, 4);
    at = fli_put_u64(at, p->head_bytes, 4);
    at = fli_put_u64(at, p->body_bytes, 8);
    at = fli_put_u64(at, p->settled, 8);
    memcpy(at, p->run.byte, sizeof p->run.byte);
    at += sizeof p->run.byte;
    if (p->head_bytes) memcpy(at, p->head, p->head_bytes);
    uint32_t before = checksum(bytes, HEADER + p->head_bytes);
    fli_put_u64(bytes + CHECKSUM_AT, fli_crc32c_joined(before, of_body, p->body_bytes), 4);
}

fl_status fli_packet_write(fl_ctx *ctx, const fli_packet *p, fl_bytes *out)
{
    size_t before = HEADER + p->head_bytes;
    unsigned char *bytes = fli_alloc(ctx, before + p->body_bytes, 1);
    *out = (fl_bytes){NULL, 0};
    if (!bytes) return FL_ENOMEM;
    if (p->body_bytes) memcpy(bytes + before, p->body, p->body_bytes);
    seal(p, fli_crc32c(bytes + before, p->body_bytes), bytes);
    *out = (fl_bytes){bytes, before + p->body_bytes};
    return FL_OK;
}

static const char *kind_name(fli_packet_kind kind)
{
    static const char *const names[] = {"message", "card of a client", "terms of a federation",
                                        "ask",     "answer",           "state of a client"};
    return names[kind];
}

/* The version of what begins like a packet; VERSION for anything else. */
static uint64_t version_of(const unsigned char *in, size_t n)
{
    uint64_t version = VERSION;
    if (n >= MAGIC + 2 && !memcmp(in, magic, MAGIC)) fli_get_u64(in + MAGIC, &version, 2);
    return version;
}

/* Why this is not a valid packet of the kind, as the end of a sentence; NULL: it is one. `known`: its checksum if it
 * was computed already, or NULL. */
static const char *read_header(const unsigned char *in, size_t n, fli_packet_kind kind, const uint32_t *known,
                               fli_packet *out)
{
    uint64_t is, sum, client, head, body;
    if (n < HEADER) return "it is cut short";
    if (memcmp(in, magic, MAGIC)) return "it does not begin as one";
    const unsigned char *at = fli_get_u64(in + MAGIC + 2, &is, 2);
    if (is != (uint64_t)kind) return "it is a message of another kind";
    at = fli_get_u64(at, &sum, 4);
    at = fli_get_u64(at, &out->number, 8);
    at = fli_get_u64(at, &client, 4);
    at = fli_get_u64(at, &head, 4);
    at = fli_get_u64(at, &body, 8);
    at = fli_get_u64(at, &out->settled, 8);
    if (head > n - HEADER || body > n - HEADER - head) return "it is cut short";
    if (head + body != n - HEADER) return "something follows it";
    if (sum != (known ? *known : checksum(in, n))) return "it is damaged, its checksum is another one";
    memcpy(out->run.byte, at, sizeof out->run.byte);
    out->kind = kind;
    out->client = (uint32_t)client;
    out->head = in + HEADER;
    out->head_bytes = (size_t)head;
    out->body = out->head + head;
    out->body_bytes = (size_t)body;
    return NULL;
}

fli_packet_kind fli_packet_says(const void *in, size_t n)
{
    uint64_t kind = FLI_PACKET_NONE;
    if (in && n >= HEADER && !memcmp(in, magic, MAGIC) && version_of(in, n) == VERSION)
        fli_get_u64((const unsigned char *)in + MAGIC + 2, &kind, 2);
    return kind <= FLI_PACKET_STATE ? (fli_packet_kind)kind : FLI_PACKET_NONE;
}

static fl_status read_packet(fl_ctx *ctx, fli_packet_kind kind, const void *in, size_t n, const uint32_t *known,
                             fli_packet *out)
{
    *out = (fli_packet){0};
    uint64_t version = version_of(in, in ? n : 0);
    if (version != VERSION)
        return fli_fail(ctx, FL_EFORMAT,
                        "this is no %s (%zu bytes): it is of version %llu of the format, and this is %d",
                        kind_name(kind), n, (unsigned long long)version, VERSION);
    const char *wrong = read_header(in, in ? n : 0, kind, known, out);
    if (!wrong) return FL_OK;
    return fli_fail(ctx, FL_EFORMAT, "this is no %s (%zu bytes): %s", kind_name(kind), n, wrong);
}

fl_status fli_packet_read(fl_ctx *ctx, fli_packet_kind kind, const void *in, size_t n, fli_packet *out)
{
    return read_packet(ctx, kind, in, n, NULL, out);
}

fl_status fli_packet_received(fl_ctx *ctx, fli_packet_kind kind, fli_incoming *in, fli_packet *out)
{
    uint32_t is = fli_incoming_checksum(in);
    const unsigned char *bytes = fli_incoming_bytes(in);
    if (!bytes) return fli_fail(ctx, FL_EIO, "an upload in a file cannot be mapped");
    return read_packet(ctx, kind, bytes, fli_incoming_size(in), &is, out);
}

uint64_t fli_packet_number(const void *beginning, size_t n)
{
    uint64_t number = 0;
    if (n >= NUMBER_AT + 8) fli_get_u64((const unsigned char *)beginning + NUMBER_AT, &number, 8);
    return number;
}

/* ---- vectors and numbers by name ------------------------------------------------------------------------- */

enum { MOST_PARTS = 64, NAME = 128 };

/* The sent parts of a message as tensors. entry[i].data points into the message. */
typedef struct {
    fli_sent_part part[MOST_PARTS];
    fli_tensor_entry entry[MOST_PARTS];
    char name[MOST_PARTS][NAME];
    size_t count;
} tensors;

/* A table may use a name twice, for two blocks: the second one becomes NAME#2. */
static void name_part(tensors *t, const char *name)
{
    size_t same = 1;
    for (size_t i = 0; i < t->count; i++)
        same +=
            !strncmp(t->name[i], name, strlen(name)) && (!t->name[i][strlen(name)] || t->name[i][strlen(name)] == '#');
    fli_snprintf(t->name[t->count], NAME, same > 1 ? "%.100s#%zu" : "%.100s", name, same);
    t->entry[t->count].name = t->name[t->count];
}

static fl_status name_parts(fl_ctx *ctx, const fl_part *parts, unsigned moment, const fli_model *m, tensors *out)
{
    out->count = 0;
    for (fli_sent_parts w = fli_parts_walk(parts, moment, m, NULL); fli_parts_next(&w); out->count++) {
        if (out->count == MOST_PARTS) return fli_fail(ctx, FL_ECONFIG, "a message has more than %d parts", MOST_PARTS);
        out->part[out->count] = w.is;
        out->entry[out->count] =
            (fli_tensor_entry){.dtype = w.is.size == sizeof(double) ? "F64" : "F32", .dims = 1, .shape = {w.is.count}};
        name_part(out, w.is.part->name);
    }
    return FL_OK;
}

/* Copies the sent parts once, into out->data with `before` free bytes in front for the header. */
static fl_status pack_parts(fl_ctx *ctx, const fl_part *parts, unsigned moment, const fli_model *m,
                            const fli_message *from, size_t before, fl_bytes *out)
{
    tensors t;
    void *bytes = NULL;
    fl_status s = name_parts(ctx, parts, moment, m, &t);
    for (size_t i = 0; !s && i < t.count; i++)
        t.entry[i].data = fli_sent_place(&t.part[i], m, from, (void *)from->start);
    fli_tensor_list list = {.tensor = t.entry, .tensors = t.count};
    if (!s) s = fli_safetensors_pack(ctx, &list, before, &bytes, &out->n);
    out->data = bytes;
    return s;
}

static fl_status check_part(fl_ctx *ctx, const char *what, const fli_safetensors *f, const fli_tensor_entry *e)
{
    const fli_tensor_entry *got = fli_safetensors_find(f, e->name);
    if (!got) return fli_fail(ctx, FL_EFORMAT, "%s has no part \"%s\"", what, e->name);
    if (!strcmp(got->dtype, e->dtype) && got->dims == 1 && got->shape[0] == e->shape[0]) return FL_OK;
    char shape[200];
    fli_safetensors_shape(got, shape, sizeof shape);
    return fli_fail(ctx, FL_EFORMAT, "%s: part \"%s\" is %s of %s, but should be %s of %zu", what, e->name, got->dtype,
                    shape, e->dtype, e->shape[0]);
}

/* For a message that borrows: parts that are whole, aligned vectors stay in the packet's memory. If there are others,
 * the message gets memory for them. */
static fl_status place_parts(fl_ctx *ctx, const fli_model *m, const fli_safetensors *f, const tensors *t,
                             fli_message *to)
{
    int copies = 0;
    for (size_t i = 0; i < t->count; i++) {
        const fl_part *p = t->part[i].part;
        const fli_tensor_entry *got = fli_safetensors_find(f, t->entry[i].name);
        if (p->what == FL_PART_NUMBER) continue;
        if (p->what == FL_PART_VECTOR && !to->vec[p->at] && (uintptr_t)got->data % t->part[i].size == 0)
            to->vec[p->at] = (void *)got->data;
        else
            copies = 1;
    }
    return copies ? fli_message_own(ctx, &m->space, to) : FL_OK;
}

/* Reads exactly the parts that the moment sends. Checks all of them before it writes any. */
static fl_status read_parts(fl_ctx *ctx, const char *what, const fl_part *parts, unsigned moment, const fli_model *m,
                            const fli_packet *p, fli_message *to, void *start)
{
    tensors t;
    fli_safetensors f;
    fl_status s = name_parts(ctx, parts, moment, m, &t);
    if (!s) s = fli_safetensors_read(ctx, what, p->body, p->body_bytes, &f);
    if (s) return s;
    for (size_t i = 0; i < t.count && !s; i++) s = check_part(ctx, what, &f, &t.entry[i]);
    if (!s && f.tensors != t.count)
        s = fli_fail(ctx, FL_EFORMAT, "%s has %zu parts, but should have %zu", what, f.tensors, t.count);
    if (!s && to->borrows) s = place_parts(ctx, m, &f, &t, to);
    for (size_t i = 0; i < t.count && !s; i++)
        fli_sent_read(&t.part[i], m, fli_safetensors_find(&f, t.entry[i].name)->data, to, start);
    fli_safetensors_fini(&f);
    return s;
}

/* The most bytes of a packet with such a head, and all of these parts or `other` bytes as its body. */
static size_t most_bytes(const fli_setup *s, const fl_part *parts, size_t head, size_t other)
{
    enum { OF_A_NAME = 2 * NAME }; /* bytes per name in the list of parts */
    size_t all = 0;
    for (; parts && parts->name; parts++)
        all += parts->what == FL_PART_NUMBER ? fli_part_numbers(parts) * sizeof(double) : fli_bytes(&s->model->space);
    return HEADER + head + MOST_PARTS * OF_A_NAME + (all > other ? all : other);
}

/* ---- asks ------------------------------------------------------------------------------------------------ */

size_t fli_ask_bytes(const fli_setup *s)
{
    size_t figures =
        FLI_FIGURES_PARTS * fli_bytes(&s->model->space) + fli_parts_numbers(s->algo->down) * sizeof(double);
    return most_bytes(s, s->algo->down, FLI_ASK_BYTES, figures);
}

void fli_shared_body_release(fli_shared_body *b)
{
    if (!b || atomic_fetch_sub(&b->users, 1) > 1) return;
    fl_bytes_free(&b->bytes);
    fli_free(b);
}

fl_status fli_ask_body(fl_ctx *ctx, const fli_setup *setup, const fli_exchange *x, fli_shared_body **out)
{
    fli_wire w;
    fli_shared_body *b = *out = fli_alloc(ctx, 1, sizeof *b);
    if (!b) return FL_ENOMEM;
    atomic_init(&b->users, 1);
    fli_wire_of(setup, &x->ask, &w);
    fl_status s = pack_parts(ctx, w.down, w.moment, setup->model, x->down, 0, &b->bytes);
    if (!s) b->checksum = fli_crc32c(b->bytes.data, b->bytes.n);
    if (!s) return FL_OK;
    fli_shared_body_release(b);
    *out = NULL;
    return s;
}

void fli_ask_front(const fli_protocol *p, uint64_t number, uint64_t settled, const fli_exchange *x, fli_ask_packet *out)
{
    unsigned char head[FLI_ASK_BYTES];
    const fli_shared_body *b = out->body;
    fl_ask sent = fli_algo_tell(p->setup->algo, &x->ask);
    fli_ask_write(&sent, head);
    fli_packet packet = {FLI_PACKET_ASK, x->ask.client, number, settled, p->run, head, NULL, sizeof head, 0};
    packet.body_bytes = b ? b->bytes.n : 0;
    seal(&packet, b ? b->checksum : 0, out->front);
}

fl_status fli_ask_join(fl_ctx *ctx, fli_ask_packet *ask, fl_bytes *out)
{
    size_t body = ask->body ? ask->body->bytes.n : 0;
    unsigned char *bytes = fli_alloc_unset(ctx, sizeof ask->front + body, 1);
    *out = (fl_bytes){NULL, 0};
    if (bytes) {
        memcpy(bytes, ask->front, sizeof ask->front);
        if (body) memcpy(bytes + sizeof ask->front, ask->body->bytes.data, body);
        *out = (fl_bytes){bytes, sizeof ask->front + body};
    }
    fli_shared_body_release(ask->body);
    ask->body = NULL;
    return bytes ? FL_OK : FL_ENOMEM;
}

static uint32_t most_phases(const fl_method *a)
{
    return a->rounds.phases ? FLI_MOST_PHASES : (uint32_t)(a->phases ? a->phases : 1);
}

/* Why this client cannot carry out the ask, as the end of a sentence; NULL: it can. */
static const char *impossible(const fli_setup *s, uint32_t client, const fli_packet *packet, fl_ask *ask)
{
    if (packet->head_bytes != FLI_ASK_BYTES) return "its head has another length";
    fli_ask_read(packet->head, ask);
    if (packet->client != client || ask->client != client) return "it is for another client";
    const char *wrong = fli_ask_wrong(ask, s->clients);
    if (wrong) return wrong;
    if (!(ask->flags & FLI_ASK_HAS_BODY) && packet->body_bytes) return "it brings something and says that it does not";
    if (ask->kind != FLI_ASK_TURN && (ask->phase || ask->phases > 1)) return "it is no turn, and has phases";
    if (ask->phases > most_phases(s->algo)) return "its round has too many phases";
    if (ask->kind != FLI_ASK_TURN && !(ask->flags & FLI_ASK_HAS_BODY)) return "it brings no model";
    if (ask->kind == FLI_ASK_LEVELS && !s->model->bilevel) return "it is about two levels, of which there is one";
    return NULL;
}

/* A message in which every value is NaN. */
static fl_status blank(fl_ctx *ctx, const fl_space *space, const fl_part *parts, fli_message *m)
{
    size_t vectors = fli_parts_vectors(parts), numbers = fli_parts_numbers(parts);
    fl_status s = fli_message_init(ctx, space, vectors, numbers, m);
    for (size_t i = 0; !s && i < vectors; i++) memset(m->vec[i], 0xff, fli_bytes(space));
    if (!s) memset(m->num, 0xff, numbers * sizeof *m->num);
    return s;
}

fl_status fli_received_ask_read(fl_ctx *ctx, const fli_protocol *p, uint32_t client, const void *in, size_t n,
                                fli_received_ask *e)
{
    const fli_setup *setup = p->setup;
    const fl_space *space = &setup->model->space;
    fli_packet packet;
    memset(e, 0, sizeof *e);
    fl_status s = fli_packet_read(ctx, FLI_PACKET_ASK, in, n, &packet);
    if (s) return s;
    if (!fli_digest_same(&packet.run, &p->run)) return fli_fail(ctx, FL_EFORMAT, "this ask is of another run");
    const char *wrong = impossible(setup, client, &packet, &e->x.ask);
    if (wrong) return fli_fail(ctx, FL_EFORMAT, "client %u is asked for something impossible: %s", client, wrong);
    e->number = packet.number;
    e->settled = packet.settled;
    fli_wire_of(setup, &e->x.ask, &e->parts);
    s = blank(ctx, space, e->parts.down, &e->inbox);
    if (!s) s = blank(ctx, space, e->parts.up, &e->x.up);
    if (!s && !(e->start = fli_alloc(ctx, 1, fli_bytes(space)))) s = FL_ENOMEM;
    if (!s && e->x.ask.flags & FLI_ASK_HAS_BODY)
        s = read_parts(ctx, "the ask", e->parts.down, e->parts.moment, setup->model, &packet, &e->inbox, e->start);
    e->x.down = &e->inbox;
    return s;
}

void fli_received_ask_fini(fli_received_ask *e)
{
    fli_message_fini(&e->inbox);
    fli_message_fini(&e->x.up);
    fli_free(e->start);
    e->start = NULL;
}

/* ---- answers --------------------------------------------------------------------------------------------- */

size_t fli_answer_bytes(const fli_setup *s)
{
    size_t figures = 2 * fli_bytes(&s->model->space) +
                     (FLI_FIGURES_CLUSTERS_AT + fli_figures_cells(s->model, s->classes)) * sizeof(double);
    return most_bytes(s, s->algo->up, FLI_OUTCOME_BYTES + sizeof(fl_failure), figures);
}

fl_status fli_answer_pack(fl_ctx *ctx, const fli_protocol *p, const fli_received_ask *e, fl_bytes *out)
{
    unsigned char head[FLI_OUTCOME_BYTES + sizeof e->x.why.text];
    size_t text = e->x.status ? strlen(e->x.why.text) : 0;
    int replies = !e->x.status && e->x.ask.flags & FLI_ASK_REPLY;
    *out = (fl_bytes){NULL, 0};
    fli_outcome_write(&e->x, head);
    memcpy(head + FLI_OUTCOME_BYTES, e->x.why.text, text);
    fli_packet packet = {
        FLI_PACKET_ANSWER, e->x.ask.client, e->number, 0, p->run, head, NULL, FLI_OUTCOME_BYTES + text, 0};
    if (!replies) return fli_packet_write(ctx, &packet, out);
    size_t before = HEADER + packet.head_bytes;
    fl_status s = pack_parts(ctx, e->parts.up, e->parts.moment, p->setup->model, &e->x.up, before, out);
    if (s) return s;
    packet.body_bytes = out->n - before;
    seal(&packet, fli_crc32c(out->data + before, packet.body_bytes), out->data);
    return FL_OK;
}

static void make_printable(const unsigned char *text, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(text[i] == '\n' ? ' ' : text[i] < 32 || text[i] > 126 ? '?' : text[i]);
    out[n] = 0;
}

/* Why these losses cannot be this model's, as the end of a sentence with the value; NULL: they can. The entropies of a
 * semi-supervised objective can make it negative, and so can an upper level. */
static const char *losses_wrong(const fli_model *m, const double *num, char *sentence, size_t n)
{
    const double rounding = 1e-3; /* far above the rounding errors of all kernels and precisions */
    static const struct {
        size_t at;
        const char *name;
    } losses[] = {{FLI_FIGURE_TRAIN_LOSS, "training loss"},
                  {FLI_FIGURE_TEST_LOSS, "test loss"},
                  {FLI_FIGURE_OWN_TRAIN_LOSS, "own model's training loss"},
                  {FLI_FIGURE_OWN_TEST_LOSS, "own model's test loss"}};
    if (!(m->desc->traits & FLI_MODEL_NONNEGATIVE) || m->bilevel || (m->latent && !m->desc->clusters)) return NULL;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        if (!(num[losses[i].at] < -rounding)) continue;
        fli_snprintf(sentence, n, "its %s is %g, and that of %s is never negative", losses[i].name, num[losses[i].at],
                     m->desc->name);
        return sentence;
    }
    return NULL;
}

fl_status fli_answer_read(fl_ctx *ctx, const fli_setup *setup, const fli_packet *packet, fli_lent *lent,
                          fli_exchange *x)
{
    fli_exchange came = {0};
    fli_wire w;
    size_t text = packet->head_bytes - FLI_OUTCOME_BYTES;
    if (packet->head_bytes < FLI_OUTCOME_BYTES || text >= sizeof x->why.text || fli_outcome_read(packet->head, &came) ||
        (!came.status && text))
        return fli_fail(ctx, FL_EFORMAT, "client %u: its report of its turn is impossible", packet->client);
    int reply = !came.status && x->ask.flags & FLI_ASK_REPLY;
    if (!reply && packet->body_bytes)
        return fli_fail(ctx, FL_EFORMAT, "client %u: its answer contains more than was asked for", packet->client);
    if (reply) {
        fli_wire_of(setup, &x->ask, &w);
        fl_status s = read_parts(ctx, "the answer", w.up, w.moment, setup->model, packet, &x->up, NULL);
        if (s) {
            fli_message_return(&x->up);
            return s;
        }
        char sentence[200];
        const char *wrong = x->ask.kind == FLI_ASK_FIGURES ? fli_figures_wrong(x->up.num) : NULL;
        if (!wrong && x->ask.kind == FLI_ASK_FIGURES)
            wrong = losses_wrong(setup->model, x->up.num, sentence, sizeof sentence);
        if (wrong) {
            fli_message_return(&x->up);
            return fli_fail(ctx, FL_EFORMAT, "client %u: its figures are impossible: %s", packet->client, wrong);
        }
        if (x->up.borrows) x->up.lent = lent;
    }
    make_printable(packet->head + FLI_OUTCOME_BYTES, text, x->why.text);
    x->spent = came.spent;
    x->missed = came.missed;
    x->own_diverged = came.own_diverged;
    x->status = came.status;
    return FL_OK;
}
