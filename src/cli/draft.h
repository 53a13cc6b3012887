/* An experiment that `fedloom init` is about to write: what has been answered, the file of it, and whether it fits. */
#ifndef CLI_DRAFT_H
#define CLI_DRAFT_H

#include "cli/cli.h"

enum { DRAFT_NAME = 64, DRAFT_TEXT = 2048 };

typedef struct {
    char data[DRAFT_TEXT];      /* what is in the braces of `data: {...}` */
    int by_name;                /* it reads files: not made up */
    char partition[DRAFT_NAME]; /* its kind */
    size_t clients;             /* 0: as many as the data say */
    char model[DRAFT_NAME];
    char methods[DRAFT_TEXT]; /* with commas */
    size_t rounds;
    char device[DRAFT_NAME];
    /* found out by looking at the data: */
    size_t samples, classes; /* classes 0: regression */
    int images, standard, held_back;
    int everyone; /* takes part in every round */
} draft;

void draft_init(draft *d);
/* Name i of the methods; 0 past the last. */
int draft_method(const draft *d, size_t i, char name[DRAFT_NAME]);
/* The file: commented, with all methods; or, with `method`, one run of it. */
void draft_write(const draft *d, const char *method, FILE *f);

/* Whether data, and who holds them, can be had; learns what they are. Says what is wrong. */
int draft_look(fl_ctx *ctx, draft *d);
/* Whether a run of the method can be made of it. With `tell`: says what is wrong. */
int draft_fits(fl_ctx *ctx, const draft *d, const char *method, int tell);

/* ---- answers (answers.c) ---------------------------------------------------------------------------------------- */

/* Takes an answer, if it fits what was answered before. Says what is wrong; returns CLI_OK or another exit code. */
typedef int answer_fn(fl_ctx *ctx, draft *d, const char *answer);
answer_fn answer_data;    /* "digits", "mine.csv", "idx FOLDER" */
answer_fn answer_split;   /* "iid 10", "natural" */
answer_fn answer_model;   /* "mlp" */
answer_fn answer_methods; /* "fedavg, scaffold" */
answer_fn answer_length;  /* "50 cpu" */

#endif
