#!/usr/bin/env bash
# Completion: what the program offers, and the three shells that ask it. Usage: completion.sh PATH-OF-FEDLOOM
set -u
. "$(dirname "$0")/lib.sh"
mkdir bin some-folder shelf
ln -s "$program" bin/fedloom
export PATH=$work/bin:$PATH FEDLOOM_EXPERIMENTS=shelf
echo 'rounds: 1' >first.yaml
cp first.yaml shelf/tiny-table1.yaml
tab=$(printf '\t')

# ---- the program ----------------------------------------------------------------------------------------------

# offers WORD LINE...: among the words that the last one of the line may become.
offers() {
    local want=$1
    shift
    fedloom completion words -- "$@"
    check "$*: exit code 0" exits 0
    check "$*: offers $want" grep -qE -e "^$want($tab|\$)" out
}
offers run ''
offers 'help' ''
offers compare comp
check 'what does not begin so is not offered' lacks out run
offers check help che
offers --set run --s
check 'an option with its meaning' has out "--set${tab}overrides a key of the file"
offers --jobs reproduce --j
check 'an option whose meaning another help has' has out 'N runs at a time'
fedloom completion words -- run --quiet --q
check 'a flag that was given is not offered again' silent out
offers --set run --set a=b --se
offers :files run ''
offers :files run --output x ''
offers :folders run --output ''
offers :folders run first.yaml --output=
offers 'rounds=' run --set ro
offers 'algorithm=' run --set alg
offers 'algorithm\.' run --set alg
offers 'local\.lr=' run --set local.
offers 'algorithm\.mu=' run --set algorithm.
check 'a key that several methods have is offered once' [ "$(sort out | uniq -d | wc -l)" -eq 0 ]
offers 'algorithm=scaffold' run --set algorithm=sc
offers 'algorithm\.kind=scaffold' run --set algorithm.kind=
offers 'precision=f64' run --set precision=
offers 'metrics\.test=true' run --set metrics.test=
offers '--set=local\.lr=' run --set=local.l
offers 'fedavg,scaffold' run --algorithms fedavg,sc
offers algorithms list ''
offers scaffold list algorithms sc
offers settings list se
offers tiny-table1 reproduce ti
offers revoke cert ''
offers :folders cert list ''
offers test-accuracy plot x.yaml --y ''
offers bytes plot --x ''
offers cpu resume x --device c
offers json run x --format ''
offers 5 list --man ''
offers zsh completion z
fedloom completion words -- nonsense ''
check 'an unknown command: nothing is offered' silent out
fedloom completion words --
check 'no word at all: the commands' has out run
for c in $("$program" completion words -- '' | cut -f 1 | grep -v '^help$'); do
    "$program" completion words -- "$c" - | cut -f 1 | grep -v '^--help$' >offered
    "$program" help "$c" >help.txt
    while read -r o; do grep -qF -e "$o" help.txt || echo "$o"; done <offered >unexplained
    check "$c: its help knows all its options: $(tr '\n' ' ' <unexplained)" silent unexplained
    sed -n '/^options:/,/^$/p' help.txt | grep -o '^  -[-a-z]*' | tr -d ' ' | sort -u >explained
    check "$c: it has all the options of its help: $(sort offered | comm -23 explained - | tr '\n' ' ')" \
        [ "$(sort offered | comm -23 explained - | wc -l)" -eq 0 ]
done
expect 2 'which SHELL? bash, zsh or fish' completion
expect 2 'zhs: not one of bash, zsh and fish; did you mean zsh?' completion zhs
expect 2 'one argument too many' completion bash zsh

# ---- bash -----------------------------------------------------------------------------------------------------

fedloom completion bash
cp out bash.sh
check 'bash reads it' bash -n bash.sh
# by_bash LINE: the replies to a tab at its end, one per line, in `out`.
by_bash() {
    bash --norc -c '. ./bash.sh; COMP_LINE=$1 COMP_POINT=${#1}; _fedloom; printf "%s\n" "${COMPREPLY[@]}"' bash "$1" >out 2>err
    check "bash, $1: nothing is said" silent err
}
replies() { grep -qxF -e "$1" out; }
by_bash 'fedloom ru'
check 'bash: a command' [ "$(cat out)" = run ]
by_bash 'fedloom run --out'
check 'bash: an option' [ "$(cat out)" = --output ]
by_bash 'fedloom run fir'
check 'bash: a file' [ "$(cat out)" = first.yaml ]
by_bash 'fedloom run first.yaml --output=some'
check 'bash: a folder behind =' [ "$(cat out)" = some-folder ]
by_bash 'fedloom run first.yaml --output f'
check 'bash: a file is no folder' [ -z "$(cat out)" ]
by_bash 'fedloom run first.yaml --set local.lr'
check 'bash: a key' replies local.lr=
by_bash 'fedloom run first.yaml --set algorithm=scaff'
check 'bash: a value, without what bash has already' replies scaffold
by_bash 'fedloom run first.yaml --algorithms fedavg,scaff'
check 'bash: the second of several' replies fedavg,scaffold
by_bash 'fedloom '
check 'bash: all commands' [ "$(wc -l <out)" -ge 17 ]
by_bash './bin/fedloom ver'
check 'bash: a program by its path' [ "$(cat out)" = verify ]

# ---- zsh ------------------------------------------------------------------------------------------------------

fedloom completion zsh
if command -v zsh >/dev/null; then
    mkdir functions
    cp out functions/_fedloom
    check 'zsh reads it' zsh -n functions/_fedloom
    # by_zsh LINE: what a tab at its end makes of it, in a terminal of its own.
    cat >ask.zsh <<'END'
zmodload zsh/zpty
zpty z TERM=dumb zsh -f -i
zpty -w z "PS1= PS2=; fpath=($PWD/functions \$fpath); autoload -Uz compinit && compinit -u -d $PWD/dump; cd $PWD"
zpty -w z "bindkey -e; setopt no_list_beep no_auto_list; echo READ''Y"
zpty -r -m z line '*READY*'
# what has become of the line goes to a file: to its beginning, a command, to its end, enter
zpty -w -n z "$1"$'\t\C-aprint -r -- \C-e > completed; echo DON\'\'E\n'
zpty -r -m z line '*DONE*'
zpty -d z
END
    by_zsh() {
        rm -f completed
        timeout 60 zsh -f ask.zsh "$1" >out 2>err
        cp completed out
    }
    by_zsh 'fedloom conf'
    check 'zsh: a command' has out 'fedloom config'
    by_zsh 'fedloom run --out'
    check 'zsh: an option' has out '--output'
    by_zsh 'fedloom list algorithm scaffo'
    check 'zsh: a method' has out 'scaffold'
    by_zsh 'fedloom run fir'
    check 'zsh: a file' has out 'first.yaml'
    by_zsh 'fedloom run first.yaml --set participat'
    check 'zsh: a key' has out 'participation'
fi

# ---- fish -----------------------------------------------------------------------------------------------------

fedloom completion fish
if command -v fish >/dev/null; then
    cp out fedloom.fish
    check 'fish reads it' fish --no-config -n fedloom.fish
    export HOME=$work XDG_CONFIG_HOME=$work/config
    by_fish() { # LINE
        timeout 60 fish --no-config -c 'source fedloom.fish; complete -C $argv[1]' "$1" >out 2>err
        check "fish, $1: nothing is said" silent err
    }
    by_fish 'fedloom ru'
    check 'fish: a command, with its meaning' replies "run${tab}runs federations and compares them"
    by_fish 'fedloom run --out'
    check 'fish: an option' has out "--output$tab"
    by_fish 'fedloom run first.yaml --set local.lr'
    check 'fish: a key' has out "local.lr=$tab"
    by_fish 'fedloom run first.yaml --set algorithm=scaff'
    check 'fish: a value' has out "algorithm=scaffold$tab"
    by_fish 'fedloom run fir'
    check 'fish: a file' has out first.yaml
    by_fish 'fedloom run first.yaml --output some'
    check 'fish: a folder' has out some-folder/
fi

count
