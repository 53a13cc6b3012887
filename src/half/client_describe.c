/* fl_client_describe: messages in words, for the people who are responsible for the data. It lists what leaves a client
 * row by row, from the bytes of the message itself; the method's tables tell what a row means. */
#include "base/ctx.h"
#include "base/number.h"
#include "base/text.h"
#include "engine/engine.h"
#include "format/safetensors.h"
#include "half/client.h"

#include <math.h>
#include <string.h>

enum { NAME = 100 };

/* Makes a text printable. Names and texts come from other programs, and are not trusted. */
static const char *printable(const char *from, char out[NAME])
{
    size_t n = 0;
    for (; from[n] && n < NAME - 1; n++) out[n] = (char)(from[n] < 32 || from[n] > 126 ? '?' : from[n]);
    out[n] = 0;
    return out;
}

static void add_count(fli_text *t, const char *what, uint64_t v)
{
    fli_text_addf(t, "  %-34s %llu\n", what, (unsigned long long)v);
}

/* ---- cards ------------------------------------------------------------------------------------------------- */

static fl_status describe_card(fl_client *c, const fli_packet *p, fli_text *t)
{
    static const char *const kinds[] = {"bytes", "f32 numbers", "f64 numbers", "f32 numbers, few of them not 0",
                                        "f64 numbers, few of them not 0"};
    fli_card card;
    if (p->head_bytes != FLI_CARD_BYTES) return fli_fail(c->ctx, FL_EFORMAT, "a card of a client has another length");
    fl_status s = fli_card_read(c->ctx, p->head, &card);
    if (s) return s;
    fli_text_add(t, "A card: what this client says of itself when it joins.\n");
    add_count(t, "samples", card.samples);
    add_count(t, "of them without a label", card.unlabelled);
    fli_text_addf(t, "  %-34s %llu x %llu x %llu %s\n", "a sample is", (unsigned long long)card.shape[0],
                  (unsigned long long)card.shape[1], (unsigned long long)card.shape[2], kinds[card.kind]);
    add_count(t, "classes", card.classes);
    fli_text_addf(t, "  %-34s %s\n", "fingerprint of the samples",
                  card.digested ? "32 bytes (SHA-256): anyone with the same samples can recognise them"
                                : "none is given");
    fli_text_add(t, "Not in it: samples, labels, statistics of them, names of files.\n");
    return FL_OK;
}

/* ---- terms ------------------------------------------------------------------------------------------------- */

static void add_settings(fli_text *t, const char *settings)
{
    fli_text_add(t, "Its settings in full:\n");
    while (*settings) {
        size_t n = strcspn(settings, "\n");
        fli_text_add(t, "  | ");
        for (size_t i = 0; i < n; i++) {
            char ch = settings[i];
            fli_text_addn(t, ch < 32 || ch > 126 ? "?" : &ch, 1);
        }
        fli_text_add(t, "\n");
        settings += n + (settings[n] == '\n');
    }
}

static fl_status describe_terms(fl_client *c, const fli_packet *p, fli_text *t)
{
    fli_terms terms = {0};
    char name[NAME];
    fl_status s = fli_terms_read(c->ctx, p->body, p->body_bytes, &terms);
    if (!s) {
        fli_text_add(t, "Terms: what the server says of the federation. Nothing leaves with them.\n");
        fli_text_addf(t, "  %-34s %s\n", "method", printable(terms.method, name));
        fli_text_addf(t, "  %-34s %s\n", "model", printable(terms.model, name));
        add_count(t, "parameters of the model", terms.parameters);
        add_count(t, "bytes of each", terms.precision);
        add_count(t, "clients", terms.clients);
        add_count(t, "this client's number", terms.client);
        add_count(t, "samples that it said it has", terms.samples);
        add_settings(t, terms.settings);
    }
    fli_terms_fini(&terms);
    return s;
}

/* ---- rows of asks and answers ------------------------------------------------------------------------------ */

static double norm_of(const fli_tensor_entry *e, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        float narrow;
        double v;
        if (!strcmp(e->dtype, "F32")) {
            memcpy(&narrow, (const char *)e->data + i * sizeof narrow, sizeof narrow);
            v = (double)narrow;
        } else {
            memcpy(&v, (const char *)e->data + i * sizeof v, sizeof v);
        }
        sum += v * v;
    }
    return sqrt(sum);
}

/* The row of a table for a part of that name; the name of a second such part ends in #2. */
static const fl_part *row_of(const fl_part *parts, const char *name)
{
    for (; parts && parts->name; parts++) {
        size_t n = strlen(parts->name);
        if (!strncmp(parts->name, name, n) && (!name[n] || name[n] == '#')) return parts;
    }
    return NULL;
}

static const char *meaning(const fl_part *row, int turn)
{
    if (!row) return "in no table of the method";
    if (row->what == FL_PART_START) return "the start model";
    if (!turn && row->use == FL_PART_VALUE) return "for the server's records";
    if (row->use == FL_PART_CHANGE) return "a change, added to what the server has";
    if (row->use == FL_PART_VALUE) return "a value, takes the place of what the server has";
    return row->use == FL_PART_FORGET ? "is gone when the turn is over" : "is kept until the round is over";
}

static void add_row(fli_text *t, const fli_tensor_entry *e, const fl_part *row, int turn)
{
    char name[NAME], size[64];
    double value;
    size_t n = fli_safetensors_count(e);
    int number = row && row->what == FL_PART_NUMBER;
    if (n == 1)
        fli_snprintf(size, sizeof size, "a number");
    else
        fli_snprintf(size, sizeof size, number ? "%zu numbers" : "a vector of %zu", n);
    fli_text_addf(t, "  %-28s %-22s %s, %9zu bytes, ", printable(e->name, name), size, e->dtype, e->bytes);
    if (strcmp(e->dtype, "F32") && strcmp(e->dtype, "F64"))
        fli_text_add(t, "of no type that is sent");
    else if (n == 1 && fli_safetensors_f64(e, &value))
        fli_text_addf(t, "is %.6g", value);
    else
        fli_text_addf(t, "norm %.6g", norm_of(e, n));
    fli_text_addf(t, ": %s\n", meaning(row, turn));
}

/* Lists the numbers of an evaluation by name. */
static void add_figures(fli_text *t, const fli_tensor_entry *e)
{
    static const char *const names[FLI_FIGURES] = {"(which of these were computed)",
                                                   "training samples",
                                                   "test samples",
                                                   "objective on training samples",
                                                   "training samples that are right",
                                                   "loss on test samples, mean",
                                                   "test samples that are right",
                                                   "loss of the own model, training",
                                                   "right of the own model, training",
                                                   "loss of the own model, test",
                                                   "right of the own model, test",
                                                   "share of the own model",
                                                   "samples with pseudo labels",
                                                   "pseudo labels that are right",
                                                   "loss on labelled samples, mean",
                                                   "how far pseudo labels would move",
                                                   "slope of the objective in them, squared",
                                                   "gradient of the own model, squared"};
    double num[FLI_FIGURES];
    if (fli_safetensors_count(e) != FLI_FIGURES || !fli_safetensors_f64(e, num)) return;
    for (size_t i = 0; i < FLI_FIGURES; i++) fli_text_addf(t, "    %-34s %.10g\n", names[i], num[i]);
}

static fl_status add_rows(fl_client *c, fli_text *t, const fli_packet *p, const fl_part *parts, int turn)
{
    fli_safetensors f;
    if (!p->body_bytes) return FL_OK;
    fl_status s = fli_safetensors_read(c->ctx, "the message", p->body, p->body_bytes, &f);
    if (s) return s;
    for (size_t i = 0; i < f.tensors; i++) {
        const fl_part *row = row_of(parts, f.tensor[i].name);
        add_row(t, &f.tensor[i], row, turn);
        if (row && row->at == 0 && !strcmp(row->name, "figures")) add_figures(t, &f.tensor[i]);
    }
    fli_safetensors_fini(&f);
    return FL_OK;
}

/* ---- asks -------------------------------------------------------------------------------------------------- */

static void add_wanted_figures(fli_text *t, unsigned flags)
{
    static const struct {
        unsigned flag;
        const char *what;
    } wanted[] = {{FLI_FIGURES_TRAIN, "loss and hits on the training samples"},
                  {FLI_FIGURES_TEST, "loss and hits on the client's own test part"},
                  {FLI_FIGURES_EITHER, "loss and hits on training samples where there is no test part"},
                  {FLI_FIGURES_GRADIENT, "the gradient of the loss over all training samples"},
                  {FLI_FIGURES_OWN, "the same of the client's own model"},
                  {FLI_FIGURES_PSEUDO, "how many pseudo labels are right"},
                  {FLI_FIGURES_CLUSTERS, "how many samples of each class are in each cluster"},
                  {FLI_FIGURES_OWN_TRAIN, "the client's own model on the training samples"},
                  {FLI_FIGURES_POTENTIAL, "what the client contributes to the method's potential"},
                  {FLI_FIGURES_AHEAD, "the gradient where its pseudo labels would go next"},
                  {FLI_FIGURES_OWN_GRADIENT, "the length of the gradient of the client's own model"}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (flags & wanted[i].flag) fli_text_addf(t, "  wanted: %s\n", wanted[i].what);
}

static void add_work(fli_text *t, const fl_ask *ask)
{
    if (ask->kind == FLI_ASK_TURN)
        fli_text_addf(t, "It asks for a turn of training in round %llu: %llu steps of size %.6g, exchange %u of %u.\n",
                      (unsigned long long)ask->round + 1, (unsigned long long)ask->steps, ask->lr, ask->phase + 1,
                      ask->phases ? ask->phases : 1);
    if (ask->kind == FLI_ASK_FIGURES) {
        fli_text_add(
            t, "It asks how a model does on this client's samples: sums over all of them, none of single ones.\n");
        add_wanted_figures(t, ask->flags);
    }
    if (ask->kind == FLI_ASK_OWN_MODEL) fli_text_add(t, "It asks for the client's own model.\n");
    if (ask->kind == FLI_ASK_LEVELS)
        fli_text_add(t, "It asks for a derivative of a two-level problem over all of the client's samples.\n");
}

/* Lists what an answer would contain. */
static void add_wanted(fli_text *t, const fl_client *c, const fli_received_ask *e)
{
    int turn = e->x.ask.kind == FLI_ASK_TURN;
    if (!(e->x.ask.flags & FLI_ASK_REPLY)) {
        fli_text_add(t, "Its answer says how it went, and nothing else leaves.\n");
        return;
    }
    fli_text_add(t, "Its answer would have:\n");
    for (fli_sent_parts w = fli_parts_walk(e->parts.up, e->parts.moment, c->setup.model, NULL); fli_parts_next(&w);) {
        const fl_part *p = w.is.part;
        fli_text_addf(t, p->what == FL_PART_NUMBER ? "  %-28s %zu number(s): %s\n" : "  %-28s a vector of %zu: %s\n",
                      p->name, w.is.count, meaning(p, turn));
    }
}

static fl_status describe_ask(fl_client *c, const fli_packet *p, const void *in, size_t n, fli_text *t)
{
    fli_received_ask e;
    fl_status s = fli_received_ask_read(c->ctx, &c->protocol, c->number, in, n, &e);
    if (!s) {
        fli_text_addf(t, "An ask to client %u, number %llu. Nothing leaves with it.\n", c->number,
                      (unsigned long long)e.number);
        add_work(t, &e.x.ask);
        if (p->body_bytes) fli_text_add(t, "It brings:\n");
        s = add_rows(c, t, p, e.parts.down, e.x.ask.kind == FLI_ASK_TURN);
        add_wanted(t, c, &e);
    }
    fli_received_ask_fini(&e);
    return s;
}

/* ---- answers ----------------------------------------------------------------------------------------------- */

static void add_outcome(fli_text *t, const fli_packet *p, const fli_exchange *x)
{
    char text[sizeof x->why.text], safe[NAME];
    size_t n = p->head_bytes - FLI_OUTCOME_BYTES;
    if (x->spent) fli_text_addf(t, "It took %llu steps.\n", (unsigned long long)x->spent);
    if (!x->status) return;
    memcpy(text, p->head + FLI_OUTCOME_BYTES, n);
    text[n] = 0;
    fli_text_addf(t, "It failed, and says so: %s (%s)\n", printable(text, safe), fl_status_text(x->status));
}

static void add_what_stays(fli_text *t, const fl_client *c)
{
    const char *const *kept = c->setup.algo->client;
    fli_text_add(t, "Not in it: samples, labels, names of files");
    for (size_t i = 0; kept && kept[i]; i++)
        fli_text_addf(t, "%s%s", i ? ", " : ", or what the client keeps: ", kept[i]);
    fli_text_add(t, ".\n");
    fli_text_add(t, "What is computed from samples may tell something of them; nothing was done to hide that.\n");
}

/* The table of an answer's parts: the method's for turns, else that of measurements. */
static const fl_part *table_of(const fl_client *c, const fli_safetensors *f)
{
    static const fl_part others[] = {{"figures", FL_PART_NUMBER, 0, FL_PART_VALUE},
                                     {"own model", FL_PART_VECTOR, 0, FL_PART_VALUE},
                                     {"gradient", FL_PART_VECTOR, 0, FL_PART_VALUE},
                                     {"potential", FL_PART_NUMBER, 1, FL_PART_VALUE},
                                     {"clusters", FL_PART_NUMBER, 1, FL_PART_VALUE},
                                     {"derivative", FL_PART_VECTOR, 0, FL_PART_VALUE},
                                     {NULL}};
    return fli_safetensors_find(f, "figures") || fli_safetensors_find(f, "derivative") ? others : c->setup.algo->up;
}

static fl_status describe_answer(fl_client *c, const fli_packet *p, fli_text *t)
{
    fli_exchange x = {0};
    fli_safetensors f = {0};
    if (p->client != c->number || !fli_digest_same(&p->run, &c->protocol.run))
        return fli_fail(c->ctx, FL_EMISMATCH, "this is an answer of another client, or of another run");
    if (p->head_bytes < FLI_OUTCOME_BYTES || p->head_bytes - FLI_OUTCOME_BYTES >= sizeof x.why.text ||
        fli_outcome_read(p->head, &x))
        return fli_fail(c->ctx, FL_EFORMAT, "client %u: its report of its turn is impossible", p->client);
    fl_status s = p->body_bytes ? fli_safetensors_read(c->ctx, "the answer", p->body, p->body_bytes, &f) : FL_OK;
    if (s) return s;
    const fl_part *parts = table_of(c, &f);
    int turn = parts == c->setup.algo->up;
    fli_text_addf(t, "An answer of client %u to ask %llu: all that leaves. Computed from its %zu training samples%s.\n",
                  c->number, (unsigned long long)p->number, fli_fed_size(c->fed, c->number),
                  turn ? "" : " or its test part, by evaluation");
    add_outcome(t, p, &x);
    fli_safetensors_fini(&f);
    s = add_rows(c, t, p, parts, turn);
    add_what_stays(t, c);
    return s;
}

/* ---- all of them ------------------------------------------------------------------------------------------- */

static fl_status describe(fl_client *c, const void *in, size_t n, fli_text *t)
{
    fli_packet p;
    fli_packet_kind kind = fli_packet_says(in, n);
    if (kind == FLI_PACKET_STATE)
        return fli_fail(c->ctx, FL_EFORMAT, "this is a state of a client, which stays where it is");
    fl_status s = fli_packet_read(c->ctx, kind, in, n, &p);
    if (!s && kind == FLI_PACKET_NONE) s = fli_fail(c->ctx, FL_EFORMAT, "this message is of no kind that there is");
    if (s) return s;
    if (kind >= FLI_PACKET_ASK && !c->terms)
        return fli_fail(c->ctx, FL_ECONFIG, "this client has not accepted any terms");
    if (kind == FLI_PACKET_CARD) s = describe_card(c, &p, t);
    if (kind == FLI_PACKET_TERMS) s = describe_terms(c, &p, t);
    if (kind == FLI_PACKET_ASK) s = describe_ask(c, &p, in, n, t);
    if (kind == FLI_PACKET_ANSWER) s = describe_answer(c, &p, t);
    if (!s) fli_text_addf(t, "%zu bytes in all.\n", n);
    return s ? s : fli_text_ok(t);
}

fl_status fl_client_describe(fl_client *c, const void *message, size_t n, fl_bytes *out)
{
    fli_text t;
    *out = (fl_bytes){NULL, 0};
    fli_clear(c->ctx);
    fli_text_init(&t, c->ctx);
    fl_status s = describe(c, message, n, &t);
    if (!s && !(out->data = fli_alloc(c->ctx, t.n + 1, 1))) s = FL_ENOMEM;
    if (!s) memcpy(out->data, fli_text_get(&t), out->n = t.n);
    fli_text_fini(&t);
    return s;
}
