/* Escapes text from outside for XML, HTML and JSON. No other code writes such text. */
#include "report/internal.h"

#include <math.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Bytes of the UTF-8 character at `s`, whose code point is *code; 0 if the bytes are no character. */
static size_t decode(const char *s, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *u = (const unsigned char *)s;
    size_t n = u[0] < 0x80                   ? 1
               : u[0] >= 0xc2 && u[0] < 0xe0 ? 2
               : (u[0] & 0xf0) == 0xe0       ? 3
               : (u[0] & 0xf8) == 0xf0       ? 4
                                             : 0;
    if (n == 0) return 0;
    uint32_t c = n == 1 ? u[0] : u[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xc0) != 0x80) return 0; /* also stops at the end of the text */
        c = c << 6 | (u[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *code = c;
    return n;
}

/* XML 1.0, production Char. */
static int allowed(uint32_t c)
{
    return c >= 0x20 ? c != 0x7f && c != 0xfffe && c != 0xffff : c == '\t' || c == '\n' || c == '\r';
}

static const char *entity(uint32_t c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

/* Adds the character at `s`, escaped; returns the number of bytes it has. */
static size_t add_character(fli_text *t, const char *s)
{
    uint32_t c = 0;
    size_t n = decode(s, &c);
    if (n == 0 || !allowed(c))
        fli_text_add(t, REPLACEMENT);
    else if (entity(c))
        fli_text_add(t, entity(c));
    else
        fli_text_addn(t, s, n);
    return n ? n : 1;
}

void fli_markup_text(fli_text *t, const char *s)
{
    while (*s) s += add_character(t, s);
}

void fli_markup_some(fli_text *t, const char *s, size_t n)
{
    for (const char *end = s + n; *s && s < end;) s += add_character(t, s);
}

size_t fli_markup_length(const char *s)
{
    size_t count = 0;
    uint32_t c;
    for (; *s; count++) {
        size_t n = decode(s, &c);
        s += n ? n : 1;
    }
    return count;
}

void fli_markup_clip(fli_text *t, const char *s, size_t n)
{
    size_t length = fli_markup_length(s);
    for (size_t i = 0; *s && i < n; i++) {
        if (i + 1 == n && length > n) {
            fli_text_add(t, "\xe2\x80\xa6");
            return;
        }
        s += add_character(t, s);
    }
}

void fli_markup_json(fli_text *t, const char *s)
{
    fli_text_add(t, "\"");
    while (*s) {
        uint32_t c = 0;
        size_t n = decode(s, &c);
        if (n == 0)
            fli_text_add(t, "\\ufffd");
        else if (c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f || c == 0x2028 ||
                 c == 0x2029)
            fli_text_addf(t, "\\u%04x", (unsigned)c);
        else
            fli_text_addn(t, s, n);
        s += n ? n : 1;
    }
    fli_text_add(t, "\"");
}

void fli_markup_number(fli_text *t, double v)
{
    double tenths = round(v * 10);
    if (tenths == 0) tenths = 0; /* no "-0" */
    if (fmod(tenths, 10) == 0)
        fli_text_addf(t, "%.0f", tenths / 10);
    else
        fli_text_addf(t, "%.1f", tenths / 10);
}
