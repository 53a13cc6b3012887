#!/usr/bin/env bash
# suite.sh BUILD NAME: one suite of BUILD/tests/suites, which CMake writes (suites.cmake): in a folder of its own, which $TMPDIR names
# too, as in the foreground, where the shell ignores no signals. What takes longer than its limit is killed, and so is every process
# that it has started and left behind, wherever that has gone; the last line then says so, and the exit code is 124. 77: skipped.
# Limits are for a machine that does nothing else: FEDLOOM_PATIENCE=N multiplies them (4).
# The suite's seconds, of the clock and of processors, go to $FEDLOOM_TIMES, if that names a file.
set -u
build=$(realpath "${1:?usage: $0 BUILD NAME}")
name=${2:?usage: $0 BUILD NAME}
IFS=$'\t' read -r _ limit _ command < <(awk -F '\t' -v name="$name" '$1 == name' "$build/tests/suites")
[ -n "${command:-}" ] || { echo "$name: no suite of $build/tests/suites is called so" >&2; exit 2; }
eval "set -- $command"

limit=$((limit * ${FEDLOOM_PATIENCE:-4}))
[ ! -s "$build/emulator" ] || export FEDLOOM_EMULATED=1
# Sanitizers see every test program, but tests/brief.h says less of the same. FEDLOOM_BRIEF=0: all of it.
if grep -q '^FEDLOOM_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then export FEDLOOM_BRIEF="${FEDLOOM_BRIEF-1}"; fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/fedloom-suite-XXXXXX") || exit 2
# What has that folder in its environment is of this suite, whatever its group, session and parent are by now.
left() { grep -lszE "^TMPDIR=$folder(/|\$)" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | grep -vx "$$"; }
tidy() {
    local all
    for _ in 1 2 3; do # what is killed may have started more meanwhile
        all=$(TMPDIR=/ left) || break
        kill -KILL $all 2>/dev/null
    done
    cd / && rm -rf "$folder"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP
cd "$folder" || exit 2

began=$SECONDS
TMPDIR=$folder timeout -k 5 "$limit" env --default-signal=INT,QUIT "$@" </dev/null &
{ wait $!; } 2>/dev/null # bash has a word to say of what is killed
code=$?
if [ $((SECONDS - began)) -ge "$limit" ] && { [ "$code" = 124 ] || [ "$code" = 137 ]; }; then
    echo "$name: killed after $limit seconds"
    code=124
fi
tidy
trap - EXIT
if [ -n "${FEDLOOM_TIMES:-}" ]; then
    # bash's second line: of all that it has waited for, user and system
    times >"$FEDLOOM_TIMES.$$"
    awk -v name="$name" -v clock=$((SECONDS - began)) 'NR == 2 {
        for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] }
        printf "%.1f\t%d\t%s\n", sum, clock, name }' "$FEDLOOM_TIMES.$$" >>"$FEDLOOM_TIMES"
    rm "$FEDLOOM_TIMES.$$"
fi
exit "$code"
