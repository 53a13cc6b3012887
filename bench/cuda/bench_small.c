/* Whole turns of small networks on a GPU, in one kernel (src/cuda/kernels/small.cu): microseconds per client-step of
 * batch 50, and the result's distance from the same turn in double precision. From the repository's root:
 *
 *     nvcc -arch=sm_90 -O3 -D_GNU_SOURCE -Isrc -Iinclude -Itests/cuda \
 *         bench/cuda/bench_small.c src/cuda/kernels/small.cu src/cuda/runtime.c src/base/number.c src/base/os.c \
 *         -o bench_small && ./bench_small */
#include "turns.h"

static void measure(fli_cuda_stream s, const char *name, const size_t *size, size_t depth, int biased, int terms)
{
    static const uint32_t many[] = {10, 100, 132, 1000};
    problem p = {.net = plain_network(size, depth, biased)};
    make_samples(s, &p);
    make_lanes(s, &p, terms);
    fli_cuda_lane *lane = there(s, p.lane, LANES_MOST * sizeof *lane);
    if (!fli_cuda_small_fits(FLI_CUDA_F32, &p.net, &p.data, BATCH)) {
        printf("%-22s does not fit\n", name);
        return;
    }
    double *want = plain_result(&p, terms);
    for (size_t k = 0; k < sizeof many / sizeof *many; k++) {
        printf("%-22s", name);
        measure_lanes(s, &p, fli_cuda_small_turns, FLI_CUDA_F32, lane, many[k], want);
    }
    free(want);
}

int main(void)
{
    fli_cuda_stream s;
    check(fli_cuda_use(0));
    check(fli_cuda_stream_new(&s));
    measure(s, "60-32-10", (size_t[]){60, 32, 10}, 2, 1, 0);
    measure(s, "60-32-10, with a term", (size_t[]){60, 32, 10}, 2, 1, 1);
    measure(s, "softmax 784-10", (size_t[]){784, 10}, 1, 1, 0);
    measure(s, "softmax, with a term", (size_t[]){784, 10}, 1, 1, 1);
    measure(s, "logistic 123", (size_t[]){123, 1}, 1, 0, 0);
    return 0; /* the process ends here, so nothing is freed */
}
