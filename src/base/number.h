/* Numbers as text, the same in every locale: setlocale, called at any time on any thread, changes neither the library's
 * input nor its output. The library uses these functions instead of strtod, snprintf and vsnprintf
 * (tools/check-layers.sh). */
#ifndef FLI_BASE_NUMBER_H
#define FLI_BASE_NUMBER_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>

double fli_strtod(const char *s, char **end);
int fli_snprintf(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int fli_vsnprintf(char *buf, size_t size, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
/* Only ASCII letters. */
char fli_upper(char c);

/* For calls of other libraries that read or write numbers (jansson): between the two this thread is in the C locale. */
locale_t fli_locale_enter(void);
void fli_locale_leave(locale_t before);

#endif
