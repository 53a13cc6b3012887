#!/bin/sh
# A folder of src may include only what stands above it in src/layers.txt, and files do not include each other in a circle. src/cli
# sees the public headers and src/net, src/mpi only public headers.
set -eu
cd "$(dirname "$0")/.."
order=$(grep -v '^#' src/layers.txt)
bad=0
complain() { echo "layers: $1"; bad=1; }
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT

sources() { find "$@" -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh'; }
# file included, for everything that src includes of itself
sources src | sort | xargs grep -oE '^#include "[a-z_0-9]+/[a-z_0-9/]+\.(h|cuh|inc)"' | sed 's|^src/||; s|:#include "| |; s|"$||' >"$found/includes"

# Folders.
awk 'NR == FNR { if (!/^#/) at[$1] = ++n; next }
     function folder(p) { sub("/[^/]*$", "", p); return p }
     { a = folder($1); b = folder($2)
       if (a ~ "^(cli|mpi)" || !(a in at) && a ~ "^vec/") next
       if (!(a in at)) print "src/" $1 ": folder " a " is not in src/layers.txt"
       else if (!(b in at)) print "src/" $1 " includes " b "/, which is not in src/layers.txt"
       else if (at[b] > at[a]) print "src/" $1 " includes " b "/, which does not stand above " a "/" }' \
    src/layers.txt "$found/includes" | sort -u >"$found/folders"
if [ -s "$found/folders" ]; then sed 's/^/layers: /' "$found/folders"; bad=1; fi

# Files: NAME.c and NAME.h are one.
sed -E 's/\.(c|h|cu|cuh|inc)( |$)/\2/g' "$found/includes" | awk '$1 != $2' | sort -u >"$found/pairs"
if ! tsort "$found/pairs" >/dev/null 2>"$found/circles"; then
    complain "files include each other in a circle:"
    sed 's/^tsort: [^:]*: */    /' "$found/circles"
fi

# A name of a type has one meaning, and a file's name says which file it is. Lists are everywhere.
sources src | grep '\.h$' | sort | xargs grep -oE '^(} |typedef struct [a-z_0-9]+ )fli?_[a-z_0-9]+;' |
    sed -E 's/\.h:.* (fli?_[a-z_0-9]+);$/ \1/' | awk '{ print $2, $1 }' | sort -u | awk '
    $1 == last { print "type " $1 " is defined in " file " and " $2 } { last = $1; file = $2 }' >"$found/types"
if [ -s "$found/types" ]; then sed 's/^/layers: /' "$found/types"; bad=1; fi
find src -name '*.c' ! -path 'src/vec/plain/*' | sed 's|.*/||' | grep -vx 'list\.c' | sort | uniq -d >"$found/twice"
if [ -s "$found/twice" ]; then complain "more than one file is called $(tr '\n' ' ' <"$found/twice")"; fi

# What passes between the server's side and the clients' is in messages: neither sees the other.
if grep -rnE '^#include "(client|executor|engine)/' src/server; then complain "the server's side includes the clients'"; fi
if grep -rnE '^#include "(server|executor|engine)/' src/client; then complain "the clients' side includes the server's"; fi

# MPI is known to src/mpi alone, which needs nothing of the library.
for file in src/mpi/*.[ch]; do
    if grep -n '^#include "' "$file" | grep -vE '"(mpi/|fedloom)'; then complain "$file includes more than public headers"; fi
done
if grep -rnE '^#include ("mpi/|[<"]mpi\.h)' src --include='*.[ch]' | grep -v '^src/mpi/'; then complain "MPI outside src/mpi"; fi

for file in $(sources src/cli); do
    if grep -n '^#include "[a-z_]*/' "$file" | grep -vE '"(net|cli)/'; then complain "$file includes an internal header"; fi
done

# An algorithm poses problems and reads answers: no allocation, output, locks, files or preprocessor conditions.
for file in src/algo/*.c; do
    if grep -nE '\b(malloc|calloc|free|fli_alloc|fli_free|printf|fprintf|fli_log|pthread_[a-z]+|fopen|open)\(|^#if' "$file"; then
        complain "$file does what an algorithm must not"
    fi
done

# The library never prints, exits or aborts.
library=$(sources src | grep -v '^src/cli/' | sort)
if grep -nE '\b(printf|puts|perror|exit|abort|assert)\(' $(echo "$library" | grep '\.c$') | grep -vE 'static_assert|[a-z]printf'; then
    complain "the library prints, exits or aborts"
fi

# Numbers are the same in every locale (base/text.h), and no file gets a standard descriptor (base/file.h).
for file in $(echo "$library" | grep -E '\.(c|inc)$' | grep -vE '^src/(mpi/|base/(number|os)\.c)'); do
    if grep -nE '(^|[^_a-z])(v?sn?printf|strto(d|f|ld)|atof|v?sscanf|is(space|alpha|digit|alnum|upper|lower|print)|to(upper|lower))\(' "$file"; then
        complain "$file reads or writes in the locale of the program"
    fi
    if grep -nE '(^|[^_a-z>])(fopen|open|creat|mkstemp|tmpfile|json_load_file)\(' "$file"; then
        complain "$file opens a file that may get a standard descriptor"
    fi
done

[ "$bad" = 0 ] && echo "layers: ok"
exit "$bad"
