/* CRC-32C (Castagnoli, reflected, as in iSCSI, ext4 and TFRecord). */
#ifndef FLI_BASE_CRC32C_H
#define FLI_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t fli_crc32c(const void *p, size_t n);

#endif
