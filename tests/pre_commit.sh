#!/usr/bin/env bash
# tools/pre-commit in a repository made for it: what it lets in, what it formats, and what it refuses. Usage: pre_commit.sh PATH-OF-HOOK
set -u
. "$(dirname "$0")/cli/lib.sh"
command -v git >/dev/null || { echo "skipped: git is not installed"; exit 77; }
command -v clang-format >/dev/null || { echo "skipped: clang-format is not installed"; exit 77; }
root=$(dirname "$(dirname "$program")")
unset ${!GIT_@}
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=one GIT_AUTHOR_EMAIL=one@localhost
export GIT_COMMITTER_NAME=one GIT_COMMITTER_EMAIL=one@localhost
unset BUILD

git init -q repository && cd repository || exit 1
mkdir src tools build
cp "$program" "$root/tools/tidy.sh" tools
cp "$root/.clang-format" "$root/.clang-tidy" .
echo /build/ >.gitignore
printf 'int one(void);\n\nint one(void) { return 1; }\n' >src/good.c
git add -A && git commit -q -m start
ln -s ../../tools/pre-commit .git/hooks/pre-commit

# commit ARGS...: leaves $code, out, err and $before, the commit of before.
commit() {
    before=$(git rev-parse HEAD)
    git commit -q -m 'a change' "$@" >out 2>err
    code=$?
}
new() { [ "$(git rev-parse HEAD)" != "$before" ]; }
old() { ! new; }
refused() { # WHAT TEXT
    check "$1: it is refused" exits 1
    check "$1: nothing is committed" old
    check "$1: it says \"$2\"" has <(cat out err) "$2"
}
passes() { # WHAT
    check "$1: it passes" exits 0
    check "$1: it is committed" new
}
good='int two(void);\n\nint two(void) { return 2; }\n'
bad='int two(void);\nint two( void )\n{ return 2;}\n'

printf "$good" >src/two.c
git add -A && commit
passes 'a formatted file'

printf "$bad" >src/two.c
git add -A && commit
refused 'a file that is not formatted' 'src/two.c is formatted now: look at it, git add it, and commit again'
check 'a file that is not formatted: it is now' clang-format --dry-run -Werror src/two.c
git add -A && commit
passes 'the file, added again'

printf "$bad" >'src/a name.h'
git add -A && commit
refused 'a name with a space' 'src/a name.h is formatted now'
git rm -qf 'src/a name.h'

echo 'int three(void);' >src/three.h
git add -A
printf "$bad" >src/three.h
cp src/three.h rough
commit
passes 'what is staged is formatted, what is not staged is not'
check 'what is not staged stays as it is' same src/three.h rough
git add src/three.h && printf "$good" >src/three.h
commit
refused 'what is staged is not formatted, what is not staged is' 'src/three.h is formatted now'
commit -a
passes 'commit -a'

{ printf '/*'; printf ' word%.0s' $(seq 40); printf ' */\n'; } >src/long.h
git add src/long.h && commit
refused 'a long line' 'src/long.h:1: longer than 120 columns'
git rm -qf src/long.h

echo 'a line ' >notes.md
git add notes.md && commit
refused 'a space at the end of a line' 'notes.md:1: trailing whitespace'
git rm -qf notes.md

printf '#!/bin/sh\nif true; then\n' >tools/script
git add tools/script && commit
refused 'a script that does not parse' 'tools/script does not parse'
printf '#!/bin/sh\nif true; then :; fi\n' >tools/script
git add tools/script && commit
passes 'a script that parses'

git mv src/two.c src/zwei.c && git rm -q tools/script && commit
passes 'a file that is renamed, one that is removed'

# By clang-tidy go sources that the build folder compiles, and no others.
if command -v clang-tidy >/dev/null; then
    printf 'int odd(int x);\n\nint odd(int x)\n{\n    if (x)\n        ;\n    return x;\n}\n' | tee src/odd.c >odd.c
    clang-format -i src/odd.c odd.c
    git add -A && commit
    passes 'no build folder: no clang-tidy'
    printf '[\n{\n  "directory": "%s/build",\n  "command": "cc -c %s",\n  "file": "%s"\n}\n]\n' \
        "$PWD" "$PWD/src/odd.c" "$PWD/src/odd.c" >build/compile_commands.json
    echo '/* once more */' | tee -a odd.c >>src/zwei.c
    git add -A && commit
    passes 'files that the build folder does not compile'
    echo '/* once more */' >>src/odd.c
    git add -A && commit
    refused 'a source with a finding' 'bugprone-suspicious-semicolon'
    printf 'int odd(int x);\n\nint odd(int x) { return x; }\n' >src/odd.c
    git add -A && commit
    passes 'a source without'
fi

count
