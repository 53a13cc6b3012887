#!/usr/bin/env bash
# The commands of docs/guide, page by page, each page in an empty folder with fedloom in the path: they succeed, and
# print what the page says (prints.awk). Usage: run.sh PATH-OF-FEDLOOM [PAGE...]
# Where there is no GPU, the commands for one use the device "twin"; where there is no MPI, those for several processes
# use one; where Python has no fedloom, its code is only compiled. What was replaced is said.
set -u
if [ -n "${FEDLOOM_EMULATED:-}" ] || [ "${FEDLOOM_BRIEF:-0}" != 0 ]; then
    echo "skipped: an emulator, or a sanitizer, takes long"
    exit 77
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
first=${1:?usage: $0 PATH-OF-FEDLOOM [PAGE...]}
shift
[ "$#" -gt 0 ] || set -- "$root"/docs/guide/[0-9]*.md
mapfile -t pages < <(realpath "$@")
. "$root/tests/net/lib.sh"
. "$root/tests/cli/lib.sh" "$first"
group=
trap '[ -z "$group" ] || kill -- "-$group" 2>/dev/null; rm -rf "$work"' EXIT # the group: all that a block has started

mkdir bin
ln -s "$program" bin/fedloom
export PATH=$work/bin:$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
unset FEDLOOM_EXPERIMENTS

instead() { replaced="${replaced:-}${replaced:+; }$1"; }
device=cuda
if ! "$program" list devices | grep '^cuda ' | grep -vq 'none here'; then
    device=twin
    instead "no GPU: its commands ran on the twin"
fi
if ! { command -v mpirun && mpirun -n 2 "$program" list devices; } >/dev/null 2>&1; then
    printf '#!/bin/sh\n[ "$1" = -n ] && shift 2\nexec "$@"\n' >bin/mpirun
    chmod +x bin/mpirun
    instead "no MPI: its commands ran in one process"
fi
package=there
if ! python3 -c 'import fedloom' 2>/dev/null; then
    package=missing
    instead "no fedloom in Python: its code was compiled at most"
fi
free_port
check 'there is a port' [ -n "$port" ]

# block FILE: runs a block of commands; leaves $code and out.
block() {
    sed -e "s/:8443/:$port/g" -e "s/ serve / serve --listen 127.0.0.1:$port /" \
        -e "s/device=cuda/device=$device/g" "$1" >these
    (cd folder && exec setsid timeout --foreground 120 bash -e ../these) >out 2>&1 </dev/null &
    group=$!
    wait "$group"
    code=$?
    group=
}

# python FILE: a block of Python, after all that came before it on the page, in an empty folder; leaves $code and out.
python() {
    cat "$1" >>page.py
    if [ "$package" = there ]; then
        rm -rf again && mkdir again
        (cd again && timeout 120 python3 ../page.py) >out 2>&1 </dev/null
    elif command -v python3 >/dev/null; then
        python3 -c 'compile(open("page.py").read(), "page.py", "exec")' >out 2>&1
    fi
    code=$?
}

# one KIND FILE WHERE: a block of a page.
one() {
    case $1 in
    text) [ "$package $ran" = "missing python" ] || check "$3: is printed" awk -f "$here/prints.awk" "$2" out ;;
    python)
        python "$2"
        check "$3: succeeds" exits 0
        ;;
    sh)
        block "$2"
        check "$3: succeeds" exits 0
        ;;
    sh-fails)
        block "$2"
        check "$3: fails, as the page says" eval '! exits 0'
        ;;
    esac
    [ "$1" = text ] || ran=$1
}

# page FILE: all its blocks, in order.
page() {
    local source=$1 name at file
    name=$(basename "$1" .md)
    mkdir "$name" "$name/blocks" "$name/folder"
    cd "$name" || exit 1
    check "$name: has blocks" eval '(cd blocks && awk -f "$here/blocks.awk" "$source")'
    for at in blocks/*.at; do
        file=$(ls "${at%.at}".[!a]*)
        one "${file##*.}" "$file" "$name, line $(cat "$at")"
    done
    cd "$work" || exit 1
}

# What prints.awk would notice: prints TEXT OUTPUT.
prints() { awk -f "$here/prints.awk" <(printf "$1") <(printf "$2") >out; }
check 'last digits may differ' prints 'loss  0.5\n' 'loss 0.71\n'
check 'lines may be left out' prints 'a\n...\nc d ...\n' 'a\nb\nc d e\n'
check 'whole numbers must be the same' eval '! prints "round 3\n" "round 4\n"'
check 'lines must be there' eval '! prints "a\nb\n" "a\n"'
check 'in their order' eval '! prints "a\nb\n" "b\na\n"'

# links PAGE: what it links to is there.
links() {
    local link
    for link in $(grep -oE '\]\([^)#:]+' "$1" | sed 's/^](//'); do
        [ -e "$(dirname "$1")/$link" ] || { echo "$1: there is no $link" >out; return 1; }
    done
}
for file in "$root"/docs/guide/*.md; do check "links of $(basename "$file")" links "$file"; done
for file in "$root"/docs/guide/[0-9]*.md; do
    check "the index has $(basename "$file")" has "$root/docs/guide/README.md" "($(basename "$file"))"
done

for file in "${pages[@]}"; do page "$file"; done
[ -z "${replaced:-}" ] || echo "$replaced"
count
