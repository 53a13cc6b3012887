#!/bin/sh
# Runs the tests of kernels on the GPU: those that the emulator runs too, and whatever else is called gpu_*. Where there is no GPU
# they are skipped, and counted. What would take the emulator too long is done here, too. A program that takes longer than half an hour
# is killed. Usage: run-gpu.sh [BUILD]
set -eu
export FEDLOOM_TEST_ALL=1
build=${1:-build}
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
programs=$(ls "$build"/tests | grep '^gpu_[a-z0-9_]*$' | grep -v '^gpu_there$') || programs=""
if [ -z "$programs" ]; then
    echo "skipped: all tests of GPUs, since this build is without CUDA"
    exit 0
fi
if ! "$build/tests/gpu_there" >"$log" 2>&1; then
    echo "skipped: $(echo "$programs" | wc -l) test programs, since there is no GPU: $(cat "$log")"
    exit 0
fi
passed=0
failed=0
bad=
for t in $programs; do
    rc=0
    timeout -k 5 1800 "$build/tests/$t" >"$log" 2>&1 || rc=$?
    [ "$rc" != 124 ] || echo "killed after 1800 seconds" >>"$log"
    n=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
    passed=$((passed + ${n:-0}))
    if [ "$rc" = 0 ]; then
        echo "ok    $t"
    else
        echo "FAIL  $t"
        bad="$bad $t"
        sed 's/^/      /' "$log"
        n=$(sed -n 's/^\[  FAILED  \].* \([0-9]*\) test.*/\1/p' "$log" | tail -1)
        failed=$((failed + ${n:-1}))
    fi
done
[ -z "$bad" ] || echo "these failed:$bad"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
