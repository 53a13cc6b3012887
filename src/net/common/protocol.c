#include "net/common/protocol.h"

#include "base/number.h"

#include <stdlib.h>
#include <string.h>

#include <assert.h>

/* Two numbers that no preprocessor can put into text, as they are no macros. */
static_assert(FLI_NET_VERSION == 1 && FLI_NET_OLDEST == 1, "they are written out below, and in FLI_NET_UPGRADE");
const char *fli_net_version_text(void) { return "1 1"; }

/* Plain digits; NULL: there are none. */
static const char *read_digits(const char *at, long *out)
{
    char *end;
    if (*at < '0' || *at > '9') return NULL;
    *out = strtol(at, &end, 10);
    return end;
}

/* "VERSION OLDEST"; 0: it is not that. */
static int parse(const char *header, long *version, long *oldest)
{
    const char *at = read_digits(header, version);
    if (!at || *at != ' ' || !(at = read_digits(at + 1, oldest))) return 0;
    return !*at && *oldest > 0 && *version >= *oldest && *version < 1000000;
}

const char *fli_net_version_wrong(const char *header, char *sentence, size_t n)
{
    long version, oldest;
    if (!header || strlen(header) > 20 || !parse(header, &version, &oldest)) {
        fli_snprintf(sentence, n, "the other side does not say which protocol it speaks (header %s); here it is %d",
                     FLI_NET_HEADER, FLI_NET_VERSION);
        return sentence;
    }
    if (version >= FLI_NET_OLDEST && oldest <= FLI_NET_VERSION) return NULL;
    fli_snprintf(sentence, n, "the other side speaks protocol %ld (%ld at least), this one %d (%d at least)", version,
                 oldest, FLI_NET_VERSION, FLI_NET_OLDEST);
    return sentence;
}

const char *fli_instance_text(const fli_instance *i, char text[FLI_INSTANCE_TEXT])
{
    fli_snprintf(text, FLI_INSTANCE_TEXT, "%016llx %016llx", (unsigned long long)i->folder,
                 (unsigned long long)i->process);
    return text;
}

int fli_instance_read(const char *header, fli_instance *out)
{
    *out = (fli_instance){0, 0};
    if (!header) return 1;
    if (strlen(header) != 33 || strspn(header, "0123456789abcdef") != 16 || header[16] != ' ' ||
        strspn(header + 17, "0123456789abcdef") != 16)
        return 0;
    out->folder = strtoull(header, NULL, 16);
    out->process = strtoull(header + 17, NULL, 16);
    return 1;
}

static int letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

int fli_net_name_ok(const char *name)
{
    size_t n = strlen(name);
    if (!n || n > FLI_NET_NAME_MAX || !letter(*name)) return 0;
    for (size_t i = 0; i < n; i++)
        if (!letter(name[i]) && name[i] != '.' && name[i] != '-') return 0;
    return 1;
}
