#include "base/number.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Made once, and constant afterwards. */
static locale_t plain;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static locale_t c_locale(void)
{
    pthread_once(&made, make);
    return plain;
}

/* uselocale is a store into thread-local memory. Without a C locale (which no libc lacks) it changes nothing. */
locale_t fli_locale_enter(void) { return uselocale(c_locale()); }

void fli_locale_leave(locale_t before) { uselocale(before); }

double fli_strtod(const char *s, char **end) { return strtod_l(s, end, c_locale()); }

int fli_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap)
{
    locale_t before = fli_locale_enter();
    int n = vsnprintf(buf, size, fmt, ap);
    fli_locale_leave(before);
    return n;
}

int fli_snprintf(char *buf, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = fli_vsnprintf(buf, size, fmt, ap);
    va_end(ap);
    return n;
}

char fli_upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }
