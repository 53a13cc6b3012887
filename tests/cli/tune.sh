#!/usr/bin/env bash
# fedloom tune, and compare --tune: usage, wrong ranges, what is written, and that neither jobs nor threads nor an interruption changes
# a byte of it.
#   tests/cli/tune.sh build/fedloom
set -u
. "$(dirname "$0")/lib.sh"

cat >base.yaml <<'END'
name: small
rounds: 4
data: {kind: blobs, classes: 5, features: 8, samples: 200, test_samples: 200}
partition: {kind: dirichlet, clients: 6, alpha: 0.3}
model: softmax
participation: {kind: uniform, count: 3}
local: {batch: 5, lr: 0.001}
seeds: 2
END
cat base.yaml - >two.yaml <<'END'
methods:
  - {label: FedAvg, algorithm: fedavg}
  - {label: Fed Prox, algorithm: {kind: fedprox, mu: 0.1}}
tune: {budget: 12, local.lr: {from: 0.01, to: 1, log: true}}
END

# ---- usage ------------------------------------------------------------------------------------------------------

expect 2 'which FILE?' tune
expect 2 'one FILE at a time' tune two.yaml two.yaml
expect 2 '--budget is 0' tune two.yaml --budget 0
expect 2 '--algorithms is fedavg,,fedprox, which is not a list of names' tune two.yaml --algorithms fedavg,,fedprox
expect 2 'algorithm.kind is fedvag, which is not known; did you mean fedavg?' tune base.yaml --algorithms fedvag
expect 2 'two.yaml:12:1: tune belongs to an experiment, not to a single run; use `fedloom compare` or `fedloom tune`' run two.yaml --set methods= --set seeds=

# wrong TEXT EXPECTED: laid over base.yaml; nothing is written.
wrong() {
    { cat base.yaml && printf '%b' "$1"; } >wrong.yaml
    expect 2 "$2" tune wrong.yaml --output wrong
    check "$1: nothing is written" [ ! -e wrong ]
}
wrong 'tune: 3\n' 'wrong.yaml:9:1: tune must be a map'
wrong 'tune: {local.lr: 3}\n' 'wrong.yaml:9:8: tune.local.lr must be a range {from: 0.001, to: 1, log: true}, a list of values, or fixed'
wrong 'tune: {local.lr: {from: 1, to: 0.1}}\n' 'wrong.yaml:9:8: tune.local.lr goes from 1 to 0.1; `from` must be less than `to`'
wrong 'tune: {local.lr: {from: 0.1, to: 0.1}}\n' '`from` must be less than `to`'
wrong 'tune: {local.lr: {from: 0, to: 1, log: true}}\n' 'wrong.yaml:9:8: tune.local.lr is a log range from 0; that must be more than 0'
wrong 'tune: {local.lr: {from: -1, to: 1}}\n' 'tune.local.lr goes from -1 to 1, but local.lr must be a number > 0'
wrong 'tune: {local.momentum: {from: 0, to: 1}}\n' 'but local.momentum must be'
wrong 'tune: {local.lr: {from: 0.1}}\n' 'tune.local.lr.to'
wrong 'tune: {local.lr: {from: .nan, to: 1}}\n' 'tune.local.lr.from is .nan'
wrong 'tune: {local.lr: {from: 0.1, to: 1, logg: true}}\n' 'logg is not a key'
wrong 'tune: {local.batch: {from: 1.2, to: 1.8}}\n' 'with no whole number between'
wrong 'tune: {local.schedule: {from: 1, to: 2}}\n' 'tune.local.schedule is not a number; give what is to be tried as {values: [...]}'
wrong 'tune: {local.schedule: {values: []}}\n' 'tune.local.schedule needs a list of values'
wrong 'tune: {local.schedule: {values: [sqrt, fast]}}\n' 'wrong.yaml:9:40: local.schedule is fast'
wrong 'tune: {local.lr: {values: [1], from: 1}}\n' 'has values, so nothing else belongs there'
wrong 'tune: {local.lrr: {from: 0.1, to: 1}}\n' 'wrong.yaml:9:8: tune.local.lrr is not a key of any method that is tuned'
wrong 'tune: {algorithm.mu: {from: 0.1, to: 1}}\n' 'tune.algorithm.mu is not a key of any method that is tuned'
wrong 'methods: [{label: A, algorithm: fedavg, tune: {algorithm.mu: {from: 1, to: 2}}}]\n' \
    'wrong.yaml:9:48: tune.algorithm.mu is not a key of A'
wrong 'methods: [{label: A, algorithm: fedavg, tune: {goal: train_loss}}]\n' 'tune.goal is the same for all methods'
for key in rounds data.samples metrics.every stop.target seed output; do
    wrong "tune: {$key: {from: 1, to: 9}}\n" "tune.$key cannot be tuned"
done
wrong 'tune: {local.lr: fixed}\n' 'fedavg has nothing to tune'
wrong 'tune: {budget: 5}\n' 'a budget of 5 runs per method is too small: two settings over 3 seeds take 6'
wrong 'tune: {budget: many}\n' 'tune.budget is many'
wrong 'tune: {seeds: 0}\n' 'tune.seeds is 0'
wrong 'tune: {goal: beauty}\n' 'tune.goal is beauty; that is not a metric to choose by'
wrong 'tune: {goal: seconds}\n' 'that is not a metric to choose by'
wrong 'tune: {goal: beauty to 3}\n' 'before `to` stands what is counted'
wrong 'tune: {goal: seconds to 3}\n' 'before `to` stands what is counted'
wrong 'tune: {goal: rounds to fast}\n' 'after `to` stands a number'
wrong 'tune: {goal: rounds to 1 of beauty}\n' 'that is not a metric to choose by'
wrong 'tune: {goal: [1]}\n' 'it must be a metric'
wrong 'tune: {goal: simulated_seconds}\n' 'simulated seconds need a `system`'
wrong 'tune: {goal: simulated_seconds to 0.5}\n' 'simulated seconds need a `system`'
wrong 'tune: {goal: rounds to 90}\n' 'tune.goal is rounds to 90; the target is a share, so it must be from 0 to 1'
wrong 'tune: {goal: rounds to -0.1 of train_accuracy}\n' 'it must be from 0 to 1'
wrong 'grid: {local.lr: [1, 2]}\n' 'wrong.yaml:9:8: a grid or points cannot be tuned'
wrong 'points: [{local.lr: 1}]\n' 'a grid or points cannot be tuned'

# ---- what is written --------------------------------------------------------------------------------------------

expect 0 'test accuracy %, tuned' tune two.yaml --output first --jobs 1
check 'tune: it says by what it chose' has err 'settings are chosen by test_accuracy, on the test samples themselves'
check 'tune: 6 settings and 12 runs for either method' [ "$(grep -cE '^Fed.* 6 +12 ' out)" -eq 2 ]
for file in tried.csv tried.svg best.yaml fedavg.yaml fed-prox.yaml manifest.json; do
    check "tune writes $file" [ -s "first/$file" ]
done
check 'tune: a row per setting' [ "$(grep -c '^"Fed' first/tried.csv)" -eq 12 ]
check 'tune: one winner per method' [ "$(grep -cE '^"[^"]*",[0-9]+,1,' first/tried.csv)" -eq 2 ]
check 'tune: the own setting is there, over all seeds' [ "$(grep -cE '^"[^"]*",0,[0-9]+,2,3,' first/tried.csv)" -eq 2 ]
check 'tune: the default range of mu' has first/best.yaml 'algorithm.mu 0.001 to 1 (log)'
check 'tune: models are not kept' [ -z "$(find first -name '*.safetensors')" ]

# The same number of runs for every method: result folders, since none diverges here.
for m in fedavg fed-prox; do
    check "tune: the whole budget of $m" [ "$(find "first/trials/runs/$m" -name result.json | wc -l)" -eq 12 ]
done
check 'tune: tuning seeds are far from the seeds of a comparison' [ -z "$(find first/trials -name 'seed-[0-9]' -o -name 'seed-[0-9][0-9]')" ]

# The winner is at least as good as the own setting, and its file gives the figure that is recorded.
figure() { awk -F, -v m="\"$1\"" -v by="$2" -v want="$3" '$1 == m && $by == want { print $7 }' first/tried.csv; }
check 'tune: the winner is no worse' awk "BEGIN { exit !($(figure FedAvg 3 1) >= $(figure FedAvg 2 0)) }"
sum=0
for seed in 1000001 1000002 1000003; do
    fedloom run first/fedavg.yaml --set seed=$seed --set output=again$seed
    check "the winner's file runs with seed $seed" exits 0
    sum="$sum + $(tail -n 1 again$seed/metrics.jsonl | grep -oE '"test_accuracy": *[0-9.eE+-]+' | grep -oE '[0-9.eE+-]+$')"
done
check 'the winner gives the recorded figure' awk "BEGIN { d = ($sum) / 3 - $(figure FedAvg 3 1); exit !(d < 1e-9 && d > -1e-9) }"
expect 0 'Fed Prox' compare first/best.yaml --output best

# ---- always the same --------------------------------------------------------------------------------------------

# same_as_first FOLDER: every file, byte by byte.
same_as_first() {
    local file
    for file in tried.csv tried.svg best.yaml fedavg.yaml fed-prox.yaml; do same "first/$file" "$1/$file" || return 1; done
}
expect 0 'tuned' tune two.yaml --output second --jobs 4
check 'jobs do not matter' same_as_first second
expect 0 'tuned' tune two.yaml --output threaded --jobs 1 --set threads=3
check 'threads do not matter' same first/tried.csv threaded/tried.csv
cp first/tried.csv kept.csv
expect 0 'tuned' tune two.yaml --output first
check 'again: nothing is run' lacks err 'test acc.'
check 'again: the same' same kept.csv first/tried.csv
cp -r first broken
rm -r broken/trials/runs/fedavg/seed-1000002 broken/trials/runs/fed-prox/lr=*/seed-1000001 broken/tried.* broken/best.yaml broken/manifest.json \
    broken/fed*.yaml
expect 0 'tuned' tune two.yaml --output broken
check 'what was lost is run again, and nothing else' [ "$(grep -c 'test acc.' err)" -eq 6 ]
check 'after a loss: the same' same_as_first broken
{
    signal_at KILL killed/trials/runs/fedavg/seed-1000001.partial tune two.yaml --set rounds=1000000000 \
        --set metrics.every=1000 --output killed
} 2>/dev/null
check 'killed: something is left' [ -d killed/trials/runs/fedavg/seed-1000001.partial ]
expect 0 'tuned' tune two.yaml --output killed
check 'killed: goes on as if nothing had been' same_as_first killed
signal_at INT stopped/trials/runs/fedavg/seed-1000001.partial tune two.yaml --set rounds=1000000000 --set metrics.every=1000 \
    --output stopped
check 'interrupted: exit code 130' exits 130
check 'interrupted: said' has err 'stopped; the same command continues in stopped'
check 'interrupted: nothing half-written' [ ! -e stopped/tried.csv ]

fedloom tune two.yaml --output quiet --quiet
check 'quiet: exit code 0' exits 0
check 'quiet: no notes' silent <(grep -v warning err)
check 'quiet: the table all the same' has out 'best setting'
expect 1 'is a finished run with other settings' tune two.yaml --output quiet --set local.batch=10 --set rounds=3
expect 0 'tuned' tune two.yaml --output quiet --set local.batch=10 --force
echo mine >quiet/tried.csv
expect 1 'quiet/tried.csv: was not written by fedloom' tune two.yaml --output quiet --set local.batch=10
check 'a file of somebody else stays' [ "$(cat quiet/tried.csv)" = mine ]

# ---- ranges, goals, methods -------------------------------------------------------------------------------------

expect 0 'local.batch=' tune base.yaml --budget 6 --set tune.local.batch='{from: 2, to: 9}' --set tune.local.lr=fixed --output whole
check 'whole numbers are whole' [ -z "$(tail -n +2 whole/tried.csv | grep -E '"[0-9]+\.[0-9]+"')" ]
expect 0 'schedule=' tune base.yaml --budget 9 --set tune.local.schedule='[constant, sqrt]' --set tune.local.lr=fixed --output words
check 'no more settings than there are' has err 'fedavg has only 2 different settings'
expect 0 'training loss, tuned' tune base.yaml --budget 6 --set tune.goal=train_loss --output loss
check 'by the training loss: no word of the test set' lacks err 'test samples'
expect 0 'rounds to test accuracy 0.3, tuned' tune base.yaml --budget 6 --set metrics.targets='[0.2, 0.3]' --output target
check 'to a target: what it cost' has target/tried.csv ',reached,round_to_0.3,round_to_0.3_std,test_accuracy,'
expect 0 'communications to test loss 1, tuned' tune base.yaml --budget 6 --set tune.goal='communications to 1 of test_loss' --output comm
expect 0 'never' tune base.yaml --budget 6 --set tune.goal='rounds to 1e-9 of test_loss' --output never
expect 0 'fedprox' tune base.yaml --algorithms fedavg,fedprox --budget 6 --set tune.algorithm.mu='{from: 1, to: 2}' --output chosen
check 'a key of some methods: said' has err 'tune.algorithm.mu holds for the methods that have it; these have not: fedavg'
expect 0 'tuned' tune base.yaml --budget 6 --set tune.local.lr='{from: 0.0010001, to: 0.0010002}' --output edge
check 'the end of a range: said' has err 'a wider one may hold a better value'
expect 0 'local.lr=1' tune base.yaml --budget 6 --set local.lr=1 --set tune.local.lr='{from: 1e-9, to: 1e-8}' \
    --set tune.goal=train_loss --output outside
check 'the own setting outside a range: it is at no end' lacks err 'a wider one'
expect 0 'local.momentum=0' tune base.yaml --budget 6 --set tune.local.lr=fixed --set local.lr=1 --set local.momentum=0 \
    --set tune.local.momentum='{from: 0, to: 0.9}' --set tune.goal=train_loss --output bound
check 'a range that ends where its key does: it cannot be wider' lacks err 'a wider one'
expect 0 'diverged' tune base.yaml --budget 8 --set local.lr=1e30 --set tune.local.lr='{from: 0.01, to: 1, log: true}' --output wild
check 'what diverges is last' [ "$(grep -cE '^"fedavg",0,4,1,1,1,' wild/tried.csv)" -eq 1 ]
fedloom tune base.yaml --budget 6 --set local.lr=1e30 --set tune.local.lr='{from: 1e29, to: 1e30}' --output lost
check 'all diverge: exit code 1' exits 1
check 'all diverge: said' has err 'fedloom: every setting of fedavg diverged; try lower ranges (local.lr)'
check 'all diverge: no winner' [ ! -e lost/best.yaml ]
cat base.yaml - >some.yaml <<'END'
methods:
  - {label: Wild, algorithm: fedavg, local: {lr: 1e30}, tune: {local.lr: {from: 1e29, to: 1e30}}}
  - {label: Tame, algorithm: fedavg}
  - {label: Mad, algorithm: fedavg, local: {lr: 1e30}, tune: {local.lr: {from: 1e29, to: 1e30}}}
END
fedloom tune some.yaml --budget 6 --output some
check 'some diverge: exit code 1' exits 1
for method in Wild Mad; do check "some diverge: $method is named" has err "fedloom: every setting of $method diverged"; done
check 'some diverge: the picture has numbers only' lacks some/tried.svg nan
check 'some diverge: the table has them' grep -qE '^Wild .*diverged +none' out
check 'some diverge: the others have winners' [ -s some/tried.svg -a -s some/tame.yaml -a ! -e some/wild.yaml -a ! -e some/mad.yaml ]
check 'some diverge: what was tried is there' [ "$(cut -d, -f 1 some/tried.csv | sort -u | wc -l)" -eq 4 ]
expect 0 'Tame' compare some/best.yaml --output some-best
check 'some diverge: the others can be compared' lacks out 'Wild'

# ---- a folder that is used again --------------------------------------------------------------------------------

for method in fedprox fedavg fedprox; do
    expect 0 "$method" tune base.yaml --algorithms $method --budget 6 --output again
    check "again with $method: no other winner" [ "$(cd again && echo *.yaml)" = "best.yaml $method.yaml" ]
done
echo '# mine' >>again/fedprox.yaml
expect 0 'fedavg' tune base.yaml --algorithms fedavg --budget 6 --output again
check 'again: a changed winner stays' has again/fedprox.yaml '# mine'
expect 1 'again/fedprox.yaml: was not written by fedloom, or was changed since' \
    tune base.yaml --algorithms fedprox --budget 6 --output again
expect 0 'fedavg' compare base.yaml --output kinds
expect 1 'kinds: has results of another kind (results.csv); choose another output' tune base.yaml --budget 6 --output kinds
check 'tune in the folder of a comparison: nothing is written' [ ! -e kinds/trials ]
expect 0 'fedavg' compare base.yaml --output kinds
expect 1 'loss: has results of another kind (tried.csv); choose another output' compare base.yaml --output loss
check 'compare in the folder of a tuning: nothing is written' [ ! -e loss/runs ]

# ---- compare --tune ---------------------------------------------------------------------------------------------

expect 2 '--tune is 0' compare two.yaml --tune 0
expect 2 'a budget of 3 runs per method is too small' compare two.yaml --tune 3 --output small
check 'too small a budget: nothing is written' [ ! -e small ]
expect 0 'Fed Prox      2' compare two.yaml --tune 12 --output tuned
check 'compare --tune: the tuning is that of `tune`' same first/tried.csv tuned/tune/tried.csv
check 'compare --tune: with the winners' has tuned/runs/fedavg/seed-1/config.yaml "$(grep -oE '  lr: .*' first/fedavg.yaml)"
check 'compare --tune: the report says so' has tuned/report.html 'Settings were tuned with a budget of 12 runs for every method'
cut -d, -f 1-13 tuned/results.csv >tuned.csv
check 'compare --tune: as with best.yaml' same tuned.csv <(cut -d, -f 1-13 best/results.csv)
expect 0 'Fed Prox      2' compare two.yaml --tune 12 --output tuned
check 'compare --tune again: nothing is run' lacks err 'test acc.'
expect 1 'is a run whose settings this tuning has not found' compare two.yaml --tune 15 --output tuned
check 'compare --tune, another budget: refused at once' lacks err 'rung 1'
expect 0 'Fed Prox      2' compare two.yaml --tune 15 --output tuned --force
expect 1 'kinds/runs/fedavg/seed-1: is a run whose settings this tuning has not found' compare base.yaml --tune 6 --output kinds
"$program" compare two.yaml --tune 12 --set rounds=1000000000 --set metrics.every=1000 --output locked >/dev/null 2>&1 </dev/null &
pid=$!
check 'compare --tune locks both folders' wait_for locked/tune/trials/runs
expect 1 "locked: process $pid is writing there" compare two.yaml --output locked
{ kill -9 $pid && wait $pid; } 2>/dev/null
fedloom compare two.yaml --tune 12 --output hushed --quiet
check 'compare --tune --quiet: no notes' silent <(grep -v warning err)
check 'compare --tune --quiet: what was tuned' has out 'best setting'
check 'compare --tune --quiet: what was compared' has out 'MB up'
expect 0 'Fed Prox' compare two.yaml --tune 12
check 'compare --tune: below the default folder' [ -s results/small/tune/best.yaml -a -s results/small/report.html ]

count
