/* Whole turns of networks by clusters of blocks (src/cuda/kernels/wide.cu): microseconds per client-step of batch 50,
 * for clusters and blocks of several sizes, and the result's distance from the same turn in double precision. Then the
 * clusters chosen for numbers of lanes, 0 for layer by layer. From the repository's root:
 *
 *     nvcc -arch=sm_90 -O3 -D_GNU_SOURCE -Isrc -Iinclude -Itests/cuda bench/cuda/bench_wide.c \
 *         src/cuda/kernels/wide.cu src/cuda/runtime.c src/base/number.c src/base/os.c -o bench_wide && ./bench_wide */
#include "turns.h"

static uint32_t cluster;
static void turns(fli_cuda_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                  const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch)
{
    fli_cuda_wide_turns(s, type, net, data, lane, lanes, batch, cluster);
}

static void measure(fli_cuda_stream s, const char *name, const size_t *size, size_t depth, int terms)
{
    static const uint32_t many[] = {10, 16, 20, 24, 33}, warps[] = {8, 16};
    problem p = {.net = plain_network(size, depth, 1)};
    make_samples(s, &p);
    make_lanes(s, &p, terms);
    fli_cuda_lane *lane = there(s, p.lane, LANES_MOST * sizeof *lane);
    double *want = plain_result(&p, terms);
    for (fli_cuda_type type = FLI_CUDA_F32; type <= FLI_CUDA_TF32; type++)
        for (cluster = 2; cluster <= 8; cluster++)
            for (size_t w = 0; w < 2; w++)
                for (size_t k = 0; k < sizeof many / sizeof *many; k++) {
                    fli_cuda_wide_force(cluster, warps[w]);
                    if (!fli_cuda_wide_cluster(type, &p.net, &p.data, BATCH, 1)) continue;
                    printf("%-24s %s clusters of %u, %2u warps", name, type == FLI_CUDA_F32 ? "fp32" : "tf32", cluster,
                           warps[w]);
                    measure_lanes(s, &p, turns, type, lane, many[k], want);
                }
    fli_cuda_wide_force(0, 0);
    for (fli_cuda_type type = FLI_CUDA_F32; type <= FLI_CUDA_TF32; type++) {
        printf("%-24s %s lanes, and blocks of their clusters:", name, type == FLI_CUDA_F32 ? "fp32" : "tf32");
        for (uint32_t lanes = 1, last = 9; last; lanes++) {
            uint32_t best = fli_cuda_wide_cluster(type, &p.net, &p.data, BATCH, lanes);
            if (best != last) printf("  from %u: %u", lanes, best);
            last = best;
        }
        printf("\n");
    }
    free(want);
}

int main(void)
{
    fli_cuda_stream s;
    check(fli_cuda_use(0));
    check(fli_cuda_stream_new(&s));
    measure(s, "784-200-10", (size_t[]){784, 200, 10}, 2, 0);
    measure(s, "784-200-10, with a term", (size_t[]){784, 200, 10}, 2, 1);
    measure(s, "784-200-200-10", (size_t[]){784, 200, 200, 10}, 3, 0);
    return 0; /* the process ends here, so nothing is freed */
}
