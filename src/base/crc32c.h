/* CRC-32C (Castagnoli, reflected, as in iSCSI, ext4 and TFRecord). */
#ifndef FLI_BASE_CRC32C_H
#define FLI_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t fli_crc32c(const void *p, size_t n);

/* The same for much data: eight bytes at a time, by tables that the caller keeps. */
typedef struct {
    uint32_t after[8][256]; /* remainder of a byte that 0 to 7 bytes follow */
} fli_crc_tables;

void fli_crc_tables_init(fli_crc_tables *t);
/* Goes on from the checksum of what came before; 0 at the beginning. */
uint32_t fli_crc32c_more(const fli_crc_tables *t, uint32_t crc, const void *p, size_t n);

#endif
