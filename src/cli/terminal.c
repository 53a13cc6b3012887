/* What the terminal can do, and what the user wants of it. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Open MPI's launcher gives rank 0 a terminal of its own, and what is behind that may be a file. */
static int is_terminal(FILE *f) { return isatty(fileno(f)) && !*launch_find().command; }

int terminal_moves(FILE *f)
{
    const char *term = getenv("TERM");
    return is_terminal(f) && term && *term && strcmp(term, "dumb");
}

size_t terminal_width(FILE *f)
{
    struct winsize w;
    if (!is_terminal(f)) return 0;
    return !ioctl(fileno(f), TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
}

/* https://no-color.org: set to anything but nothing. */
static int coloured(FILE *f)
{
    const char *no = getenv("NO_COLOR");
    return terminal_moves(f) && !(no && *no);
}

const char *tone_on(FILE *f, tone t)
{
    static const char *const codes[] = {[TONE_HEAD] = "\033[1m",
                                        [TONE_GOOD] = "\033[32m",
                                        [TONE_BAD] = "\033[31m",
                                        [TONE_CARE] = "\033[33m",
                                        [TONE_FAINT] = "\033[2m"};
    return coloured(f) ? codes[t] : "";
}

const char *tone_off(FILE *f) { return coloured(f) ? "\033[0m" : ""; }
