#include "base/crc32c.h"

/* Remainders of the sixteen half bytes by the reflected polynomial 0x82F63B78. Files are small: half bytes keep the table short. */
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
