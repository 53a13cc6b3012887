#!/usr/bin/env bash
# Runs over several processes, by mpirun on this machine: what MPI carries. Usage: run.sh BUILD
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"
if [ ! -e "$build/libfedloom_mpi.so" ]; then echo "skipped: this build has no MPI"; exit 77; fi
if ! command -v mpirun >/dev/null; then echo "skipped: there is no mpirun"; exit 77; fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# ranks N COMMAND...: leaves $code, out, err. More ranks than processors are no matter here.
ranks() {
    local n=$1
    shift
    timeout 120 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n "$n" "$@" >out 2>err </dev/null
    code=$?
}

# ---- the table ----------------------------------------------------------------------------------------------

for n in 1 2 3 4; do
    ranks "$n" "$build/tests/mpi_carry"
    check "the table on $n ranks" exits 0
    check "the table on $n ranks: all of it" has out " passed, 0 failed"
done
ranks 3 "$build/tests/mpi_carry" late
check 'a rank does not come: the others do not wait for ever' exits 42

count
