#!/usr/bin/env bash
# The program on a terminal: colours, the bar, its width. Usage: terminal.sh PATH-OF-FEDLOOM
set -u
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || { echo 'script (bsdutils) is not installed'; exit 77; }
export TERM=xterm
unset NO_COLOR

cat >good.yaml <<'END'
data: {kind: blobs, samples: 600}
partition: {kind: iid, clients: 10}
model: softmax
local: {epochs: 1, batch: 10, lr: 0.1}
participation: {kind: uniform, count: 4}
algorithm: fedavg
rounds: 5
END
sed '/^algorithm/d' good.yaml >two.yaml
echo 'methods: [{algorithm: fedavg}, {algorithm: scaffold}]' >>two.yaml

# on_terminal COLUMNS ARGS...: stdout and stderr are a terminal of that width; leaves $code, out.
on_terminal() {
    local columns=$1
    shift
    timeout 60 script -qec "stty cols $columns; $(printf '%q ' "$program" "$@")" /dev/null >out 2>err </dev/null
    code=$?
}
escape=$(printf '\033')
full=$(printf '\342\226\210') empty=$(printf '\342\226\221')

# What a line shows at last, character by character, without what colours it and moves the cursor.
lines_shown() { tr '\r' '\n' <out | sed "s/$escape\[[0-9;]*[mK]//g"; }
widest() { lines_shown | grep -F -e "$full" -e "$empty" -e '% ' | LC_ALL=C.UTF-8 wc -L; }

# ---- the bar --------------------------------------------------------------------------------------------------

on_terminal 100 run good.yaml
check 'on a terminal: exit code 0' exits 0
check 'on a terminal: a bar' has out "$empty"
check 'on a terminal: per cent' has out '%  '
check 'on a terminal: the table' has out 'test acc'
check 'on a terminal: colours' has out "$escape[32m"
check 'on a terminal: the heading of the table is bold' has out "$escape[1mrun"
check 'on a terminal: the line is not too long for it' [ "$(widest)" -le 99 ]
on_terminal 70 run good.yaml
check 'a narrow terminal: the line is not too long for it' [ "$(widest)" -le 69 ]
on_terminal 30 run good.yaml
check 'a very narrow one: no bar' lacks out "$empty"
check 'a very narrow one: per cent' has out '%  '
check 'a very narrow one: the line is not too long for it' [ "$(widest)" -le 29 ]
on_terminal 100 compare two.yaml --jobs 1 --set rounds=5000 --set metrics.every=1000
check 'compare on a terminal: a bar' has out "$empty"
check 'compare on a terminal: the time left' has out ' left  '
check 'compare on a terminal: the heading of the table is bold' has out "$escape[1mmethod "
check 'compare on a terminal: how many runs' has out ' of 2 runs'

# ---- verdicts -------------------------------------------------------------------------------------------------

on_terminal 100 check good.yaml --set algorithm=fedvra --set local.lr=100
check 'check: what fails is red' has out "$escape[31mFAILS $escape[0m"
check 'check: what holds is green' has out "$escape[32mholds $escape[0m"
plain=$(lines_shown)
fedloom check good.yaml --set algorithm=fedvra --set local.lr=100
check 'check: the same words without colours' [ "$(tr -s '\n' <<<"$plain")" = "$(tr -s '\n' <out)" ]

# ---- tables that are wider than the terminal ------------------------------------------------------------------

on_terminal 45 run good.yaml --quiet
check 'a narrow table: no line is too long' [ "$(lines_shown | LC_ALL=C.UTF-8 wc -L)" -le 45 ]
check 'a narrow table: the first column again' [ "$(lines_shown | grep -c '^good ')" -eq 2 ]
check 'a narrow table: nothing is left out' eval 'lines_shown | grep -q "algorithm.*rounds" && lines_shown | grep -q "MB up *seconds"'
on_terminal 60 compare two.yaml --set rounds=3 --seeds 2 --output narrow --quiet
check 'a narrow comparison: no line is too long' [ "$(lines_shown | LC_ALL=C.UTF-8 wc -L)" -le 60 ]
check 'a narrow comparison: the methods again' [ "$(lines_shown | grep -c '^scaffold ')" -ge 2 ]
check 'a narrow comparison: nothing is left out' eval 'lines_shown | grep -q " ± .*" && lines_shown | grep -q "seconds"'
fedloom run good.yaml --quiet
check 'no terminal: a table is as wide as it is' [ "$(grep -c '^good ' out)" -eq 1 ]

# ---- who wants none of it -------------------------------------------------------------------------------------

NO_COLOR=1 on_terminal 100 run good.yaml
check 'NO_COLOR: no colours' lacks out "$escape["[0-9]
check 'NO_COLOR: no bold heading' lacks out "$escape[1m"
check 'NO_COLOR: the bar all the same' has out "$empty"
NO_COLOR='' on_terminal 100 run good.yaml
check 'an empty NO_COLOR says nothing' has out "$escape[1mrun"
TERM=dumb on_terminal 100 run good.yaml
check 'TERM=dumb: no escapes' lacks out "$escape"
check 'TERM=dumb: progress in plain lines' has out 'round 5/5'
TERM='' on_terminal 100 run good.yaml
check 'no TERM: no escapes' lacks out "$escape"
on_terminal 100 run good.yaml --quiet
check '--quiet on a terminal: no bar' lacks out "$empty"
check '--quiet on a terminal: the table' has out 'fedavg'
fedloom run good.yaml
check 'no terminal: no escapes' lacks <(cat out err) "$escape"
on_terminal 100 run missing.yaml
check 'an error is red' has out "$escape[31mfedloom: $escape[0mmissing.yaml: cannot be read"

count
