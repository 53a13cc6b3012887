/* The manual page fedloom(1), made from what `fedloom help` says: the overview, and the help of every command.
 *
 * Help is plain text with a few habits, which are all that is relied on: paragraphs are separated by empty lines, the
 * one that begins with "usage:" is set as it is, and so are indented lines, except that below "options:" each is a
 * name, two spaces or more, and its meaning, whose further lines are indented deeper. */
#include "cli/cli.h"

#include <string.h>

enum { OPTION_INDENT = 2 };

/* n characters, none of which is a request or an escape. What stands in `backticks` is set bold. */
static void put_text(const char *s, size_t n)
{
    int bold = 0;
    if (n && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
    for (size_t i = 0; i < n; i++) switch (s[i]) {
        case '`':
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", stdout);
            break;
        case '\\': fputs("\\e", stdout); break;
        case '-': fputs("\\-", stdout); break;
        case '\'': fputs("\\(aq", stdout); break;
        case '^': fputs("\\(ha", stdout); break;
        case '~': fputs("\\(ti", stdout); break;
        default: putchar(s[i]);
        }
    if (bold) fputs("\\fR", stdout);
}

static size_t indent_of(const char *line) { return strspn(line, " "); }

/* One line of "options:": the name and the first words, or more words. */
static void put_option_line(const char *line, size_t n)
{
    size_t indent = indent_of(line);
    const char *gap = strstr(line + indent, "  ");
    if (indent == OPTION_INDENT && gap && gap < line + n) {
        fputs(".TP\n\\fB", stdout);
        put_text(line + indent, (size_t)(gap - line) - indent);
        fputs("\\fR\n", stdout);
        indent = (size_t)(gap - line) + indent_of(gap);
    }
    put_text(line + indent, n - indent);
    putchar('\n');
}

typedef enum { PROSE, VERBATIM, OPTIONS } setting;

/* One paragraph, line by line; a change between prose and indented lines changes how it is set. */
static void put_block(const char *s, size_t size)
{
    setting now = PROSE, indented = strncmp(s, "options:", 8) ? VERBATIM : OPTIONS;
    int usage = !strncmp(s, "usage:", 6);
    fputs(".PP\n", stdout);
    for (const char *end = s + size; s < end;) {
        size_t n = strcspn(s, "\n");
        setting next = usage ? VERBATIM : *s == ' ' ? indented : PROSE;
        if (next == VERBATIM && now != VERBATIM) fputs(".nf\n", stdout);
        if (next != VERBATIM && now == VERBATIM) fputs(".fi\n", stdout);
        now = next;
        if (now == OPTIONS)
            put_option_line(s, n);
        else {
            put_text(s, n);
            putchar('\n');
        }
        s += n + 1;
    }
    if (now == VERBATIM) fputs(".fi\n", stdout);
}

/* The length of the paragraph at s, its last line break included. */
static size_t block_size(const char *s)
{
    const char *end = strstr(s, "\n\n");
    return end ? (size_t)(end - s) + 1 : strlen(s);
}

static void put_blocks(const char *s)
{
    while (*(s += strspn(s, "\n"))) {
        size_t n = block_size(s);
        put_block(s, n);
        s += n;
    }
}

void manual_print(void)
{
    fputs(".\\\" Printed by `fedloom list --man 1`; `make docs` renews it.\n"
          ".TH FEDLOOM 1 \"\" \"fedloom " FL_VERSION "\" \"User Commands\"\n"
          ".SH NAME\n"
          "fedloom \\- a federated optimisation engine\n"
          ".SH SYNOPSIS\n"
          ".B fedloom\n"
          ".I COMMAND\n"
          "\\&...\n"
          ".SH DESCRIPTION\n",
          stdout);
    put_text(overview_text, strlen(overview_text));
    put_blocks(overview_end);
    fputs(".SH COMMANDS\n", stdout);
    for (size_t i = 0; command_at(i); i++) {
        printf(".SS %s\n", command_at(i)->name);
        put_text(command_at(i)->summary, strlen(command_at(i)->summary));
        putchar('\n');
        put_blocks(command_at(i)->help);
    }
    fputs(".SH SEE ALSO\n.BR fedloom\\-config (5)\n", stdout);
}
