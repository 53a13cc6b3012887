/* What a command line may go on with, for the shells' completion. */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "cli/cli.h"

/* The word that is being completed, and what is known to stand before the part in question: "--set=local." */
typedef struct {
    const char *current; /* all of it, as typed */
    char before[256];    /* what a candidate is put behind */
} complete_word;

/* Prints a candidate, if the word may become it; `meaning` may be "". */
void complete_offer(const complete_word *w, const char *name, const char *ending, const char *meaning);
/* Has the shell look for files or folders. */
void complete_files(void);
void complete_folders(void);

/* What may follow in KEY=VALUE (complete_settings.c). */
void complete_setting(fl_ctx *ctx, const complete_word *w);
/* The things of a kind ("algorithms"), or with NULL the kinds. */
void complete_kind(fl_ctx *ctx, const complete_word *w, const char *kind);

/* Prints what the last of these words, those after the program's name, may become: a word per line, and behind a tab
 * what it means. */
void complete_print(fl_ctx *ctx, const words *line);

#endif
