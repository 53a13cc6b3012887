#!/usr/bin/env bash
# The gain of more processes: rounds of FedAvg and SCAFFOLD on 1, 2, 4, ... ranks of one thread each, alternating with the same number
# of threads of one process. Strong: 64 clients in all. Weak: 8 clients per rank. Then the same processors as ranks of several threads.
# Every model must have the same bits. Then the cost of messages, a model of a round from these costs compared with the measured rounds,
# and its prediction for 64 and 1,024 ranks.
#     mpi.sh BUILD [MOST] [TURNS]       ranks up to MOST (default: one per processor); medians of TURNS (default: 3)
set -eu
. "$(dirname "$0")/mpi_lib.sh" "${1:?usage: mpi.sh BUILD [MOST] [TURNS]}"
most=${2:-$(nproc)} turns=${3:-3}

cat >base.yaml <<END
participation: {kind: everyone}
metrics: {every: 1000000, test: false, train: false}
threads: 1
END
# network, hidden units, features, samples of a client, batch, rounds
cat >networks <<END
60-32-10 32 60 300 10 40
784-200-10 200 784 200 50 8
END

# settings CLIENTS: of the case that features, samples, hidden, batch, rounds and method describe
settings() {
    set_to=("data={kind: blobs, features: $features, samples: $(($1 * samples))}" "partition={kind: iid, clients: $1}"
        "model={kind: mlp, hidden: [$hidden]}" "local={lr: 0.01, batch: $batch, epochs: 1}" "rounds=$rounds" "algorithm=$method")
}

same() { cmp -s "$1" "$2" || { echo "mpi.sh: $network, $method: the models of $3 differ" >&2 && exit 1; }; }

# One turn of a case: both contenders on every number of ranks. The first word says which.
turn() { # strong|weak
    local n=1 clients
    while [ "$n" -le "$most" ]; do
        clients=64
        [ "$1" = strong ] || clients=$((8 * n))
        settings "$clients"
        echo "ranks $n $(by_ranks "$n" "$build/bench/mpi_run" ranks ranks.model base.yaml "${set_to[@]}")"
        echo "threads $n $("$build/bench/mpi_run" alone threads.model base.yaml "${set_to[@]}" "threads=$n")"
        same ranks.model threads.model "$n ranks and $n threads"
        [ "$1" = weak ] || [ "$n" = 1 ] || same ranks.model one.model "$n ranks and one"
        [ "$1" = weak ] || cp ranks.model one.model
        n=$((n * 2))
    done
}

# Independent runs at the same time, to measure a processor's speed when all processors are busy.
apart() {
    local n=1 i
    settings 8
    while [ "$n" -le "$most" ]; do
        for i in $(seq "$n"); do "$build/bench/mpi_run" alone "apart$i.model" base.yaml "${set_to[@]}" >"apart$i" & done
        wait
        for i in $(seq "$n"); do echo "apart $n $(cat "apart$i")"; done
        n=$((n * 2))
    done
}

# The same processors as few ranks of many threads, or many ranks of few threads; 4 clients per processor.
shapes() {
    local n=1
    settings $((4 * most))
    while [ "$n" -le "$most" ]; do
        echo "shaped $n $(by_ranks "$n" "$build/bench/mpi_run" ranks shaped.model base.yaml "${set_to[@]}" "threads=$((most / n))")"
        [ "$n" = 1 ] || same shaped.model one.model "$n ranks of several threads and one"
        [ "$n" != 1 ] || cp shaped.model one.model
        n=$((n * 2))
    done
}

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) processors"
while read -r network hidden features samples batch rounds; do
    for method in fedavg scaffold; do
        for kind in strong weak; do
            for _ in $(seq "$turns"); do turn $kind; done | sed "s/^/$network $method $kind /" >case
            awk -f "$here/mpi.awk" -v part=scaling -v title="$([ -e all ] || echo 1)" case
            cat case >>all
        done
    done
    method=fedavg
    for _ in $(seq "$turns"); do apart; done | sed "s/^/$network fedavg weak /" >>all
done <networks

echo
echo "  $most processors as ranks of several threads, and how much faster that is than one rank"
while read -r network hidden features samples batch rounds; do
    for method in fedavg scaffold; do
        for _ in $(seq "$turns"); do shapes; done | sed "s/^/$network $method shapes /" >case
        awk -f "$here/mpi.awk" -v part=shapes -v processors="$most" case
    done
done <networks

n=$((most > 1 ? most : 2))
for _ in $(seq "$turns"); do by_ranks "$n" "$build/bench/mpi_wire"; done | sed "s/^/wire $n /" >>all
echo
echo "  a message, each of many at a time, a vector put together, a sum, an upload absorbed; us on $n ranks"
awk '$1 == "wire"' all | sort -k 3,3 -k 4,4n -k 5,5g | awk -v turns="$turns" '++seen[$3 " " $4] == int((turns + 1) / 2) {
    printf "  %-8s %8d bytes %10.2f\n", $3, $4, 1e6 * $5 }'
[ "$most" = 1 ] || awk -f "$here/mpi.awk" -v part=model all
