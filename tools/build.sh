#!/bin/sh
# Builds targets of a configured build folder with one line of progress: rewritten in place on a terminal, elsewhere a line per fifth.
# What compilers have to say is printed as it is.
#   tools/build.sh BUILD JOBS TARGET...
set -eu
build=$1 jobs=$2
shift 2
moves=0
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then moves=1; fi

# show PERCENT FILE
show() {
    if [ "$moves" = 1 ]; then
        printf '\r%s: %3d %%  %.50s\033[K' "$build" "$1" "$2"
        painted=1
    elif [ "$1" -ge "$next" ]; then
        printf '%s: %d %%\n' "$build" "$1"
        next=$(($1 / 20 * 20 + 20))
    fi
}

wipe() {
    [ "$painted" = 0 ] || printf '\r\033[K'
    painted=0
}

# follow: reads what make or ninja print; the last line is the exit code.
follow() {
    painted=0 next=0 code=1
    while IFS= read -r line; do
        case $line in
        "["*%"] Built target "* | "["*%"] Generating "* | "Consolidate compiler generated dependencies "* | "Scanning dependencies "* | \
            *" warning: jobserver unavailable: using -j1."* | "ninja: Entering directory "* | "ninja: no work to do.") ;;
        "["*%"] "*) # make: [ 12%] Building C object CMakeFiles/x.dir/src/a.c.o
            percent=${line%%\%*} text=${line#*\] }
            show "${percent##*[[ ]}" "${text##*.dir/}"
            ;;
        "["*/*"] "*) # ninja: [12/400] Building C object CMakeFiles/x.dir/src/a.c.o
            line=${line#\[} text=${line#*\] }
            made=${line%%/*} total=${line#*/}
            show $((100 * made / ${total%%\]*})) "${text##*.dir/}"
            ;;
        "exit code "*) code=${line#exit code } ;;
        *)
            wipe
            printf '%s\n' "$line"
            ;;
        esac
    done
    wipe
    return "$code"
}

# make's own colours would be in the way; what it prints goes into a pipe.
{ TERM=dumb cmake --build "$build" -j "$jobs" --target "$@" 2>&1 && echo 'exit code 0' || echo "exit code $?"; } | follow
