#!/usr/bin/env bash
# The C in the documentation, against the headers and the library of a build folder: what does not compile fails, and programs have
# to run. Usage: run.sh BUILD
#   ```c          the blocks of a section that begins with ## are one file; one with a main is a program
#   ```c inside   statements; around.c has what is around them
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"
flags="-Wall -Wextra -Werror -I$root/include${sanitize:+ -fsanitize=$sanitize}"

# blocks DOCUMENT NAME: NAME-SECTION.c and NAME-LINE.inside
blocks() {
    awk -v name="$2" '
        /^## /             { section++ }
        /^```c$/           { into = name "-" section ".c"; printf "#line %d \"%s\"\n", NR + 1, FILENAME >>into; next }
        /^```c inside$/    { into = name "-" NR ".inside"; printf "#line %d \"%s\"\n", NR + 1, FILENAME >>into; next }
        /^```/             { into = "" }
        into               { print >>into }' "$1"
}

# succeeds COMMAND...: leaves $code, out, err.
succeeds() {
    timeout 120 "$@" >out 2>err </dev/null
    code=$?
    exits 0
}

blocks "$root/docs/library.md" library
blocks "$root/README.md" front
for f in *.inside; do
    check "$f compiles" succeeds "$cc" $flags -Wno-unused -fsyntax-only -DBLOCK="\"$work/$f\"" "$here/around.c"
done
for f in *.c; do
    if grep -q '^int main' "$f"; then
        check "$f compiles" succeeds "$cc" $flags "$f" -L"$build" -lfedloom -lm -Wl,-rpath,"$build" -o "${f%.c}"
        check "$f runs" succeeds "./${f%.c}"
        check "$f has something to say" [ -s out ]
    else
        check "$f compiles" succeeds "$cc" $flags -Wno-unused -fsyntax-only "$f"
    fi
done
check 'the documents have programs' eval '[ "$(grep -l "^int main" library-*.c front-*.c | wc -l)" -ge 4 ]'
check 'and statements' eval '[ "$(ls library-*.inside | wc -l)" -ge 5 ]'

count
