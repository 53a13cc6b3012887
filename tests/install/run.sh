#!/usr/bin/env bash
# An installation as others meet it: installs a build folder, moves the outcome somewhere else, and builds and runs every example
# that came with it, by pkg-config and by CMake, with the shared and with the static library. Usage: run.sh BUILD
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"
flags="-Wall -Wextra -Werror${sanitize:+ -fsanitize=$sanitize}"
prefix=$work/moved/here
program=$prefix/bin/fedloom
libdir=$prefix/$(cached CMAKE_INSTALL_LIBDIR)
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
unset FEDLOOM_EXPERIMENTS

# succeeds COMMAND...: leaves $code, out, err.
succeeds() {
    "$@" >out 2>err </dev/null
    code=$?
    exits 0
}

check 'installs' succeeds cmake --install "$build" --prefix "$work/first"
mkdir moved
mv first moved/here
mkdir empty bin

# ---- the files ----------------------------------------------------------------------------------------------

run_path() { readelf -d "$1" | sed -n 's/.*R.*PATH.*\[\(.*\)\]/\1/p'; }
for f in "$program" "$libdir/libfedloom.so"; do
    run_path "$f" >out
    check "${f##*/}: no run path into the build" lacks out "$build"
    check "${f##*/}: a run path to OpenBLAS" has out "$(dirname "$(cached OPENBLAS_LIBRARY)")"
done
mentions() { grep -rIlF -e "$1" "$prefix" >out; }
for place in "$build" "$root" "$work/first"; do check "no file mentions $place" eval '! mentions "$place"'; done

readelf -d "$libdir/libfedloom.so" >out
check 'libfedloom.so has its name' has out "Library soname: [libfedloom.so.0]"
nm -D --defined-only "$libdir/libfedloom.so" | grep -v ' T fl_' >out
check 'libfedloom.so exports functions of its own alone' silent out
check 'what shells complete with is there' eval '[ -s "$prefix/share/bash-completion/completions/fedloom" ] &&
    [ -s "$prefix/share/zsh/site-functions/_fedloom" ] && [ -s "$prefix/share/fish/vendor_completions.d/fedloom.fish" ]'
check 'the manual pages are there' eval '[ -s "$prefix/share/man/man1/fedloom.1" ] && [ -s "$prefix/share/man/man5/fedloom-config.5" ]'

for header in "$prefix"/include/*.h; do
    name=${header##*/}
    check "$name is C11 by itself" succeeds "$cc" -std=c11 -pedantic $flags -fsyntax-only -x c "$header"
    if command -v c++ >/dev/null; then
        check "$name is C++ by itself" succeeds c++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c++ "$header"
    fi
done

# Traits of different kinds go together, and structs are made without designated initialisers.
if command -v c++ >/dev/null; then
    cat >use.cpp <<EOF
#include <fedloom_extend.h>
fl_status use(fl_ctx *ctx)
{
    fl_method m = {};
    fl_objective o = {};
    m.size = sizeof m, o.size = sizeof o;
    m.traits = FL_SERIAL | FL_METHOD_EVERYONE;
    o.traits = FL_SERIAL | FL_OBJECTIVE_CONVEX;
    return fl_method_register(ctx, &m) ? FL_ECONFIG : fl_objective_register(ctx, &o);
}
EOF
    check 'the headers in C++20' succeeds c++ -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" use.cpp
fi

# ---- the program --------------------------------------------------------------------------------------------

cd empty
expect 0 'federated methods' list
expect 0 "fedloom $(pkg-config --modversion fedloom)" --version
expect 0 'vra-table3-iid' reproduce
cd ..

# ---- several processes --------------------------------------------------------------------------------------

if [ -e "$libdir/libfedloom_mpi.so" ] && command -v mpirun >/dev/null; then
    run_path "$libdir/libfedloom_mpi.so" >out
    check 'libfedloom_mpi.so: no run path into the build' lacks out "$build"
    nm -D --defined-only "$libdir/libfedloom_mpi.so" | grep -v ' T fl_mpi_' >out
    check 'libfedloom_mpi.so exports functions of its own alone' silent out
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    check 'two processes make a run' succeeds mpirun --oversubscribe -n 2 "$program" run \
        "$prefix/share/fedloom/examples/digits.yaml" --set rounds=1 --output ranks
fi

# ---- units --------------------------------------------------------------------------------------------------

# As they are, but for the place of the program, which systemd looks for where the system has its own.
units=$(find "$prefix" -name 'fedloom-*.service')
check 'there are two units' [ "$(echo "$units" | wc -l)" -eq 2 ]
if command -v systemd-analyze >/dev/null; then
    mkdir units
    for unit in $units; do
        name=$(basename "$unit" | sed 's/@/@alice/')
        sed "s|^ExecStart=fedloom |ExecStart=$program |" "$unit" >"units/$name"
        check "$name: has a command" has "units/$name" "ExecStart=$program "
        check "$name: systemd understands it" succeeds systemd-analyze verify --man=no "./units/$name"
        check "$name: and has nothing to say" eval 'silent out && silent err'
    done
    echo 'Restrt=always' >>"units/$name"
    succeeds systemd-analyze verify --man=no "./units/$name"
    check 'a mistake in a unit would be noticed' has err 'Restrt'
fi

# ---- the examples -------------------------------------------------------------------------------------------

static() { pkg-config --static --cflags --libs fedloom | sed 's/-lfedloom/-l:libfedloom.a/'; }
for source in "$prefix"/share/fedloom/examples/*.c; do
    name=$(basename "$source" .c)
    check "$name by pkg-config" succeeds "$cc" $flags "$source" $(pkg-config --cflags --libs fedloom) -o "bin/$name-shared"
    check "$name by pkg-config --static" succeeds "$cc" $flags "$source" $(static) -o "bin/$name-static"
done
check 'CMake finds fedloom' succeeds cmake -S "$here" -B project -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DWANTED="$(pkg-config --modversion fedloom)" -DEXAMPLES="$prefix/share/fedloom/examples" -DCMAKE_C_FLAGS="$flags" \
    -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$work/bin"
check 'and builds with it' succeeds cmake --build project -j "$(nproc)"

# try PROGRAM: runs it in a folder of its own and leaves its exit code and output there.
try() {
    mkdir -p "tried/$1"
    cd "tried/$1" || exit
    timeout 120 "$work/bin/$1" >out 2>err </dev/null
    echo $? >code
}
export -f try
export work
ls bin | xargs -P "$(nproc)" -I {} bash -c 'try {}'
check 'there are examples' [ -d tried ]
for d in tried/*; do
    cp "$d/out" "$d/err" .
    code=$(cat "$d/code")
    check "${d##*/} runs" exits 0
    check "${d##*/} has something to say" [ -s out ]
    case $d in
    *-shared) check "${d##*/} has the shared library" eval 'ldd "bin/${d##*/}" | grep -qF "$libdir/libfedloom.so.0"' ;;
    *-static) check "${d##*/} has the static library" eval '! ldd "bin/${d##*/}" | grep -q libfedloom' ;;
    esac
done

# ---- as a plugin --------------------------------------------------------------------------------------------

check 'load.c compiles' succeeds "$cc" -D_GNU_SOURCE $flags -I"$prefix/include" "$here/load.c" -pthread -ldl -o load
check 'a thread loads, uses and unloads it' succeeds ./load "$libdir/libfedloom.so"

# Another BLAS, of which runs in single precision need nothing.
if [ -z "$sanitize" ]; then
    echo 'void cblas_dgemm(void); void cblas_dgemm(void) {}' >blas.c
    check 'another BLAS compiles' succeeds "$cc" -shared -fPIC blas.c -o libother.so
    check 'another BLAS comes first' succeeds env LD_PRELOAD="$work/libother.so" "$program" run \
        "$prefix/share/fedloom/examples/digits.yaml" --set rounds=1 --output other
    check 'which is said' has err "matrices are multiplied by $work/libother.so"
    check 'and written down' has other/manifest.json 'BLAS of libother.so'
fi

count
