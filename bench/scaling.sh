#!/bin/sh
# The gain of more threads: rounds of 100 clients (FedAvg, all take part, 600 samples each, one pass), compared with SGEMMs of the
# same shapes on the same number of threads. The fastest of several turns counts for both.
#     scaling.sh BUILD [MOST] [TURNS] [METHOD]       threads 1, 2, 4, ... MOST (default: one per processor)
set -eu
build=${1:-build}
most=${2:-$(nproc)}
turns=${3:-3}
method=${4:-fedavg}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

cat >"$work/base.yaml" <<EOF
partition: {kind: iid, clients: 100}
participation: {kind: everyone}
local: {lr: 0.01, batch: 50, epochs: 1}
metrics: {every: 1000000, test: false, train: false}
algorithm: $method
EOF
# network, rounds, settings
cat >"$work/cases" <<EOF
60-32-10 60 data={kind: blobs, features: 60, samples: 60000};model={kind: mlp, hidden: [32]};local.batch=10
784-200-10 12 data={kind: blobs, features: 784, samples: 60000};model={kind: mlp, hidden: [200]}
784-200-200-10 12 data={kind: blobs, features: 784, samples: 60000};model={kind: mlp, hidden: [200, 200]}
cnn 2 data={kind: cifar10, dir: $work, batches: 1};model={kind: cnn, layers: "conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192"};local.steps=2
EOF

round() { # threads rounds settings: seconds of the fastest round
    (
        IFS=';'
        set -f
        # shellcheck disable=SC2086
        set -- "$1" "$2" $3
        threads=$1 rounds=$2
        shift 2
        "$build/bench/bench_federation" "$work/base.yaml" "threads=$threads" "rounds=$rounds" "$@" | cut -d ' ' -f 3
    )
}

"$build/bench/bench_images" "$work"
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) processors"
while read -r network rounds settings; do
    for _ in $(seq "$turns"); do
        threads=1
        while [ "$threads" -le "$most" ]; do
            echo "$threads $(round "$threads" "$rounds" "$settings") $("$build/bench/bench_gemms" "$network" "$threads")"
            threads=$((threads * 2))
        done
    done | awk -v network="$network" '
        !($1 in own) || $2 < own[$1] { own[$1] = $2 }
        !($1 in gemm) || $3 < gemm[$1] { gemm[$1] = $3 }
        END {
            for (t = 1; t in own; t *= 2)
                printf "  %-15s %3d threads  %9.2f ms per round  gains %5.2f   SGEMM gains %5.2f   of that %3.0f%%\n", network, t,
                    own[t] * 1000, own[1] / own[t], gemm[1] / gemm[t], 100 * (own[1] / own[t]) / (gemm[1] / gemm[t])
        }'
done <"$work/cases"
