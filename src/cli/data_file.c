#include "cli/data_file.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Whether a file's name ends so, whatever it was packed with. */
static int ends(const char *file, const char *suffix)
{
    static const char *const packed[] = {"", ".gz", ".xz"};
    size_t n = strlen(file), m = strlen(suffix);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        size_t k = strlen(packed[i]);
        if (n > m + k && !strcasecmp(file + n - k, packed[i]) && !strncasecmp(file + n - k - m, suffix, m)) return 1;
    }
    return 0;
}

static const data_format formats[] = {
    {".npz", "npz", {"train"}, NULL, NULL},
    {".csv", "csv", {"train"}, NULL, NULL},
    {".tsv", "csv", {"train"}, "separator", "tab"},
    {".svm", "libsvm", {"train"}, NULL, NULL},
    {".libsvm", "libsvm", {"train"}, NULL, NULL},
    {".json", "leaf", {"train"}, NULL, NULL},
    {".npy", "npy", {"train_x", "train_y"}, NULL, NULL},
};

const char data_endings[] = ".npz, .csv, .tsv, .svm, .libsvm, .json, two times .npy";

const data_format *data_format_of(const char *file)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (ends(file, formats[i].suffix)) return &formats[i];
    return NULL;
}
