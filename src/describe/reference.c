/* fl_reference: every kind, every thing, every key, from the tables that the parser reads. It prints docs/reference.md
 * and the manual page, so they always agree with the program. */
#include "base/number.h"
#include "config/registry.h"
#include "config/settings.h"
#include "describe/describe.h"
#include "run/state.h"

#include <string.h>

/* ==== notes ================================================================================================= */

/* Texts of the reference besides keys and things: the processing of features, and the files that fedloom reads and
 * writes. */

typedef struct {
    const char *label, *text; /* NULL ends the list */
} fact;

typedef struct {
    const char *title, *text;
    const char *example; /* NULL: none */
    const fact *facts;
} note;

static const fact of_normalize[] = {
    {"auto", "bytes (IDX, CIFAR-10, NumPy's uint8, drawn digits) are divided by 255; everything else is unchanged"},
    {"none", "as the file has it: bytes are 0 to 255"},
    {"unit", "bytes are divided by 255; otherwise each feature is divided by its largest magnitude over all training "
             "samples, so that it lies in [-1, 1]; zeros stay zeros, and sparse data sparse"},
    {"standard", "(value - mean) / deviation over all training samples (the deviation with 1/n): for images one mean "
                 "and deviation per channel, otherwise one per feature; refused for sparse data, whose zeros it would "
                 "fill"},
    {"columns", "each feature is divided by its Euclidean norm over all training samples; zeros stay zeros"},
    {"given", "(value - `mean`) / `std`, where bytes are divided by 255 first; one value for all, or one per channel "
              "of images and per feature otherwise; refused for sparse data"},
    {"image", "(value - mean) / max(deviation, 1/sqrt(n)) with the mean and deviation of each image alone, over all n "
              "values of its channels that a model sees: after cropping (`data.crop`) and augmentation; refused for "
              "samples that are not images"},
    {"affine", "value * `scale` + `shift`, of values as they are stored: what another way came to, written down, as "
               "`fedloom data --export` does for a server that has no samples; one value for all, one per channel of "
               "images or one per feature; sparse data take no shift"},
    {NULL, NULL},
};

static const fact of_labels[] = {
    {"classes 0",
     "the different labels of the training samples in ascending order, of the numbers or else of the words, "
     "are classes 0, 1, ...; a note in the log says which label is which class, unless they are 0, 1, ... "
     "already"},
    {"classes N",
     "labels are the whole numbers 0 to N-1 and stay as they are, even those that do not occur in training"},
    {"test samples", "with classes 0 a label that does not occur in training is an error"},
    {"many labels", "with classes 0 more than 1000 different labels with less than two samples each, on average, are "
                    "refused: they look like values to predict"},
    {"idx", "the labels of the whole training file count, also with `limit`"},
    {"cifar10", "labels are 0 to 9, as the set defines them"},
    {NULL, NULL},
};

static const fact of_storage[] = {
    {"csv, leaf, libsvm", "in the `precision` of the run; with f32 a value beyond 3.4e38 is an error, not infinity"},
    {"npy, npz", "uint8 stays bytes; bool, int8, int16, uint16, float16 and float32 are kept as f32, which holds them "
                 "exactly; int32, uint32, int64, uint64 and float64 as f64, where integers beyond 2^53 are rounded"},
    {"idx", "bytes, f32 or f64, as in the file"},
    {"cifar10, digits, image_folder", "bytes"},
    {"too large",
     "whatever is kept as f64 is converted to f32 for a run in f32, after `normalize`; what does not fit then is an "
     "error with its sample and feature"},
    {NULL, NULL},
};

static const fact of_images[] = {
    {"PNG", "grey, colour and palettes of 1 to 16 bits, interlaced or not; 16 bits are rounded to 8, grey of fewer is "
            "spread over 0 to 255, palettes count as colour, transparency is left out"},
    {"JPEG", "grey and colour, progressive or not; CMYK is refused, and so is an image of which a part is missing"},
    {"order",
     "classes by name as other labels, then images by the bytes of their names; what is hidden, or has another "
     "ending than .png, .jpg or .jpeg, is left out, which is noted"},
    {"channels: 1", "0.299 red + 0.587 green + 0.114 blue, rounded"},
    {"resize",
     "after `channels`; every pixel is a mean weighted by a triangle as wide as the step between pixels, of "
     "the larger image's, as in Pillow's resize(..., BILINEAR) and torchvision's Resize: with the same bits up to "
     "Pillow 12, and within 1 of later ones"},
    {"not looked at", "gamma, colour profiles, and the direction of a camera in EXIF: as in torchvision's ImageFolder"},
    {"limits", "134217728 pixels and 256 MiB per file"},
    {NULL, NULL},
};

static const fact of_partition[] = {
    {"clients", "a list per client of sample numbers, from 0, in the order of the training data"},
    {"names", "instead of the key clients, an object with one list per client under its name; clients are numbered in "
              "the order of the file"},
    {"a sample", "is in one list at most; a sample in no list takes no part, which is noted"},
    {"a client", "has at least one sample"},
    {"partition.clients", "takes the first N clients; 0 takes all"},
    {NULL, NULL},
};

static const fact of_schedule[] = {
    {"round", "counted from 1; rounds do not decrease from line to line"},
    {"client", "counted from 0, or * for everyone"},
    {"p", "above 0 and up to 1; counts from that round on, until a later line for the client or for everyone"},
    {"first round", "every client has a p in round 1"},
    {"methods", "get the p of the round in which they use it, as in [VRA]: `d: auto` of fedvra is 1 over it"},
    {NULL, NULL},
};

static const fact of_tensors[] = {
    {"least_squares, logistic", "weight (features)"},
    {"softmax", "weight (classes x features), bias (classes)"},
    {"mlp", "layer1.weight (hidden x features), layer1.bias (hidden), layer2.weight, ..., the last layer with one row "
            "per class; without hidden layers weight and bias"},
    {"cnn", "conv1.weight (filters x channels x kernel x kernel), conv1.bias (filters), conv2.weight, ..., fc1.weight "
            "(outputs x inputs), fc1.bias, ..., the last fc with one row per class; the inputs of fc1 run over "
            "channels, rows and columns of the image, columns fastest"},
    {"factorization", "weight (features x clusters): the centres are its columns"},
    {"bilevel", "regularization puts log_l2 (features) in front of the model's own tensors; hyper_representation has "
                "those of its network, always numbered as layer1, ..."},
    {"precision", "tensors are F32 or F64, as the run computed; matrices are row-major"},
    {"features", "weights are for features after `normalize`"},
    {NULL, NULL},
};

static const fact of_balanced[] = {
    {"why",
     "a local turn moves a client by about lr Q times the gradient of its posed problem, so two numbers say what "
     "gamma, a and d do: s = p_i (a_i + d_i), the server's step along the mean displacement (1 in FedAvg and "
     "FedDyn), and theta = a_i gamma lr Q, the share of the way that a client's dual goes to its gradient in one "
     "turn. The rule fixes both: s between 1 and 2, theta = 1/2"},
    {"T, p",
     "means over all clients, weighed by w_i, of lr_i Q_i in the first round and of the probability p_i to take "
     "part; they are known before the first round"},
    {"s", "2/T, but at least 1 and at most 2: clients that hardly move in a turn are followed further"},
    {"gamma", "p/(s T) for all clients, so that theta = 1/2 at a client with average steps"},
    {"a", "s/(2 p_i), but at most 1/(gamma lr Qt_i), where theta would be 1; Qt_i is the sum of (1 - gamma lr)^t over "
          "the Q_i steps"},
    {"d", "s/(p_i W) - a_i, where W is the sum of w_i/p_i over the cohort, 1 in the mean: cohorts that weigh more or "
          "less than their share do not add noise. Beside an a that is given or auto: 1/p_i"},
    {NULL, NULL},
};

static const fact of_eta[] = {
    {"why",
     "with exact proxes and quadratics of curvature h a round takes alpha eta h/(1 + eta h) off an error that clients "
     "share, and alpha/(1 + eta h) off what they disagree about. eta should be large for flat directions and not too "
     "large for steep ones; 1/sqrt(mu L) is best, but mu is rarely known"},
    {"solver exact, accurate",
     "10/L: disagreement shrinks by at least alpha/11 per round, and the rest at a tenth of the best rate or better "
     "while L/mu is below 10000. L is the largest smoothness of a client, measured as `fedloom check` does. 1/L for "
     "models that are not convex, below which a local problem has one minimiser"},
    {"solver sgd",
     "lr Q/(1 - momentum), with the mean over clients of their local steps Q in the first round: SGD cannot follow a "
     "proximal term "
     "beyond that, so that a larger eta only slows agreement down, and a smaller one wastes steps. Below lr/2 the "
     "steps "
     "would not even be stable"},
    {"theory", "allows less, eta < (2 - alpha)/(2 L): `fedloom check` advises a setting that satisfies it"},
    {NULL, NULL},
};

static const note notes[] = {
    {"normalize",
     "What each choice of `data.normalize` does to a feature. Means, norms and magnitudes are of the training samples "
     "of all clients together, their own test parts (`data.test_fraction`) included; test samples are treated with the "
     "same numbers. A feature whose divisor would be 0 "
     "is not divided. Samples stay in memory as they were read; the arithmetic happens when a batch is made.",
     NULL, of_normalize},
    {"storage",
     "How features are kept in memory; `fedloom data` shows it. Nothing is rounded that the run could use: with "
     "`precision: f64` what the files say is kept to the last bit.",
     NULL, of_storage},
    {"labels",
     "How labels of classification data become classes, for csv, idx, image_folder, leaf, libsvm, npy and npz alike "
     "(`data.classes`).",
     NULL, of_labels},
    {"images", "What `data: {kind: image_folder}` makes of a file: bytes, one plane per channel.", NULL, of_images},
    {"partition file", "What `partition: {kind: file, path: FILE}` reads: a JSON object.",
     "{\"clients\": [[0, 5, 7], [1, 2]]}\n{\"ann\": [0, 5, 7], \"bob\": [1, 2]}\n", of_partition},
    {"schedule of probabilities",
     "What `participation: {kind: schedule, path: FILE}` reads: lines of text, with or without the names of the "
     "columns "
     "in the first.",
     "round,client,p\n1,*,0.1\n50,3,0.5\n100,*,0.2\n", of_schedule},
    {"model.safetensors",
     "The model in a result folder, as any reader of safetensors opens it. The metadata name the model and the "
     "version; "
     "the tensors are, by model:",
     NULL, of_tensors},
    {"balanced step sizes",
     "What `balanced` means for `gamma`, `a` and `d` of fedvra and fedvra-u, their default. Each may also be given "
     "alone: the others still follow their rule. `auto` is another rule, Remark 1 of the paper: d_i = 1/p_i, and the "
     "largest a_i with (a_i + d_i) lr gamma Qt_i at most 1.",
     NULL, of_balanced},
    {"eta of Douglas-Rachford methods",
     "What `eta: auto` means for feddr, asyncfeddr and fedsplit, their default. The number it leads to is logged when "
     "a "
     "run begins and stands in `result.json` as `settled`.",
     NULL, of_eta},
};

/* Adds these notes after the tables. */
static void add_notes(fli_text *t, const fli_reference_style *style)
{
    style->heading(t, 1, "notes");
    style->paragraph(t, "What keys cannot say.");
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        style->heading(t, 2, notes[i].title);
        style->paragraph(t, notes[i].text);
        if (notes[i].example) style->example(t, notes[i].example);
        style->facts_begin(t);
        for (const fact *f = notes[i].facts; f->label; f++) style->fact(t, f->label, f->text);
    }
}

/* ==== walking the tables ==================================================================================== */

typedef struct {
    fl_ctx *ctx;
    fli_text *t;
    const fli_reference_style *style;
} page;

/* A default as text: "0.1", "must be given", "none". */
static const char *default_text(const fl_key *row)
{
    return !row->def ? "must be given" : *row->def ? row->def : "none";
}

static void add_keys(const page *p, const fl_key *rows)
{
    for (const fl_key *row = rows; row && row->name; row++) p->style->key(p->t, row);
}

/* Adds the key `kind` as a row whose values are the names of the things. */
static fl_status add_kind_key(const page *p, const fli_section *s)
{
    fli_text words;
    fli_item item;
    fli_text_init(&words, p->ctx);
    for (size_t i = 0; s->kind->item(i, &item) && !item.by_user; i++)
        fli_text_addf(&words, "%s%s", i ? "|" : "", item.name);
    fl_key row = {"kind", FL_KEY_CHOICE, s->fallback, 0, 0, fli_text_get(&words), s->kind->title, 0};
    fl_status status = fli_text_ok(&words);
    if (!status) p->style->key(p->t, &row);
    fli_text_fini(&words);
    return status;
}

static fl_status add_settings(const page *p)
{
    fl_status status = FL_OK;
    fli_section s;
    p->style->heading(p->t, 1, "settings");
    p->style->paragraph(p->t,
                        "The keys that do not depend on a choice. A section whose `kind` is chosen also takes the "
                        "keys of that kind.");
    for (size_t i = 0; !status && fli_settings_section(i, &s); i++) {
        p->style->heading(p->t, 2, *s.name ? s.name : s.title);
        if (*s.name) p->style->paragraph(p->t, s.title);
        p->style->keys_begin(p->t);
        if (s.kind) status = add_kind_key(p, &s);
        add_keys(p, s.keys);
        p->style->keys_end(p->t);
    }
    return status;
}

/* fli_fact_fn */
static void add_fact(void *arg, const char *label, const char *text)
{
    const page *p = arg;
    p->style->fact(p->t, label, text);
}

static fl_status add_facts(const page *p, const fli_item *item)
{
    page copy = *p;
    p->style->facts_begin(p->t);
    return fli_list_facts(p->ctx, item, add_fact, &copy);
}

static fl_status add_example(const page *p, const fli_kind *kind, const fli_item *item)
{
    fli_text lines;
    fli_text_init(&lines, p->ctx);
    fli_list_example(&lines, kind, item);
    fl_status status = fli_text_ok(&lines);
    if (!status) p->style->example(p->t, fli_text_get(&lines));
    fli_text_fini(&lines);
    return status;
}

static fl_status add_item(const page *p, const fli_kind *kind, const fli_item *item)
{
    char *name = fli_strf(p->ctx, "%s: %s", kind->section, item->name);
    if (!name) return FL_ENOMEM;
    p->style->heading(p->t, 2, name);
    fli_free(name);
    p->style->paragraph(p->t, item->title);
    fl_status status = add_facts(p, item);
    if (!status) status = add_example(p, kind, item);
    if (status || !item->keys || !item->keys->name) return status;
    p->style->keys_begin(p->t);
    add_keys(p, item->keys);
    p->style->keys_end(p->t);
    return FL_OK;
}

static fl_status add_kind(const page *p, const fli_kind *kind)
{
    fl_status status = FL_OK;
    fli_item item;
    p->style->heading(p->t, 1, kind->plural);
    p->style->paragraph(p->t, kind->title);
    for (size_t i = 0; !status && kind->item(i, &item) && !item.by_user; i++) status = add_item(p, kind, &item);
    return status;
}

static void add_columns(const page *p)
{
    size_t k = 0;
    p->style->heading(p->t, 1, "columns");
    p->style->paragraph(p->t, "What a line of `metrics.csv` and `metrics.jsonl` says; empty or null where it was not "
                              "measured or does not exist.");
    p->style->facts_begin(p->t);
    for (const fl_metric *m; k < fli_metrics_count() && (m = fl_metric_at(k)); k++)
        p->style->fact(p->t, m->name, m->help);
}

fl_status fl_reference(fl_ctx *ctx, fl_reference_format format, fl_text_fn *out, void *arg)
{
    static const fli_reference_style *const styles[] = {&fli_reference_markdown, &fli_reference_man};
    fli_text t;
    fli_clear(ctx);
    if ((size_t)format >= sizeof styles / sizeof *styles)
        return fli_fail(ctx, FL_ECONFIG, "there is no format %d of the reference", (int)format);
    fli_text_init(&t, ctx);
    page p = {ctx, &t, styles[format]};
    p.style->begin(&t);
    fl_status s = add_settings(&p);
    for (const fli_kind *kind = fli_kinds; !s && kind->section; kind++) s = add_kind(&p, kind);
    add_notes(&t, p.style);
    add_columns(&p);
    p.style->end(&t);
    if (!s) s = fli_text_ok(&t);
    if (!s) out(arg, fli_text_get(&t));
    fli_text_fini(&t);
    return s;
}

/* ==== Markdown: docs/reference.md =========================================================================== */

/* GitHub's tables. */

/* Text with special characters escaped; text in `backticks` is code, unchanged. */
static void add_text(fli_text *t, const char *s)
{
    int code = 0;
    for (; *s; s++) {
        if (*s == '`')
            code = !code;
        else if (*s == '|' || (!code && (*s == '*' || *s == '\\' || *s == '[' || *s == ']')))
            fli_text_add(t, "\\");
        if (*s == '<' && !code)
            fli_text_add(t, "&lt;");
        else
            fli_text_addn(t, s, 1);
    }
}

static void begin(fli_text *t)
{
    fli_text_add(
        t, "# Reference\n\n"
           "Everything a configuration can say. A configuration is a YAML file; keys of a section are written "
           "below it or, with\n"
           "`--set section.key=value`, on the command line. `section: NAME` is short for `section: {kind: NAME}`. "
           "`fedloom config FILE` shows a file\n"
           "with every default filled in.\n\n"
           "This page is printed by `fedloom list --markdown` from the tables that the program itself reads; "
           "`make docs` renews it.\n");
}

static void end(fli_text *t) { (void)t; }

/* Exactly one empty line before the next block. */
static void gap(fli_text *t)
{
    if (t->n > 1 && t->s[t->n - 2] != '\n') fli_text_add(t, "\n");
}

static void heading(fli_text *t, int level, const char *text)
{
    char first[2] = {level == 1 ? fli_upper(*text) : *text, 0};
    gap(t);
    fli_text_addf(t, "%s %s", level == 1 ? "##" : "###", first);
    add_text(t, text + 1);
    fli_text_add(t, "\n");
}

static void paragraph(fli_text *t, const char *text)
{
    gap(t);
    add_text(t, text);
    fli_text_add(t, "\n");
}

static void markdown_fact(fli_text *t, const char *label, const char *text)
{
    fli_text_addf(t, "- %s: ", label);
    add_text(t, text);
    fli_text_add(t, "\n");
}

static void example(fli_text *t, const char *lines)
{
    gap(t);
    fli_text_addf(t, "```yaml\n%s```\n", lines);
}

static void keys_begin(fli_text *t)
{
    gap(t);
    fli_text_add(t, "| key | type and range | default | meaning |\n|---|---|---|---|\n");
}

static void key(fli_text *t, const fl_key *row)
{
    fli_text type;
    fli_text_init(&type, t->ctx);
    fli_key_print_type(&type, row);
    fli_text_addf(t, "| `%s` | ", row->name);
    add_text(t, fli_text_get(&type));
    fli_text_addf(t, row->def && *row->def ? " | `%s` | " : " | %s | ", default_text(row));
    add_text(t, row->help);
    fli_text_add(t, " |\n");
    if (fli_text_ok(&type)) t->failed = 1;
    fli_text_fini(&type);
}

static void keys_end(fli_text *t) { (void)t; }

const fli_reference_style fli_reference_markdown = {
    .begin = begin,
    .end = end,
    .heading = heading,
    .paragraph = paragraph,
    .facts_begin = gap,
    .fact = markdown_fact,
    .example = example,
    .keys_begin = keys_begin,
    .key = key,
    .keys_end = keys_end,
};

/* ==== manual page: fedloom-config(5) ======================================================================== */

/* In the man macros. */

/* Text without requests or escapes. Text in `backticks` is set bold. */
static void man_text(fli_text *t, const char *s)
{
    int bold = 0;
    if (*s == '.' || *s == '\'') fli_text_add(t, "\\&");
    for (; *s; s++) switch (*s) {
        case '`':
            bold = !bold;
            fli_text_add(t, bold ? "\\fB" : "\\fR");
            break;
        case '\\': fli_text_add(t, "\\e"); break;
        case '-': fli_text_add(t, "\\-"); break;
        case '\'': fli_text_add(t, "\\(aq"); break;
        case '^': fli_text_add(t, "\\(ha"); break;
        case '~': fli_text_add(t, "\\(ti"); break;
        case '\n': fli_text_add(t, s[1] == '.' || s[1] == '\'' ? "\n\\&" : "\n"); break;
        default: fli_text_addn(t, s, 1);
        }
}

static void man_begin(fli_text *t)
{
    fli_text_add(t, ".\\\" Printed by `fedloom list --man 5`; `make docs` renews it.\n"
                    ".TH FEDLOOM\\-CONFIG 5 \"\" \"fedloom " FL_VERSION "\" \"File Formats\"\n"
                    ".SH NAME\n"
                    "fedloom\\-config \\- the configuration of a federation\n"
                    ".SH DESCRIPTION\n"
                    "A configuration is a YAML file: keys at the top and in sections.\n"
                    "On the command line,\n"
                    ".B \\-\\-set section.key=value\n"
                    "overrides a key of the file.\n"
                    ".B section: NAME\n"
                    "is short for\n"
                    ".BR \"section: {kind: NAME}\" .\n"
                    ".B fedloom config FILE\n"
                    "shows a file with every default filled in.\n");
}

static void man_end(fli_text *t) { fli_text_add(t, ".SH SEE ALSO\n.BR fedloom (1)\n"); }

/* Parts are set in capitals, as manual pages do. */
static void man_heading(fli_text *t, int level, const char *text)
{
    fli_text_add(t, level == 1 ? ".SH " : ".SS ");
    for (; *text; text++) {
        char c = level == 1 ? fli_upper(*text) : *text;
        if (c == '-') fli_text_add(t, "\\");
        fli_text_addn(t, &c, 1);
    }
    fli_text_add(t, "\n");
}

static void man_paragraph(fli_text *t, const char *text)
{
    man_text(t, text);
    fli_text_add(t, "\n");
}

static void facts_begin(fli_text *t) { (void)t; }

static void man_fact(fli_text *t, const char *label, const char *text)
{
    fli_text_add(t, ".br\n");
    man_text(t, label);
    fli_text_add(t, ": ");
    man_text(t, text);
    fli_text_add(t, "\n");
}

static void man_example(fli_text *t, const char *lines)
{
    fli_text_add(t, ".PP\n.nf\n");
    man_text(t, lines);
    fli_text_add(t, ".fi\n");
}

static void man_keys_begin(fli_text *t) { (void)t; }

static void man_key(fli_text *t, const fl_key *row)
{
    fli_text type;
    fli_text_init(&type, t->ctx);
    fli_key_print_type(&type, row);
    fli_text_addf(t, ".TP\n.B %s\n", row->name);
    man_text(t, row->help);
    fli_text_add(t, "\n.br\n");
    man_text(t, fli_text_get(&type));
    fli_text_add(t, row->def ? "; default: " : "; ");
    man_text(t, default_text(row));
    fli_text_add(t, "\n");
    if (fli_text_ok(&type)) t->failed = 1;
    fli_text_fini(&type);
}

static void man_keys_end(fli_text *t) { (void)t; }

const fli_reference_style fli_reference_man = {
    .begin = man_begin,
    .end = man_end,
    .heading = man_heading,
    .paragraph = man_paragraph,
    .facts_begin = facts_begin,
    .fact = man_fact,
    .example = man_example,
    .keys_begin = man_keys_begin,
    .key = man_key,
    .keys_end = man_keys_end,
};
