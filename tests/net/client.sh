#!/usr/bin/env bash
# The small program, as those who only take part have it: a federation with certificates, and the simulation's result.
# Usage: client.sh FEDLOOM FEDLOOM-CLIENT
set -u
joined=
client=$(realpath "$2")
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../cli/lib.sh"
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

# ---- what it is ------------------------------------------------------------------------------------------------

small() {
    "$client" "$@" >out 2>err </dev/null
    code=$?
}
small --version
check 'says its version' eval 'exits 0 && has out "fedloom-client "'
plain=$(grep -F 'plain loops' out) # it has no OpenBLAS, and so other last digits
small --help
check 'has the two commands' eval 'exits 0 && has out "  join " && has out "  cert "'
check 'and no others' eval '[ "$(sed -n "/^commands:/,/^$/p" out | grep -c "^  ")" = 2 ]'
small run x.yaml
check 'runs nothing by itself' eval 'exits 2 && has err "the commands are: join, cert"'
if command -v readelf >/dev/null; then
    readelf -d "$client" >out
    check 'has no server in it' lacks out microhttpd
fi

# ---- a federation ----------------------------------------------------------------------------------------------

cat >simulated.yaml <<'END2'
data: {kind: blobs, samples: 120, features: 8}
partition: {kind: iid, clients: 3}
model: {kind: mlp, hidden: [6]}
local: {epochs: 2, batch: 8, lr: 0.1}
algorithm: scaffold
rounds: 6
END2
fedloom data simulated.yaml --export ex
check 'its parts are written' exits 0
fedloom cert init ca && fedloom cert server ca 127.0.0.1
names=$(cat ex/roster)
for name in $names; do
    small cert request "own-$name" "$name"
    check "$name asks for a certificate" exits 0
    fedloom cert sign ca "own-$name/request.pem"
    cp "ca/clients/$name/"*.pem "own-$name/" 2>>err
done
"$program" serve ex/server.yaml --listen 127.0.0.1:0 --certs ca/server --output real --roster ex/roster 2>serve.log &
server=$!
until_serving serve.log "$server"
for name in $names; do
    "$client" join "https://127.0.0.1:$port" "ex/clients/$name.yaml" --certs "own-$name" --keep "keep-$name" \
        --patience 60 2>"$name.err" &
    joined="$joined $!"
done
for pid in $joined $server; do
    wait "$pid"
    code=$?
    check "process $pid ends well" exits 0
done
simulate_like real
check 'the simulation runs' exits 0
if [ "$plain" ]; then
    last() { awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "train_loss") c = i } END { print $c }' "$1/metrics.csv"; }
    check 'the loss is that of the simulation, nearly' \
        awk -v a="$(last real.simulated)" -v b="$(last real)" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-10 * a * a) }'
else
    check 'the model is that of the simulation' same_parameters real.simulated real
fi
count
