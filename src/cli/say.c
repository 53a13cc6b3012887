/* Sentences and texts of the program, except tables and progress; and JSON. */
#include "cli/cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the well-formed UTF-8 character at s, and its code point; 0 if the bytes are not a character. */
static size_t decode(const unsigned char *s, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    uint32_t c = n == 1 ? s[0] : n ? s[0] & (0xFFu >> (n + 1)) : 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0; /* also stops at the end of the text */
        c = c << 6 | (s[i] & 0x3F);
    }
    *code = c;
    return n && c >= least[n] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF) ? n : 0;
}

/* Control characters (C0, DEL, C1), and bytes that are not a character, become question marks, except those in
 * `spared`. */
static void clean(char *s, const char *spared)
{
    char *to = s;
    for (size_t n; *s; s += n) {
        uint32_t c = 0;
        n = decode((const unsigned char *)s, &c);
        int control = c < 0x20 ? !strchr(spared, (int)c) : c >= 0x7F && c < 0xA0;
        if (!n || control) {
            *to++ = '?';
            n += !n;
        } else {
            memmove(to, s, n);
            to += n;
        }
    }
    *to = 0;
}

char *say_clean(char *s)
{
    clean(s, "");
    return s;
}

void say_joined(FILE *to, char *lines)
{
    for (char *end; (end = strchr(lines, '\n')); lines = end + 1) {
        *end = 0;
        fprintf(to, "%s; ", say_clean(lines));
    }
    fprintf(to, "%s\n", say_clean(lines));
}

/* The sentences that a rank holds back. */
static struct {
    int holds;
    size_t n;
    char text[8192];
} held;

static void hold(const char *line)
{
    int n = snprintf(held.text + held.n, sizeof held.text - held.n, "%s\n", line);
    if (n > 0 && held.n + (size_t)n < sizeof held.text)
        held.n += (size_t)n;
    else
        held.text[held.n] = 0; /* no room for this sentence */
}

void say_hold(void) { held.holds = 1; }

void say_held(uint32_t rank)
{
    char *line = held.text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1)
        fprintf(stderr, "fedloom: rank %u: %.*s\n", rank, (int)(end - line), line);
    held.text[held.n = 0] = 0;
}

/* `mark` precedes the text, in the tone. */
static void say_line(tone t, const char *mark, const char *fmt, va_list ap)
{
    char text[2048], line[2100];
    vsnprintf(text, sizeof text, fmt, ap);
    say_clean(text);
    snprintf(line, sizeof line, "%s%s", mark, text);
    if (held.holds)
        hold(line);
    else
        fprintf(stderr, "%sfedloom: %s%s%s\n", tone_on(stderr, t), mark, tone_off(stderr), text);
}

static void say_as(tone t, const char *mark, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say_as(tone t, const char *mark, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say_line(t, mark, fmt, ap);
    va_end(ap);
}

void say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say_line(TONE_HEAD, "", fmt, ap);
    va_end(ap);
}

void say_error(const fl_ctx *ctx)
{
    const char *error = fl_ctx_error(ctx);
    for (size_t n; *error; error += n + (error[n] == '\n')) {
        n = strcspn(error, "\n");
        say_as(TONE_BAD, "", "%.*s", (int)n, error);
    }
}

int say_usage(const char *command_name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say_line(TONE_BAD, "", fmt, ap);
    va_end(ap);
    say("`fedloom %s --help` shows how it is used", command_name);
    return CLI_USAGE;
}

void say_some(const char *text, size_t size)
{
    char piece[4096];
    for (size_t n; size; text += n, size -= n) {
        n = size < sizeof piece ? size : sizeof piece - 1;
        while (n < size && n > 1 && ((unsigned char)text[n] & 0xC0) == 0x80) n--; /* not within a character */
        memcpy(piece, text, n);
        piece[n] = 0;
        clean(piece, "\n\t");
        fputs(piece, stdout);
    }
}

void say_out(void *unused, const char *text)
{
    (void)unused;
    say_some(text, strlen(text));
}

void say_table(void *unused, const char *text)
{
    char *copy = strdup(text);
    if (!copy) {
        say_out(unused, text);
        return;
    }
    clean(copy, "\n\t");
    print_fitted(copy, stdout);
    free(copy);
}

void say_path(const char *before, const char *path)
{
    char line[4096];
    snprintf(line, sizeof line, "%s", path);
    printf("%s%s\n", before, say_clean(line));
}

void say_log(void *unused, fl_log_level level, const char *line)
{
    (void)unused;
    if (level == FL_LOG_WARNING)
        say_as(TONE_CARE, "warning: ", "%s", line);
    else
        say_as(TONE_FAINT, "note: ", "%s", line);
}

void say_warning(void *unused, fl_log_level level, const char *line)
{
    if (level != FL_LOG_INFO) say_log(unused, level, line);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

int json_out(json_t *document)
{
    char *text = document ? json_dumps(document, JSON_INDENT(2)) : NULL;
    json_decref(document);
    if (!text) {
        say("out of memory");
        return CLI_FAILED;
    }
    say_out(NULL, text);
    putchar('\n');
    free(text);
    return CLI_OK;
}

json_t *json_out_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

json_t *json_out_text(const char *s)
{
    char *copy = strdup(s);
    json_t *text = copy ? json_string(say_clean(copy)) : NULL;
    free(copy);
    return text;
}

void json_take(void *document, const char *text) { *(json_t **)document = json_loads(text, 0, NULL); }
