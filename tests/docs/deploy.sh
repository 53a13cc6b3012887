#!/usr/bin/env bash
# The commands of the front page's "Deploy", as they stand there but for the port, in a folder that has nothing but the program and
# the examples: they are ten at most, may be pasted twice, and their result is that of the simulation, as the commands after them show.
# Usage: deploy.sh BUILD
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
paste() {
    setsid timeout --foreground 100 bash -e ../these >../out 2>../err </dev/null &
    group=$!
    wait "$group"
    code=$?
}
paste
cd ..
check 'the commands succeed' exits 0
check 'all three clients have taken part' eval '[ "$(grep -c "event=over ok=true" err)" = 3 ]'
check 'there is a result' [ -s machine/deployed/result/model.safetensors ]
check 'keys are private' eval '[ -z "$(find machine/deployed/ca -name "*key.pem" ! -perm 600)" ]'
mv machine/deployed/result first
cd machine && paste
cd ..
check 'they succeed again in the same folder' exits 0
check 'all three clients have taken part again' eval '[ "$(grep -c "event=over ok=true" err)" = 3 ]'
check 'nothing lies outside the folder of the example' [ "$(echo machine/*)" = 'machine/build machine/deployed machine/examples' ]

awk '/^```sh deploy-compare$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$root/README.md" >compare
for time in 1 2; do
    (cd machine && bash -e ../compare) >out 2>err
    code=$?
    check "the commands that compare end well ($time)" exits 0
    check "and show that the bits are the same ($time)" [ "$(tail -1 out)" = 'the same bits' ]
done
check 'the first run has the same bits' same_parameters first machine/deployed/simulated
check 'all of them are compared' same_parameters machine/deployed/result machine/deployed/simulated

count
