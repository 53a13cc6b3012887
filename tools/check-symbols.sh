#!/bin/sh
# Three lists must be one: the functions that the public headers declare, those that the shared library of a build folder exports,
# and tools/symbols.txt, so that a function which appears or goes is seen in review. --write renews the file,
# and the list of Debian's package, which also says since when a function is there.
#   tools/check-symbols.sh [--write] BUILD
set -eu
write=0
[ "${1:-}" = --write ] && { write=1; shift; }
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-build}
case $build in /*) ;; *) build=$root/$build ;; esac
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
export LC_ALL=C
bad=0

# gcc can write down all that was declared, a prototype per line. What begins with fl_mpi_ is in a library of its own.
cat "$root"/include/*.h | gcc -std=c11 -I "$root/include" -fsyntax-only -x c -aux-info "$new/prototypes" -
sed -n 's/^[^(]*[ *]\(fl_[a-z0-9_]*\) (.*/\1/p' "$new/prototypes" | sort -u >"$new/all"
grep -v '^fl_mpi_' "$new/all" >"$new/declared"
grep '^fl_mpi_' "$new/all" >"$new/declared-mpi"
nm -D --defined-only "$build/libfedloom.so" | sed 's/.* //' | sort >"$new/exported"
# A new function is there since this version, for Debian's packages.
renew_debian() {
    version=$(sed -n 's/^#define FL_VERSION "\(.*\)"/\1/p' "$root/include/fedloom.h")
    awk -v version="$version" 'NR == FNR { since[$1] = $2; if (FNR == 1) print; next }
        { name = $1 "@Base"; print " " name, name in since ? since[name] : version }' \
        "$root/debian/libfedloom0.symbols" "$new/exported" >"$new/symbols"
    cmp -s "$new/symbols" "$root/debian/libfedloom0.symbols" && return
    cp "$new/symbols" "$root/debian/libfedloom0.symbols" && echo "debian/libfedloom0.symbols: renewed"
}

if [ "$write" = 1 ]; then
    cmp -s "$new/exported" "$root/tools/symbols.txt" || { cp "$new/exported" "$root/tools/symbols.txt" && echo "tools/symbols.txt: renewed"; }
    renew_debian
fi

none() { # none WHAT-THEY-ARE NAMES...
    what=$1
    shift
    [ "$#" = 0 ] || { echo "symbols: $what: $*" && bad=1; }
}
none "exported, but in no public header" $(comm -13 "$new/declared" "$new/exported")
none "declared, but not in the library" $(comm -23 "$new/declared" "$new/exported")
if [ -e "$build/libfedloom_mpi.so" ]; then
    nm -D --defined-only "$build/libfedloom_mpi.so" | sed 's/.* //' | sort >"$new/exported-mpi"
    none "in libfedloom_mpi.so or fedloom_mpi.h, but not in both" $(comm -3 "$new/declared-mpi" "$new/exported-mpi")
fi
none "exported, but not in tools/symbols.txt" $(comm -13 "$root/tools/symbols.txt" "$new/exported")
none "in tools/symbols.txt, but not exported" $(comm -23 "$root/tools/symbols.txt" "$new/exported")

[ "$bad" = 0 ] && echo "symbols: ok"
exit "$bad"
