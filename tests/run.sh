#!/bin/sh
# Runs the tests of a build folder: every test program, the golden cases, the command line. Prints each failure; the last line
# counts. `threaded` as second argument runs only what uses threads (for the thread sanitizer, which is slow).
set -eu
build=${1:-build}
which=${2:-all}
root=$(cd "$(dirname "$0")/.." && pwd)
case $build in /*) ;; *) build=$root/$build ;; esac
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
passed=0
failed=0
skipped=0

# One line per program; its output only when it fails. A program counts as many tests as cmocka says it ran.
program() {
    name=$1
    shift
    rc=0
    "$@" >"$log/out" 2>&1 || rc=$?
    if [ "$rc" = 0 ]; then
        echo "ok    $name"
    elif [ "$rc" = 77 ]; then
        echo "skip  $name: $(tail -1 "$log/out")"
        skipped=$((skipped + 1))
    else
        echo "FAIL  $name"
        sed 's/^/      /' "$log/out"
        crashed=1
    fi
}
count() {
    crashed=0
    program "$@"
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p; s/^\([0-9]*\) passed, [0-9]* failed.*/\1/p' "$log/out" | tail -1)
    f=$(sed -n 's/^\[  FAILED  \].* \([0-9]*\) test.*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed.*/\1/p' "$log/out" | tail -1)
    passed=$((passed + ${p:-0}))
    if [ "$crashed" = 1 ] && [ "${f:-0}" = 0 ]; then f=1; fi
    failed=$((failed + ${f:-0}))
}

if [ "$which" = threaded ]; then
    tests="test_base test_store test_latest_model test_async test_clock test_determinism test_slices test_run test_study test_reuse test_live"
else
    tests=$(cd "$build/tests" && ls | grep '^test_[a-z0-9_]*$')
fi
for t in $tests; do count "$t" "$build/tests/$t"; done
if [ "$which" = all ]; then
    count "golden cases" "$build/fedloom" verify $(sed 's|^|'"$root"'/tests/golden/|' "$root/tests/golden/ready.txt")
    count "command line" "$root/tests/cli/run.sh" "$build/fedloom"
    count "hostile surroundings" "$root/tests/cli/hostile.sh" "$build/fedloom"
    count "report page" "$root/tests/page/run.sh" "$build/tests/make_page"
    for f in "$build"/tests/fuzz_*_replay; do count "$(basename "$f")" "$f"; done
fi
[ "$skipped" = 0 ] || echo "skipped: $skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
