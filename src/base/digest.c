#include "base/digest.h"

#include "base/file.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* ==== CRC-32C =============================================================================================== */

/* Remainders of the sixteen half bytes, for the reflected polynomial 0x82F63B78. */
static const uint32_t remainders[16] = {
    0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
};

static uint32_t after[8][256]; /* remainder of a byte that is followed by 0 to 7 bytes; computed once */
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = remainders[b & 15] ^ b >> 4;
        after[0][b] = remainders[crc & 15] ^ crc >> 4;
    }
    for (size_t k = 1; k < 8; k++)
        for (size_t b = 0; b < 256; b++) after[k][b] = after[0][after[k - 1][b] & 255] ^ after[k - 1][b] >> 8;
}

uint32_t fli_crc32c_by_tables(uint32_t crc, const void *p, size_t n)
{
    const unsigned char *b = p;
    pthread_once(&made, make_tables);
    crc = ~crc;
    for (; n >= 8; n -= 8, b += 8)
        crc = after[7][(crc ^ b[0]) & 255] ^ after[6][(crc >> 8 ^ b[1]) & 255] ^ after[5][(crc >> 16 ^ b[2]) & 255] ^
              after[4][crc >> 24 ^ b[3]] ^ after[3][b[4]] ^ after[2][b[5]] ^ after[1][b[6]] ^ after[0][b[7]];
    for (; n; n--, b++) crc = after[0][(crc ^ *b) & 255] ^ crc >> 8;
    return ~crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const unsigned char *b, size_t n)
{
    uint64_t all = ~crc, eight;
    for (; n >= sizeof eight; n -= sizeof eight, b += sizeof eight) {
        memcpy(&eight, b, sizeof eight);
        all = __builtin_ia32_crc32di(all, eight);
    }
    crc = (uint32_t)all;
    for (; n; n--, b++) crc = __builtin_ia32_crc32qi(crc, *b);
    return ~crc;
}

uint32_t fli_crc32c_more(uint32_t crc, const void *p, size_t n)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, p, n) : fli_crc32c_by_tables(crc, p, n);
}
#else
uint32_t fli_crc32c_more(uint32_t crc, const void *p, size_t n) { return fli_crc32c_by_tables(crc, p, n); }
#endif

uint32_t fli_crc32c(const void *p, size_t n) { return fli_crc32c_more(0, p, n); }

/* Bits are coefficients: the highest is that of x^0. A further byte multiplies the remainder of the bytes before it by
 * x^8. */
static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = b & 1 ? b >> 1 ^ 0x82F63B78 : b >> 1;
    }
    return product;
}

uint32_t fli_crc32c_joined(uint32_t first, uint32_t second, size_t n)
{
    uint32_t power = 1u << 31, square = 1u << 23; /* 1, and x^8 to the power of 1, 2, 4, ... */
    for (; n; n >>= 1, square = times(square, square))
        if (n & 1) power = times(power, square);
    return times(power, first) ^ second;
}

/* ==== SHA-256 =============================================================================================== */

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
