# For tests that compile something against a build folder; sourced with that folder. Sets build, here (the script's folder), root,
# cc and sanitize, and has what tests/cli/lib.sh has.
build=$(realpath "${1:?usage: $0 BUILD}")
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
if [ -s "$build/emulator" ]; then echo "skipped: a build for another processor"; exit 77; fi

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
cc=$(cached CMAKE_C_COMPILER)
sanitize=$(cached FEDLOOM_SANITIZE)
. "$root/tests/cli/lib.sh" "$build/fedloom"
