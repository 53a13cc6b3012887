# Shared by the benchmarks of several processes, which source it with the build folder as $1. Sets build, here (this folder) and work (a
# temporary folder, to which it changes), and exits if MPI is missing. MPIEXEC, if set, replaces the launcher that the build found: a
# script may add hosts, which must share TMPDIR.
build=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
mpiexec=${MPIEXEC:-$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")}
if [ ! -x "$build/bench/mpi_run" ] || ! command -v "$mpiexec" >/dev/null; then
    echo "left out: this build has no MPI, or there is no mpiexec"
    exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d "${TMPDIR:-/tmp}/fedloom-mpi-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work"

# by_ranks N PROGRAM ...: N ranks on any number of processors. MPICH's launcher needs no options for that.
unbound=()
if "$mpiexec" --version 2>&1 | grep -qE 'Open ?(MPI|RTE)'; then
    unbound=(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
fi
by_ranks() { "$mpiexec" ${unbound[@]+"${unbound[@]}"} -n "$@" </dev/null; }
