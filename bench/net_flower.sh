#!/usr/bin/env bash
# Flower's deployment engine (a SuperLink and a SuperNode per client, processes on loopback, default settings) and fedloom (a server and
# a `fedloom join` per client): 159,010 parameters, all clients in every round, next to no local work, no TLS. Usage:
#   net_flower.sh BUILD [VENV [CLIENTS [FLOWER_ROUNDS [ROUNDS]]]]
# VENV: a virtual environment with flwr and numpy from PyPI. Seconds per round are those between the ends of the first and last round.
# Memory is the proportional set size of all processes of a side (each page divided among the processes that share it), at its peak.
set -u
build=$(realpath "${1:?usage: net_flower.sh BUILD [VENV [CLIENTS [FLOWER_ROUNDS [ROUNDS]]]]}")
venv=${2:-} clients=${3:-50} flower_rounds=${4:-3} rounds=${5:-50}
here=$(cd "$(dirname "$0")" && pwd)
[ -z "$venv" ] || venv=$(realpath "$venv")
work=$(mktemp -d "${TMPDIR:-/tmp}/fedloom-flower-XXXXXX")
started=''
# A process and all its descendants.
tree() {
    cat /proc/[0-9]*/status 2>/dev/null | awk -v root="$1" '
        /^Pid:/  { pid = $2 }
        /^PPid:/ { parent[pid] = $2 }
        END      { for (p in parent) { q = p; while (q > 1 && q != root) q = parent[q]; if (q == root) print p } }'
}
stop_all() {
    local all='' p
    for p in $started; do all="$all $(tree "$p")"; done
    kill -TERM $all
    for _ in $(seq 100); do kill -0 $all && sleep 0.1 || break; done
    kill -KILL $all
    started=''
} 2>/dev/null
trap 'stop_all; rm -rf "$work"' EXIT
cd "$work" || exit 1

# in_background COMMAND...: leaves $child.
in_background() {
    "$@" &
    child=$!
    started="$started $child"
}
# MB of a process and its descendants.
memory() { for p in $(tree "$1"); do grep -s '^Pss:' "/proc/$p/smaps_rollup"; done | awk '{ n += $2 } END { printf "%.0f\n", n / 1000 }'; }
larger() { [ "$1" -gt "$2" ] && echo "$1" || echo "$2"; }
# watch SERVER CLIENTS DONE...: samples both until the command says that it is done, for half an hour at most.
watch() {
    local server=$1 others=$2
    shift 2
    server_mb=0 clients_mb=0
    for _ in $(seq 900); do
        "$@" && break
        server_mb=$(larger "$(memory "$server")" "$server_mb")
        clients_mb=$(larger "$(memory "$others")" "$clients_mb")
        sleep "${pause:-2}"
    done
}
row() { # NAME ROUNDS SECONDS-PER-ROUND
    awk -v name="$1" -v k="$2" -v s="$3" -v server="$server_mb" -v all="$clients_mb" -v n="$clients" \
        'BEGIN { printf "%-28s %8d %8d %14.3f %12d %16.1f\n", name, n, k, s, server, all / n }'
}
per_round() { awk '{ t[NR] = $1 } END { if (NR > 1) printf "%.4f\n", (t[NR] - t[1]) / (NR - 1); else print "nan" }'; }

flower() {
    export FLWR_HOME=$work/home FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 PATH=$venv/bin:$PATH
    mkdir -p home app/app
    printf '[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:%s"\ninsecure = true\n' "$port" >home/config.toml
    cp "$here/net_flower.py" app/app/app.py
    touch app/app/__init__.py
    cat >app/pyproject.toml <<'END'
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "beside"
version = "1.0.0"
description = "next to no work"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "none"
[tool.flwr.app.components]
serverapp = "app.app:server"
clientapp = "app.app:client"
[tool.flwr.app.config]
nodes = 1
rounds = 1
END
    in_background flower-superlink --insecure --disable-runtime-dependency-installation --host 127.0.0.1 --port "$port" \
        --health-server-address "127.0.0.1:$((port + 1))" >superlink.log 2>&1
    local superlink=$child
    for _ in $(seq 300); do grep -q 'running on' superlink.log && break || sleep 0.2; done
    cat >nodes.sh <<END
for i in \$(seq $clients); do
    flower-supernode --insecure --superlink 127.0.0.1:$port --host 127.0.0.1 --port \$(($port + 10 + i)) >node\$i.log 2>&1 &
done
wait
END
    in_background bash nodes.sh
    local nodes=$child
    timeout 1700 flwr run app here -c "nodes=$clients rounds=$flower_rounds" --stream >run.log 2>&1 &
    local run=$!
    flower_done() { ! kill -0 "$run" 2>/dev/null; }
    pause=5 watch "$superlink" "$nodes" flower_done
    wait "$run"
    sed -n 's/.*ROUND \([0-9]*\) \([0-9.]*\) \([0-9]*\).*/\2/p' run.log | sed 1d >times
    grep -q "ROUND $flower_rounds .* $clients" run.log || { echo "Flower did not finish:" && tail -n 5 run.log superlink.log; }
    row "Flower $(flower-superlink --version 2>/dev/null | grep -o '[0-9][0-9.]*' | head -1)" "$flower_rounds" "$(per_round <times)"
    stop_all
}

ours() {
    cat >server.yaml <<END
data: {kind: joined, shape: [784], classes: 10, normalize: none}
partition: {clients: $clients}
model: {kind: mlp, hidden: [200]}
algorithm: fedavg
local: {steps: 1, batch: 16, lr: 0.01}
participation: everyone
rounds: $rounds
metrics: {every: $rounds, train: false, test: false, clients: false}
END
    awk 'BEGIN { srand(1); for (i = 0; i < 16; i++) { s = ""; for (k = 0; k < 784; k++) s = s rand() ","; print s i % 10 } }' >samples.csv
    in_background "$build/fedloom" serve server.yaml --output real --insecure-http --listen 127.0.0.1:0 2>server.log
    local server=$child at=''
    for _ in $(seq 300); do
        at=$(sed -n 's/.*event=serving .*port=\([0-9]*\).*/\1/p' server.log)
        [ -n "$at" ] && break || sleep 0.05
    done
    cat >join.sh <<END
for i in \$(seq $clients); do
    $build/fedloom join http://127.0.0.1:$at --data samples.csv --set data.header=false --name c\$i --insecure-http --keep keep\$i --quiet >/dev/null 2>join\$i.log &
done
wait
END
    in_background bash join.sh
    local joined=$child
    ours_done() { grep -q "event=over" server.log || ! kill -0 "$server" 2>/dev/null; }
    pause=0.2 watch "$server" "$joined" ours_done
    grep -q "round=$rounds of=$rounds" server.log || { echo "fedloom did not finish:" && tail -n 5 server.log join1.log; }
    sed -n 's/.*time=[0-9-]*T\([0-9][0-9]\):\([0-9][0-9]\):\([0-9.]*\)Z event=round .*/\1 \2 \3/p' server.log |
        awk '{ t = $1 * 3600 + $2 * 60 + $3; if (t < last) t += 86400; last = t; print t }' >times
    row "fedloom" "$rounds" "$(per_round <times)"
    stop_all
}

# A SuperNode and what it starts take about half a gigabyte.
fit=$(awk '/MemAvailable/ { print int($2 / 600000) }' /proc/meminfo)
if [ -n "$venv" ] && [ "$clients" -gt "$fit" ]; then
    echo "$fit clients instead of $clients, as there is no memory for more SuperNodes"
    clients=$fit
fi
port=$((20000 + RANDOM % 8000))
echo "$(nproc) cores, $(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)"
printf '%-28s %8s %8s %14s %12s %16s\n' '' clients rounds s/round 'server (MB)' 'a client (MB)'
if [ -n "$venv" ]; then flower; else echo "Flower is left out: no virtual environment was given that has it"; fi
ours
