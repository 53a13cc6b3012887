#!/usr/bin/env bash
# run.sh [BUILD [all | threaded | kernels]]: the tests of a build folder, which are every test program, the golden cases and the
# scripts around the program. `threaded` is what tests/threaded.txt lists (for the thread sanitizer), `kernels` what shows that kernels
# compute what they should, for every x86-64 level that can run here. A build for another processor is run by its emulator.
# As many tests at a time as there are processors, or $JOBS, each in a folder of its own. One line for each, in the order of the list,
# and the output of those that fail; the last line counts.
set -eu
build=${1:-build}
which=${2:-all}
jobs=${JOBS:-$(nproc)}
root=$(cd "$(dirname "$0")/.." && pwd)
case $build in /*) ;; *) build=$root/$build ;; esac
emulator=$(cat "$build/emulator" 2>/dev/null || :)
if [ -n "$emulator" ]; then
    emulator="$(command -v "${emulator%% *}") ${emulator#* }" # some tests have an empty PATH
    export FEDLOOM_EMULATED=1
fi
# Sanitizers see every test program, but tests/brief.h says less of the same. FEDLOOM_BRIEF=0: all of it.
sanitize=$(sed -n 's/^FEDLOOM_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
if [ -n "$sanitize" ]; then export FEDLOOM_BRIEF="${FEDLOOM_BRIEF-1}"; fi
log=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || :; wait; rm -rf "$log"' EXIT
names=() told=0 passed=0 failed=0 skipped=0

# The path of a program of the build, or of a script that emulates it.
path() {
    if [ -n "$emulator" ]; then
        mkdir -p "$log/$(dirname "$1")"
        printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$emulator" "$build/$1" >"$log/$1"
        chmod +x "$log/$1"
        echo "$log/$1"
    else
        echo "$build/$1"
    fi
}

# one N COMMAND...: runs it as in the foreground, where the shell ignores no signals; leaves its output and, at last, its exit code.
one() {
    local n=$1 rc=0
    shift
    mkdir "$log/$n" && cd "$log/$n"
    TMPDIR=$log/$n env --default-signal=INT,QUIT "$@" >"$log/$n.out" 2>&1 || rc=$?
    cd / && rm -rf "${log:?}/$n"
    echo "$rc" >"$log/$n.tmp" && mv "$log/$n.tmp" "$log/$n.code"
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

# count NAME COMMAND...: begins it as soon as there is room.
count() {
    fewer "$jobs"
    names+=("$1")
    shift
    one $((${#names[@]} - 1)) "$@" &
}

golden() { # NAME
    count "$1" "$(path fedloom)" verify $(sed 's|^|'"$root"'/tests/golden/|' "$root/tests/golden/ready.txt")
}

# The levels that can run here; none where the build has just one kind of kernels.
levels() {
    for level in v2 v3 v4; do
        if FEDLOOM_KERNELS=$level "$(path fedloom)" --version >/dev/null 2>&1; then echo "$level"; fi
    done
}

case $which in
kernels)
    for level in $(levels); do
        export FEDLOOM_KERNELS="$level"
        for t in test_vec test_models test_image test_local; do count "$t, x86-64-$level" "$(path "tests/$t")"; done
        golden "golden cases, x86-64-$level"
    done
    ;;
threaded)
    for t in $(cat "$root/tests/threaded.txt"); do count "$t" "$(path "tests/$t")"; done
    ;;
*)
    # Those that take long, or wait a lot, come first.
    count "faults on the network" "$root/tests/net/faults.sh" "$(path fedloom)" "$(path tests/relay)" "$(path tests/odd_client)"
    count "clients over a network" "$root/tests/net/join.sh" "$(path fedloom)"
    count "command line" "$root/tests/cli/run.sh" "$(path fedloom)"
    count "hostile surroundings" "$root/tests/cli/hostile.sh" "$(path fedloom)"
    count "completion" "$root/tests/cli/completion.sh" "$(path fedloom)"
    count "first experiment" "$root/tests/cli/init.sh" "$(path fedloom)"
    count "json" "$root/tests/cli/json.sh" "$(path fedloom)"
    count "suggestions" "$root/tests/cli/suggest.sh" "$(path fedloom)"
    count "terminal" "$root/tests/cli/terminal.sh" "$(path fedloom)"
    count "tuning" "$root/tests/cli/tune.sh" "$(path fedloom)"
    count "the guide's commands" "$root/tests/guide/run.sh" "$(path fedloom)"
    count "several processes" "$root/tests/mpi/run.sh" "$build"
    count "the release's source" "$root/tests/dist/run.sh" "$build"
    count "what make says" "$root/tests/dist/make.sh" "$build"
    count "installation" "$root/tests/install/run.sh" "$build"
    count "code in the documentation" "$root/tests/docs/run.sh" "$build"
    count "the protocol's description" "$root/tests/docs/openapi.sh" "$build"
    count "the commands that deploy" "$root/tests/docs/deploy.sh" "$build"
    count "the front page's commands" "$root/tests/docs/readme.sh" "$build"
    count "status page" "$root/tests/net/page.sh" "$(path fedloom)"
    count "the small client" "$root/tests/net/client.sh" "$(path fedloom)" "$(path fedloom-client)"
    count "report page" "$root/tests/page/run.sh" "$(path tests/make_page)"
    count "models in PyTorch" "$root/tests/torch/run.sh" "$(path tests/make_models)" "$(path fedloom)"
    golden "golden cases"
    for t in $(cd "$build/tests" && ls | grep -E '^(test_[a-z0-9_]*|cuda_[a-z0-9_]*|fuzz_[a-z0-9_]*_replay)$'); do
        count "$t" "$(path "tests/$t")"
    done
    ;;
esac
fewer 1
tell
[ "$skipped" = 0 ] || echo "skipped: $skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
