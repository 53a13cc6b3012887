#!/usr/bin/env bash
# --format json: one valid document wherever there is a table, with all digits. Usage: json.sh PATH-OF-FEDLOOM
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/cli/lib.sh"
command -v python3 >/dev/null || { echo 'python3 is not installed'; exit 77; }

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
sed '/^algorithm/d' good.yaml >two.yaml
cat >>two.yaml <<'END'
seeds: 2
methods: [{label: 'Fed "Avg"', algorithm: fedavg}, {label: Prox, algorithm: {kind: fedprox, mu: 0.1}}]
END

# json EXPRESSION ARGS...: the command succeeds, prints one document and nothing else, and the expression holds of it (d).
json() {
    local expression=$1
    shift
    fedloom "$@" --format json
    check "fedloom $*: exit code 0" exits 0
    check "fedloom $*: valid JSON" python3 -m json.tool out /dev/null
    check "fedloom $*: $expression" python3 -c "import json; d = json.load(open('out')); assert $expression"
}

# ---- listings -------------------------------------------------------------------------------------------------

json '{"name": "algorithms", "section": "algorithm"}.items() <= d["kinds"][0].items()' list
json '"scaffold" in [a["name"] for a in d["algorithms"]]' list algorithms
json '[k["default"] for k in d["keys"] if k["name"] == "mu"] == ["0.1"]' list algorithm fedprox
json 'd["facts"]["kept by a client"].startswith("c_i")' list algorithm scaffold
json '[k["default"] for k in d["section_keys"] if k["name"] == "clients"]' list partition iid
json 'any(s["name"] == "local" and any(k["name"] == "lr" for k in s["keys"]) for s in d["sections"])' list settings
json '[s["name"] for s in d["sections"]] == ["local"]' list settings local
json 'd["devices"][0] == {"name": "cpu", "here": True, "is": "the processors of this machine"}' list devices
expect 2 '--format json is for listings, not for --markdown' list --markdown --format json
expect 2 '--format is jsno, but must be table or json; did you mean json?' list --format jsno
expect 2 'did you mean algorithms' list algoritms --format json

# ---- data, check ----------------------------------------------------------------------------------------------

json 'd["data"]["train_samples"] + d["data"]["test_samples"] == 600 + d["data"]["test_samples"]' data good.yaml
json 'd["partition"]["clients"] == 10 and len(d["clients"]) == 3' data good.yaml --clients 3
json 'all(sum(c["samples_per_class"]) == c["train"] for c in d["clients"])' data good.yaml
json 'd["clients"][0]["unlabelled"] > 0' data good.yaml --set data.unlabelled=0.5
json '"samples_per_class" not in d["clients"][0]' data good.yaml --set data=linreg --set model=least_squares --set 'metrics.targets=[]'
json 'd["method"] == "scaffold" and d["measured"]["of_clients"] == 10' check good.yaml --set algorithm=scaffold
json '"convexity" in d["measured"]' check good.yaml --set algorithm=scaffnew --set participation=everyone --set model.weight_decay=0.01
json 'not d["has_conditions"] and not d["applies"]' check good.yaml --set algorithm=scaffold
json '{c["verdict"] for c in d["conditions"]} <= {"holds", "fails", "assumed"} and d["conditions"]' check good.yaml --set algorithm=fedvra
json 'not d["applies"] and d["fixes"][0]["value"]' check good.yaml --set algorithm=fedvra --set local.lr=100
json '[m["label"] for m in d["methods"]] == ["Fed \"Avg\"", "Prox"]' check two.yaml
expect 2 '--format json is for what is checked' check good.yaml --fix --format json

# ---- runs -----------------------------------------------------------------------------------------------------

json 'd["runs"][0]["metrics"]["round"] == 5 and d["runs"][0]["output"] == "one"' run good.yaml --output one
check 'all digits: the last line of metrics.csv' python3 - <<'END'
import csv, json
last = list(csv.DictReader(open('one/metrics.csv')))[-1]
shown = json.load(open('out'))['runs'][0]['metrics']
assert all(float(last[k]) == v for k, v in shown.items()), shown
assert repr(shown['train_loss']) and len(repr(shown['train_loss'])) > 10, shown
END
json 'd["runs"][0]["targets"][1] == {"test_accuracy": 0.9999, "round": None}' run good.yaml
json '[r["algorithm"] for r in d["runs"]] == ["fedavg", "scaffold"] and d["runs"][0]["output"] is None' run good.yaml --algorithms fedavg,scaffold
json 'd["runs"][0]["name"] == "good"' run good.yaml --quiet
signal_at INT part.checkpoint run good.yaml --set rounds=4000 --set metrics.every=1000 --checkpoint-every 10 --output part
expect 1 'good.yaml: --tensorboard needs a folder' resume part --tensorboard good.yaml --format json
check 'resume: no document where nothing has run' [ ! -s out ]
json 'd["runs"][0]["metrics"]["round"] == 4000' resume part

# ---- comparisons ----------------------------------------------------------------------------------------------

json 'd["rows"][0]["method"] == "Fed \"Avg\"" and d["rows"][0]["seeds"] == 2' compare two.yaml --output pair
check 'compare: the same as results.json' python3 -c "import json; assert json.load(open('out')) == json.load(open('pair/results.json'))"
expect 2 '--format json is one document, so give one FILE' compare two.yaml good.yaml --format json
json 'len(d["rows"]) == 2' compare two.yaml --tune 6 --output tuned --quiet
json 'd["methods"][1]["best"]["setting"]["local.lr"] and d["methods"][0]["as_it_was"]["seeds"] >= 1' tune two.yaml --budget 6 --output tune
json 'd["goal"]["cost"] == "round" and d["goal"]["target"] == 0.9999 and d["budget"] == 6' tune two.yaml --budget 6 --output tune
mkdir shelf
cp two.yaml shelf/tiny.yaml
cat >>shelf/tiny.yaml <<'END'
paper:
  source: Table 9
  figures:
    Prox: {accuracy: 12.34, "to 0.5": "> 7"}
END
export FEDLOOM_EXPERIMENTS=shelf
json 'd["experiments"] == [{"name": "tiny", "paper": "Table 9", "needs": "nothing", "time": ""}]' reproduce
json 'd["paper"]["source"] == "Table 9" and d["paper"]["methods"][1]["figures"][0]["paper"] == "12.34"' reproduce tiny
check 'reproduce: ours beside it' python3 - <<'END'
import json
d = json.load(open('out'))
ours = d['paper']['methods'][1]['figures'][0]['ours']
assert ours == d['rows'][1]['test_accuracy'], ours
END
fedloom reproduce ./two.yaml --output own --format json
check 'reproduce without a paper: exit code 0' exits 0
check 'reproduce without a paper: a note' has err 'note: two has no paper.figures to compare with'
check 'reproduce without a paper: the table' python3 -c "import json; assert len(json.load(open('out'))['rows']) == 2"

# ---- other tables ---------------------------------------------------------------------------------------------

json 'd["kind"] == "softmax" and d["tensors"][0]["shape"] and "seed" in d["metadata"]' show one/model.safetensors
cp "$root/tests/golden/fedpd.json" case.json
json 'd["passed"] == 1 and d["cases"][0]["name"] == "case" and d["cases"][0]["error"] < 1e-9' verify case.json
fedloom verify missing.json --format json
check 'verify, a case that fails: exit code 1' exits 1
check 'verify, a case that fails: why' python3 -c "import json; c = json.load(open('out'))['cases'][0]; assert c['error'] is None and 'missing.json' in c['reason']"
fedloom cert init ca
fedloom cert client ca alice bob
json '[c["name"] for c in d["certificates"]] == ["alice", "bob"] and d["certificates"][0]["state"] == "holds"' cert list ca
expect 2 '--format json is for `fedloom cert list`' cert client ca carol --format json

count
