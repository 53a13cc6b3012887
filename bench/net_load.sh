#!/usr/bin/env bash
# A server with 1,000 clients that speak the protocol, 100 of them per round, 159,010 parameters; then 10,000 that wait. Or, with
# `large`, 8 clients of a model of 400 MB over TLS, and a server with a limit of 400 MB for uploads in memory. Usage:
#   net_load.sh BUILD [CLIENTS PER_ROUND ROUNDS IDLE]
#   net_load.sh BUILD large [ROUNDS]
set -eu
build=$(realpath "${1:?usage: net_load.sh BUILD [CLIENTS PER_ROUND ROUNDS IDLE | large [ROUNDS]]}")
clients=${2:-1000} per_round=${3:-100} rounds=${4:-200} idle=${5:-10000}
work=$(mktemp -d "${TMPDIR:-/tmp}/fedloom-load-XXXXXX")
server=''
trap '[ -z "$server" ] || kill -KILL $server 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
ulimit -n "$(ulimit -Hn)"
echo "$(nproc) cores, $(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"

# federation CLIENTS PER_ROUND ROUNDS (plain | tls) MODEL [BATCH SETTINGS]
federation() {
    local security=--insecure-http scheme=http certs='' port=''
    cat >server.yaml <<END
data: {kind: joined, shape: [1, 28, 28], classes: 10, normalize: none}
partition: {clients: $1}
model: $5
algorithm: fedavg
local: {steps: 1, batch: ${6:-16}, lr: 0.01}
participation: {kind: uniform, count: $2}
rounds: $3
metrics: {every: $3, train: false, test: false, clients: false}
${7:-}
END
    seq -f 'c%.0f' 0 $(($1 - 1)) >roster
    if [ "$4" = tls ]; then
        if [ ! -d ca ]; then "$build/fedloom" cert init ca && "$build/fedloom" cert server ca localhost; fi >/dev/null
        for i in $(seq 0 $(($1 - 1))); do [ -d "ca/clients/c$i" ] || echo "c$i"; done | xargs -r -n 500 "$build/fedloom" cert client ca >/dev/null
        security='--certs ca/server' scheme=https certs=ca/clients
    fi
    rm -rf real real.*
    : >log
    "$build/fedloom" serve server.yaml --output real $security --listen 127.0.0.1:0 --roster roster --grace 60 --quiet 2>log &
    server=$!
    for _ in $(seq 500); do
        port=$(sed -n 's/.*event=serving .*port=\([0-9]*\).*/\1/p' log)
        [ -n "$port" ] && break || sleep 0.05
    done
    printf '\n---- %s clients, %s per round, %s rounds, %s, %s\n' "$1" "$2" "$3" "$4" "$5"
    "$build/bench/net_load" "$scheme://localhost:$port" "$1" "$2" "$3" "$server" $certs || { tail -5 log && false; }
    kill -TERM "$server" # all have heard that it is over, and none confirms it
    wait "$server" || { tail -5 log && false; }
    server=''
}

if [ "$clients" = large ]; then
    federation 8 8 "${3:-3}" tls '{kind: mlp, hidden: [65536, 740]}' 1 'server: {memory: 400MB}'
    exit
fi
mlp='{kind: mlp, hidden: [200]}'
for security in plain tls; do federation "$clients" "$per_round" "$rounds" $security "$mlp"; done
for security in plain tls; do federation "$idle" 10 20 $security softmax; done
