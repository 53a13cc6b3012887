#!/usr/bin/env bash
# The commands of the front page's "Deploy", as they stand there but for the port, in a folder that has nothing but the program and
# the examples: they are ten at most, and their result is that of the simulation. Usage: deploy.sh BUILD
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"
. "$root/tests/net/lib.sh"
group=
trap '[ -z "$group" ] || kill -- "-$group" 2>/dev/null; rm -rf "$work"' EXIT # the group: all that the commands have started

awk '/^```sh deploy$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$root/README.md" >commands
check 'there are commands' eval '[ "$(wc -l <commands)" -ge 5 ]'
check 'they are ten or fewer' eval '[ "$(wc -l <commands)" -le 10 ]'

free_port
check 'there is a port' [ -n "$port" ]

mkdir machine && cd machine || exit 1
ln -s "$root/examples" examples
ln -s "$build" build
sed -e "s/:8443/:$port/" -e "s/ serve / serve --listen 127.0.0.1:$port /" ../commands >../these
setsid timeout --foreground 100 bash -e ../these >../out 2>../err </dev/null &
group=$!
wait "$group"
code=$?
cd ..
check 'the commands succeed' exits 0
check 'all three clients have taken part' eval '[ "$(grep -c "event=over ok=true" err)" = 3 ]'
check 'there is a result' [ -s machine/results/real/model.safetensors ]
check 'keys are private' eval '[ -z "$(find machine/ca -name "*key.pem" ! -perm 600)" ]'

fedloom run "$root/examples/digits.yaml" --set partition.clients=3 --set participation=everyone --output simulated --quiet
check 'the simulation runs' exits 0
check 'the same bits' same_parameters machine/results/real simulated

count
