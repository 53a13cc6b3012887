#!/bin/sh
# A folder of src may include only what stands above it in this list. src/cli sees the public headers and src/net, src/mpi only
# public headers.
set -eu
cd "$(dirname "$0")/.."
order="base vec regularizer data model bilevel local device cuda algo exec run report study net"
bad=0
complain() { echo "layers: $1"; bad=1; }

allowed=""
for layer in $order; do
    allowed="$allowed $layer"
    for file in src/"$layer"/*.c src/"$layer"/*.h src/"$layer"/*.inc src/"$layer"/*.cu src/"$layer"/*.cuh; do
        [ -e "$file" ] || continue
        for used in $(sed -n 's|^#include "\([a-z_]*\)/.*|\1|p' "$file" | sort -u); do
            case " $allowed " in
            *" $used "*) ;;
            *) complain "$file includes $used/, which does not stand above $layer/" ;;
            esac
        done
    done
done

# What passes between the server's side and the clients' is in messages: neither sees the other.
if grep -nE '^#include "exec/(clients|store|spill|evaluate|recall|executor|threads|loopback|exec|async)\.h"' src/exec/coordinator.[ch]; then
    complain "the server's side includes the clients'"
fi
for file in src/exec/clients.[ch] src/exec/evaluate.[ch] src/exec/recall.[ch] src/exec/store.[ch] src/exec/spill.[ch]; do
    if grep -nE '^#include "exec/(coordinator|executor|exec|async|latest_model|participation|system)\.h"' "$file"; then
        complain "$file is on the clients' side and includes the server's"
    fi
done

# MPI is known to src/mpi alone, which needs nothing of the library.
for file in src/mpi/*.[ch]; do
    if grep -n '^#include "' "$file" | grep -vE '"(mpi/|fedloom)'; then complain "$file includes more than public headers"; fi
done
if grep -rnE '^#include ("mpi/|[<"]mpi\.h)' src --include='*.[ch]' | grep -v '^src/mpi/'; then complain "MPI outside src/mpi"; fi

for file in src/cli/*.c src/cli/*.h; do
    if grep -n '^#include "[a-z_]*/' "$file" | grep -v '"net/'; then complain "$file includes an internal header"; fi
done

# An algorithm poses problems and reads answers: no allocation, output, locks, files or preprocessor conditions.
for file in src/algo/*.c; do
    if grep -nE '\b(malloc|calloc|free|fli_alloc|fli_free|printf|fprintf|fli_log|pthread_[a-z]+|fopen|open)\(|^#if' "$file"; then
        complain "$file does what an algorithm must not"
    fi
done

# The library never prints, exits or aborts.
for layer in $order mpi; do
    for file in src/"$layer"/*.c; do
        [ -e "$file" ] || continue
        if grep -nE '\b(printf|puts|perror|exit|abort|assert)\(' "$file" | grep -vE 'static_assert|[a-z]printf'; then
            complain "$file prints, exits or aborts"
        fi
    done
done

# Numbers are the same in every locale (base/number.h), and no file gets a standard descriptor (base/file.h).
for layer in $order; do
    for file in src/"$layer"/*.c src/"$layer"/*.inc; do
        case $file in *'*'* | src/base/number.c | src/base/file.c) continue ;; esac
        if grep -nE '(^|[^_a-z])(v?sn?printf|strto(d|f|ld)|atof|v?sscanf|is(space|alpha|digit|alnum|upper|lower|print)|to(upper|lower))\(' "$file"; then
            complain "$file reads or writes in the locale of the program"
        fi
        if grep -nE '(^|[^_a-z>])(fopen|open|creat|mkstemp|tmpfile|json_load_file)\(' "$file"; then
            complain "$file opens a file that may get a standard descriptor"
        fi
    done
done

[ "$bad" = 0 ] && echo "layers: ok"
exit "$bad"
