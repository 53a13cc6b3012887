#!/usr/bin/env bash
# Everything goes wrong: lines that are slow and cut, servers and clients that are killed, full disks, clients that are silent, late, or
# say things twice. Server and clients are processes on loopback, and, with `all`, in network namespaces.
# Usage: faults.sh FEDLOOM RELAY ODD_CLIENT [some | all | CASE] [SEED]; a case is a function below, with its arguments.
set -u
relay_program=$(realpath "${2:?usage: $0 FEDLOOM RELAY ODD_CLIENT [CASES] [SEED]}")
odd_program=$(realpath "${3:?usage: $0 FEDLOOM RELAY ODD_CLIENT [CASES] [SEED]}")
which=${4:-some}
RANDOM=${5:-1} # bash's own generator: the same seed, the same schedule of kills
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../cli/lib.sh"
disk=$work/disk skipped=0 amid_all=0 failed_before=0 relay='' space_a=fedloom-a-$$ space_b=fedloom-b-$$ server_space=()
tidy() {
    kill -KILL $(jobs -p) 2>/dev/null
    wait 2>/dev/null
    if mountpoint -q "$disk" 2>/dev/null; then umount "$disk"; fi
    ip netns delete "$space_a" 2>/dev/null
    ip netns delete "$space_b" 2>/dev/null
    if [ -n "${FAULTS_KEEP:-}" ] && [ "$failed" != 0 ]; then echo "kept: $work"; else cd / && rm -rf "$work"; fi
}
trap tidy EXIT
trap 'exit 1' TERM INT

skip() { # WHAT
    skipped=$((skipped + 1))
    echo "skipped: $1"
}
step() { # TITLE: a case begins; of the last one nothing is left
    kill -KILL $(jobs -p) 2>/dev/null
    wait 2>/dev/null
    [ "$failed" = "$failed_before" ] || { mkdir -p "failed$failed" && cp case.log err? "failed$failed" 2>/dev/null; }
    failed_before=$failed
    rm -rf keep? err? out? real real.*
    : >case.log
    relay='' port=0 output=real
    case_title=$1
    [ -z "${FAULTS_VERBOSE:-}" ] || echo "--- $1 ($SECONDS s)"
}

# FAULTS_VERBOSE=1: says which case it is at; FAULTS_KEEP=1: leaves the folder of a run that failed.

# ---- a federation, simulated and for real -----------------------------------------------------------------------

samples 4 40

small='model: softmax'
# A checkpoint of this one takes a while: 160,003 parameters, and twice as many of each client's state.
large='model: {kind: mlp, hidden: [20000]}'
together='participation: everyone'
short='local: {steps: 10, batch: 10, lr: 0.05}'

# aim: clients go through the relay, if there is one.
aim() { url=http${security:+s}://${name:-127.0.0.1}:${relay:-$port}; }
# serve ARGS...: starts the server, at the port it had before in this case; leaves $server, $port and $url.
serve() {
    local before
    before=$(ports case.log | wc -l)
    ${server_space[@]+"${server_space[@]}"} "$program" serve server.yaml --output "$output" ${security:---insecure-http} \
        --listen "${address:-127.0.0.1}:$port" --roster roster "$@" 2>>case.log &
    server=$!
    until_serving case.log "$server" $((before + 1))
    aim
}
# line ARGS...: a relay before the server. With a delay alone it sees to it that rounds take a while, and things can happen meanwhile.
line() {
    rm -f relay.out # of an earlier one
    ${relay_space[@]+"${relay_space[@]}"} "$relay_program" "${relay_from:-127.0.0.1:0}" "${address:-127.0.0.1}:$port" seconds=120 "$@" >relay.out &
    relay_pid=$!
    for _ in $(seq 500); do [ -s relay.out ] && break || sleep 0.02; done
    relay=$(head -1 relay.out)
    aim
}
rounds() { grep -c 'event=round' case.log; }

# until_round N: until there are that many rounds more.
reached() { [ "$(rounds)" -ge "$1" ]; }
until_round() { patiently "$server" reached $(($(rounds) + $1)); }
nap() { sleep "0.$(printf '%03d' $((RANDOM % ${1:-500})))"; }

nothing_left() { [ -z "$(find . -maxdepth 3 \( -name '*.tmp*' -o -name 'real.checkpoint' -o -name 'real.server' -o -name 'real.partial' \))" ]; }
well() {
    check "$case_title: the bytes of the simulation" repeats real
    check "$case_title: nothing is left lying about" nothing_left
}
logged() { check "$case_title: \"$1\" is said" has "${2:-case.log}" "$1"; }

# ---- bad lines ---------------------------------------------------------------------------------------------------

lines() { # DELAY RATE CUT
    serve
    line seed=$RANDOM delay="$1" rate="$2" cut="$3" stall=300
    join_all
    all_end
    well
    kill -TERM "$relay_pid"
    wait "$relay_pid"
    cp relay.out out
    check "$case_title: every kind of cut was met" grep -q 'reset=[1-9].* closed=[1-9].* lost=[1-9]' relay.out
}
bad_lines() {
    step 'slow lines that are cut'
    settings "$small" "$short" 'algorithm: scaffold' 'participation: {kind: uniform, count: 3}' 'rounds: 25'
    lines 10 2000000 12000
}
bad_lines_large() {
    step 'large messages over lines that are cut'
    settings "$large" "$short" 'algorithm: fedavg' "$together" 'rounds: 8'
    lines 2 60000000 3000000
}

# ---- killed --------------------------------------------------------------------------------------------------------

killed_server() { # METHOD KILLS
    step "a server that is killed ($1)"
    settings "$large" "$short" "algorithm: $1" 'participation: {kind: uniform, count: 2}' "rounds: $((12 + 4 * $2))" \
        'metrics: {every: 4}'
    local kills=0 amid=0
    serve
    line delay=3 # so that a round takes a while
    join_all
    until_round 1
    for turn in $(seq "$2"); do
        if [ $((turn % 2)) = 1 ]; then
            nap 300
        else # the next checkpoint is being written
            for _ in {1..20000}; do compgen -G 'real.checkpoint/*.tmp' >/dev/null && break; done
        fi
        kill -KILL "$server" 2>/dev/null && kills=$((kills + 1))
        wait "$server" 2>/dev/null
        compgen -G 'real.checkpoint/*.tmp' >/dev/null && amid=$((amid + 1))
        serve
    done
    all_end
    well
    check "$case_title: it was killed $2 times" [ "$kills" = "$2" ]
    amid_all=$((amid_all + amid))
    logged 'event=away' err0
}

killed_clients() { # METHOD KILLS
    step "clients that are killed ($1)"
    settings "$large" "$short" "algorithm: $1" 'participation: {kind: uniform, count: 3}' 'rounds: 30' 'metrics: {every: 10}'
    serve
    line delay=3
    join_all
    until_round 3
    for _ in $(seq "$2"); do
        local who=$((RANDOM % clients))
        nap 300
        [ "$(rounds)" -lt 26 ] || break # who is killed after the end has nobody to come back to
        kill_it "$(pid_of $who)"
        join $who
    done
    all_end
    well
    check "$case_title: somebody goes on from what was kept" grep -q event=restored err0 err1 err2 err3
}

all_at_once() {
    step 'lines that are cut, clients and servers that are killed'
    settings "$small" "$short" 'algorithm: feddyn' 'participation: {kind: uniform, count: 3}' 'rounds: 150' 'metrics: {every: 50}'
    serve
    line seed=$RANDOM delay=5 cut=30000 stall=200
    join_all
    until_round 1
    for _ in 1 2 3 4 5 6; do
        nap 500
        [ "$(rounds)" -lt 140 ] || break
        if [ $((RANDOM % 2)) = 0 ]; then
            kill_it "$server"
            nap 200
            serve
        else
            local who=$((RANDOM % clients))
            kill_it "$(pid_of $who)"
            nap 200
            join $who
        fi
    done
    all_end
    well
}

# ---- clients that are away, late, or say things twice ------------------------------------------------------------

vanished() {
    step 'a client that vanishes for good'
    settings "$small" "$short" 'algorithm: scaffold' "$together" 'rounds: 8' 'server: {deadline: 0.5, quorum: 0.5}' 'metrics: {every: 8}'
    serve --grace 1
    line delay=40
    join_all
    until_round 2
    kill_it "$client3"
    ends 'the server' 0 "$server"
    for i in 0 1 2; do ends "client $i" 0 "$(pid_of $i)"; done
    logged 'they have not answered within 0.5 seconds: 3'
    check "$case_title: all rounds were run" [ "$(columns real | tail -1 | cut -d, -f1)" = 8 ]
    check "$case_title: the others have learnt something" learnt

    step 'too few answers'
    settings "$small" "$short" 'algorithm: scaffold' "$together" 'rounds: 4' 'server: {deadline: 0.4, quorum: 0.9}'
    serve
    for i in 0 1 2; do join $i; done
    join 3 --once # there for its first turn
    until_round 3
    logged 'does not count: 3 of 4 clients have answered, and server.quorum asks for 4'
}

over_selection() {
    step 'more are asked than are waited for'
    settings "$small" "$short" 'algorithm: fedavg' "$together" 'rounds: 40' 'server: {wait_for: 0.75}' 'metrics: {every: 20}'
    serve
    line seed=1 delay=20
    for i in 0 1 2; do join $i; done
    line seed=1 delay=300
    join 3
    all_end
    logged 'event=untaken' err3
    check "$case_title: all rounds were run" [ "$(columns real | tail -1 | cut -d, -f1)" = 40 ]
    check "$case_title: the others have learnt something" learnt
}

odd() {
    step 'answers that are no answers, come twice, or are old'
    settings "$small" "$short" 'algorithm: scaffold' "$together" 'rounds: 8'
    serve
    for i in 0 1 2; do join $i; done
    "$odd_program" "http://127.0.0.1:$port" client3 client3.csv >out3 2>err3 &
    client3=$!
    all_end
    well

    step 'a late answer'
    settings "$small" "$short" 'algorithm: scaffold' "$together" 'rounds: 8' 'server: {deadline: 0.5}'
    serve
    for i in 0 1 2; do join $i; done
    "$odd_program" "http://127.0.0.1:$port" client3 client3.csv late=1.5 >out3 2>err3 &
    client3=$!
    all_end
    logged 'they have not answered within 0.5 seconds: 3'
}

everyone() {
    step 'a method that needs everyone, and one who comes back'
    settings "$small" "$short" 'algorithm: vrl-sgd' "$together" 'rounds: 30' 'server: {deadline: 20}' 'metrics: {every: 30}'
    serve
    line delay=10
    join_all
    until_round 2
    kill_it "$client2"
    nap 900
    join 2
    all_end
    well

    step 'a method that needs everyone, and one who does not come'
    settings "$small" "$short" 'algorithm: vrl-sgd' "$together" 'rounds: 100' 'server: {deadline: 0.7}' 'metrics: {every: 100}'
    serve
    line delay=5
    join_all
    until_round 2
    kill_it "$client2"
    ends 'the server' 1 "$server"
    logged '1 of 4 clients have not answered within 0.7 seconds'
    logged 'the same command goes on with it'
    join 2
    serve --set server.deadline=20
    all_end
    well
}

# ---- asynchronous methods over real arrivals -----------------------------------------------------------------------

# The first and the last training loss.
learnt() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "train_loss") c = i; next } $c != "" { if (first == "") first = $c; last = $c }
        END { exit !(last < 0.8 * first) }' real/metrics.csv
}
arrivals() { # METHOD
    step "real arrivals of $1"
    settings "$small" "$short" "algorithm: $1" 'participation: {kind: uniform, count: 3}' 'rounds: 150' 'clock: real' 'metrics: {every: 25}'
    serve
    line seed=$RANDOM delay=10
    join_all
    until_round 4
    kill_it "$server"
    serve
    until_round 2
    kill_it "$client1"
    nap 200
    join 1
    all_end
    check "$case_title: it learns" learnt
    check "$case_title: nothing is left lying about" nothing_left
}

# ---- a full disk ---------------------------------------------------------------------------------------------------

little_room() {
    step 'a server that may not write large files'
    settings "$large" "$short" 'algorithm: scaffold' "$together" 'rounds: 6' 'metrics: {every: 6}'
    # files of 200 KB at most, and no signal for it
    printf '#!/usr/bin/env bash\ntrap "" XFSZ\nulimit -f 200\nexec "%s" "$@"\n' "$program" >tight
    chmod +x tight
    program=./tight serve
    join_all
    ends 'the server' 1 "$server"
    logged 'File too large'
    logged 'the same command goes on with it'
    check "$case_title: no checkpoint is half-written" [ -z "$(compgen -G 'real.checkpoint/*.checkpoint')$(compgen -G 'real.checkpoint/*.tmp*')" ]
    kill_it "$client1"
    program=./tight join 1
    serve
    ends 'a client that may not write large files' 1 "$client1"
    logged 'File too large' err1
    check "$case_title: nothing of the client is half-written" [ -z "$(compgen -G 'keep1/run-*/[!b]*')" ]
    join 1
    all_end
    well
}
full_disk() {
    step 'a disk that is full'
    mkdir -p "$disk"
    if ! mount -t tmpfs -o size=24m tmpfs "$disk" 2>/dev/null; then
        skip 'a disk that is full: no tmpfs may be mounted here'
        return
    fi
    settings "$large" "$short" 'algorithm: scaffold' 'participation: {kind: uniform, count: 2}' 'rounds: 30' 'metrics: {every: 10}'
    output=disk/real
    serve
    line delay=3
    join_all
    until_round 3
    dd if=/dev/zero of=disk/filler bs=64k 2>/dev/null
    ends 'the server' 1 "$server"
    logged 'No space left on device'
    logged 'the same command goes on with it'
    check "$case_title: no checkpoint is half-written" [ -z "$(compgen -G 'disk/real.checkpoint/*.tmp*')" ]
    serve
    ends 'a server that is started too early' 1 "$server"
    rm disk/filler
    serve
    all_end
    mv disk/real real
    well
    umount "$disk"
}

# ---- the end that is asked for -------------------------------------------------------------------------------------

drained() {
    step 'a server that is asked to end'
    settings "$small" 'local: {steps: 200, batch: 10, lr: 0.05}' 'algorithm: scaffold' 'participation: {kind: uniform, count: 3}' 'rounds: 150' 'metrics: {every: 150}'
    serve
    line delay=5
    join_all
    for _ in 1 2; do
        until_round 3
        kill -TERM "$server"
        ends 'the server' 130 "$server"
        logged 'the same command goes on with it'
        serve
    done
    all_end
    well
}

# ---- clients that are cut off just then ------------------------------------------------------------------------------

# Client 3 may be away: the others go on without it.
without_3() { settings "$small" "$short" 'algorithm: fedavg' "$together" 'rounds: 8' 'server: {deadline: 0.5, quorum: 0.5}'; }
others_hear() {
    for i in 0 1 2; do ends "client $i" 0 "$(pid_of $i)"; done
    check "$case_title: the result is complete" [ -s real/model.safetensors ]
    check "$case_title: the server stays" kill -0 "$server"
}
ending() {
    step 'a client that stands still at the end'
    without_3
    serve --grace 600
    line delay=20
    join_all
    until_round 2
    kill -STOP "$client3"
    others_hear
    kill -CONT "$client3"
    ends 'client 3' 0 "$client3"
    ends 'the server' 0 "$server" # long before its time
    logged 'event=over ok=true' err3
    check "$case_title: nothing is left lying about" nothing_left
    check "$case_title: all have heard" lacks case.log event=untold

    step 'a client whose line is cut at the end'
    without_3
    serve --grace 600
    line delay=1
    local far=$relay far_pid=$relay_pid
    join 3
    line delay=20
    for i in 0 1 2; do join $i; done
    until_round 2
    kill -STOP "$far_pid"
    others_hear
    kill_it "$far_pid" 2>/dev/null
    relay_from=127.0.0.1:$far line delay=1
    ends 'client 3' 0 "$client3"
    ends 'the server' 0 "$server"
    check "$case_title: all have heard" lacks case.log event=untold

    step 'a client that is back when the server has gone'
    without_3
    serve --grace 0.5
    line delay=20
    join_all
    until_round 2
    kill -STOP "$client3"
    for i in 0 1 2; do ends "client $i" 0 "$(pid_of $i)"; done
    ends 'the server' 0 "$server"
    logged 'event=untold clients=1 first=client3 grace=0.5'
    logged 'the same command tells the clients that have not heard'
    check "$case_title: what is needed for that is kept" [ -s real.server/roster.jsonl ]
    cp -r real before
    serve --grace 600
    kill -CONT "$client3"
    ends 'client 3' 0 "$client3"
    ends 'the server' 0 "$server" # it knows that the others have heard
    logged 'event=over ok=true' err3
    check "$case_title: the result is what it was" diff -r before real
    check "$case_title: nothing is left lying about" nothing_left
    rm -r before
    serve
    ends 'a server with nobody to tell' 2 "$server"
    logged 'there is a result already'

    step 'a signal ends the wait for clients that have not heard'
    without_3
    serve --grace 600
    line delay=20
    join_all
    until_round 2
    kill -STOP "$client3"
    others_hear
    kill -TERM "$server"
    ends 'the server' 0 "$server"
    logged 'event=untold clients=1 first=client3'
}

# ---- the same between namespaces -------------------------------------------------------------------------------------

# Server and clients have a machine each, as far as they know, and a relay on the server's side between them.
namespaces() {
    step 'two namespaces'
    if ! { command -v ip >/dev/null && ip netns add "$space_a" && ip netns add "$space_b" &&
        ip -n "$space_a" link add fedloom type veth peer name fedloom netns "$space_b" &&
        ip -n "$space_a" addr add 10.77.0.1/24 dev fedloom && ip -n "$space_b" addr add 10.77.0.2/24 dev fedloom &&
        ip -n "$space_a" link set fedloom up && ip -n "$space_b" link set fedloom up &&
        ip -n "$space_a" link set lo up && ip -n "$space_b" link set lo up; } 2>/dev/null; then
        skip 'two namespaces: none may be made here'
        return
    fi
    settings "$small" "$short" 'algorithm: scaffold' 'participation: {kind: uniform, count: 3}' 'rounds: 120' 'metrics: {every: 40}'
    fedloom cert init ca
    fedloom cert server ca 10.77.0.1
    fedloom cert client ca client0 client1 client2 client3
    check "$case_title: certificates are made" exits 0
    server_space=(ip netns exec "$space_a") relay_space=(ip netns exec "$space_a") client_space=(ip netns exec "$space_b")
    security='--certs ca/server' address=10.77.0.1 name=10.77.0.1 relay_from=10.77.0.1:0
    serve
    line seed=$RANDOM delay=10 cut=60000 stall=300
    join_all
    until_round 2
    kill_it "$server"
    serve
    until_round 2
    kill_it "$client2"
    join 2
    until_round 2
    # the cable is out for a moment
    ip -n "$space_b" link set fedloom down
    nap 900
    ip -n "$space_b" link set fedloom up
    all_end
    well
    security='' address='' name='' relay_from='' server_space=() relay_space=() client_space=()
}

some() {
    bad_lines
    killed_server scaffold 4
    killed_clients scaffold 4
    odd
    arrivals fedasync
    little_room
    ending
}
all() {
    some
    bad_lines_large
    killed_server fedavg 6
    killed_clients feddyn 6
    all_at_once
    vanished
    over_selection
    everyone
    arrivals '{kind: fedbuff, buffer: 2}'
    arrivals '{kind: asyncfeddr, eta: 1}'
    full_disk
    drained
    namespaces
    check "servers were killed while they wrote a checkpoint" [ "$amid_all" -gt 0 ]
}

eval "$which"
[ "$skipped" = 0 ] || echo "$skipped skipped"
count
