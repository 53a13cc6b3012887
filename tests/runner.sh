#!/usr/bin/env bash
# run.sh and suite.sh, on a build folder that has made-up suites: what hangs is killed with all that it has started, and the last lines
# name what failed. Usage: runner.sh PATH-OF-RUN.SH
set -u
. "$(dirname "$0")/cli/lib.sh"
mkdir -p build/tests
: >build/emulator
: >build/CMakeCache.txt

# What hangs ignores SIGTERM, and so does what it has started in a group, and in a session, of its own.
cat >hangs <<'END'
#!/bin/bash
trap '' TERM
setsid sh -c 'echo $$ >>"$PIDS"; exec sleep 100000' &
(setsid sh -c 'echo $$ >>"$PIDS"; sleep 100000; :' &)
echo $$ >>"$PIDS"
while :; do sleep 1; done
END
printf '#!/bin/sh\necho one went wrong\necho "2 passed, 1 failed"\nexit 1\n' >fails
printf '#!/bin/sh\necho no reason\nexit 77\n' >skips
printf '#!/bin/sh\n[ "$PWD" = "$TMPDIR" ] && echo "3 passed, 0 failed"\n' >passes
printf '#!/bin/sh\nsleep 100000 & echo $! >>"$PIDS"\n' >leaves-behind
chmod +x hangs fails skips passes leaves-behind
for name in hangs fails skips passes leaves-behind; do
    seconds=60 label=slow
    [ "$name" != hangs ] || seconds=1
    [ "$name" != passes ] || label=unit
    printf "%s\t%s\t%s\t'%s'\n" "$name" "$seconds" "$label" "$work/$name"
done >build/tests/suites
printf "python\t60\tunit,pypi\t'%s'\n" "$work/fails" >>build/tests/suites
export FEDLOOM_PATIENCE=1 PIDS=$work/pids

run() { # WORD...
    : >pids
    "$program" "$work/build" "$@" >out 2>err </dev/null
    code=$?
}
# A process that has ended may still have a number, until its parent has asked for its exit code.
alive() { [ -e "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
survivors() { for p in $(cat pids); do if alive "$p"; then echo "$p"; fi; done; }

run
check 'what fails: exit code' exits 1
check 'the last lines name it' [ "$(tail -n 4 out)" = 'these failed:
  hangs (killed after 1 seconds)
  fails
5 passed, 2 failed' ]
check 'and show it' has out '      one went wrong'
check 'what is skipped says why' has out 'skip  skips: no reason'
check 'what is skipped is counted' has out 'skipped: 1'
check 'all that hung has been there' [ "$(wc -l <pids)" -eq 4 ]
check 'and is gone, and what others left behind' [ -z "$(survivors)" ]
check 'the seconds of each are written down' [ "$(wc -l <build/tests/times)" -eq 5 ]

run quick
check 'quick leaves out what is slow' eval 'exits 0 && [ "$(cat out)" = "ok    passes
3 passed, 0 failed" ]'
run skips unit
check 'by name, by label' eval '[ "$(head -n 2 out | cut -d: -f1 | tr "\n" " ")" = "skip  skips ok    passes " ]'
run nothing
check 'an unknown name is said' eval 'exits 1 && has err "no suite has the name or the label nothing"'

# Interrupted, it leaves nothing behind either.
sed -i 's/^hangs\t1/hangs\t1000/' build/tests/suites
: >pids
"$program" "$work/build" hangs >out 2>err </dev/null &
runner=$!
for _ in $(seq 1200); do
    [ "$(wc -l <pids)" -ge 3 ] && break
    sleep 0.05
done
kill -TERM "$runner"
leaves "$runner"
check 'interrupted: all was there' [ "$(wc -l <pids)" -eq 3 ]
check 'interrupted: nothing stays' [ -z "$(survivors)" ]

count
