#!/usr/bin/env bash
# run.sh [BUILD [all | quick | kernels | LABEL... | SUITE...]]: suites of a build folder, which tests/suites.cmake lists: test programs,
# the golden cases and the scripts around the program. `all` is every suite that needs no packages from PyPI, `quick` those of them
# that are not slow, `kernels` what shows that kernels compute what they should, for every x86-64 level that can run here. A build for
# another processor is run by its emulator.
# As many suites at a time as there are processors, or $JOBS, by tests/suite.sh: each in a folder of its own, and no longer than its
# limit. One line for each, in the order of the list, and the output of those that fail; the last lines name those and count. The
# seconds of each, of processors and of the clock, are then in BUILD/tests/times.
set -eu
build=${1:-build}
shift $(($# > 0))
[ $# -gt 0 ] || set -- all
jobs=${JOBS:-$(nproc)}
here=$(cd "$(dirname "$0")" && pwd)
case $build in /*) ;; *) build=$here/../$build ;; esac
build=$(realpath "$build")
log=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || :; wait; rm -rf "$log"' EXIT
export FEDLOOM_TIMES=$log/times
names=() bad=() told=0 passed=0 failed=0 skipped=0

# one N SUITE: leaves its output and, at last, its exit code.
one() {
    local rc=0
    trap 'kill $! 2>/dev/null; wait; exit' TERM # by the trap above: the suite ends what it has started
    TMPDIR=$log "$here/suite.sh" "$build" "$2" >"$log/$1.out" 2>&1 &
    wait $! || rc=$?
    echo "$rc" >"$log/$1.tmp" && mv "$log/$1.tmp" "$log/$1.code"
}

# tell: what has ended, as far as all before it have ended too.
tell() {
    while [ "$told" -lt "${#names[@]}" ] && [ -e "$log/$told.code" ]; do
        verdict "${names[told]}" "$(cat "$log/$told.code")" "$log/$told.out"
        told=$((told + 1))
    done
}

# verdict NAME CODE OUTPUT: a program counts as many tests as cmocka, or the last line of a script, says it ran.
verdict() {
    local p f
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p; s/^\([0-9]*\) passed, [0-9]* failed.*/\1/p' "$3" | tail -1)
    f=$(sed -n 's/^\[  FAILED  \].* \([0-9]*\) test.*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed.*/\1/p' "$3" | tail -1)
    case $2 in
    0) echo "ok    $1" ;;
    77)
        echo "skip  $1: $(tail -1 "$3")"
        skipped=$((skipped + 1))
        ;;
    *)
        echo "FAIL  $1"
        sed 's/^/      /' "$3"
        [ "${f:-0}" != 0 ] || f=1 # it crashed
        if [ "$2" = 124 ]; then bad+=("$1 ($(tail -1 "$3" | sed 's/.*: //'))"); else bad+=("$1"); fi
        ;;
    esac
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
}

# fewer N: waits until fewer than that are under way.
fewer() {
    while [ "$(jobs -pr | wc -l)" -ge "$1" ]; do
        wait -n || :
        tell
    done
}

# count NAME SUITE: begins it as soon as there is room.
count() {
    fewer "$jobs"
    names+=("$1")
    one $((${#names[@]} - 1)) "$2" &
}

# The levels that can run here; none where the build has just one kind of kernels.
levels() {
    for level in v2 v3 v4; do
        if FEDLOOM_KERNELS=$level "$build/fedloom" --version >/dev/null 2>&1; then echo "$level"; fi
    done
}

# chosen WORD: the names of its suites, in the order of the list.
chosen() {
    awk -F '\t' -v word="$1" '
        {
            labels = "," $3 ","
            if (word == "all" || word == "quick") hit = !index(labels, ",pypi,") && (word == "all" || !index(labels, ",slow,"))
            else hit = word == $1 || index(labels, "," word ",")
            if (hit) { print $1; hits++ }
        }
        END { if (!hits) { print "run.sh: no suite has the name or the label " word >"/dev/stderr"; exit 1 } }' "$build/tests/suites"
}

for word in "$@"; do [ "$word" = kernels ] || chosen "$word" >/dev/null; done
for word in "$@"; do
    if [ "$word" = kernels ]; then
        for level in $(levels); do
            export FEDLOOM_KERNELS="$level"
            for suite in test_vec test_models test_image test_solvers golden; do count "$suite, x86-64-$level" "$suite"; done
        done
        unset FEDLOOM_KERNELS
    else
        for suite in $(chosen "$word"); do count "$suite" "$suite"; done
    fi
done
fewer 1
tell
sort -rn "$log/times" >"$build/tests/times" 2>/dev/null || :
[ "$skipped" = 0 ] || echo "skipped: $skipped"
if [ "$failed" != 0 ]; then
    echo 'these failed:'
    printf '  %s\n' "${bad[@]}"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
