# What the tests of the command line share: a folder of their own, and checks that count. Sourced with the program's path as $1.
program=$(realpath "${1:?usage: $0 PATH-OF-FEDLOOM}")
work=$(mktemp -d "${TMPDIR:-/tmp}/fedloom-cli-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0 code=0

# check WHAT CONDITION...: counts, and shows the last output when the condition fails.
check() {
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s\n' "$what"
        printf '     exit code %s\n' "$code"
        head -n 8 out err 2>/dev/null | sed 's/^/     /'
    fi
}

# fedloom ARGS...: runs it; leaves $code, out, err.
fedloom() {
    timeout 60 "$program" "$@" >out 2>err </dev/null
    code=$?
}

has() { grep -qF -e "$2" "$1"; }
lacks() { ! grep -qF -e "$2" "$1"; }
silent() { [ ! -s "$1" ]; }
exits() { [ "$code" -eq "$1" ]; }
same() { cmp -s "$1" "$2"; }

# expect CODE TEXT ARGS...: the exit code, and TEXT on stderr (on stdout when the code is 0).
expect() {
    local want=$1 text=$2
    shift 2
    fedloom "$@"
    check "fedloom $*: exit code $want" exits "$want"
    if [ "$want" -eq 0 ]; then
        check "fedloom $*: says \"$text\"" has out "$text"
    else
        check "fedloom $*: says \"$text\"" has err "$text"
        check "fedloom $*: every line of the error is marked" lacks <(grep -v '^fedloom: ' err) ''
    fi
}

# leaves PID: until that process of ours has ended by itself, for at most a minute; leaves $code.
leaves() {
    for _ in $(seq 1200); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL "$1" 2>/dev/null
    wait "$1"
    code=$?
}

# wait_for PATTERN: until there is such a file, for at most a minute.
wait_for() {
    for _ in $(seq 600); do
        compgen -G "$1" >/dev/null && return 0
        sleep 0.1
    done
    return 1
}

# Runs the program in the foreground and sends it one signal as soon as FILE is there, however long that takes:
# signal_at SIGNAL FILE ARGS. What does not end within a minute of its signal is killed.
signal_at() {
    local signal=$1 file=$2 i
    shift 2
    rm -f pid
    (
        until [ -s pid ] && [ -e "$file" ]; do sleep 0.01; done
        kill -"$signal" "$(cat pid)"
        for i in {1..600}; do sleep 0.1; done
        kill -KILL "$(cat pid)"
    ) 2>/dev/null &
    # whoever calls may ignore these signals, and the program would go on ignoring them
    sh -c 'echo $$ >pid; exec env --default-signal=INT --default-signal=TERM --default-signal=HUP "$@"' sh "$program" "$@" >out 2>err </dev/null
    code=$?
    kill $! 2>/dev/null
    wait $! 2>/dev/null
}

# The last line of a script.
count() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
