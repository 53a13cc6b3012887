#!/usr/bin/env bash
# A server and its clients as processes on loopback: the result of a simulation, whatever happens to clients. Usage: join.sh FEDLOOM
set -u
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../cli/lib.sh"
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT

# ---- a federation of three, simulated and for real ----------------------------------------------------------

samples 3 50
settings 'model: softmax' 'local: {steps: 3000, batch: 10, lr: 0.1}' 'participation: {kind: uniform, count: 2}' \
    'algorithm: scaffold' 'rounds: 60' 'metrics: {every: 10}'

# serve OUTPUT [PORT [ARGS...]]: starts a server; leaves $server, $port and $url.
serve() {
    local output=$1 where=${2:-0}
    shift $(($# < 2 ? $# : 2))
    "$program" serve server.yaml --output "$output" --insecure-http --listen "127.0.0.1:$where" --roster roster "$@" 2>"$output.log" &
    server=$!
    until_serving "$output.log" "$server"
    url=http://127.0.0.1:$port
    [ "$where" != 0 ] || rm -f err? # clients go on with another server
}

# until_has FILE TEXT PID
until_has() { patiently "$3" has "$1" "$2" 2>/dev/null; }

# ---- a file that is wrong whoever joins: the server ends before anybody does -----------------------------------

expect 2 'participation.count is 5, but there are only 3 clients' \
    serve server.yaml --insecure-http --listen 127.0.0.1:0 --set participation.count=5 --output wrong
check "a server that ends at once has served nobody" lacks err 'event=serving'
check "and leaves nothing behind" [ -z "$(compgen -G 'wrong*')" ]

serve plain
check "the seed of the cohorts is its owner's alone" [ "$(stat -c %a plain.server/participation-seed)" = 600 ]
join_all
all_end
check "a federation over HTTP has the result of a simulation" repeats plain
check "its result has a report, listed by the manifest" has plain/manifest.json '"report.html"'
check "the report says how many samples each client claims" has plain/report.html 'samples (claimed)" data-value="50">50<'
check "and which command made it" has plain/report.html '<dt>command</dt><dd>fedloom serve server.yaml --output plain'
check "the report of a simulation has no claims" lacks plain.simulated/report.html claimed
check "its cohorts are drawn by a seed of their own" [ "$(cohort_seed plain)" -gt 1 ]
fedloom run simulated.yaml --output open --quiet
check "which is not the one that clients are told" eval 'exits 0 && ! same_parameters open plain'
check "a client says who it is" has err1 'event=joined name=client1 client=1 clients=3'
check "a client says how it went" has err1 'event=over ok=true'
check "the state of a run that is over is put aside" compgen -G 'keep1/run-*.over/state' >/dev/null
check "no answer is left" [ -z "$(compgen -G 'keep1/run-*/answer')" ]
check "what a client keeps is its own" [ "$(stat -c %a keep1 keep1/run-*.over keep1/run-*.over/state | tr '\n' ' ')" = '700 700 600 ' ]

# ---- a client that is killed, again and again -----------------------------------------------------------------

serve killed
for i in 0 2; do join "$i"; done
kills=0
for _ in 1 2 3 4 5; do
    : >err1
    join 1
    until_has err1 ' round=' "$client1"
    kill -KILL "$client1" 2>/dev/null && kills=$((kills + 1))
    wait "$client1" 2>/dev/null
done
join 1
all_end
check "a client was killed, again and again" [ "$kills" -eq 5 ]
check "a client that comes back goes on from what it kept" has err1 'event=restored'
check "a client that was killed changes nothing" repeats killed

# ---- two processes with one certificate --------------------------------------------------------------------------

rm -f err?
serve twice
join_all
until_has err1 ' round=' "$client1"
kill -STOP "$client0" # so that the run does not end before
second='--data client1.csv --set data.header=false --name client1 --insecure-http'
fedloom join "$url" $second --keep second1 --patience 1
check "a second process of one client is refused" exits 1
check "it hears where the first one is" has err 'another process takes part as client1: it came from 127.0.0.1'
check "it says that it has tried again, and until when" has err 'event=wrong until='
check "and so does the server" has twice.log 'event=duplicate client=1 name=client1 address=127.0.0.1'
kill -STOP "$client1"
cp -r keep1 second1.copy
first=$client1
"$program" join "$url" $second --keep second1.copy --patience 60 2>err3 &
client1=$!
until_has twice.log 'event=restarted client=1' "$server"
kill -CONT "$first"
ends 'a process whose folder was copied' 1 "$first"
check "it hears that another one has its place" has err1 "has taken this one's place; is its folder a copy"
kill -TERM "$client1"
ends 'the copy' 0 "$client1"
rm second1.copy/instance # another folder, for the server
mv second1.copy third1
"$program" join "$url" $second --keep third1 --patience 60 2>err3 &
client1=$!
until_has twice.log 'event=replaced client=1' "$server"
kill -CONT "$client0"
all_end
check "a process that has ended makes room for another one at once" has twice.log 'event=replaced client=1'
check "two processes of one client change nothing" repeats twice
rm -rf keep? err3

# ---- a client whose samples change in mid-run -------------------------------------------------------------------

# begun_then_changed OUTPUT: client 1 is killed, and when it comes back its labels are others.
begun_then_changed() {
    rm -rf keep?
    serve "$1"
    join_all
    until_has err1 ' round=' "$client1"
    kill_it "$client1"
    cp client1.csv own.csv
    awk -F, -v OFS=, '{ $5 = ($5 + 1) % 3; print }' own.csv >client1.csv
}
begun_then_changed changed
join 1
ends 'a client whose samples have changed' 1 "$client1"
check "it says which, and where" has err1 'the samples are not those that this client began the run in keep1/run-'
check "it says what to do" has err1 'go on with these by --changed-data'
check "and so does the server" has changed.log 'event=refused client=1 name=client1 number=0 reason="its samples are not those'
cp own.csv client1.csv
join 1
all_end
check "a client whose samples are back changes nothing" repeats changed

begun_then_changed knowingly
join 1 --changed-data
all_end
check "a client goes on with other samples if it is told to, and says so" has err1 'event=changed what="samples"'
check "the result is another one" eval 'simulate_like knowingly && exits 0 && ! same_result knowingly.simulated knowingly'
cp own.csv client1.csv
rm -rf keep?

# ---- a server that is killed ------------------------------------------------------------------------------------

serve restarted
join_all
heard() { cat err0 2>/dev/null | grep -c ' round='; } # the client may not have begun yet
for turn in 1 2; do
    rounds=$(heard)
    for _ in $(seq 600); do [ "$(heard)" -gt "$rounds" ] && break || sleep 0.05; done
    kill_it "$server"
    serve restarted "$port"
done
all_end
check "clients notice that the server is away" has err0 'event=away'
check "a server that was killed changes nothing" repeats restarted

# ---- a mistake at a restart: nothing is lost, and the corrected command goes on ----------------------------------

serve mistaken
join_all
until_has mistaken.log 'event=checkpoint round=20 ' "$server"
kill_it "$server"
mistake() { # WHAT CODE SENTENCE ARGS...: a server that cannot go on ends before it listens
    local what=$1 code=$2 sentence=$3
    shift 3
    fedloom serve server.yaml --output mistaken --insecure-http --listen "127.0.0.1:$port" --roster roster "$@"
    check "$what: the server ends with $code" exits "$code"
    check "$what: says \"$sentence\"" has err "$sentence"
    check "$what: no client hears of it" lacks err 'event=serving'
    check "$what: what the run needs stays" [ -s mistaken.server/roster.jsonl ]
}
mistake 'another setting' 1 'was made with other settings' --set local.lr=0.2
mistake 'another seed' 1 'was made with other settings' --set seed=9
mistake 'another seed of cohorts' 1 'was made with other settings' --set participation.seed=9
cp mistaken.server/participation-seed drawn
echo 1.5 >mistaken.server/participation-seed
mistake 'a damaged seed of cohorts' 1 'mistaken.server/participation-seed: this is no seed of cohorts'
cp drawn mistaken.server/participation-seed
mkdir saved && cp mistaken.checkpoint/*.checkpoint saved
for file in mistaken.checkpoint/*.checkpoint; do
    printf '\377' | dd of="$file" bs=1 seek=3000 conv=notrunc 2>/dev/null
done
mistake 'damaged checkpoints' 1 'there is no complete checkpoint'
cp saved/*.checkpoint mistaken.checkpoint
for i in $(everybody); do check "client $i waits for the server meanwhile" kill -0 "$(pid_of "$i")"; done
serve mistaken "$port"
all_end
check "a mistake at a restart changes nothing" repeats mistaken

# Without what the server keeps of its clients they join again, and the checkpoint has the seed of the cohorts.
serve lost
join_all
until_has lost.log 'event=checkpoint round=20 ' "$server"
kill_it "$server"
rm -r lost.server
serve lost "$port" --set "participation.seed=$(cohort_seed lost.checkpoint)"
all_end
check "a server that has lost what it knew of its clients goes on with the seed of its checkpoint" repeats lost

# A run that a server has given up by mistake is taken up again where it was.
serve given-up
join_all
until_has given-up.log 'event=checkpoint round=20 ' "$server"
kill_it "$server"
for i in $(everybody); do
    kill_it "$(pid_of "$i")"
    for folder in keep"$i"/run-*[0-9a-f]; do [ "$(ls "$folder")" = '' ] || mv "$folder" "$folder.over"; done
done
serve given-up "$port"
join_all
all_end
check "what was put aside of a run is taken up again" has err0 'event=restored'
check "a run that was given up by mistake changes nothing" repeats given-up

# ---- clients that claim more samples than the server allows ------------------------------------------------------

serve claims
for i in 0 1; do join "$i"; done
until_has claims.log 'name=client1 samples=50 missing=' "$server" # who comes first is not known
expect 1 "claims: process $server is writing there" run simulated.yaml --output claims --quiet
kill_it "$server"
serve claims "$port" --set server.largest_samples=40
ends 'a client with too many samples' 1 "$client0"
ends 'another one' 1 "$client1"
check "the server says why a client of before is not let in" has claims.log 'event=not-joined name=client0 reason="client 0 cannot join: it says that it has 50 samples'
check "and so does the client" has err0 'server.largest_samples is 40'
fedloom status "$url" --insecure-http
check "it is missing again" has out '0 of 3 clients joined'
kill_it "$server"
serve claims "$port" --set server.largest_samples=50
join_all
all_end
check "a server that lets them in again has the result of a simulation" repeats claims

# ---- a server that is asked to end ------------------------------------------------------------------------------

serve drained
join_all
until_has drained.log 'event=checkpoint round=3 ' "$server"
kill -TERM "$server"
ends "a server with SIGTERM" 130 "$server"
check "it says that it stops" has drained.log 'event=draining by=signal'
check "it says that it can go on" has drained.log 'event=paused code=130'
check "it was not over" [ "$(sed -n 's/.*event=round round=\([0-9]*\) .*/\1/p' drained.log | tail -1)" -lt 60 ]
for i in 0 1 2; do check "client $i stays" kill -0 "$(pid_of "$i")"; done
serve drained "$port"
all_end
check "a server that was asked to end changes nothing" repeats drained

# ---- the audit file -----------------------------------------------------------------------------------------------

serve audited
join_all
until_has audited.log 'event=checkpoint round=5 ' "$server"
kill_it "$server"
lines=$(wc -l <audited.audit.jsonl)
printf '{"time": "half a line' >>audited.audit.jsonl
expect 0 'half a line, of a server that was killed' audit audited.audit.jsonl
serve audited "$port" --set server.largest_norm=1000 --silence 50 --quiet
all_end
check "an audit file changes nothing" repeats audited
check "what changed at a restart is logged" has audited.log 'event=setting key=server.largest_norm from="0" to="1000"'
check "and in the audit file" has audited.audit.jsonl '"event": "setting", "key": "server.largest_norm", "from": "0", "to": "1000"'
check "so is an option" has audited.audit.jsonl '"key": "--silence", "from": "60", "to": "50"'
check "nothing else has changed" [ "$(grep -c '"event": "setting"' audited.audit.jsonl)" -eq 3 ] # and the port
check "the restart is a line of its own" has <(sed -n "$((lines + 1))p" audited.audit.jsonl) '"event": "started", '
check "everybody who joined is in it" [ "$(grep -c '"event": "joined", "client": [012], "name": "client[012]"' audited.audit.jsonl)" -eq 3 ]
check "it ends with the run" has <(tail -1 audited.audit.jsonl) '"event": "over", "code": 0'
check "it is its owner's alone" [ "$(stat -c %a audited.audit.jsonl)" = 600 ]
expect 0 "$(wc -l <audited.audit.jsonl) lines, each follows from the one before" audit audited.audit.jsonl
check "the last line's digest is that of sha256sum" has out "$(tail -1 audited.audit.jsonl | sha256sum | cut -d' ' -f1)"
before=$(printf '0%.0s' $(seq 64)) # the chain as anybody can follow it
while read -r line; do
    [[ $line == *"\"before\": \"$before\"}" ]] || break
    before=$(echo "$line" | sha256sum | cut -d' ' -f1)
done <audited.audit.jsonl
check "every line has the digest of the line before" [ "$before" = "$(tail -1 audited.audit.jsonl | sha256sum | cut -d' ' -f1)" ]
sed '3s/client/Client/' audited.audit.jsonl >changed.jsonl
expect 1 'changed.jsonl:4: does not follow from the line before it' audit changed.jsonl
sed 2d audited.audit.jsonl >removed.jsonl
expect 1 'removed.jsonl:2: does not follow from the line before it' audit removed.jsonl
sed 1d audited.audit.jsonl >beheaded.jsonl
expect 1 'beheaded.jsonl:1: is not the first line of an audit file' audit beheaded.jsonl
expect 1 'no-such.jsonl' audit no-such.jsonl
expect 2 'which FILE?' audit

# ---- a client that is asked to end -----------------------------------------------------------------------------

serve paused
for i in 0 2; do join "$i"; done
join 1
until_has err1 'event=sent' "$client1"
fedloom join "$url" --data client1.csv --name client1 --insecure-http --keep keep1
check "a folder belongs to one process" exits 1
check "a folder belongs to one process, and says whose it is" has err "$client1"
kill -TERM "$client1"
ends "a client with SIGTERM" 0 "$client1"
join 1
all_end
check "a client that paused changes nothing" repeats paused

# ---- with certificates ------------------------------------------------------------------------------------------

fedloom cert init ca
fedloom cert server ca localhost
fedloom cert client ca client0 client1 client2
fedloom cert init other
fedloom cert client other client0
fedloom cert viewer other observer
"$program" serve server.yaml --output secure --certs ca/server --listen 127.0.0.1:0 --roster roster 2>secure.log &
server=$!
until_serving secure.log "$server"
samples='--data client0.csv --set data.header=false --patience 1'
foreign() {
    local text=$1
    shift
    fedloom join "$@" $samples
    check "join $*: ends with 1" exits 1
    check "join $*: says \"$text\"" has err "$text"
}
# Viewers look, clients do not.
fedloom cert viewer ca observer
expect 0 'observer   viewer' cert list ca
expect 0 '0 of 3 clients joined' status "https://localhost:$port" --certs ca/viewers/observer
expect 0 'client1  missing' status "https://localhost:$port" --certs ca/viewers/observer
expect 0 '"state": "joining"' status "https://localhost:$port" --certs ca/viewers/observer --format json
expect 2 'is not a viewer' status "https://localhost:$port" --certs ca/clients/client0
fedloom join "https://localhost:$port" --certs ca/viewers/observer $samples --keep observer
check "a viewer does not join" eval 'exits 2 && has err "is not a client"'
expect 1 'certificate verification failed' status "https://localhost:$port" --certs other/viewers/observer
expect 2 'https needs the folder' status "https://localhost:$port"
fedloom cert revoke ca observer
fedloom status "https://localhost:$port" --certs ca/viewers/observer
check "whoever is revoked does not" eval 'exits 1 && has err revoked'
check "a certificate that was revoked is in the audit file" has secure.audit.jsonl '"event": "revoked", "reason": "the certificate of observer has been revoked"'
foreign 'server certificate verification failed' "https://localhost:$port" --certs other/clients/client0 --keep foreign
check "join: says that a wrong certificate is tried again, and until when" has err 'event=wrong until=20'
foreign '127.0.0.1' "https://127.0.0.1:$port" --certs ca/clients/client0 --keep foreign
cp -r ca/clients/client0 mixed && cp other/clients/client0/cert.pem other/clients/client0/key.pem mixed
fedloom join "https://localhost:$port" --certs mixed --keep foreign $samples
check "files that do not belong together are refused" [ "$code" -ne 0 ]
# A server's certificate that was renewed wrongly: clients wait until it is put right.
right=$port
kill_it "$server"
fedloom cert server other localhost
"$program" serve server.yaml --output secure --certs other/server --listen "127.0.0.1:$right" --roster roster 2>botched.log &
server=$!
until_serving botched.log "$server"
rm -f err?
for i in 0 1 2; do # without --keep
    "$program" join "https://localhost:$port" --data "client$i.csv" --set data.header=false --certs "ca/clients/client$i" \
        --patience 60 >"out$i" 2>"err$i" &
    eval "client$i=$!"
done
for i in 0 1 2; do until_has "err$i" 'event=wrong until=' "$(pid_of "$i")"; done
kill_it "$server"
"$program" serve server.yaml --output secure --certs ca/server --listen "127.0.0.1:$right" --roster roster 2>secure.log &
server=$!
until_serving secure.log "$server"
all_end
check "clients wait for a server whose certificate is wrong for a while, and say so once" [ "$(grep -c event=wrong err0)" -eq 1 ]
check "a federation over HTTPS has the result of a simulation" repeats secure
check "a client keeps things where it is by itself" compgen -G 'fedloom-client1/run-*.over' >/dev/null

# ---- labels that are words, or not 0, 1, ...: refused before a place is taken, unless the server names them ------

mkdir words && cd words || exit 1
for i in 0 1 2; do awk -F, -v OFS=, -v i=$i '{ $5 = i == 1 ? "well" : $5 == 1 ? "well" : "sick"; print }' "../client$i.csv" >"client$i.csv"; done
cat client?.csv >all.csv
cp ../who.json ../roster .
settings 'model: softmax' 'local: {steps: 20, batch: 10, lr: 0.1}' 'participation: {kind: uniform, count: 2}' 'rounds: 5'
serve unnamed 0 --set data.classes=2
fedloom join "$url" --data client0.csv --set data.header=false --name client0 --insecure-http
check "labels that the federation does not have end a client" exits 1
check "it says which, and the cure" has err "labelled 'sick', but the labels of the federation are 0 to 1; others have to be named at the server, by data.class_names: \"sick, well\""
fedloom join "$url" --data client1.csv --set data.header=false --name client1 --insecure-http
check "and so do those of a file that lacks some of them" eval "exits 1 && has err \"labelled 'well'\""
fedloom status "$url" --insecure-http
check "neither has taken a place" has out '0 of 3 clients joined'
check "nor sent anything" lacks unnamed.log 'event=joined'
kill_it "$server"
serve named 0 --set data.classes=2 --set 'data.class_names=sick, well'
sed 's/sick/ill/' client0.csv >other.csv
fedloom join "$url" --data other.csv --set data.header=false --name client0 --insecure-http
check "of other names it says what there is" has err "labelled 'ill', but the classes of the federation are sick, well (data.class_names at the server)"
join_all
all_end
check "with names for the classes the result is that of a simulation" repeats named
check "a client says which class a label is" has err0 "label 'sick' is class 0, 'well' is class 1"
check "also where its file lacks some: the class of the federation" has err1 "label 'well' is class 1"
check "and nothing else" lacks err1 'is class 0'
cd .. || exit 1

# ---- what does not fit together --------------------------------------------------------------------------------

serve odd 0 --set algorithm=fedavg --set local.steps=7
cut -d, -f2- client0.csv >narrow.csv
refused() {
    local text=$1
    shift
    fedloom join "$url" --data client0.csv --set data.header=false --name client0 --insecure-http --keep odd0 "$@"
    check "join $*: is refused" exits 1
    check "join $*: says \"$text\"" has err "$text"
}
refused 'its samples have another shape; they are 1 x 1 x 3 with 3 classes' --set data.train=narrow.csv
refused 'the method is fedavg, and this client takes part in scaffold alone' --limit methods=scaffold
refused 'the model is softmax, and this client trains mlp alone' --limit models=mlp
refused 'somebody' --name somebody --keep somebody
check "nothing was said to the server" lacks odd.log 'event=joined client=0'
expect 0 'joining, round 0 of 0: fedavg, softmax' status "$url" --insecure-http
timeout --preserve-status -s INT 3 "$program" status "$url" --insecure-http --watch 0.2 >out 2>err
code=$?
check "fedloom status --watch goes on until it is interrupted" eval 'exits 130 && [ "$(grep -c "^joining" out)" -ge 2 ]'
expect 2 'with --insecure-http' status "$url"
expect 2 'which URL?' status
expect 2 '--format is xml, but must be table or json' status "$url" --format xml
nobody='http://127.0.0.1:1 --data client0.csv --set data.header=false --name client0 --insecure-http --keep nobody'
timeout --preserve-status -s INT 2 "$program" join $nobody >out 2>err
check "a client that waits for ever says so, and how to stop it" has err 'event=away seconds=0 patience=none stop="Ctrl-C, or --patience SECONDS" why="'
fedloom join $nobody --patience 1
check "a client with patience gives up" exits 1
check "and says when it will" has err 'event=away seconds=0 patience=1 why="'
check "and that it did" has err 'no answer for 1 seconds'
expect 1 'Failed to connect' status http://127.0.0.1:1 --insecure-http
expect 2 'only for this machine' join http://server.invalid --data client0.csv --name a --insecure-http
expect 2 'with --insecure-http' join "$url" --data client0.csv --name a
expect 2 'certs is missing' join https://127.0.0.1:1 --data client0.csv
expect 2 'name is missing' join "$url" --data client0.csv --insecure-http
expect 2 'does not say what it is' join "$url" --data who --name a --insecure-http
expect 2 'limits.stepps is not a key; did you mean limits.steps?' join "$url" --data client0.csv --name a --insecure-http --limit stepps=1
expect 2 '--show asks before anything is sent' join "$url" --data client0.csv --name a --insecure-http --show
expect 2 'which URL?' join

# Looking at what would leave.
for i in 1 2; do join "$i"; done
fedloom join "$url" --data client0.csv --set data.header=false --name client0 --insecure-http --keep look0 --show --yes --once
check "a look ends well" exits 0
check "a look shows the card" has out 'the card would leave'
check "a look shows the first turn" has out 'the answer to a turn would leave'
check "a look sends no answer to a turn" [ -z "$(compgen -G 'look0/run-*/state')" ]
# An ask beyond a limit is refused and said, and the client goes on.
join 0 --limit steps=6
until_has err0 'event=refuse' "$client0"
check "an ask beyond the limits is refused" has err0 'event=refuse'
check "a refusal says why" has err0 ' 6 '
kill -KILL "$server" "$client0" "$client1" "$client2" 2>/dev/null
wait 2>/dev/null

count
