#include "base/crc32c.h"

/* Remainders of the sixteen half bytes by the reflected polynomial 0x82F63B78. Files are small: half bytes keep the
 * table short. */
static const uint32_t remainders[16] = {
    0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
};

uint32_t fli_crc32c(const void *p, size_t n)
{
    const unsigned char *byte = p;
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < n; i++) {
        crc ^= byte[i];
        crc = remainders[crc & 15] ^ crc >> 4;
        crc = remainders[crc & 15] ^ crc >> 4;
    }
    return ~crc;
}

void fli_crc_tables_init(fli_crc_tables *t)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = remainders[b & 15] ^ b >> 4;
        t->after[0][b] = remainders[crc & 15] ^ crc >> 4;
    }
    for (size_t k = 1; k < 8; k++)
        for (size_t b = 0; b < 256; b++)
            t->after[k][b] = t->after[0][t->after[k - 1][b] & 255] ^ t->after[k - 1][b] >> 8;
}

uint32_t fli_crc32c_more(const fli_crc_tables *t, uint32_t crc, const void *p, size_t n)
{
    const unsigned char *b = p;
    crc = ~crc;
    for (; n >= 8; n -= 8, b += 8)
        crc = t->after[7][(crc ^ b[0]) & 255] ^ t->after[6][(crc >> 8 ^ b[1]) & 255] ^
              t->after[5][(crc >> 16 ^ b[2]) & 255] ^ t->after[4][crc >> 24 ^ b[3]] ^ t->after[3][b[4]] ^
              t->after[2][b[5]] ^ t->after[1][b[6]] ^ t->after[0][b[7]];
    for (; n; n--, b++) crc = t->after[0][(crc ^ *b) & 255] ^ crc >> 8;
    return ~crc;
}
