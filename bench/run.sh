#!/bin/sh
# Speed and memory of this build, each with its aim. Where possible figures are ratios within one run.
set -eu
build=${1:-build}
here=$(dirname "$0")
fed="$build/bench/bench_federation"

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores"
echo
echo "A local step on one thread (f32; aims: 784-200-10 at most 1.4 x its GEMMs, 60-32-10 at most 15 us)"
"$build/bench/bench_step"

echo
echo "A convolutional network (f32; aims: at least 45% of SGEMM, two threads at least 1.8 x one)"
"$build/bench/bench_cnn"
echo
echo "Steps and rounds (aims on two threads: 30 x PyTorch for 60-32-10, 4 x for the MLPs, 2 x for the CNN; FedVRA at most 1.10 x FedAvg;"
echo "MLPs at 60%, the CNN at 45% of the SGEMM peak)"
"$here/table.sh" "$build"

echo
echo "What threads gain: rounds of 100 clients, beside SGEMMs of the same shapes (aim: 85% of what SGEMM gains)"
"$here/scaling.sh" "$build" "$(nproc)" 1 | tail -n +2

echo
echo "A server that absorbs uploads, ten of 10 million f32 parameters (aim: at least half as fast as they are copied)"
"$build/bench/bench_absorb"

echo
echo "Measuring after every round, as a share of the run (aim: under 10%; the test set alone is 13% of the operations of metrics-mnist)"
for what in metrics-mnist metrics-synthetic; do
    for _ in 1 2 3; do "$fed" "$here/$what.yaml"; done | sort -n | head -1 |
        awk -v what="$what" '{ printf "  %-18s %7.1f ms per round   %4.1f%% for metrics\n", what, $1 * 1000, 100 * $5 }'
done

echo
echo "FedGiA: a turn, and whole runs with 64 clients on two threads (aims: closed form the faster from k0 = 5 on; a run under 20 ms for k0 = 1, 5, 10)"
"$build/bench/bench_gia"

echo
echo "Convex problems: federated methods against second-order ones on the pooled data, to a gap of 1e-9 (no aims; it says what it finds)"
"$build/bench/bench_convex" --seconds 5

echo
echo "60,000 images, 100 clients, 784-200-10 (aims: under 150 MiB; two threads at least 1.8 x one)"
# The machine's speed varies: one and two threads take turns, and the fastest of five runs counts, which was disturbed least.
turns=$(for _ in 1 2 3 4 5; do
    echo "1 $("$fed" "$here/memory.yaml" threads=1)"
    echo "2 $("$fed" "$here/memory.yaml" threads=2)"
done)
fastest() { echo "$turns" | grep "^$1 " | cut -d ' ' -f 2- | sort -n | head -1; }
one=$(fastest 1)
two=$(fastest 2)
printf '%s\n' "$one" "$two" | awk '
    NR == 1 { one = $1; printf "  1 thread   %7.1f ms per round   %6.1f MiB\n", $1 * 1000, $2 }
    NR == 2 { printf "  2 threads  %7.1f ms per round   %6.1f MiB   speed-up %.2f\n", $1 * 1000, $2, one / $1 }'

echo
echo "100 of N clients per round, data on demand (aims: time per round the same for every N; under 1 GiB)"
for n in 10000 100000 1000000; do
    for _ in 1 2 3; do "$fed" "$here/million.yaml" "partition.clients=$n"; done | sort -n | head -1 |
        awk -v n="$n" '{ printf "  N = %-8d %7.2f ms per round   %6.1f MiB\n", n, $1 * 1000, $2 }'
done
