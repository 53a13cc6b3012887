#!/usr/bin/env bash
# The commands of README.md, as they stand there, from the first to "Deploy", pasted into one shell: each succeeds. Comparisons,
# and what trains on examples, take two rounds. `make` is left out: it has built what is here. Usage: readme.sh BUILD
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"

ln -s "$root/examples" examples
ln -s "$root/experiments" experiments
ln -s "$build" build
FEDLOOM_EXPERIMENTS=$root/experiments
export FEDLOOM_EXPERIMENTS

# Indented blocks that begin with a command, or write a file for one.
awk '/^## Deploy/ { exit }
     !/^    / { inside = 0; next }
     !inside { inside = /^    (build\/fedloom |cat >)/ }
     inside && !/^    make / { print substr($0, 5) }' "$root/README.md" >pasted
check 'there are commands' eval '[ "$(grep -c "^build/fedloom " pasted)" -ge 15 ]'
check 'none of them asks: what is pasted behind it would be the answers' eval '! grep -E "^build/fedloom init" pasted | grep -qv -- --data'

sed -E 's,^(build/fedloom (run|compare|tune|plot) (examples/|mine)[a-z]*\.yaml),\1 --set rounds=2,' pasted >these
timeout 300 bash -e these >out 2>err </dev/null
code=$?
check 'each of them succeeds' exits 0
check 'a picture is there' [ -n "$(find results -name '*.svg' -print -quit)" ]
check 'a report is there' [ -s results/digits-compare/report.html ]

count
