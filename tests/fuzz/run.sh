#!/bin/sh
# run.sh BUILD SECONDS [TARGET ...]: searches with each fuzz target for so long, as many at a time as there are processors,
# from the inputs that corpus/ has packed. What is new goes to BUILD/corpus; what fails, to BUILD/found, and the target's last words are printed.
set -eu
build=$1 seconds=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- $(cd "$here" && ls fuzz_*.c | sed 's/[.]c$//')
mkdir -p "$build/found"

if [ "${FUZZ_ONE:-}" ]; then
    name=$1 log=$build/found/$1.log
    mkdir -p "$build/corpus/$name"
    seeds=
    if [ -e "$here/corpus/$name.tar.xz" ]; then
        seeds=$build/seeds/$name
        rm -rf "$seeds" && mkdir -p "$seeds"
        tar xf "$here/corpus/$name.tar.xz" -C "$seeds"
    fi
    leaks=1
    [ "$name" != fuzz_request ] || leaks=0 # looked for at the end alone: a server's threads have memory in their hands
    if "$build/tests/fuzz/$name" -max_total_time="$seconds" -detect_leaks=$leaks -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$build/found/$name-" "$build/corpus/$name" $seeds >"$log" 2>&1; then
        echo "$name: ok, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    else
        tail -40 "$log"
        echo "$name: FAILED, see $build/found"
        exit 1
    fi
    exit 0
fi
export FUZZ_ONE=1
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 "$0" "$build" "$seconds"
