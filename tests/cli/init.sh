#!/usr/bin/env bash
# fedloom init: by flags and by questions; what it writes is checked and compared at once. Usage: init.sh PATH-OF-FEDLOOM
set -u
. "$(dirname "$0")/lib.sh"

# ---- by flags -------------------------------------------------------------------------------------------------

# accepted FILE: `check` and `compare` take it as it is.
accepted() {
    check "$1 is commented" [ "$(grep -c '^#' "$1")" -ge 10 ]
    check "$1 fits 120 columns" [ "$(awk 'length > 120' "$1" | wc -l)" -eq 0 ]
    fedloom check "$1"
    check "fedloom check $1: exit code 0" exits 0
    fedloom compare "$1" --set rounds=2 --seeds 1 --quiet
    check "fedloom compare $1: exit code 0" exits 0
}

expect 0 'wrote federation.yaml' init --data blobs
check 'no terminal: nothing is asked' lacks out '['
accepted federation.yaml
check 'labels are skewed' has federation.yaml 'partition: {kind: dirichlet, clients: 20}'
check 'a part takes part' has federation.yaml 'participation: {kind: uniform, count: 4}'
check 'three methods' [ "$(grep -c 'label:.*algorithm: [a-z]*}$' federation.yaml)" -eq 3 ]
cp federation.yaml before
expect 1 'federation.yaml: exists already; --force replaces it' init
check 'it is as it was' same before federation.yaml
expect 0 'wrote federation.yaml' init --force --data blobs --rounds 7
check '--force: it is another one' has federation.yaml 'rounds: 7'
expect 0 'wrote all.yaml' init all.yaml --data blobs --partition shards --clients 5 --model mlp --methods 'fedavg, feddyn' \
    --rounds 120 --device twin
check 'all flags: the partition' has all.yaml 'partition: {kind: shards, clients: 5}'
check 'all flags: few clients all take part' has all.yaml 'participation: everyone'
check 'all flags: the model' has all.yaml 'model: mlp'
check 'all flags: a method' has all.yaml '  - {label: feddyn, algorithm: feddyn}'
check 'all flags: where' has all.yaml 'device: twin'
check 'all flags: not measured in every round' has all.yaml 'metrics: {every: 2}'
accepted all.yaml
fedloom init everyone.yaml --data blobs --methods fedavg,fedpd
check 'a method that wants everyone' has everyone.yaml 'participation: everyone'
accepted everyone.yaml
fedloom init linear.yaml --data linreg
check 'regression: the model' has linear.yaml 'model: least_squares'
check 'regression: no labels, no skew' has linear.yaml 'partition: {kind: iid, clients: 20}'
accepted linear.yaml
fedloom init natural.yaml --data synthetic --partition natural
check 'as many clients as the data say' has natural.yaml 'partition: {kind: natural}'
accepted natural.yaml
awk 'BEGIN { print "height;width;species"; for (i = 0; i < 240; i++) print 500 * (i % 3) + i % 7 ";" i % 5 ";" substr("abc", i % 3 + 1, 1) }' >semi.csv
tr ';' ',' <semi.csv >"it's mine.csv"
tr ';' '\t' <semi.csv >table.tsv
fedloom init mine.yaml --data "it's mine.csv"
check 'a file: its kind by its ending, whatever it is called' has mine.yaml "data: {kind: csv, train: 'it''s mine.csv', normalize: standard, test_fraction: 0.2}"
check 'few samples: few clients' has mine.yaml 'clients: 8}'
accepted mine.yaml
fedloom init kind.yaml --data "csv  it's mine.csv"
check 'the same after its kind' same mine.yaml kind.yaml
fedloom init tabs.yaml --data table.tsv
check 'tabs' has tabs.yaml "separator: 'tab'"
accepted tabs.yaml

# ---- answers that do not fit ----------------------------------------------------------------------------------

bad() { # bad SENTENCE ARGS...
    local sentence=$1
    shift
    expect 2 "$sentence" init never.yaml "$@"
}
bad 'there is no data called digist; did you mean digits?' --data digist
bad 'data csv needs train: `csv PATH`' --data csv
bad 'data blobs does not take more' --data 'blobs more'
bad 'missing.csv: no such file' --data missing.csv
bad '. is a folder: say what is in it, as in `idx .` or `image_folder .`' --data .
bad 'file.xls: the ending of its name does not say what it is' --data file.xls
bad 'there is no partition called iit; did you mean iid?' --data blobs --partition iit
bad 'partition natural: the data do not say who owns the samples' --data blobs --partition natural
bad 'there is no model called sotfmax; did you mean softmax?' --data blobs --model sotfmax
bad 'model softmax needs labels' --data linreg --model softmax
check 'no place in a file that nobody sees' lacks err 'the answer'
bad 'there is no algorithm called scafold; did you mean scaffold?' --data blobs --methods fedavg,scafold
bad 'fedavg is named twice: once is enough' --data blobs --methods fedavg,scaffold,fedavg
bad 'no method is named' --data blobs --methods ' '
bad 'algorithm simfbo is for two-level problems' --data blobs --methods simfbo
bad 'did you mean cpu?' --data blobs --device cup
bad '--rounds is none, but must be a whole number from 1' --data blobs --rounds none
expect 2 'one FILE at a time' init a.yaml b.yaml
expect 1 'no/where.yaml: cannot be written: No such file or directory' init no/where.yaml --data blobs
check 'nothing was written' [ ! -e never.yaml ]
full_disk() { # ARGS...: no file may grow
    (trap '' XFSZ; ulimit -f 0; "$program" "$@" 2>&1; echo "code $?") | cat >err
}
full_disk init never.yaml --data blobs
check 'a full disk: exit code 1' has err 'code 1'
check 'a full disk: why' has err 'never.yaml: cannot be written: '
check 'a full disk: no empty file is left' [ -z "$(ls | grep never)" ]
full_disk init federation.yaml --data blobs --force
check 'a full disk and --force: exit code 1' has err 'code 1'
check 'a full disk and --force: the one before stays' has federation.yaml 'rounds: 7'
ln -s federation.yaml link.yaml
expect 0 'wrote link.yaml' init link.yaml --data blobs --rounds 8 --force
check '--force goes through a link' has federation.yaml 'rounds: 8'

# ---- tables of values to predict ------------------------------------------------------------------------------

# 500 rows, whose last column is a price: with a fraction, or a whole number.
awk 'BEGIN { print "area,age,price"; for (i = 0; i < 500; i++) printf "%d,%d,%.3f\n", i % 37, i % 11, 3 * (i % 37) + i / 7 }' >price.csv
awk 'BEGIN { print "area,age,price"; for (i = 0; i < 500; i++) printf "%d,%d,%d\n", i % 37, i % 11, 3 * (i % 37) + i }' >whole.csv
bad "price.csv:3: label '3.143' is not a whole number, as classes are; for values to predict, say task: regression" --data price.csv
check 'what fits' has err 'model: least_squares'
check 'one sentence' [ "$(wc -l <err)" -eq 1 ]
bad 'different numbers in 500 samples, too many for classes; for values to predict, say task: regression' --data whole.csv
check 'nothing was written of a regression' [ ! -e never.yaml ]
table() { # FILE KEYS: an experiment on it
    echo "data: {kind: csv, train: $1, test_fraction: 0.2$2}
partition: {kind: iid, clients: 5}
model: ${3:-softmax}
rounds: 2
methods: [{label: FedAvg, algorithm: fedavg}]" >table.yaml
}
table price.csv ''
fedloom compare table.yaml
check 'compare refuses values to predict, too' exits 1
check 'and says why' has err "price.csv:3: label '3.143' is not a whole number"
table price.csv ', task: classification'
expect 0 FedAvg compare table.yaml --output of-classes
table price.csv ', task: regression, normalize: standard' least_squares
expect 0 FedAvg compare table.yaml --output of-values

# ---- questions ------------------------------------------------------------------------------------------------

if command -v python3 >/dev/null; then
    cat >person.py <<'END'
"""person.py ANSWERS PROGRAM...: on a terminal of its own, types an answer whenever it is asked; prints what it saw."""
import os, pty, sys

answers = sys.argv[1].split("|")
pid, terminal = pty.fork()
if not pid:
    os.execvp(sys.argv[2], sys.argv[2:])
seen = b""
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    seen += piece
    if seen.endswith(b"] "):
        answer = answers.pop(0) if answers else "\x04"
        os.write(terminal, (answer + ("" if answer == "\x04" else "\n")).encode())
        seen += b" \n"
sys.stdout.write(seen.decode().replace("\r", ""))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
    person() { # ANSWERS ARGS...
        local answers=$1
        shift
        TERM=dumb timeout 120 python3 person.py "$answers" "$program" "$@" >out 2>err </dev/null
        code=$?
    }
    person 'blobs|iid 6|softmax|fedavg,scaffold|9 cpu' init asked.yaml
    check 'five answers: exit code 0' exits 0
    check 'five answers: five questions' [ "$(grep -c '^[1-5]\. ' out)" -eq 5 ]
    check 'five answers: the clients' has asked.yaml 'partition: {kind: iid, clients: 6}'
    check 'five answers: the rounds' has asked.yaml 'rounds: 9'
    accepted asked.yaml
    person '||||' init plain.yaml
    check 'five times enter: exit code 0' exits 0
    check 'five times enter: what stands in brackets' has plain.yaml 'data: {kind: digits}'
    person 'digist|blobs|iid many|iid 6|sotfmax||scafold|fedavg|ten|8' init again.yaml
    check 'bad answers: exit code 0' exits 0
    check 'bad answers: a sentence' has out 'there is no data called digist; did you mean digits?'
    check 'bad answers: not a number of clients' has out 'many is not a number of clients: `iid 20`, say'
    check 'bad answers: not a number of rounds' has out 'ten is not a number of rounds: `50 cpu`, say'
    check 'bad answers: asked again' has again.yaml 'rounds: 8'
    check 'bad answers: the questions are not repeated' [ "$(grep -c '^[1-5]\. ' out)" -eq 5 ]
    person 'iid 6|fedavg' init half.yaml --data blobs --model softmax --rounds 3
    check 'some flags: the others are asked' [ "$(grep -c '^[1-5]\. ' out)" -eq 2 ]
    check 'some flags: written' has half.yaml 'rounds: 3'
    person '' init flags.yaml --data blobs --partition iid --model softmax --methods fedavg --rounds 3
    check 'all flags on a terminal: nothing is asked' lacks out '1. '
    check 'all flags on a terminal: written' has flags.yaml 'rounds: 3'
    person 'blobs' init gone.yaml
    check 'no more answers: exit code 1' exits 1
    check 'no more answers: said' has out 'there is no answer, so nothing was written'
    check 'no more answers: nothing was written' [ ! -e gone.yaml ]
fi

count
