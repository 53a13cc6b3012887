#!/usr/bin/env bash
# The program among others, and among accidents: two processes and one output, limits, signals at any moment, data that change between
# a kill and a resume, folders with somebody's files in them. Usage: hostile.sh PATH-OF-FEDLOOM
set -u
. "$(dirname "$0")/lib.sh"
sanitized=$(grep -qa __asan_init "$program" && echo yes)

cat >small.yaml <<'END'
data: {kind: blobs, samples: 600}
partition: {kind: iid, clients: 10}
model: softmax
local: {epochs: 1, batch: 10, lr: 0.1}
participation: {kind: uniform, count: 4}
rounds: 20
END
sed 's/rounds: 20/rounds: 400000/' small.yaml >long.yaml

# model_of FOLDER; a result's metrics without their seconds.
metrics_of() { sed 's/"seconds": [^,]*, //' "$1/metrics.jsonl"; }
equal_results() {
    cmp -s "$1/model.safetensors" "$2/model.safetensors" && [ "$(metrics_of "$1")" = "$(metrics_of "$2")" ]
}
# ---- two processes and one output --------------------------------------------------------------------------------
for seed in 1 2; do fedloom run small.yaml --set seed=$seed --output only-$seed --quiet; done
mixed=0 refused=0
for trial in $(seq 20); do
    for seed in 1 2; do
        "$program" run small.yaml --set seed=$seed --output both-$trial >/dev/null 2>both.$seed </dev/null &
    done
    wait
    seed=$(sed -n 's/^seed: //p' "both-$trial/config.yaml")
    equal_results "both-$trial" "only-$seed" || mixed=$((mixed + 1))
    [ -e "both-$trial.partial" ] || [ -e "both-$trial.fedloom-lock" ] && mixed=$((mixed + 1))
    [ "$(cat both.1 both.2 | grep -cE 'process [0-9]+ is writing there|exists already')" = 1 ] && refused=$((refused + 1))
done
check "two runs with one output never mix" [ "$mixed" = 0 ]
check "one of them is refused, every time" [ "$refused" = 20 ]

"$program" run long.yaml --algorithms fedavg,scaffold --output several >/dev/null 2>&1 </dev/null &
pid=$!
check "a run of several methods begins" wait_for several/fedavg.partial
expect 1 "several/fedavg: process $pid is writing there" run small.yaml --algorithms fedavg,scaffold --output several --quiet
check "the others are left alone, too" [ ! -e several/scaffold ]
{ kill -9 $pid && wait $pid; } 2>/dev/null

printf 'seeds: 2\nmethods: [{algorithm: fedavg}]\n' | cat long.yaml - >study.yaml
"$program" run long.yaml --output busy --checkpoint-every 100 >/dev/null 2>&1 </dev/null &
pid=$!
check "a run locks its output" wait_for 'busy.checkpoint/*.checkpoint'
for command in "run small.yaml --output busy" "run small.yaml --output busy --force" "resume busy" \
    "compare study.yaml --output busy" "reproduce ./study.yaml --output busy"; do
    # shellcheck disable=SC2086
    expect 1 "busy: process $pid is writing there" $command
done
{ kill -9 $pid && wait $pid; } 2>/dev/null
check "a kill leaves the file of the lock" [ -e busy.fedloom-lock ]
fedloom run small.yaml --output busy --force --quiet
check "and not the lock" exits 0
check "which is gone then" [ ! -e busy.fedloom-lock ]

"$program" compare study.yaml --output table --jobs 1 >/dev/null 2>&1 </dev/null &
pid=$!
check "a comparison locks its folder" wait_for table/runs/fedavg/seed-1.partial
expect 1 "table: process $pid is writing there" compare study.yaml --output table
expect 1 "table: process $pid is writing there" run small.yaml --output table
{ kill -9 $pid && wait $pid; } 2>/dev/null

# ---- limits ---------------------------------------------------------------------------------------------------------
limited() {
    local limit=$1
    shift
    (
        ulimit -v "$limit"
        exec timeout 20 "$program" "$@" >out 2>err </dev/null
    )
    code=$?
}
if [ -z "$sanitized${FEDLOOM_EMULATED:-}" ]; then
    limited 150000 --version
    check "fedloom --version ends under ulimit -v 150000" exits 0
    for limit in 150000 400000 600000 800000; do
        limited $limit run small.yaml --threads 8
        check "a run with 8 threads ends under ulimit -v $limit" exits 1
        check "and says why ($limit)" has err "limit on address space (ulimit -v)"
    done
    limited 1000000 run small.yaml --threads 1
    check "a run with one thread has room in 1000000" exits 0
    limited 150000 check small.yaml
    check "fedloom check ends under ulimit -v 150000" exits 1
fi
expect 1 'out of memory: the run takes at least' run small.yaml --set 'model={kind: mlp, hidden: [65536, 65536, 65536, 65536, 65536]}'
fedloom run small.yaml
check "a run says what it takes" has err "MiB of memory"

# ---- a signal at any moment ---------------------------------------------------------------------------------------
sed 's/rounds: 20/rounds: 3000/' small.yaml >middle.yaml
fedloom run middle.yaml --set algorithm=scaffold --output whole --quiet
different=0 resumed=0
for signal in KILL TERM INT HUP; do
    for delay in 0 0.05 0.15 0.3; do
        rm -rf cut cut.*
        "$program" run middle.yaml --set algorithm=scaffold --set memory=4KiB --checkpoint-every 50 --output cut >/dev/null 2>&1 </dev/null &
        pid=$!
        if [ $delay = 0 ]; then wait_for 'cut.checkpoint/*.checkpoint'; else sleep $delay; fi
        kill -$signal $pid 2>/dev/null
        wait $pid 2>/dev/null
        fedloom resume cut --quiet
        if exits 0; then
            resumed=$((resumed + 1))
        elif [ ! -e cut ]; then # killed before its first checkpoint was ready: it begins again
            fedloom run middle.yaml --set algorithm=scaffold --output cut --force --checkpoint-every 50 --quiet
        fi
        equal_results cut whole || different=$((different + 1))
        [ -e cut.partial ] || [ -e cut.checkpoint ] || [ -e cut.fedloom-lock ] && different=$((different + 1))
    done
done
check "killed or stopped at any moment, it ends with the same bits" [ "$different" = 0 ]
check "by going on from a checkpoint, where there is one" [ "$resumed" -ge 4 ]

# ---- data that change between a kill and a resume, or two comparisons ---------------------------------------------
table() { for i in $(seq 60); do echo "$((i % 7)),$((i * i % 11)).$1,$((i % 3))"; done; }
table 5 >table.csv
cat >csv.yaml <<'END'
data: {kind: csv, train: table.csv}
partition: {kind: iid, clients: 5}
model: softmax
rounds: 400000
END
"$program" run csv.yaml --output changed --checkpoint-every 50 >/dev/null 2>&1 </dev/null &
pid=$!
check "checkpoints come" wait_for 'changed.checkpoint/*.checkpoint'
{ kill -9 $pid && wait $pid; } 2>/dev/null
table 6 >table.csv
expect 1 'was made from other data: values, labels, who holds what or a trace have changed since' resume changed
check "the checkpoints stay" [ -e changed.checkpoint/config.yaml ]

sed 's/rounds: 400000/rounds: 3/' csv.yaml | cat - <(printf 'methods: [{algorithm: fedavg}, {algorithm: scaffold}]\n') >both.yaml
fedloom compare both.yaml --output pair --quiet
check "a comparison from a table" exits 0
table 7 >table.csv
expect 1 'is a finished run from data that have changed since (2 such here)' compare both.yaml --output pair
fedloom compare both.yaml --output pair --force --quiet
check "--force runs them again" exits 0
sed -n 1,2p pair/runs/fedavg/seed-1/metrics.jsonl >cut.jsonl && mv cut.jsonl pair/runs/fedavg/seed-1/metrics.jsonl
fedloom compare both.yaml --output pair
check "a cut file of metrics is no finished run" has err "pair/runs/fedavg/seed-1: is not a complete result (1 such here), and is run again"
check "and is made again" [ "$(wc -l <pair/runs/fedavg/seed-1/metrics.jsonl)" = 4 ]

# ---- somebody's files ---------------------------------------------------------------------------------------------
mkdir mine && echo 'my own' >mine/results.csv
expect 1 'mine/results.csv: was not written by fedloom' compare both.yaml --output mine --force
check "a file of somebody's own stays" has mine/results.csv 'my own'
mkdir web && echo '{"name": "my page"}' >web/manifest.json
expect 1 'web/manifest.json: was not written by fedloom' compare both.yaml --output web
check "so does a manifest of another kind" has web/manifest.json 'my page'

# ---- divergence ---------------------------------------------------------------------------------------------------
cat >bad.yaml <<'END'
data: {kind: linreg, clients: 4, features: 3}
model: least_squares
algorithm: {kind: fedgia, t: 0.0001, k0: 50}
rounds: 1000
output: bad
END
expect 1 'fedgia diverges, try a larger algorithm.t' run bad.yaml --quiet
check "a diverged run leaves no result" [ ! -e bad ]
check "and names the file with its metrics" has err "the metrics so far are in bad.unfinished.csv"
check "which is there" has bad.unfinished.csv "round,cohort,train_loss"

count
