/* Numbers as text, the same in every locale: a program that calls setlocale, at any time and from any thread, changes
 * neither what the library reads nor what it writes. These take the place of strtod, snprintf and vsnprintf everywhere
 * in the library (tools/check-layers.sh). */
#ifndef FLI_BASE_NUMBER_H
#define FLI_BASE_NUMBER_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>

double fli_strtod(const char *s, char **end);
int fli_snprintf(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int fli_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
/* ASCII letters alone, which is what is meant. */
char fli_upper(char c);

/* For other libraries' calls that read or write numbers (jansson): this thread is in the C locale between the two. */
locale_t fli_locale_enter(void);
void fli_locale_leave(locale_t before);

#endif
