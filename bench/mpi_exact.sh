#!/usr/bin/env bash
# What `exact: false` changes: FedAvg for 100 rounds on 2, 3 and 4 ranks, which send sums in place of uploads, beside one process. How far the
# model is from that process's, the largest difference of an entry over the largest entry, and the KB that a rank sends in a round, in
# uploads or sums and in all that ranks do together, either way.
#     mpi_exact.sh BUILD [ROUNDS]
set -eu
. "$(dirname "$0")/mpi_lib.sh" "${1:?usage: mpi_exact.sh BUILD [ROUNDS]}"
rounds=${2:-100}

cat >base.yaml <<END
data: {kind: blobs, features: 60, samples: 19200}
partition: {kind: iid, clients: 64}
participation: {kind: everyone}
model: {kind: mlp, hidden: [32]}
local: {lr: 0.01, batch: 10, epochs: 1}
algorithm: fedavg
rounds: $rounds
metrics: {every: 1000000, test: false, train: false}
threads: 1
END

# Of a safetensors file: what comes after its header, whose length is the first eight bytes.
numbers() { tail -c "+$((9 + $(od -An -t u8 -N 8 "$1")))" "$1" | od -An -v -t "f$bytes" -w"$bytes"; }
distance() {
    paste <(numbers "$1") <(numbers "$2") | awk '
        function size(x) { return x < 0 ? -x : x }
        { if (size($1 - $2) > far) far = size($1 - $2); if (size($1) > most) most = size($1) }
        END { printf "%.1e", far / most }'
}
value() { sed "s/.* $1=\([0-9.]*\) .*/\1/" <<<"$2"; }

echo "  precision  ranks  off by   KB sent: exact, not    KB together: exact, not    ms per round: exact, not"
for precision in f32 f64; do
    bytes=$((${precision#f} / 8))
    "$build/bench/mpi_run" alone one.model base.yaml "precision=$precision" >alone
    for n in 2 3 4; do
        exact=$(by_ranks "$n" "$build/bench/mpi_run" ranks exact.model base.yaml "precision=$precision")
        cmp one.model exact.model
        sums=$(by_ranks "$n" "$build/bench/mpi_run" ranks sums.model base.yaml "precision=$precision" exact=false)
        printf '  %-9s  %5d  %s  %10s %10s  %12s %12s  %13.1f %12.1f\n' "$precision" "$n" "$(distance one.model sums.model)" \
            "$(value sent_kb "$exact")" "$(value sent_kb "$sums")" "$(value call_kb "$exact")" "$(value call_kb "$sums")" \
            "$(value seconds "$exact")e3" "$(value seconds "$sums")e3"
    done
done
