#!/bin/sh
# The generated pages in docs/ must be what the program of a build folder prints about itself: fails with a diff where they are
# not. --write renews them (make docs). Every method must be named in README.md and docs/architecture.md, in whatever
# spelling. Links lead somewhere (check-links.py). Manual pages are also formatted, where man is there, and must do so without warnings.
#   tools/check-docs.sh [--write] BUILD
set -eu
write=0
[ "${1:-}" = --write ] && { write=1; shift; }
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
bad=0

page() { # page FILE OPTIONS...
    file=$1
    shift
    "$build/fedloom" list "$@" >"$new/$file"
    if [ "$write" = 1 ]; then
        cmp -s "$new/$file" "$root/docs/$file" || { cp "$new/$file" "$root/docs/$file" && echo "docs/$file: renewed"; }
    else
        diff -u "$root/docs/$file" "$new/$file" || { echo "docs: docs/$file is not current, run make docs"; bad=1; }
    fi
}

page reference.md --markdown
page fedloom.1 --man 1
page fedloom-config.5 --man 5

if command -v man >/dev/null && command -v groff >/dev/null; then
    for file in fedloom.1 fedloom-config.5; do
        man --warnings -E UTF-8 -l "$new/$file" 2>"$new/warnings" >/dev/null || :
        if [ -s "$new/warnings" ]; then
            sed "s|^|docs/$file: |" "$new/warnings"
            bad=1
        fi
    done
fi

plain() { tr 'A-Z' 'a-z' | tr -d ' -'; }
for file in README.md docs/architecture.md; do
    plain <"$root/$file" >"$new/text"
    for method in $("$build/fedloom" list algorithms | sed '/^$/,$d' | cut -d ' ' -f 1 | plain); do
        grep -q "$method" "$new/text" || { echo "docs: $file does not name the method $method"; bad=1; }
    done
done

python3 -B "$root/tools/check-links.py" || bad=1

[ "$bad" = 0 ] && echo "docs: ok"
exit "$bad"
