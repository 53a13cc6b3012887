/* Checksums: CRC-32C for damage, in frames and packets; SHA-256 for noticing that something is not what it was: a file
 * of a result, the data of a run. */
#ifndef FLI_BASE_DIGEST_H
#define FLI_BASE_DIGEST_H

#include "base/ctx.h"

#include <nettle/sha2.h>
#include <stddef.h>
#include <stdint.h>

/* ==== CRC-32C =============================================================================================== */

/* Castagnoli's polynomial, reflected, as in iSCSI, ext4 and TFRecord. */
uint32_t fli_crc32c(const void *p, size_t n);

/* The same for much data: eight bytes at a time, by tables that the caller keeps. */
typedef struct {
    uint32_t after[8][256]; /* remainder of a byte that 0 to 7 bytes follow */
} fli_crc_tables;

void fli_crc_tables_init(fli_crc_tables *t);
/* Goes on from the checksum of what came before; 0 at the beginning. */
uint32_t fli_crc32c_more(const fli_crc_tables *t, uint32_t crc, const void *p, size_t n);

/* ==== SHA-256 =============================================================================================== */

enum { FLI_DIGEST_TEXT = 2 * SHA256_DIGEST_SIZE + 1 };

typedef struct {
    uint8_t byte[SHA256_DIGEST_SIZE];
} fli_digest;

typedef struct sha256_ctx fli_hash;

void fli_hash_init(fli_hash *h);
void fli_hash_bytes(fli_hash *h, const void *p, size_t n);
void fli_hash_count(fli_hash *h, uint64_t v); /* as eight bytes, the low ones first, on every machine */
fli_digest fli_hash_end(fli_hash *h);

int fli_digest_same(const fli_digest *a, const fli_digest *b);
/* As 64 small hexadecimal digits, as sha256sum prints them. */
void fli_digest_print(const fli_digest *d, char text[FLI_DIGEST_TEXT]);
int fli_digest_read(const char *text, fli_digest *out); /* 0 if it is not that */

/* Of a whole plain file, and its length. FL_EIO if it cannot be read. */
fl_status fli_digest_file(fl_ctx *ctx, const char *path, fli_digest *out, uint64_t *bytes);

#endif
