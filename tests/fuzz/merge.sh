#!/bin/sh
# merge.sh BUILD [TARGET ...]: what searches have found (BUILD/corpus) and what is packed here, reduced by libFuzzer to what covers as
# much, becomes corpus/TARGET.tar.xz. Targets that have found nothing stay as they are.
set -eu
build=$(realpath "${1:?usage: $0 BUILD [TARGET ...]}")
shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- $(cd "$here" && ls fuzz_*.c | sed 's/[.]c$//')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name; do
    [ -n "$(ls "$build/corpus/$name" 2>/dev/null)" ] || continue
    mkdir "$work/packed" "$work/new"
    [ ! -e "$here/corpus/$name.tar.xz" ] || tar xf "$here/corpus/$name.tar.xz" -C "$work/packed"
    "$build/tests/fuzz/$name" -merge=1 -detect_leaks=0 "$work/new" "$work/packed" "$build/corpus/$name" >"$work/log" 2>&1 ||
        { tail -20 "$work/log"; exit 1; }
    "$here/pack.sh" "$work/new" "$here/corpus/$name.tar.xz"
    rm -r "$work/packed" "$work/new"
done
