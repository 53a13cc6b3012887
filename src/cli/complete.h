/* What a command line may go on with, for the shells' completion. */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "cli/cli.h"

/* Prints what the last of these words, those after the program's name, may become: a word per line, and behind a tab
 * what it means. */
void complete_print(fl_ctx *ctx, const words *line);

#endif
