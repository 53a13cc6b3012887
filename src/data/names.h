/* Names in a file (classes, groups, users) and the numbers 0 .. count-1 they get. */
#ifndef FLI_DATA_NAMES_H
#define FLI_DATA_NAMES_H

#include "base/ctx.h"

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

/* First all labels are read, then they are ordered: as numbers if all are numbers (so that "1", "+1" and "1.0" are one class),
 * as text otherwise. After that, reading looks up, and a label never seen is an error. */
typedef struct {
    fli_words words;
    const char *noun; /* "label" or "group", for messages */
    size_t most;      /* more distinct ones are an error */
    size_t classes;   /* 0 until ordered */
    int numeric;
    struct fli_label *sorted; /* one per word, in the order of the classes */
    int32_t *class_of;        /* of each word */
} fli_labels;

void fli_labels_init(fli_labels *l, fl_ctx *ctx, const char *noun, size_t most);
void fli_labels_fini(fli_labels *l);
/* The word's number, before ordering; its class, afterwards. path and line are for messages. */
fl_status fli_labels_read(fli_labels *l, const char *text, const char *path, size_t line, int32_t *out);
/* Orders, and turns the n numbers handed out so far into classes. */
fl_status fli_labels_order(fli_labels *l, int32_t *label, size_t n);
/* Once ordered: a note which label became which class, unless they are 0, 1, ... already. */
fl_status fli_labels_log(const fli_labels *l, const char *path);

#endif
