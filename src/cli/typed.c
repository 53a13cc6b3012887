/* What was typed, as a shell would read it again. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static void add_word(FILE *to, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", to);
        else
            fputc(*word, to);
    }
    fputc('\'', to);
}

char *typed_text(const char *command_name, int argc, char **argv)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to) return NULL;
    fprintf(to, "%s %s", program, command_name);
    for (int i = 0; i < argc; i++) {
        fputc(' ', to);
        add_word(to, argv[i]);
    }
    if (!fclose(to)) return text;
    free(text);
    return NULL;
}
