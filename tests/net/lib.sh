# What the tests that have servers and clients as processes share, beside what tests/cli/lib.sh has, which is sourced after it.
# Variables: $port and $url are where clients go, $server and $client0, $client1, ... the processes, $case_title (or nothing) what
# the names of checks begin with.

# samples CLIENTS EACH: three classes in all.csv, every client's part of them in client0.csv, client1.csv, ... and who.json; the roster.
samples() {
    local i parts=
    clients=$1
    awk -v n=$(($1 * $2)) 'BEGIN { srand(1); for (i = 0; i < n; i++) { c = i % 3; s = "";
        for (k = 0; k < 4; k++) s = s (2 * rand() - 1 + 2 * (k == c)) ","; print s c } }' >all.csv
    for ((i = 0; i < $1; i++)); do
        awk "NR > $2 * $i && NR <= $2 * ($i + 1)" all.csv >"client$i.csv"
        parts=$parts${parts:+, }[$(seq -s, $(($2 * i)) $(($2 * (i + 1) - 1)))]
        echo "client$i"
    done >roster
    echo "{\"clients\": [$parts]}" >who.json
}

# settings LINES...: the same federation of these clients in simulated.yaml and in server.yaml.
settings() {
    printf '%s\n' 'data: {kind: csv, train: all.csv, header: false, normalize: none}' 'partition: {kind: file, path: who.json}' \
        "$@" >simulated.yaml
    printf '%s\n' 'data: {kind: joined, shape: [4], classes: 3, normalize: none}' "partition: {clients: $clients}" "$@" >server.yaml
}

# patiently PID CONDITION...: until it holds, for at most half a minute and as long as the process is there.
patiently() {
    local pid=$1 _
    shift
    for _ in $(seq 1500); do
        "$@" && return 0
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.02
    done
    return 1
}

# until_serving LOG PID [STARTS]: until the log tells of so many starts (1); leaves $port.
ports() { sed -n 's/.*event=serving .*port=\([0-9]*\).*/\1/p' "$1" 2>/dev/null; }
started() { [ "$(ports "$1" | wc -l)" -ge "$2" ]; }
until_serving() {
    server_log=$1
    patiently "$2" started "$1" "${3:-1}"
    port=$(ports "$1" | tail -1)
}

# free_port: leaves in $port one that nobody has just now: the system gave it to a server that is then gone.
free_port() {
    printf 'data: {kind: joined, shape: [1], classes: 2}\npartition: {clients: 1}\nmodel: softmax\n' >any.yaml
    "$program" serve any.yaml --output any --insecure-http --listen 127.0.0.1:0 2>any.log &
    local pid=$!
    until_serving any.log "$pid"
    kill_it "$pid"
    rm -rf any any.*
}

# join I ARGS...: client I in the background, with a folder of its own; leaves $clientI, outI and errI. $security: with certificates.
# $client_space: what goes before the command.
client_space=()
join() {
    local i=$1 who=(--name "client$1" --insecure-http)
    shift
    [ -z "${security:-}" ] || who=(--certs "ca/clients/client$i")
    ${client_space[@]+"${client_space[@]}"} "$program" join "$url" --data "client$i.csv" --set data.header=false "${who[@]}" \
        --keep "keep$i" --patience 60 "$@" >>"out$i" 2>>"err$i" &
    eval "client$i=$!"
}
everybody() { seq 0 $((clients - 1)); }
join_all() { for i in $(everybody); do join "$i"; done; }
pid_of() { eval "echo \$client$1"; }
kill_it() { # PID
    kill -KILL "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

# ends WHAT CODE PID: a process of ours ends by itself with that code.
ends() {
    leaves "$3"
    tail -n 5 "$server_log" >out
    tail -qn 2 err? >err 2>/dev/null
    check "${case_title:+$case_title: }$1 ends with $2" exits "$2"
}
all_end() {
    ends 'the server' 0 "$server"
    for i in $(everybody); do ends "client $i" 0 "$(pid_of "$i")"; done
}

# The parameters: what is behind the header, whose length is in the first 8 bytes. All columns of the metrics but the seconds.
parameters() { tail -c "+$(($(od -An -tu8 -N8 "$1/model.safetensors") + 9))" "$1/model.safetensors"; }
columns() { awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "seconds") s = i } { $s = ""; print }' "$1/metrics.csv"; }
same_parameters() { parameters "$1" >want && parameters "$2" >got && [ -s want ] && same want got; }
same_result() { same_parameters "$1" "$2" && columns "$1" >want && columns "$2" >got && same want got; }

# repeats RESULT: a simulation (simulated.yaml) whose cohorts are drawn by the seed of that server's run has its bytes.
cohort_seed() { sed -n '/^participation:/,/^[^ ]/s/^  seed: //p' "$1/config.yaml"; }
simulate_like() { fedloom run simulated.yaml --set "participation.seed=$(cohort_seed "$1")" --output "$1.simulated" --force --quiet; }
repeats() { simulate_like "$1" && exits 0 && same_result "$1.simulated" "$1"; }
