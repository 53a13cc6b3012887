/* Everything the program says to a person apart from tables and progress. */
#include "cli.h"

#include <stdarg.h>
#include <string.h>

char *say_clean(char *s)
{
    for (char *c = s; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F) *c = '?';
    return s;
}

static void say_line(const char *prefix, const char *fmt, va_list ap)
{
    char line[2048];
    vsnprintf(line, sizeof line, fmt, ap);
    fprintf(stderr, "fedloom: %s%s\n", prefix, say_clean(line));
}

void say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say_line("", fmt, ap);
    va_end(ap);
}

void say_error(const fl_ctx *ctx)
{
    const char *error = fl_ctx_error(ctx);
    for (size_t n; *error; error += n + (error[n] == '\n')) {
        n = strcspn(error, "\n");
        say("%.*s", (int)n, error);
    }
}

int say_usage(const char *command_name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say_line("", fmt, ap);
    va_end(ap);
    say("`fedloom %s --help` shows how it is used", command_name);
    return CLI_USAGE;
}

void say_out(void *unused, const char *text)
{
    (void)unused;
    fputs(text, stdout);
}

void say_log(void *unused, fl_log_level level, const char *line)
{
    (void)unused;
    say("%s: %s", level == FL_LOG_WARNING ? "warning" : "note", line);
}
