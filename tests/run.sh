#!/bin/sh
# Runs the tests of a build folder: every test program, the golden cases, the command line. Prints each failure; the last line
# counts. `threaded` as second argument runs only what uses threads (for the thread sanitizer, which is slow), `kernels` only what shows
# that kernels compute what they should, for every x86-64 level that can run here. A build for another processor is run by its emulator.
set -eu
build=${1:-build}
which=${2:-all}
root=$(cd "$(dirname "$0")/.." && pwd)
case $build in /*) ;; *) build=$root/$build ;; esac
emulator=$(cat "$build/emulator" 2>/dev/null || :)
if [ -n "$emulator" ]; then
    emulator="$(command -v "${emulator%% *}") ${emulator#* }" # some tests have an empty PATH
    export FEDLOOM_EMULATED=1
fi
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
passed=0
failed=0
skipped=0

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

golden() { count "golden cases" "$(path fedloom)" verify $(sed 's|^|'"$root"'/tests/golden/|' "$root/tests/golden/ready.txt"); }

# The levels that can run here; none where the build has just one kind of kernels.
levels() {
    for level in v2 v3 v4; do
        if FEDLOOM_KERNELS=$level "$(path fedloom)" --version >/dev/null 2>&1; then echo "$level"; fi
    done
}

case $which in
kernels)
    for level in $(levels); do
        echo "kernels for x86-64-$level"
        export FEDLOOM_KERNELS="$level"
        for t in test_vec test_models test_image test_local; do count "$t" "$(path "tests/$t")"; done
        golden
    done
    ;;
threaded)
    for t in test_base test_store test_latest_model test_async test_clock test_determinism test_slices test_run test_study test_reuse test_live test_server test_halves test_server_faults test_pulse test_call test_dispatch test_serve test_pages test_trust test_strangers test_hostile; do
        count "$t" "$(path "tests/$t")"
    done
    ;;
*)
    for t in $(cd "$build/tests" && ls | grep -E '^(test|cuda)_[a-z0-9_]*$'); do count "$t" "$(path "tests/$t")"; done
    golden
    count "command line" "$root/tests/cli/run.sh" "$(path fedloom)"
    count "tuning" "$root/tests/cli/tune.sh" "$(path fedloom)"
    count "hostile surroundings" "$root/tests/cli/hostile.sh" "$(path fedloom)"
    count "clients over a network" "$root/tests/net/join.sh" "$(path fedloom)"
    count "status page" "$root/tests/net/page.sh" "$(path fedloom)"
    count "the small client" "$root/tests/net/client.sh" "$(path fedloom)" "$(path fedloom-client)"
    count "faults on the network" "$root/tests/net/faults.sh" "$(path fedloom)" "$(path tests/relay)" "$(path tests/odd_client)"
    count "installation" "$root/tests/install/run.sh" "$build"
    count "code in the documentation" "$root/tests/docs/run.sh" "$build"
    count "the protocol's description" "$root/tests/docs/openapi.sh" "$build"
    count "the commands that deploy" "$root/tests/docs/deploy.sh" "$build"
    count "report page" "$root/tests/page/run.sh" "$(path tests/make_page)"
    count "models in PyTorch" "$root/tests/torch/run.sh" "$(path tests/make_models)" "$(path fedloom)"
    for f in "$build"/tests/fuzz_*_replay; do count "$(basename "$f")" "$(path "tests/$(basename "$f")")"; done
    ;;
esac
[ "$skipped" = 0 ] || echo "skipped: $skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
