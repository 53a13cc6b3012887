#include "message/piece.h"

/* What is not plain memory goes through this much of it. */
enum { STEP = 1 << 16 };

void fli_save_piece(const fli_space *s, const void *v, size_t bytes, fli_saver *out)
{
    char here[STEP];
    if (!s->place) {
        fli_save_bytes(out, v, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += STEP) {
        size_t n = bytes - at < STEP ? bytes - at : STEP;
        fli_vector_read(s, n, (const char *)v + at, here);
        fli_save_bytes(out, here, n);
    }
}

void fli_load_piece(const fli_space *s, void *v, size_t bytes, fli_loader *in)
{
    char here[STEP];
    if (!s->place) {
        fli_load_bytes(in, v, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += STEP) {
        size_t n = bytes - at < STEP ? bytes - at : STEP;
        fli_load_bytes(in, here, n);
        fli_vector_write(s, n, here, (char *)v + at);
    }
}
