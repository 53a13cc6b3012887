#!/usr/bin/env bash
# clang-tidy with the checks of .clang-tidy, on the C files of src that a configured build folder compiles: all of them, or those of
# the named files that are among them. Whatever it finds is an error.
#   tools/tidy.sh BUILD [FILE...]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
build=$(realpath "${1:?usage: $0 BUILD [FILE...]}")
shift
command -v clang-tidy >/dev/null || { echo "tidy: clang-tidy is not installed; tools/install-deps.sh --dev installs it" >&2; exit 1; }
[ -e "$build/compile_commands.json" ] || { echo "tidy: $build is not configured; make does that" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | grep "^$root/src/.*\.c$" | sort -u >"$work/compiled"
if [ $# -gt 0 ]; then
    realpath -qe "$@" | sort -u | comm -12 - "$work/compiled" >"$work/files"
else
    cp "$work/compiled" "$work/files"
fi
cd "$root"
xargs -r -d '\n' -P "${JOBS:-$(nproc)}" -n 4 clang-tidy -p "$build" --quiet <"$work/files" >"$work/found" 2>"$work/said" || {
    cat "$work/found"
    grep -vE '^([0-9]+ warnings? (generated|treated as error)|Suppressed )' "$work/said" || :
    exit 1
}
echo "tidy: $(wc -l <"$work/files") files, ok"
