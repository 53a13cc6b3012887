/* Names in a file (classes, groups, users) and the numbers 0 .. count-1 that they get. */
#ifndef FLI_DATA_LABEL_NAMES_H
#define FLI_DATA_LABEL_NAMES_H

#include "data/dataset.h"

#include <stdint.h>

/* ---- distinct texts, numbered by first appearance ------------------------------------------------------- */

typedef struct {
    fl_ctx *ctx;
    size_t n, capacity, slots;
    char **word;
    uint32_t *slot; /* hash table of 1 + number; 0: free */
} fli_words;

void fli_words_init(fli_words *w, fl_ctx *ctx);
void fli_words_fini(fli_words *w);
/* A new text gets the number that w->n had before. */
fl_status fli_words_add(fli_words *w, const char *text, uint32_t *number);
int fli_words_find(const fli_words *w, const char *text, uint32_t *number); /* 0: not there */

/* ---- labels as files write them ------------------------------------------------------------------------- */

/* Where a label occurs, for messages: line, sample, ... `number` of a file. */
typedef struct {
    const char *path, *unit;
    size_t number;
} fli_origin;
#define FLI_LINE      ":"
#define FLI_SAMPLE    ": sample "
#define FLI_AT        "%s%s%zu: " /* for FLI_ORIGIN(origin) */
#define FLI_ORIGIN(o) (o).path, (o).unit, (o).number

/* The rule of all loaders, in two passes. The first pass reads all labels; then they are ordered, as numbers if all are
 * numbers (so that "1", "+1" and "1.0" are one class), else as text, and become classes 0, 1, ... After that, reading
 * looks a label up, and an unknown label is an error. If the number of classes is given, there is one pass: labels are
 * the whole numbers below it, and keep their values. */
typedef struct {
    fli_words words;
    const char *noun; /* "label" or "group", for messages */
    int bounded;      /* refuse too many different ones; groups are not limited */
    int whole, few;   /* numbers with a fraction, or many different numbers, are refused: see fli_label_names_guess */
    const char *hint; /* a further possible cause to mention in that error; "" or ", ..." */
    size_t fixed;     /* the given number of classes; 0: not given */
    size_t classes;   /* 0 until ordered */
    int numeric;
    int32_t quick[256];       /* 1 + number or class of the whole numbers below 256; 0: not met yet */
    char last[200];           /* the last label met beyond the limit, and its place */
    struct fli_label *sorted; /* one per word, in the order of the classes */
    int32_t *class_of;        /* of each word */
} fli_label_names;

#define FLI_MOST_LABELS 1000000 /* different labels */
#define FLI_CLASSES_HELP                                                                                               \
    "0: the different labels in ascending order are classes 0, 1, ...; N: labels are 0 to N-1 and stay as they are, "  \
    "though "                                                                                                          \
    "some may not occur"

void fli_label_names_init(fli_label_names *l, fl_ctx *ctx, size_t fixed);
void fli_groups_init(fli_label_names *l, fl_ctx *ctx); /* for groups, whose number is not limited */
/* For task: auto, where labels may turn out to be values to predict: labels that look so become FL_EFORMAT with advice.
 * `client`: a single client's labels, of which there may be few per class; then only fractions are refused. */
void fli_label_names_guess(fli_label_names *l, int client, const char *hint);
void fli_label_names_fini(fli_label_names *l);
/* Before ordering: the word's number. Afterwards: its class. */
fl_status fli_label_names_read(fli_label_names *l, const char *text, fli_origin at, int32_t *out);
/* The same for a label that is stored as a number, which must be whole. */
fl_status fli_label_names_read_number(fli_label_names *l, double v, fli_origin at, int32_t *out);
/* Orders the labels, once, and turns the n numbers handed out so far into classes. FL_EFORMAT for more than 1000 labels
 * with fewer than two samples each on average: such a model would be huge, and is rarely meant. */
fl_status fli_label_names_order(fli_label_names *l, int32_t *label, size_t n);
/* After ordering: sets the training set's class_name to the labels of each class in the file `path`. Does nothing if
 * the labels are 0, 1, ... already. */
fl_status fli_label_names_name(const fli_label_names *l, const char *path, fli_dataset *ds);
/* Logs which label became which class, if a file names the set's classes. become[c]: class c's number in a federation
 * that has its own order; NULL: classes keep their numbers. */
fl_status fli_label_names_note(fl_ctx *ctx, const fli_dataset *ds, const int32_t *become);

#endif
