#!/usr/bin/env bash
# Whatever is misspelt, the program says what was probably meant. Usage: suggest.sh PATH-OF-FEDLOOM
set -u
. "$(dirname "$0")/lib.sh"

cat >good.yaml <<'END'
data: {kind: blobs, samples: 600}
partition: {kind: iid, clients: 10}
model: softmax
local: {epochs: 1, batch: 10, lr: 0.1}
participation: {kind: uniform, count: 4}
algorithm: fedavg
rounds: 2
END
sed '/^algorithm/d' good.yaml >two.yaml
echo 'methods: [{algorithm: fedavg}, {algorithm: fedprox}]' >>two.yaml

# ---- the command line -----------------------------------------------------------------------------------------

expect 2 'chekc: unknown command; did you mean check?' chekc good.yaml
expect 2 '--versoin: unknown command; did you mean --version?' --versoin
expect 2 '--hepl: unknown command; did you mean --help?' --hepl
expect 2 'compar: unknown command; did you mean compare?' help compar
expect 2 '--treads: unknown option; did you mean --threads?' run good.yaml --treads 3
fedloom run good.yaml --nonsense
check 'what is near nothing: no guess' lacks err 'did you mean'
expect 2 'revoke and list; did you mean revoke?' cert revoek ca bob

# ---- files ----------------------------------------------------------------------------------------------------

expect 2 'did you mean good.yaml?' run goood.yaml
expect 2 'did you mean good.yaml?' check good.yml
mkdir below
cp good.yaml below/first.yaml
expect 2 'did you mean below/first.yaml?' config below/frist.yaml
fedloom config nowhere/good.yaml
check 'no such folder: no guess' lacks err 'did you mean'
fedloom config unlike-any.yaml
check 'no such name: no guess' lacks err 'did you mean'
export FEDLOOM_EXPERIMENTS=below
expect 2 'did you mean first?' reproduce frist

# ---- keys and names -------------------------------------------------------------------------------------------

expect 2 'did you mean scaffold?' run good.yaml --set algorithm=SCAFFOLD
expect 2 'precision is f46, but must be one of: f32, f64, tf32; did you mean f64?' run good.yaml --set precision=f46
expect 2 'there is no "cup"; there are cpu, ' run good.yaml --set device=cup
check 'a device' has err 'did you mean cpu?'
expect 2 'lr is not a key; did you mean local.lr?' run good.yaml --set lr=0.1
expect 2 'clients is not a key; did you mean partition.clients?' run good.yaml --set clients=3
expect 2 'did you mean local?' list settings locl
expect 2 'grd is not a key; did you mean grid?' compare two.yaml --set 'grd={local.lr: [0.1]}'
expect 2 'not a key of any method that is compared; did you mean algorithm.mu?' compare two.yaml --set algorithm.muu=1
expect 2 'not a key of any method that is tuned; did you mean local.lr?' tune two.yaml --set 'tune={local.lrr: {from: 1, to: 2}}'
expect 2 'not a key of any method that is tuned; did you mean local.lr?' tune two.yaml --set 'tune={lcoal.lr: {from: 1, to: 2}}'
expect 2 'not a key of any method that is tuned; did you mean algorithm.mu?' tune two.yaml --set 'tune={algorithm.mv: {from: 1, to: 2}}'
expect 2 'is not a key of fedprox; did you mean algorithm.mu?' tune two.yaml \
    --set 'methods=[{algorithm: fedprox, tune: {algorithm.nu: {from: 1, to: 2}}}]'
expect 2 'did you mean train_loss? docs/reference.md lists the metrics' tune two.yaml --set 'tune={goal: tran_loss}'
expect 2 'did you mean train_loss?' tune two.yaml --set 'tune={goal: rounds to 0.3 of tran_loss}'
expect 2 'there is no algorithm called fedavgg; did you mean fedavg? `fedloom list` has them' join http://127.0.0.1:1 \
    --set 'limits.methods=[fedavgg]' --name a --insecure-http
fedloom compare two.yaml --quiet
expect 2 'cannot be on the y axis; did you mean test-accuracy?' plot two.yaml --y test-acuracy
printf 'height,width,species\n1,2,a\n3,4,b\n' >plants.csv
expect 1 "only 'height', 'width', 'species'; did you mean 'species'?" data good.yaml --set 'data={kind: csv, train: plants.csv, label: specis}'
fedloom cert init ca
fedloom cert client ca alice
expect 2 'did you mean alice?' cert revoke ca alcie

count
