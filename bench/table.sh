#!/bin/sh
# The table of `make bench`: a local step and a round of FedAvg and FedVRA, 4 of 10 clients per round, five passes over 600 samples each (the CNN:
# one); on one and on two threads, beside the machine's SGEMM and, if they can be imported, the same work in PyTorch and JAX.
#     table.sh BUILD [TURNS]
# A machine's speed varies, so everything takes turns, and the fastest round of all turns counts (of SGEMM: the
# fastest product).
set -eu
build=${1:-build}
turns=${2:-3}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# name, network for the peers, batch, passes, training MFLOP per sample, rounds, settings. A model that this build does not have is left out.
# FLOP: 2 per multiplication and addition; forward, gradient by weights, and, but for the first layer, gradient by inputs.
cat >"$work/cases" <<EOF
60-32-10 60-32-10 10 5 0.0096 100 data={kind: blobs, features: 60, samples: 6000};model={kind: mlp, hidden: [32]}
60-32-10 60-32-10 50 5 0.0096 100 data={kind: blobs, features: 60, samples: 6000};model={kind: mlp, hidden: [32]}
784-200-10 784-200-10 50 5 0.6392 12 data={kind: blobs, features: 784, samples: 6000};model={kind: mlp, hidden: [200]}
784-200-200-10 784-200-200-10 50 5 0.8792 12 data={kind: blobs, features: 784, samples: 6000};model={kind: mlp, hidden: [200, 200]}
CIFAR-CNN cnn 50 1 80.62 4 data={kind: cifar10, dir: $work, batches: 1};model={kind: cnn, layers: "conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192"};local.steps=12
EOF
cat >"$work/base.yaml" <<EOF
partition: {kind: iid, clients: 10}
participation: {kind: uniform, fraction: 0.4}
local: {lr: 0.01}
metrics: {every: 1000000, test: false, train: false}
EOF

known() { "$build/fedloom" list models "$(expr "$1" : '.*model={kind: \([a-z]*\)')" >/dev/null 2>&1; }

one_case() { # name batch passes rounds settings: a line "own NAME BATCH METHOD THREADS ..." for each method and number of threads
    for method in fedavg fedvra; do
        for threads in 1 2; do
            (
                IFS=';'
                set -f
                # shellcheck disable=SC2086
                set -- "$@" $5
                name=$1 batch=$2 passes=$3 rounds=$4
                shift 5
                echo "own $name $batch $method $threads $("$build/bench/bench_federation" "$work/base.yaml" "algorithm=$method" \
                    "threads=$threads" "rounds=$rounds" "local.batch=$batch" \
                    "local.epochs=$passes" "$@")"
            )
        done
    done
}

peer_case() { # peer name:widths:batch:passes batch: a line "peer PEER NAME BATCH THREADS MICROSECONDS" for each number of threads
    python3 "$here/$1_loop.py" "$2" | sed "s/^\([^ ]*\) /peer $1 \1 $3 /"
}

one_turn() {
    for threads in 1 2; do echo "peak $threads $("$build/bench/bench_peak" $threads)"; done
    while read -r name widths batch passes mflop rounds settings; do
        known "$settings" || continue
        echo "case $name $batch $mflop"
        one_case "$name" "$batch" "$passes" "$rounds" "$settings"
        for peer in $peers; do peer_case "$peer" "$name:$widths:$batch:$passes" "$batch"; done
    done <"$work/cases"
}

peers=
for peer in torch jax; do
    version=$(python3 -c "import $peer; print($peer.__version__)" 2>/dev/null || true)
    [ -z "$version" ] || peers="$peers $peer"
    echo "$peer: ${version:-not installed, so not compared (python3 -m pip install $peer)}"
done
if grep -q cnn "$work/cases" && known 'model={kind: cnn'; then "$build/bench/bench_images" "$work"; fi
for _ in $(seq "$turns"); do one_turn; done >"$work/lines"

awk -f "$here/table.awk" "$work/lines"
