/* Every source that comes with fedloom. */
#include "data/source.h"

const fli_source *const fli_source_list[] = {
    &fli_source_idx,   &fli_source_cifar10, &fli_source_libsvm,       &fli_source_csv,       &fli_source_npy,
    &fli_source_npz,   &fli_source_leaf,    &fli_source_image_folder, &fli_source_synthetic, &fli_source_linreg,
    &fli_source_blobs, &fli_source_digits,  &fli_source_memory,       &fli_source_joined,    NULL,
};
