/* Names in a file (classes, groups, users) and the numbers 0 .. count-1 they get. */
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
/* A text met for the first time gets the number w->n had before. */
fl_status fli_words_add(fli_words *w, const char *text, uint32_t *number);
int fli_words_find(const fli_words *w, const char *text, uint32_t *number); /* 0: not there */

/* ---- labels as people write them ------------------------------------------------------------------------ */

/* Where a label was met, for messages: the line, sample, ... `number` of a file. */
typedef struct {
    const char *path, *unit;
    size_t number;
} fli_origin;
#define FLI_LINE      ":"
#define FLI_SAMPLE    ": sample "
#define FLI_AT        "%s%s%zu: " /* for FLI_ORIGIN(origin) */
#define FLI_ORIGIN(o) (o).path, (o).unit, (o).number

/* The rule for all loaders. First all labels are read, then they are ordered: as numbers if all are numbers (so that
 * "1", "+1" and "1.0" are one class), as text otherwise, and become 0, 1, ... After that, reading looks up, and a label
 * never seen is an error. Or the number of classes is given: then labels are the whole numbers below it, and stay what
 * they are. */
typedef struct {
    fli_words words;
    const char *noun; /* "label" or "group", for messages */
    int bounded;      /* too many of them are refused; groups may be any number */
    int whole, few;   /* numbers with a fraction, or many different numbers, are refused: see fli_label_names_guess */
    const char *hint; /* what else may be wrong then; "" or ", ..." */
    size_t fixed;     /* number of classes that was given; 0: none */
    size_t classes;   /* 0 until ordered */
    int numeric;
    int32_t quick[256];       /* 1 + what the whole numbers below 256 were read as; 0: not met yet */
    char last[200];           /* the last of many distinct ones, and where it was */
    struct fli_label *sorted; /* one per word, in the order of the classes */
    int32_t *class_of;        /* of each word */
} fli_label_names;

#define FLI_MOST_LABELS 1000000 /* different ones */
#define FLI_CLASSES_HELP                                                                                               \
    "0: the different labels in ascending order are classes 0, 1, ...; N: labels are 0 to N-1 and stay as they are, "  \
    "though "                                                                                                          \
    "some may not occur"

void fli_label_names_init(fli_label_names *l, fl_ctx *ctx, size_t fixed);
void fli_groups_init(fli_label_names *l, fl_ctx *ctx); /* the same for groups, of which there may be any number */
/* Nothing says that these are classes (task: auto): what looks like values to predict is FL_EFORMAT, with a way out.
 * `client`: they are one client's, who may have few samples of each class; then many different ones are no sign. */
void fli_label_names_guess(fli_label_names *l, int client, const char *hint);
void fli_label_names_fini(fli_label_names *l);
/* The word's number, before ordering; its class, afterwards. */
fl_status fli_label_names_read(fli_label_names *l, const char *text, fli_origin at, int32_t *out);
/* A label that is a number; it must be whole. */
fl_status fli_label_names_read_number(fli_label_names *l, double v, fli_origin at, int32_t *out);
/* Orders, unless that is done, and turns the n numbers handed out so far into classes. More than 1000 labels of less
 * than two samples each, on average, are FL_EFORMAT: they would make a giant model, and are rarely meant. */
fl_status fli_label_names_order(fli_label_names *l, int32_t *label, size_t n);
/* Once ordered, for the training set of `path`: which label became which class, as the set's class_name. Nothing where
 * they are 0, 1, ... already. */
fl_status fli_label_names_name(const fli_label_names *l, const char *path, fli_dataset *ds);
/* Logs it, of a set whose file names its classes. `become`: of each of them the class that it is in a federation, which
 * orders them; NULL: they stay as they are. */
fl_status fli_label_names_note(fl_ctx *ctx, const fli_dataset *ds, const int32_t *become);

#endif
