#!/usr/bin/env bash
# The same federation by APPFL's MPI simulation and by fedloom: FedAvg, 784-200-10, two clients of 600 samples, 12 steps of 50, on two
# ranks; APPFL has a third that serves. Seconds per round, the median of all but the first. Usage:
#   mpi_appfl.sh BUILD [VENV] [ROUNDS]        VENV has appfl and mpi4py from PyPI
set -eu
venv=${2:-} rounds=${3:-5}
if [ ! -x "$venv/bin/python" ]; then
    echo "APPFL is left out: no virtual environment was given that has it"
    exit 0
fi
venv=$(realpath -s "$venv")
. "$(dirname "$0")/mpi_lib.sh" "${1:?usage: mpi_appfl.sh BUILD [VENV] [ROUNDS]}"
cat >two.yaml <<END
data: {kind: blobs, features: 784, samples: 1200}
partition: {kind: iid, clients: 2}
participation: {kind: everyone}
model: {kind: mlp, hidden: [200]}
local: {steps: 12, batch: 50, lr: 0.01}
rounds: 200
metrics: {every: 1000000, test: false, train: false}
threads: 1
END
ours() { by_ranks 2 "$build/bench/mpi_run" ranks model two.yaml | sed 's/.* seconds=\([0-9.]*\) .*/\1/'; }

before=$(ours)
theirs=$(by_ranks 3 "$venv/bin/python" "$here/mpi_appfl.py" "$work/appfl" "$rounds" 2>log | sed -n 's/.*ROUND \([0-9.]*\) .*/\1/p')
[ -n "$theirs" ] || { echo "APPFL did not finish:" && tail -n 5 log && exit 1; }
after=$(ours)
awk -v a="$before" -v b="$after" -v t="$theirs" -v version="$("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("appfl"))')" 'BEGIN {
    printf "  APPFL %-8s %10.4f s per round\n  fedloom        %10.4f and %.4f s per round, before and after; %.0f times as fast\n", version, t, a, b,
        2 * t / (a + b) }'
