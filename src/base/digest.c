#include "base/digest.h"

#include "base/file.h"

#include <errno.h>
#include <string.h>

void fli_hash_init(fli_hash *h) { sha256_init(h); }

void fli_hash_bytes(fli_hash *h, const void *p, size_t n)
{
    if (n) sha256_update(h, n, p);
}

void fli_hash_count(fli_hash *h, uint64_t v)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++) b[i] = (uint8_t)(v >> 8 * i);
    sha256_update(h, sizeof b, b);
}

fli_digest fli_hash_end(fli_hash *h)
{
    fli_digest d;
    sha256_digest(h, sizeof d.byte, d.byte);
    return d;
}

int fli_digest_same(const fli_digest *a, const fli_digest *b) { return !memcmp(a->byte, b->byte, sizeof a->byte); }

static const char digits[] = "0123456789abcdef";

void fli_digest_print(const fli_digest *d, char text[FLI_DIGEST_TEXT])
{
    for (size_t i = 0; i < sizeof d->byte; i++) {
        text[2 * i] = digits[d->byte[i] >> 4];
        text[2 * i + 1] = digits[d->byte[i] & 15];
    }
    text[FLI_DIGEST_TEXT - 1] = 0;
}

int fli_digest_read(const char *text, fli_digest *out)
{
    if (strlen(text) != FLI_DIGEST_TEXT - 1 || strspn(text, digits) != FLI_DIGEST_TEXT - 1) return 0;
    for (size_t i = 0; i < sizeof out->byte; i++)
        out->byte[i] =
            (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
    return 1;
}

fl_status fli_digest_file(fl_ctx *ctx, const char *path, fli_digest *out, uint64_t *bytes)
{
    char buf[1 << 16];
    fli_hash h;
    size_t n;
    uint64_t size;
    FILE *f = fli_plain_open(ctx, path, &size);
    if (!f) return FL_EIO;
    fli_hash_init(&h);
    for (*bytes = 0; (n = fread(buf, 1, sizeof buf, f)) > 0; *bytes += n) fli_hash_bytes(&h, buf, n);
    int broken = ferror(f);
    fclose(f);
    if (broken) return fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", path, strerror(errno ? errno : EIO));
    *out = fli_hash_end(&h);
    return FL_OK;
}
