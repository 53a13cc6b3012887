/* Writes random images in the format of CIFAR-10's binary version, for speed alone: data_batch_1.bin and
 * test_batch.bin.
 *     bench_images FOLDER */
#include <stdint.h>
#include <stdio.h>

enum { IMAGES = 10000, PIXELS = 3072 };

static int write_batch(const char *folder, const char *name)
{
    static unsigned char record[PIXELS + 1];
    char path[4096];
    uint32_t r = 1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f) return 1;
    for (int i = 0; i < IMAGES; i++) {
        for (int k = 0; k <= PIXELS; k++) record[k] = (unsigned char)((r = r * 1664525u + 1013904223u) >> 24);
        record[0] = (unsigned char)(i % 10);
        fwrite(record, 1, sizeof record, f);
    }
    return fclose(f) != 0;
}

int main(int argc, char **argv)
{
    return argc != 2 || write_batch(argv[1], "data_batch_1.bin") || write_batch(argv[1], "test_batch.bin");
}
