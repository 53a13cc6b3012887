#!/usr/bin/env bash
# The program as a person meets it: help, wrong input, exit codes, results, Ctrl-C. Usage: run.sh PATH-OF-FEDLOOM
set -u
. "$(dirname "$0")/lib.sh"

cat >good.yaml <<'END'
data: {kind: blobs, samples: 600}
partition: {kind: iid, clients: 10}
model: softmax
local: {epochs: 1, batch: 10, lr: 0.1}
participation: {kind: uniform, count: 4}
algorithm: fedavg
rounds: 5
metrics: {every: 1, targets: [0.5, 0.9999]}
END

# ---- help ---------------------------------------------------------------------------------------------------

expect 0 'usage: fedloom COMMAND'
expect 0 'usage: fedloom COMMAND' --help
expect 0 'usage: fedloom COMMAND' -h
expect 0 'usage: fedloom COMMAND' help
expect 0 'fedloom 0.' --version
expect 0 'convolutions by ' --version
expect 0 ', kernels for ' --version
export FEDLOOM_KERNELS=v0
expect 2 'FEDLOOM_KERNELS is v0, but this program has kernels for ' --version
expect 2 'FEDLOOM_KERNELS is v0, but this program has kernels for ' list
expect 0 'usage: fedloom COMMAND' help
unset FEDLOOM_KERNELS
for c in init run resume compare tune reproduce plot check config data list show export verify cert serve join status audit completion; do
    fedloom --help
    check "the overview names $c" has out "  $c "
    expect 0 "usage: fedloom $c" help "$c"
    cp out help.txt
    check "help $c has examples" has out 'examples:'
    check "help $c says nothing on stderr" silent err
    check "help $c fits 80 columns" [ "$(awk 'length > 80' out | wc -l)" -eq 0 ]
    fedloom "$c" --help
    check "$c --help is help $c" same out help.txt
    fedloom "$c" anything --set x=y -h
    check "$c ... -h is help $c" same out help.txt
    expect 2 '--nonsense: unknown option' "$c" --nonsense
done
expect 2 'rnu: unknown command; did you mean run?' rnu
expect 2 'rnu: unknown command' help rnu
expect 2 'comp: unknown command; did you mean compare?' comp
expect 2 'embroider: unknown command; the commands are: init, run, resume, compare, ' embroider
for c in run config data show verify; do expect 2 'which FILE?' "$c"; done
expect 2 'give one FILE' config good.yaml good.yaml

# ---- options ------------------------------------------------------------------------------------------------

expect 2 '--algoritms: unknown option; did you mean --algorithms?' run good.yaml --algoritms
expect 2 '--ouptut=x: unknown option; did you mean --output?' run good.yaml --ouptut=x
expect 2 '--set needs a value' run good.yaml --set
expect 2 '--force takes no value' run good.yaml --force=yes
expect 2 '--threads is many, but must be a whole number from 1' run good.yaml --threads many
expect 2 '--threads is -1' run good.yaml --threads=-1
expect 2 '--threads is 0' run good.yaml --threads 0
expect 2 '--tolerance is -1' verify x.json --tolerance=-1
expect 2 '--output is empty' run good.yaml --output=
expect 2 'has an empty name' run good.yaml --algorithms fedavg,,fedprox
cp good.yaml ./--odd.yaml
expect 0 'kind: blobs' config -- --odd.yaml

# ---- wrong configurations -----------------------------------------------------------------------------------

bad() { # bad TEXT-OF-FILE EXPECTED
    printf '%b' "$1" >bad.yaml
    expect 2 "$2" config bad.yaml
    expect 2 "$2" run bad.yaml
}
expect 2 'missing.yaml: cannot be read: No such file' run missing.yaml
expect 2 'Is a directory' run .
bad '' 'data.kind is missing'
bad 'a: [1\n' 'not valid YAML'
bad '- 1\n' 'must be a map of keys and values'
bad 'seed: 1\nseed: 2\n' 'bad.yaml:2:1: the key seed is given twice'
bad 'a: &x 1\nb: *x\n' 'anchors (&) are not supported'
bad 'data:\n\tkind: blobs\n' 'indent with spaces'
sed 's/rounds/ruonds/' good.yaml >typo.yaml
expect 2 'typo.yaml:7:1: ruonds is not a key; did you mean rounds?' config typo.yaml
sed 's/softmax/sotfmax/; s/lr: 0.1/lr: fast/; s/count: 4/cuont: 4/' good.yaml >typo.yaml
fedloom config typo.yaml
check 'three mistakes: exit code 2' exits 2
check 'three mistakes: the model' has err 'did you mean softmax'
check 'three mistakes: the value' has err 'typo.yaml:4:31: local.lr is fast, but must be a number > 0'
check 'three mistakes: the key' has err 'participation.cuont is not a key; did you mean participation.count?'
expect 2 '--set local.lr=-1: local.lr is -1' config good.yaml --set local.lr=-1
expect 2 '--set nothing: must be KEY=VALUE' config good.yaml --set nothing
expect 2 'did you mean scaffold?' run good.yaml --algorithms fedavg,scafold
check 'a wrong method: which one' has err '(this is scafold of --algorithms)'
check 'a wrong method is found before anything runs' lacks err 'clients,'
printf '\033[31mred: 1\n' >bad.yaml
fedloom config bad.yaml
check 'no control character of a file reaches the terminal' lacks err "$(printf '\033')"
# C1 is as good as an escape to a terminal; what is no UTF-8 may be taken for it. Text is left alone.
fedloom run "$(printf 'a\302\2332J\377\355\240\200-ä€😀.yaml')"
check 'no C1 character, and nothing that is no UTF-8, reaches the terminal' has err 'fedloom: a?2J????-ä€😀.yaml: cannot be read'
sed '1i name: "a\\u009b31m-ä"' good.yaml >c1.yaml
expect 0 'a?31m-ä  fedavg' run c1.yaml
check 'no C1 character reaches the terminal by a name' lacks <(cat out err) "$(printf '\302\233')"

# ---- config -------------------------------------------------------------------------------------------------

fedloom config good.yaml
cp out resolved.yaml
check 'config names a run after its file' has out 'name: good'
fedloom config resolved.yaml
check 'a resolved configuration resolves to itself' same out resolved.yaml
expect 0 'kind: fedprox' config good.yaml --set algorithm=fedprox --set=algorithm.mu=0.25
check 'the last --set counts' has out 'mu: 0.25'
expect 0 'targets: [0.25]' config good.yaml --set 'metrics.targets=[0.25]'
fedloom config /dev/stdin
check 'standard input may be empty: exit code 2' exits 2

# ---- list, data ---------------------------------------------------------------------------------------------

expect 0 'algorithms' list
for kind in algorithm algorithms model models data partition partitions participation system settings; do
    expect 0 '' list "$kind"
    check "list $kind is not empty" [ "$(wc -l <out)" -ge 3 ]
done
for kind in algorithm model data partition participation system; do
    "$program" list "$kind" | sed '/^$/,$d; s/ .*//' | while read -r name; do
        "$program" list "$kind" "$name" >one 2>&1 && grep -qF "$kind: " one || echo "$kind $name"
    done >unlisted
    check "every $kind can be listed by name: $(tr '\n' ' ' <unlisted)" silent unlisted
done
expect 0 'mu ' list algorithm fedprox
expect 0 'link_sigma ' list system lognormal
check 'list: keys that all systems share' has out 'wait_for '
expect 2 'did you mean algorithms' list algoritms
expect 2 'there is no algorithm called scafold; did you mean scaffold?' list algorithm scafold
expect 2 'one argument too many' list a b c
expect 0 'up, per client and round: x_i - x, c_i+ - c_i: 2 x the model' list algorithm scaffold
check 'list: what a client keeps' has out 'kept by a client: c_i: 1 x the model'
expect 0 'takes part: every client in every round' list algorithm fedpd
check 'list: equal weights' has out 'client weights: equal'
expect 0 'needs: class labels' list partition dirichlet
expect 0 'on demand: ' list data synthetic
expect 0 'objective: not convex' list model mlp
expect 0 '### algorithm: scaffold' list --markdown
check 'the reference has a table row per key' has out '| `mu` | a number >= 0 | `0.1` |'
check 'the reference has the settings' has out '| `rounds` | a whole number'
expect 0 '.SS algorithm: fedprox' list --man 5
check 'fedloom-config(5) ends whole' [ "$(tail -n 1 out)" = '.BR fedloom (1)' ]
expect 0 '.TH FEDLOOM 1' list --man 1
for c in init run resume compare tune reproduce plot check config data list show export verify cert serve join status audit completion; do check "fedloom(1) describes $c" has out ".SS $c"; done
check 'fedloom(1) has the options' has out '\-\-set KEY=VALUE'
expect 2 '--man is 3, but must be 1 or 5' list --man 3
expect 2 '--man needs a value' list --man
expect 2 'give --markdown or --man, not both' list --man 1 --markdown
expect 2 'models: with --markdown everything is listed' list models --markdown
expect 0 'more clients' data good.yaml --clients 3
cp out of-a-run
{ cat good.yaml; printf 'methods: [{label: a, algorithm: fedavg}]\nseeds: 2\n'; } >several.yaml
expect 0 '' data several.yaml --clients 3
check 'data: an experiment has the data of its runs' cmp of-a-run out
expect 2 'methods belongs to an experiment' data several.yaml --export never
# Of an experiment only data and partition are looked at: what its methods need beside them may not suit the default method.
cat >levels.yaml <<'END'
data: {kind: blobs, samples: 60}
partition: {kind: iid, clients: 3}
bilevel: {kind: regularization}
methods: [{algorithm: simfbo}, {algorithm: fednest}]
END
expect 0 'iid: 3 clients' data levels.yaml
expect 2 'ruonds is not a key; did you mean rounds?' data levels.yaml --set ruonds=3
expect 2 'partition.clients' data levels.yaml --set partition.clients=-1
expect 0 'partition written to p.json' data good.yaml --write-partition p.json
check 'the partition is written' [ -s p.json ]
expect 1 'cannot be written' data good.yaml --write-partition no/such/folder/p.json

# Files of users' own: a header is found and noted, columns go by name, and what cannot be read says what to do.
printf 'size,kind,weight\n1,cat,2\n3,dog,4\n5,cat,6\n' >table.csv
printf 'data: {kind: csv, train: table.csv, label: kind}\npartition: {kind: iid, clients: 2}\nmodel: softmax\n' >table.yaml
expect 0 'csv: 3 training samples, 2 features, 2 classes; f32' data table.yaml
{ sed 's|train: table.csv|train: "${data}/table.csv"|' table.yaml; printf 'needs: {what: a table, files: [table.csv]}\nseeds: 2\n'; } >elsewhere.yaml
expect 2 'a table is needed; give the folder with the data sets by --data DIR or FEDLOOM_DATA' data elsewhere.yaml
expect 0 'csv: 3 training samples' data elsewhere.yaml --data .
FEDLOOM_DATA=. expect 0 'csv: 3 training samples' data elsewhere.yaml
expect 0 'csv: 3 training samples, 2 features, 2 classes; f64' data table.yaml --set precision=f64
expect 1 "table.csv:1: no column is called 'kidn' for the label, only 'size', 'kind', 'weight'" data table.yaml \
    --set data.label=kidn
sed '2s/1,/1e39,/' table.csv >large.csv
expect 1 "large.csv:2: column 0: '1e39' is too large for precision f32; precision: f64 keeps it" run table.yaml \
    --set data.train=large.csv
expect 1 'large.csv: sample 0, feature 0 is 1e+39, too large for precision f32; precision: f64 keeps it' run table.yaml \
    --set data.train=large.csv --set data.storage=f64
expect 0 'f64' data table.yaml --set data.train=large.csv --set precision=f64
printf 'PAR1\025 and so on' >table.parquet

expect 1 'table.parquet: is a Parquet file, which is not read; convert it' data table.yaml \
    --set data.train=table.parquet
printf 'a,b,y\n1,2,0\n3,4,1\n' >one.csv
printf 'b,a,y\n2,1,0\n4,3,1\n' >other.csv
expect 1 'other.csv:1: the header is not that of one.csv: both need the same columns in the same order' data table.yaml \
    --set data.train=one.csv --set data.test=other.csv --set data.label=y
printf '0,1,2\n1,2,0\n3,4,1\n' >pandas.csv
expect 1 'pandas.csv:1: counts 0, 1, 2, ... as a header without names does' data table.yaml \
    --set data.train=pandas.csv --set data.label=-1
printf 'a,b,a\n1,2,0\n3,4,1\n' >twins.csv
expect 1 "twins.csv:1: 2 columns are called 'a': give the number of the label's column" data table.yaml \
    --set data.train=twins.csv --set data.label=a
printf 'FEA1,PAR1,y\n1,2,0\n3,4,1\n' >names.csv # text that begins as other formats do
expect 0 'csv: 2 training samples, 2 features' data table.yaml --set data.train=names.csv --set data.label=y \
    --set partition.clients=2
printf '1 0:1\n0 1:1\n' >zero.svm
printf 'data: {kind: libsvm, train: zero.svm}\npartition: {kind: iid, clients: 2}\nmodel: softmax\n' >zero.yaml
expect 1 'zero.svm:1: index 0, but indices start at 1; if they start at 0 in this file, say index: zero' data zero.yaml
expect 0 'libsvm: 2 training samples, 2 features' data zero.yaml --set data.index=zero
expect 1 'the partition cannot be read: it is a folder, not a file' data table.yaml \
    --set 'partition={kind: file, path: .}'

# ---- verify -------------------------------------------------------------------------------------------------

fedloom verify missing.json
check 'a missing case: exit code 1' exits 1
check 'a missing case: FAIL' has out 'FAIL missing'
check 'a missing case: counted' [ "$(tail -n 1 out)" = '0 passed, 1 failed' ]
mkdir cases
expect 2 'there is no *.json file in this folder' verify cases
echo '{}' >cases/b.json
echo 'not json' >cases/a.json
echo 'not a case' >cases/c.txt
fedloom verify cases
check 'a folder of bad cases: exit code 1' exits 1
check 'a folder of bad cases: in order' [ "$(awk '/^FAIL/ { printf "%s", $2 }' out)" = ab ]
check 'a folder of bad cases: counted' [ "$(tail -n 1 out)" = '0 passed, 2 failed' ]

# ---- run ----------------------------------------------------------------------------------------------------

expect 0 'good  fedavg' run good.yaml
check 'the table has a column per target' has out 'to 0.9999'
check 'a target that was not reached' has out '> 5'
check 'progress is plain when stderr is no terminal' lacks err "$(printf '\r')"
check 'progress ends with the last round' has err 'round 5/5'
fedloom run good.yaml --set rounds=200
check 'about twenty lines of progress' [ "$(grep -c 'round' err)" -le 23 ]
fedloom run good.yaml --quiet
check '--quiet: exit code 0' exits 0
check '--quiet: the table all the same' has out 'good  fedavg'
check '--quiet: nothing on stderr' silent err
expect 0 "own models: train loss" run good.yaml --set metrics.local=true
expect 0 'good-scaffold' run good.yaml --algorithms fedavg,fedprox,scaffold --output many
for a in fedavg fedprox scaffold; do check "the result of $a" [ -s "many/$a/result.json" ]; done
expect 0 'good-fedavg' run good.yaml --algorithms fedprox,fedavg --set algorithm.aggregation=unbiased --output keys
for a in fedprox fedavg; do check "--set reaches the keys of $a" has "keys/$a/config.yaml" 'aggregation: unbiased'; done
expect 0 'good-feddyn' run good.yaml --algorithms fedprox,feddyn --set algorithm.mu=0.25 --output some
check 'a key that one method lacks: which one' has err 'these have not: feddyn'
check 'a key that one method lacks: the other has it' has some/fedprox/config.yaml 'mu: 0.25'
expect 2 'algorithm.nonsense is not a key' run good.yaml --algorithms fedprox,feddyn --set algorithm.nonsense=1
check 'a key that no method has: which one' has err '(this is feddyn of --algorithms)'
check 'a key that no method has: found before anything runs' lacks err 'clients,'
expect 2 '--set and --algorithms both choose the method: fedavg and fedprox' run good.yaml --algorithms fedprox --set algorithm=fedavg
expect 1 'exists already' run good.yaml --output many/fedavg
expect 0 'fedavg' run good.yaml --output many/fedavg --force
mkdir precious
touch precious/thing
expect 1 'is not part of a result' run good.yaml --output precious --force
check 'a foreign folder stays' [ -e precious/thing ]
cp good.yaml other.yaml
expect 0 'other  fedavg' run good.yaml other.yaml --output two
check 'a folder per file' [ -s two/good/result.json -a -s two/other/result.json ]
expect 2 'two of these runs would write to two/good' run good.yaml good.yaml --output two --force
sed '1i name: ../escaped' good.yaml >escape.yaml
expect 2 'escape.yaml: name is ../escaped, which cannot be a folder below below' run good.yaml escape.yaml --output below
check 'a name does not lead out of the folder' [ ! -e escaped -a ! -e below ]

# A file may be a pipe, which can be read only once.
fedloom run <(cat good.yaml) <(cat other.yaml) --algorithms fedavg,scaffold --output piped
check 'run from pipes: exit code 0' exits 0
check 'run from pipes: the same result' same many/scaffold/model.safetensors "$(find piped -path '*/scaffold/model.safetensors' | head -n 1)"
for c in check config data compare; do
    fedloom $c <(cat good.yaml) --set output=from-$c
    check "$c from a pipe: exit code 0" exits 0
done
fedloom plot <(cat good.yaml) --set output=from-compare
check 'plot from a pipe: exit code 0' exits 0

odd="od'd \"na#me: x"
expect 0 'fedavg' run good.yaml --output "$odd"
check 'an odd folder name' [ -s "$odd/result.json" ]
fedloom run many/fedavg/config.yaml --output again
check 'the configuration beside a result runs again: exit code 0' exits 0
check 'and gives the same model' same many/fedavg/model.safetensors again/model.safetensors

# ---- models -------------------------------------------------------------------------------------------------

expect 0 'softmax, 210 parameters' show again/model.safetensors
check 'show: how it was trained' has out '  algorithm   fedavg'
check 'show: its tensors' has out '  weight  10 x 20'
expect 1 'again/config.yaml: does not begin as a safetensors file does' show again/config.yaml
expect 1 'nothing: cannot be read' show nothing
expect 0 'again.onnx' export again/model.safetensors again.onnx
check 'export: a file that says who made it' eval 'head -c 20 again.onnx | grep -q fedloom'
expect 2 'give a model.safetensors and the name of the file' export again/model.safetensors
expect 2 'again.pt: models are exported as ONNX' export again/model.safetensors again.pt
expect 1 'again/config.yaml: does not begin as a safetensors file does' export again/config.yaml again.onnx
expect 0 'fedavg' run good.yaml --set model.start=again/model.safetensors --set rounds=0 --output started
check 'model.start: begins where the other ended' [ "$(tail -n 1 started/metrics.csv | cut -d, -f3-6)" = "$(tail -n 1 again/metrics.csv | cut -d, -f3-6)" ]
expect 1 'no longer finite' run good.yaml --set local.lr=1e30 --set model=least_squares --set data=linreg --set 'metrics.targets=[]' --output never --quiet
check 'a run that diverged leaves no result' [ ! -e never ]
fedloom run good.yaml --algorithms fedavg,fedprox --set local.lr=1e300 --set precision=f32
check 'nothing is left behind' [ -z "$(find . -name '*.partial*')" ]
if [ -w /dev/full ]; then
    "$program" list >/dev/full 2>err
    code=$?
    check 'a full disk under stdout: exit code 1' exits 1
    check 'a full disk under stdout: said' has err 'could not be written'
fi

# What stdin, stdout and stderr are costs no result.
metrics() { sed 's/"seconds": [^,]*,//' "$1/metrics.jsonl"; }
same_result() {
    [ "$(metrics "$1")" = "$(metrics "$2")" ] && same "$1/model.safetensors" "$2/model.safetensors" &&
        same "$1/clients.csv" "$2/clients.csv"
}
fedloom run good.yaml --output whole0
"$program" run good.yaml --output fd0 0<&- >out 2>err; code=$?
check 'no stdin: exit code 0' exits 0
"$program" run good.yaml --output fd1 1>&- 2>err; code=$?
check 'no stdout: exit code 0' exits 0
"$program" run good.yaml --output fd2 2>&- >out; code=$?
check 'no stderr: exit code 0' exits 0
"$program" run good.yaml --output fd3 0<&- 1>&- 2>&-; code=$?
check 'none of the three: exit code 0' exits 0
# unread COMMAND...: stdout is a pipe whose reader is gone before the command begins.
unread() {
    rm -f gone
    { until [ -e gone ]; do sleep 0.01; done; "$@"; } | { exec <&-; touch gone; }
    code=${PIPESTATUS[0]}
}
unread "$program" run good.yaml --output fd4 2>err
check 'nobody reads stdout: exit code 1' exits 1
check 'nobody reads stdout: said' has err 'the output could not be written'
unread sh -c '"$@" 2>&1' sh "$program" run good.yaml --output fd5
check 'nobody reads either: exit code 1' exits 1
gone="fd4 fd5"
if [ -w /dev/full ]; then
    gone="$gone fd6 fd7"
    "$program" run good.yaml --output fd6 >/dev/full 2>err; code=$?
    check 'stdout is full: exit code 1' exits 1
    "$program" run good.yaml --output fd7 >out 2>/dev/full; code=$?
    check 'stderr is full: exit code 1' exits 1
fi
for d in fd0 fd1 fd2 fd3 $gone; do check "$d: the same result" same_result whole0 $d; done
unread "$program" compare good.yaml --output fd9 --quiet 2>err
check 'compare, nobody reads: exit code 1' exits 1
check 'compare, nobody reads: the files are there' [ -s fd9/results.csv -a -s fd9/report.html ]
(ulimit -f 1 && "$program" run good.yaml --set model=mlp --output large >out 2>err)
code=$?
check 'a limit on file sizes: exit code 1' exits 1
check 'a limit on file sizes: said' has err 'cannot be written: File too large'

# The same seed gives the same bytes, however many threads work.
differ=0
fedloom run good.yaml --set rounds=60 --threads 1 --output t1
for i in 1 2 3 4 5 6 7 8; do
    for t in 2 4 8; do
        fedloom run good.yaml --set rounds=60 --threads $t --output "t$t" --force
        cmp -s t1/model.safetensors "t$t/model.safetensors" || differ=$((differ + 1))
    done
done
check "1, 2, 4 and 8 threads give the same model ($differ of 24 runs differ)" [ "$differ" -eq 0 ]

# ---- Ctrl-C -------------------------------------------------------------------------------------------------

for signal in INT TERM HUP USR1; do
    signal_at $signal "stop$signal/fedavg.partial" run good.yaml --algorithms fedavg,scaffold \
        --set rounds=1000000000 --set metrics.every=1000 --output "stop$signal"
    check "SIG$signal: exit code 130" exits 130
    check "SIG$signal: said" has err 'stopping after this round'
    check "SIG$signal: the result is saved" [ -s "stop$signal/fedavg/result.json" ]
    check "SIG$signal: the next run does not start" [ ! -e "stop$signal/scaffold" ]
    check "SIG$signal: the table" has out 'good-fedavg (stopped)'
    check "SIG$signal: where" grep -q '^stopped on request after round [0-9]* of 1000000000$' out
    check "SIG$signal: the manifest" has "stop$signal/fedavg/manifest.json" '"stopped_by": "asked"'
    check "SIG$signal: the manifest's rounds" has "stop$signal/fedavg/manifest.json" '"planned_rounds": 1000000000'
    check "SIG$signal: result.json" has "stop$signal/fedavg/result.json" '"planned_rounds": 1000000000'
    check "SIG$signal: the report's head" grep -q 'id="status"[^>]*>stopped after round [0-9]* of 1000000000<' "stop$signal/fedavg/report.html"
    check "SIG$signal: the report's verdict" has "stop$signal/fedavg/report.html" 'Stopped on request after round'
done
signal_at INT stopjson.partial run good.yaml --set rounds=1000000000 --set metrics.every=1000 --output stopjson --format json
check 'interrupted: the document says so' has out '"stopped_by": "asked"'
check 'interrupted: and of how many rounds' has out '"planned_rounds": 1000000000'
expect 0 good run good.yaml --set rounds=5 --output ended
check 'a run that ended by itself was not stopped' lacks out stopped
check 'its manifest' has ended/manifest.json '"stopped_by": "rounds"'
check 'its report' lacks ended/report.html 'Stopped on request'
# nohup: who started the program wanted the signal ignored
(trap '' HUP && exec "$program" run good.yaml --set rounds=3000 --output nohup >out 2>err </dev/null) &
until [ -e nohup.partial ] || [ -e nohup ]; do sleep 0.01; done
kill -HUP $! 2>/dev/null
wait $!
code=$?
check 'SIGHUP under nohup: exit code 0' exits 0
check 'SIGHUP under nohup: all rounds' has err 'round 3000/3000'
signal_at INT quietly.partial run good.yaml --set rounds=1000000000 --set metrics.every=1000 --quiet --output quietly
check 'interrupted: exit code 130' exits 130
check 'interrupted and quiet: nothing said' silent err

# ---- checkpoints --------------------------------------------------------------------------------------------

long='--set rounds=4000 --set algorithm=scaffold --set metrics.every=50 --set memory=1KiB'
expect 2 'checkpoint_every needs output' run good.yaml --checkpoint-every 5
expect 2 'which DIR?' resume
expect 2 'one DIR at a time' resume a b
expect 1 'nothere.checkpoint: there are no checkpoints to continue from' resume nothere
signal_at INT stopped.checkpoint/config.yaml run good.yaml $long --set rounds=1000000000 --checkpoint-every 1000 \
    --output stopped
check 'Ctrl-C with checkpoints: exit code 130' exits 130
check 'Ctrl-C with checkpoints: says how to go on' has err '`fedloom resume stopped` continues it'
check 'Ctrl-C with checkpoints: no result yet' [ ! -e stopped ]
check 'Ctrl-C with checkpoints: the settings are there' [ -s stopped.checkpoint/config.yaml ]
expect 1 'has checkpoints of an earlier run' run good.yaml $long --checkpoint-every 10 --output stopped
rm -rf stopped.checkpoint
fedloom run good.yaml $long --output whole
check 'a run without checkpoints: exit code 0' exits 0
for i in 1 2 3; do # kill -9, at whatever it is doing
    if [ -s ck.checkpoint/config.yaml ]; then
        "$program" resume ck --quiet --force >out 2>err </dev/null &
    else
        "$program" run good.yaml $long --checkpoint-every 10 --output ck --quiet --force >out 2>err </dev/null &
    fi
    sleep 0.1$i
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
done
code=0 # it may have come to its end before it was killed
if [ -s ck.checkpoint/config.yaml ]; then
    fedloom resume ck.checkpoint --threads 3 --device twin --force
elif [ ! -e ck ]; then
    fedloom run good.yaml $long --checkpoint-every 10 --output ck --force
else
    rm -rf ck.checkpoint # of a run that was killed while it removed them, after its result was there
fi
check 'resume: exit code 0' exits 0
check 'resume: the same result as if it had never been stopped' same_result whole ck
check 'resume: the checkpoints are gone' [ ! -e ck.checkpoint ]
"$program" run good.yaml --set rounds=20000 --set metrics.every=1000 --checkpoint-every 50 --output going --quiet >out 2>err </dev/null &
until [ -s going.checkpoint/config.yaml ] && ls going.checkpoint | grep -q '[0-9]'; do sleep 0.01; done
kill -TERM $!
wait $!
fedloom resume going --tensorboard going-events
check 'resume: with events and a page, exit code 0' exits 0
check 'resume: events' [ -s going-events/good/events.out.tfevents.0000000000.fedloom ]
check 'resume: a page about it' has going/report.html '<dd>fedloom resume going --tensorboard going-events</dd>'

# ---- compare, reproduce, plot -------------------------------------------------------------------------------

for c in compare tune reproduce plot; do
    expect 0 "usage: fedloom $c" help "$c"
    check "help $c has examples" has out 'examples:'
    expect 2 '--nonsense: unknown option' "$c" --nonsense
done
expect 2 'which FILE?' compare
expect 2 'give one FILE, or the folders of finished runs' plot
expect 2 'give one FILE, or the folders of finished runs' plot a b
expect 2 'one experiment at a time' reproduce a b
grep -v '^algorithm' good.yaml >two.yaml
cat >>two.yaml <<'END'
seeds: 2
methods:
  - {label: FedAvg, algorithm: fedavg}
  - {label: Fed Prox, algorithm: {kind: fedprox, mu: 0.1}}
END
expect 2 'two.yaml:8:1: seeds belongs to an experiment, not to a single run; use `fedloom compare`' run two.yaml
# Settings that a theorem asks for.
expect 2 '-o is for what --fix writes' check good.yaml -o fixed.yaml
fedloom check good.yaml --set algorithm=feddr --fix -o fixed.yaml
check 'check --fix: exit code 0' exits 0
check 'check --fix: what was changed' has out 'changed  algorithm.eta = '
check 'check --fix: where it is' has out 'wrote fixed.yaml'
check 'check --fix: why, in the file' has fixed.yaml ', asked for by (33); Corollary 3.1: 1/(3 L)'
expect 0 'the theorem applies' check fixed.yaml
check 'check --fix: what is written can run' "$program" run fixed.yaml --output from-fixed --quiet
fedloom check good.yaml --set algorithm=feddr --fix
check 'check --fix: the same on stdout' same out fixed.yaml
check 'check --fix: what is said of it, on stderr' has err 'fedloom: changed  algorithm.eta = '
expect 1 'no setting for this one' check good.yaml --set 'algorithm=feddr' --set 'regularizer={kind: mcp}' --fix
expect 1 'cannot be written' check good.yaml --fix -o no/such/folder.yaml
expect 0 'Fed Prox' check two.yaml
fedloom check two.yaml --fix
check 'check --fix of an experiment' has out '  - label: Fed Prox'
expect 0 'method    seeds  test accuracy %' compare two.yaml
check 'compare: a row per method' has out 'Fed Prox      2'
check 'compare: rounds to a target' has out 'rounds to 0.9999'
check 'compare: a line per run' [ "$(grep -c '^\[./4\] Fed' err)" -eq 4 ]
check 'compare: no carriage returns off a terminal' lacks err "$(printf '\r')"
check 'compare: says where' has err '4 of 4 runs; the table and report.html are in results/two'
for file in results.csv results.md results.json report.html runs/fed-prox/seed-2/result.json; do
    check "compare writes $file" [ -s "results/two/$file" ]
done
cut -d, -f 1-13 results/two/results.csv >first.csv
expect 0 'Fed Prox' compare two.yaml
check 'compare again: nothing is run' has err '4 of 4 runs are already in results/two'
check 'compare again: no line per run' lacks err '[1/4]'
expect 0 'Fed Prox' compare two.yaml --seeds 3 --jobs 1
check 'more seeds: the others stay' has err '4 of 6 runs are already'
expect 1 'is a finished run with other settings (4 such here)' compare two.yaml --set local.lr=0.05
expect 0 'Fed Prox' compare two.yaml --set local.lr=0.05 --force
check 'other settings: nothing is taken over' lacks err 'already'
expect 0 'Fed Prox' compare two.yaml --jobs 4 --output elsewhere
check 'jobs and place do not matter' same first.csv <(cut -d, -f 1-13 elsewhere/results.csv)
fedloom compare two.yaml --quiet --output quiet
check 'compare --quiet: exit code 0' exits 0
check 'compare --quiet: no progress' silent err
check 'compare --quiet: the table all the same' has out 'Fed Prox'
check 'compare --quiet: done' [ -s quiet/results.csv ]
expect 0 'MB up' compare two.yaml good.yaml --output both
check 'compare: a folder per file' [ -s both/1/results.csv -a -s both/2/results.csv ]

wrong() { # wrong TEXT-OF-FILE EXPECTED: laid over good.yaml
    { cat good.yaml && printf '%b' "$1"; } >wrong.yaml
    expect 2 "$2" compare wrong.yaml
    check "$1: nothing is written" [ ! -e results/wrong ]
}
wrong 'methods: []\n' 'wrong.yaml:9:1: methods must be a list with at least one method'
wrong 'methods:\n  - fedavg\n' 'wrong.yaml:10:5: a method must be a map'
wrong 'methods:\n  - {label: a}\n  - {label: A}\n' 'wrong.yaml:11:5: another method has this label'
wrong 'methods:\n  - {label: a, local: {lr: fast}}\n' 'wrong.yaml:10:24: local.lr is fast, but must be a number > 0'
wrong 'grid: {local.lr: [1, -1]}\n' 'wrong.yaml:9:22: local.lr is -1, but must be a number > 0'
wrong 'grid: {seed: [1, 2]}\n' 'wrong.yaml:9:8: all runs share this; it cannot be in a grid'
wrong 'seeds: 0\n' 'wrong.yaml:9:1: seeds is 0'
wrong 'needs: {what: MNIST}\n' 'MNIST is needed; give the folder with the data sets by --data DIR or FEDLOOM_DATA'
touch events
expect 1 'events: --tensorboard needs a folder, but this is a file' compare two.yaml --output unstarted --tensorboard events
check 'events into a file: nothing is run' [ ! -e unstarted ]
rm events
mkdir -p events/fed-prox
touch events/fed-prox/seed-1
fedloom compare two.yaml --output evented --tensorboard events
check 'events that cannot be written: exit code 1' exits 1
check 'events that cannot be written: said' has err 'Fed Prox, seed 1 is done, but events/fed-prox/seed-1: '
check 'events that cannot be written: the results are there' [ -s evented/runs/fed-prox/seed-1/result.json ]
expect 2 '--port goes with --watch' compare two.yaml --port 80
expect 2 '--port is 70000, but must be at most 65535' compare two.yaml --watch --port 70000
expect 2 '--jobs is 0' compare two.yaml --jobs 0
expect 2 'are too many runs' compare two.yaml --seeds 9223372036854775808
expect 2 'missing.yaml: cannot be read' compare missing.yaml
touch taken
expect 1 'taken: the folder cannot be created' compare two.yaml --output taken/below --quiet

cat >fails.yaml <<'END'
precision: f64
data: linreg
model: least_squares
participation: everyone
rounds: 3
methods:
  - {label: good, local: {lr: 0.01}}
  - {label: bad, local: {lr: 1e200}}
END
fedloom compare fails.yaml
check 'a failing run: exit code 1' exits 1
check 'a failing run: said' has err 'bad, seed 1 failed: '
check 'a failing run: the others count' has err '1 of 2 runs'
check 'a failing run: in the table' has out '0, 1 failed'
fedloom compare fails.yaml --quiet
check 'a failing run is said even when quiet' has err 'bad, seed 1 failed: '

expect 0 'results/two/test-accuracy-by-rounds.svg' plot two.yaml --set local.lr=0.05
check 'plot: everything that was measured' [ "$(wc -l <out)" -ge 3 -a "$(ls results/two/*.svg | wc -l)" -eq "$(wc -l <out)" ]
check 'plot: an SVG document' has results/two/test-accuracy-by-rounds.svg '</svg>'
expect 0 'drawn/train-loss-by-bytes.svg' plot two.yaml --set output=elsewhere --y train-loss --x bytes --output drawn
check 'plot: one file' [ "$(ls drawn)" = train-loss-by-bytes.svg ]
mkdir empty
PATH="$work/empty" "$program" plot two.yaml --set output=elsewhere --output unpainted --png >out 2>err
code=$?
check 'plot --png without a converter: exit code 1' exits 1
check 'plot --png without a converter: said once' [ "$(grep -c 'rsvg-convert is not installed' err)" -eq 1 ]
check 'plot --png without a converter: all SVG files' [ "$(ls unpainted/*.svg | wc -l)" -ge 3 ]
expect 2 'gradient was not measured' plot two.yaml --set output=elsewhere --y gradient
expect 2 '../beauty cannot be on the y axis' plot two.yaml --set output=elsewhere --y ../beauty
expect 2 'simulated was not measured' plot two.yaml --set output=elsewhere --x simulated
expect 2 'age cannot be on the x axis' plot two.yaml --set output=elsewhere --x age
expect 1 'nowhere has no finished runs' plot two.yaml --set output=nowhere

# ---- the same for single runs ---------------------------------------------------------------------------------

fedloom run good.yaml --set 'name=a single run' --output alone --tensorboard boards
check 'run: exit code 0' exits 0
check 'run: says where' has err 'results and report.html are in alone'
check 'run: a page about it' has alone/report.html 'ends at'
check 'run: the page says how it was made' has alone/report.html \
    "<dd>fedloom run good.yaml --set &#39;name=a single run&#39; --output alone --tensorboard boards</dd>"
check 'run: the page is part of the result' has alone/manifest.json report.html
check 'run: events' [ -s 'boards/a single run/events.out.tfevents.0000000000.fedloom' ]
check 'run: a result with its page may be replaced' "$program" run good.yaml --output alone --force --quiet
expect 2 'two of these runs would write events to boards/same' run good.yaml good.yaml --set name=same --tensorboard boards
expect 2 'name is a/b, which cannot be a folder below boards' run good.yaml --set name=a/b --tensorboard boards
touch board
expect 1 'board: --tensorboard needs a folder, but this is a file' run good.yaml --output unstarted --tensorboard board
check 'run, events into a file: nothing is run' [ ! -e unstarted ]
expect 0 'alone.plots/test-accuracy-by-rounds.svg' plot alone
check 'plot of a run: the result is left alone' [ -z "$(ls alone/*.svg 2>/dev/null)" ]
fedloom plot alone results/two/runs/fedavg/seed-1 --y train-loss --output drawn-runs
check 'plot of runs: exit code 0' exits 0
check 'plot of runs: one chart' [ "$(ls drawn-runs)" = train-loss-by-rounds.svg ]
check 'plot of runs: a line each' [ "$(grep -c 'fill="none" stroke="#.*stroke-linejoin' drawn-runs/train-loss-by-rounds.svg)" -ge 2 ]
expect 1 'shelfless: is not the result of a run' plot "$(mkdir shelfless && echo shelfless)"
check 'compare: the report says how it was made' has elsewhere/report.html '<dd>fedloom compare two.yaml --jobs 4 --output elsewhere</dd>'

mkdir shelf
cat two.yaml - >shelf/tiny.yaml <<'END'
quick: {rounds: 2, seeds: 1}
paper:
  source: Table 9
  time: no time
  figures: {FedAvg: {accuracy: 12.34, to 0.5: 7}, FedLost: {accuracy: 1}}
END
export FEDLOOM_EXPERIMENTS=shelf
expect 0 'tiny  Table 9  nothing  no time' reproduce
expect 0 'Table 9: ours, and the paper' reproduce tiny --quick
check 'reproduce: the figure' has out '12.34'
check 'reproduce: what is not here' has out 'in the paper, but no method here: FedLost'
check 'reproduce --quick has a folder of its own' [ -s results/tiny-quick/results.csv ]
expect 2 'there is no experiment huge (looked for shelf/huge.yaml)' reproduce huge
fedloom reproduce ./two.yaml --output own
check 'reproduce without a paper: exit code 0' exits 0
check 'reproduce without a paper: a note' has err 'note: two has no paper.figures to compare with'
unset FEDLOOM_EXPERIMENTS

signal_at INT stopped/runs/fedavg/seed-1.partial compare two.yaml --set rounds=1000000000 --set metrics.every=1000 \
    --output stopped
check 'compare, interrupted: exit code 130' exits 130
check 'compare, interrupted: said' has err 'stopping after this round'
check 'compare, interrupted: the table so far' has out 'Fed Prox      0'
check 'compare, interrupted: below the table' has out 'stopped with 0 of 4 runs done; the same command continues'
check 'compare, interrupted: results.md' has stopped/results.md 'stopped with 0 of 4 runs done'
check 'compare, interrupted: results.json' has stopped/results.json '"runs_planned": 4'
check 'compare, interrupted: why' has stopped/results.json '"stopped_by": "asked"'
check 'compare, interrupted: none of them done' has stopped/results.json '"runs_done": 0'
check 'compare, interrupted: the report' has stopped/report.html 'stopped with 0 of 4 runs done'
check 'compare, interrupted: nothing half-written' [ -z "$(find stopped/runs -name 'seed*')" ]
# While data are read: 512 MiB of two rows. TERM comes when the program catches it, among other signals under a sanitizer.
awk 'BEGIN { for (i = 0; i < 2097152; i++) print "0,0\n0,1" }' | gzip -1 >rows.gz
for _ in $(seq 32); do cat rows.gz; done >rows.csv.gz
printf 'data: {kind: csv, train: rows.csv.gz, header: false, task: classification}\npartition: {kind: iid, clients: 2}\nmodel: softmax\n' >rows.yaml
for c in run compare; do
    "$program" $c rows.yaml --set rounds=1 --output rows >out 2>err </dev/null &
    for _ in $(seq 1200); do # until it is no copy of this shell any more, which catches TERM as well
        [ ! "/proc/$!/exe" -ef "/proc/$$/exe" ] && grep -qE '^SigCgt:.*[4-7c-f][0-9a-f]{3}$' "/proc/$!/status" 2>/dev/null && break
        sleep 0.05
    done
    [ $c = run ] || for _ in $(seq 1200); do [ -d rows ] && break || sleep 0.05; done
    kill -TERM $!
    leaves $!
    check "$c, interrupted while it reads: exit code 130" exits 130
    check "$c, interrupted while it reads: nothing half-written" [ -z "$(find . -name '*.partial*')" ]
    if [ $c = run ]; then
        check 'run, interrupted while it reads: said' has err 'rows.csv.gz: reading was stopped'
        check 'run, interrupted while it reads: no result' [ ! -e rows ]
    else
        check 'compare, interrupted while it reads: the table so far' has out 'stopped with 0 of 1 runs done'
    fi
done
rm -r rows rows.gz rows.csv.gz
"$program" compare two.yaml --set rounds=1000000000 --set metrics.every=1000 --output slow >out 2>err </dev/null &
for _ in $(seq 600); do grep -q ' of 4 runs  ' err && break || sleep 0.1; done
kill -TERM $!
leaves $!
check 'compare, long and no terminal: a line says how far it is' grep -qE '^ *0%  0 of 4 runs  (FedAvg|Fed Prox), seed 1  [0-9]+/1000000000  test acc' err
check 'compare, long and no terminal: few lines' [ "$(wc -l <err)" -le 15 ]
{
    signal_at KILL killed/runs/fedavg/seed-1.partial compare two.yaml --set rounds=1000000000 \
        --set metrics.every=1000 --output killed
} 2>/dev/null
check 'compare, killed: something is left' [ -d killed/runs/fedavg/seed-1.partial ]
expect 0 'Fed Prox' compare two.yaml --output killed
check 'compare, killed: goes on as if nothing had been' same first.csv <(cut -d, -f 1-13 killed/results.csv)
check 'compare, killed: nothing is left' [ -z "$(find killed -name '*.partial*')" ]

# ---- check --------------------------------------------------------------------------------------------------

expect 0 'smoothness  L_i from' check good.yaml --set algorithm=fedvra
check 'check: a condition that holds' has out 'holds    Lemma 1'
check 'check: one that fails, and where' has out 'FAILS    (17)'
check 'check: advice' has out 'a setting that satisfies all of them: algorithm.a = '
check 'check: nothing on stderr' silent err
expect 0 'no step-size conditions are known' check good.yaml
expect 2 'algorithm.gamma has 2 values, but there are 10 clients' check good.yaml --set algorithm=fedvra --set 'algorithm.gamma=[1, 2]'
expect 2 'give one FILE' check
fedloom run good.yaml --set algorithm=fedvra --set algorithm.gamma=15
check 'gamma lr > 1: the run goes on' exits 0
check 'gamma lr > 1: said' has err 'client 0: gamma_i lr_i = 15 x 0.1 = 1.5, but Lemma 1 asks for at most 1'

# ---- certificates -------------------------------------------------------------------------------------------

expect 2 'do what? init, server, client, viewer, request, sign, revoke or list' cert
expect 2 'mint: not one of init, ' cert mint
expect 2 'client wants DIR NAME ...' cert client ca
expect 2 '--days 40000: more than 36500' cert init ca --days 40000
expect 2 'ca: there is no authority in this folder; `fedloom cert init` makes one' cert client ca alice
expect 0 'authority made in ca' cert init ca --name 'a trial'
expect 2 'ca: there is an authority in this folder already' cert init ca
expect 0 "for the server's machine: ca/server" cert server ca localhost 127.0.0.1 ::1
expect 0 'for the machine of bob: ca/clients/bob' cert client ca alice bob --days 30
expect 2 'bob: has a certificate that holds until 20' cert client ca bob
expect 2 '"../bob" cannot be a client'"'"'s name' cert client ca ../bob
expect 0 'for the authority to sign: carol/request.pem' cert request carol carol
expect 0 'signed for carol' cert sign ca carol/request.pem
check 'the key stays where it was made' [ ! -e ca/clients/carol/key.pem ]
expect 0 'bob: 1 certificate revoked' cert revoke ca bob
expect 2 'mallory: there is no certificate of that name in ca' cert revoke ca mallory
expect 0 'revoked 20' cert list ca
check 'cert list: a line each, and a heading' [ "$(wc -l <out)" -eq 5 ]
check 'cert: keys are their owner'"'"'s alone' [ -z "$(find ca carol -perm /077)" ]

# ---- a server ------------------------------------------------------------------------------------------------

cat > served.yaml <<'END'
data: {kind: joined, shape: [4], classes: 3}
partition: {clients: 2}
model: softmax
END
expect 2 'which FILE?' serve
expect 2 'one FILE at a time' serve served.yaml served.yaml --output srv
expect 2 'where to? --output DIR' serve served.yaml --insecure-http
expect 2 'a server needs certificates: make them with `fedloom cert init DIR`' serve served.yaml --output srv
expect 2 'plain HTTP is for addresses of this machine alone' serve served.yaml --output srv --insecure-http --listen 0.0.0.0:0
expect 2 'here:there is no HOST:PORT' serve served.yaml --output srv --insecure-http --listen here:there
expect 2 'data.kind is blobs, but the samples of a server are at its clients' serve good.yaml --set partition={} --output srv --insecure-http --listen 127.0.0.1:0
"$program" serve served.yaml --output srv --certs ca/server --listen 127.0.0.1:0 2>served.log &
server=$!
for i in 1 2 3 4 5 6 7 8 9 10; do has served.log 'event=serving port=' && break; sleep 0.5; done
check 'serve: says where' has served.log 'event=serving port='
expect 1 'is writing there; choose another output' serve served.yaml --output srv --certs ca/server --listen 127.0.0.1:0
kill -TERM $server
wait $server && code=0 || code=$?
check 'serve: SIGTERM ends it as interrupted' [ "$code" -eq 130 ]
check 'serve: and says how to go on' has served.log 'the same command goes on with it'
mkdir done
expect 2 'done: there is a result already' serve served.yaml --output done --certs ca/server --listen 127.0.0.1:0
check 'serve: what it keeps is its owner'"'"'s alone' [ -z "$(find srv.server -perm /077)" ]

count
