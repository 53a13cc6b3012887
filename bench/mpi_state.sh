#!/usr/bin/env bash
# The memory of a million clients of SCAFFOLD, each of which keeps a vector of the model's size (60-32-10) after its turn: in one
# process, and in ranks that share the clients. The models must have the same bits. Needs 20 GB, and minutes. Usage:
#   mpi_state.sh BUILD [RANKS] [CLIENTS]
set -eu
. "$(dirname "$0")/mpi_lib.sh" "${1:?usage: mpi_state.sh BUILD [RANKS] [CLIENTS]}"
ranks=${2:-4} clients=${3:-1000000}
one=$("$build/bench/mpi_run" alone one.model "$here/mpi_state.yaml" "data.clients=$clients")
many=$(by_ranks "$ranks" "$build/bench/mpi_run" ranks many.model "$here/mpi_state.yaml" "data.clients=$clients")
cmp one.model many.model
printf '%s\n' "$one" "$many" | awk -v clients="$clients" '
    { for (i = 1; i <= NF; i++) { split($i, pair, "="); v[NR, pair[1]] = pair[2] } }
    END {
        printf "  %d clients with state: one process %.0f MB; %d ranks %.0f MB at most each, %.0f together: %.3f of one process\n", clients,
            v[1, "peak_mb"], v[2, "ranks"], v[2, "peak_mb"], v[2, "all_mb"], v[2, "peak_mb"] / v[1, "peak_mb"]
        printf "  seconds per round: %.1f and %.1f, of which a rank waited %.1f\n", v[1, "seconds"], v[2, "seconds"], v[2, "waits"]
    }'
