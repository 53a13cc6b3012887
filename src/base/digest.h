/* Checksums: CRC-32C against damage, in frames and packets; SHA-256 to notice that a file of a result, or the data of a
 * run, has changed. */
#ifndef FLI_BASE_DIGEST_H
#define FLI_BASE_DIGEST_H

#include "base/ctx.h"

#include <nettle/sha2.h>
#include <stddef.h>
#include <stdint.h>

/* ==== CRC-32C =============================================================================================== */

/* Castagnoli's polynomial, reflected, as in iSCSI, ext4 and TFRecord. */
uint32_t fli_crc32c(const void *p, size_t n);
/* Continues from the checksum of the bytes before; 0 at the beginning. Uses the processor's instruction if it has
 * one. */
uint32_t fli_crc32c_more(uint32_t crc, const void *p, size_t n);
/* The checksum of two pieces, one after the other, from the checksum of each; the second one has n bytes. */
uint32_t fli_crc32c_joined(uint32_t first, uint32_t second, size_t n);
/* fli_crc32c_more on any processor: for the functions above, and tests. */
uint32_t fli_crc32c_by_tables(uint32_t crc, const void *p, size_t n);

/* ==== SHA-256 =============================================================================================== */

enum { FLI_DIGEST_TEXT = 2 * SHA256_DIGEST_SIZE + 1 };

typedef struct {
    uint8_t byte[SHA256_DIGEST_SIZE];
} fli_digest;

typedef struct sha256_ctx fli_hash;

void fli_hash_init(fli_hash *h);
void fli_hash_bytes(fli_hash *h, const void *p, size_t n);
void fli_hash_count(fli_hash *h, uint64_t v); /* as eight bytes, low ones first, on every machine */
fli_digest fli_hash_end(fli_hash *h);

int fli_digest_same(const fli_digest *a, const fli_digest *b);
/* As 64 small hexadecimal digits, as sha256sum prints them. */
void fli_digest_print(const fli_digest *d, char text[FLI_DIGEST_TEXT]);
int fli_digest_read(const char *text, fli_digest *out); /* 0: the text is not a digest */

/* The digest of a whole regular file, and its length. FL_EIO if it cannot be read. */
fl_status fli_digest_file(fl_ctx *ctx, const char *path, fli_digest *out, uint64_t *bytes);

#endif
