#!/bin/sh
# The models that runs write, read by the lines of Python in docs/library.md: the same predictions as by the library.
# Usage: run.sh PATH-OF-MAKE_MODELS PATH-OF-FEDLOOM
# Needs a python3 that has torch; without one it says so and exits with 77, which means skipped.
set -eu
make_models=${1:?usage: run.sh PATH-OF-MAKE_MODELS PATH-OF-FEDLOOM}
fedloom=${2:?usage: run.sh PATH-OF-MAKE_MODELS PATH-OF-FEDLOOM}
here=$(cd "$(dirname "$0")" && pwd)
python=
for p in ${PYTHON:-} python3 /usr/bin/python3; do
    if "$p" -c 'import numpy, torch' 2>/dev/null; then python=$p; break; fi
done
if [ -z "$python" ]; then echo "skipped: there is no python3 with torch"; exit 77; fi
work=$(mktemp -d "${TMPDIR:-/tmp}/fedloom-torch-XXXXXX")
trap 'rm -rf "$work"' EXIT
"$make_models" "$work"
PYTHONDONTWRITEBYTECODE=1 "$python" "$here/check.py" "$here/../../docs/library.md" "$work"
# What PyTorch has written, if it has: a run that starts from it begins where the other one ended.
for start in "$work"/*.start; do
    [ -e "$start" ] || continue
    name=$(basename "$start" .start)
    "$fedloom" run "$work/$name/config.yaml" --set model.start="$start" --set rounds=0 --set output="$work/again" \
        --force >/dev/null 2>&1
    was=$(tail -1 "$work/$name/metrics.csv" | cut -d, -f3)
    is=$(tail -1 "$work/again/metrics.csv" | cut -d, -f3)
    [ "$was" = "$is" ] || { echo "FAIL  $name: started by PyTorch at $is, not $was"; exit 1; }
done
