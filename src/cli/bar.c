/* The line of something under way, rewritten in place: a bar, per cent, the time left, and words. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 24, NUMBERS_LEN = 64, NARROW = 60 }; /* columns; below NARROW the words need all there are */

static void print_bar(size_t cells, double fraction)
{
    size_t full = (size_t)(fraction * (double)cells);
    fputs(tone_on(stderr, TONE_GOOD), stderr);
    for (size_t i = 0; i < full; i++) fputs("\u2588", stderr);
    fprintf(stderr, "%s%s", tone_off(stderr), tone_on(stderr, TONE_FAINT));
    for (size_t i = full; i < cells; i++) fputs("\u2591", stderr);
    fprintf(stderr, "%s ", tone_off(stderr));
}

/* " 42%  1:05 left  " */
static size_t put_numbers(char out[NUMBERS_LEN], double fraction, double left)
{
    int n = snprintf(out, NUMBERS_LEN, "%3.0f%%  ", 100 * fraction);
    unsigned long s = isfinite(left) && left < 3.6e8 ? (unsigned long)(left + 0.5) : 0;
    if (!isfinite(left) || left >= 3.6e8) return (size_t)n;
    if (s >= 3600)
        n += snprintf(out + n, NUMBERS_LEN - (size_t)n, "%lu:%02lu:%02lu left  ", s / 3600, s / 60 % 60, s % 60);
    else
        n += snprintf(out + n, NUMBERS_LEN - (size_t)n, "%lu:%02lu left  ", s / 60, s % 60);
    return (size_t)n;
}

/* Cuts after this many characters, not in the middle of one. */
static void cut(char *line, size_t columns)
{
    size_t n = 0;
    for (char *c = line; *c; c++) {
        if (((unsigned char)*c & 0xC0) == 0x80) continue;
        if (n++ == columns) {
            *c = 0;
            return;
        }
    }
}

void bar_paint(double fraction, double seconds_left, char *text)
{
    char numbers[NUMBERS_LEN];
    double done = fraction > 0 ? fmin(fraction, 1) : 0;
    size_t width = terminal_width(stderr), room = width > 1 ? width - 1 : 79; /* a full line would wrap */
    size_t cells = room < NARROW ? 0 : LONGEST, taken = put_numbers(numbers, done, seconds_left);
    fputc('\r', stderr);
    if (cells) print_bar(cells, done);
    taken += cells + (cells > 0);
    cut(numbers, room);
    cut(say_clean(text), room > taken ? room - taken : 0);
    fprintf(stderr, "%s%s\033[K", numbers, text);
    fflush(stderr);
}

void bar_erase(void) { fputs("\r\033[K", stderr); }
