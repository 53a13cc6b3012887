#!/bin/bash
# What a newcomer meets: a Debian of its own with nothing in it but what README.md asks for, in which what is committed here is built,
# run and tested by the commands of README.md and of the guide. Needs root, debootstrap and a Debian mirror.
#   tools/fresh.sh [STEP...]     all of them, in this order, unless some are named; each needs those that it builds on
#     packages   git, make and gcc; what `make deps` installs; every program that a test calls is then there
#     run        README.md's `make` lines up to `make run`
#     test       `make test`
#     readme     README.md's other commands, one by one, and its C
#     guide      the pages of docs/guide, one by one
#     dist       the release's source by `make dist`, and the same `make` lines in it
# $MIRROR is where packages come from, or else apt's own sources are asked; $SUITE is a release of Debian (bookworm). apt's settings for
# proxies and certificates are taken over. $BASE is a folder that debootstrap has filled before, to be copied. Logs stay in build-fresh.
# All is in a mount and process namespace of its own, so nothing stays mounted or running; the Debian is removed at the end, unless
# $KEEP names a folder for it, which must not be there yet. A command that takes longer than $LIMIT seconds (3600) is ended.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "fresh: only root may make a Debian to change into" >&2; exit 1; }
[ -n "${BASE:-}" ] || command -v debootstrap >/dev/null || { echo "fresh: debootstrap is not installed" >&2; exit 1; }
if [ -z "${FRESH_INSIDE:-}" ]; then
    FRESH_INSIDE=1 exec unshare --mount --pid --fork --kill-child --propagation private "$0" "$@"
fi
[ $# -gt 0 ] || set -- packages run test readme guide dist
for step; do
    case $step in
    packages | run | test | readme | guide | dist) ;;
    *) echo "fresh: there is no step $step" >&2 && exit 2 ;;
    esac
done
suite=${SUITE:-bookworm}
logs=$root/build-fresh
mkdir -p "$logs"
rm -f "$logs"/*.log
bad=0 began=$SECONDS rows=()
if [ -n "${KEEP:-}" ]; then
    [ ! -e "$KEEP" ] || { echo "fresh: $KEEP is there already" >&2; exit 1; }
    there=$KEEP
else
    there=$(mktemp -d /var/tmp/fedloom-fresh-XXXXXX)/debian
fi
tidy() {
    [ $$ != 1 ] || kill -KILL -1 2>/dev/null # all of this namespace
    umount -l "$there/proc" "$there/dev/pts" "$there/dev/shm" 2>/dev/null # what is below $there goes, nothing of the machine
    [ -n "${KEEP:-}" ] || rm -rf --one-file-system "$(dirname "$there")"
}
trap tidy EXIT
trap 'exit 1' INT TERM

# row NAME COMMAND...: a step of the table, with its output in a log; what fails is shown by its last lines.
row() {
    local name=$1 log start=$SECONDS code=0
    shift
    log=$logs/$(printf '%02d' "${#rows[@]}")-$(printf '%s' "$name" | tr -c 'A-Za-z0-9.\n' '-' | cut -c1-60).log
    "$@" >"$log" 2>&1 </dev/null & # so that a signal need not wait for its end
    wait $! || code=$?
    rows+=("$(printf '%8d  %-12s  %s' $((SECONDS - start)) "$([ "$code" = 0 ] && echo ok || echo "exit code $code")" "$name")")
    echo "${rows[-1]}"
    [ "$code" = 0 ] && return
    bad=1
    tail -n 15 "$log" | sed 's/^/          | /'
    return 1
}

# inside FOLDER COMMAND: by a shell of the Debian, as after a login.
inside() {
    env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        timeout -k 10 "${LIMIT:-3600}" chroot "$there" /bin/bash -c "cd '$1' && $2"
}

mirror() {
    [ -z "${MIRROR:-}" ] || { echo "$MIRROR"; return; }
    apt-get indextargets --format '$(RELEASE) $(REPO_URI) $(CREATED_BY)' 2>/dev/null | sed -n "s/^$suite \(.*\) Packages$/\1/p" | head -n 1
}
debian() {
    if [ -n "${BASE:-}" ]; then
        cp -a "$BASE" "$there" || return
    else
        local from
        from=$(mirror)
        [ -n "$from" ] || { echo "apt has no source of $suite; set MIRROR"; return 1; }
        debootstrap --variant=minbase "$suite" "$there" "$from" || return
    fi
    cp /etc/resolv.conf /etc/hosts "$there/etc/"
    apt-config dump | grep -E '^(Acquire::[^ ]*(Proxy|CaInfo|CaPath|Verify|Check-Valid)[^ ]*) ' >"$there/etc/apt/apt.conf.d/90machine"
    if grep -q 'https:' "$there/etc/apt/sources.list" 2>/dev/null || grep -qi cainfo "$there/etc/apt/apt.conf.d/90machine"; then
        mkdir -p "$there/etc/ssl/certs" && cp -L /etc/ssl/certs/ca-certificates.crt "$there/etc/ssl/certs/"
    fi
    mount -t proc proc "$there/proc" && mount -t devpts -o newinstance,ptmxmode=0666 devpts "$there/dev/pts" &&
        mkdir -p "$there/dev/shm" && mount -t tmpfs tmpfs "$there/dev/shm" && ln -sf pts/ptmx "$there/dev/ptmx"
}
checkout() {
    [ -z "$(git -C "$root" status --porcelain)" ] || echo "changes that are not committed are left out"
    git -c safe.directory='*' clone -q --no-hardlinks "file://$root" "$there/root/fedloom" &&
        git -C "$there/root/fedloom" remote remove origin
    chown -R 0:0 "$there/root/fedloom"
}

# The commands of README.md, which are indented by four, with the line's number; a file that `cat` writes is one of them.
commands() { # run | test | other
    awk -v which="$1" '
        function say(kind, line) { if (which == kind) print FNR "\t" line }
        !/^    /                  { next }
                                  { line = substr($0, 5) }
        file != ""                { file = file "\\n" line; if (line == "END") { say("other", file); file = "" } next }
        line ~ /^cat >.*<<.*END/  { file = line; next }
                                  { sub(/ +#.*/, "", line) }
        line ~ /^make (deps|run)$/ { say("run", line) }
        line == "make test"       { say("test", line) }
        line ~ /^build\/fedloom /  { say("other", line) }' "$root/README.md"
}
# every PLACE FOLDER: those commands, as steps.
every() {
    local number command ok=0
    while IFS=$'\t' read -r -u 3 number command; do
        row "$3README.md:$number $(printf '%.60s' "${command%%\\n*}")" inside "$2" "$(printf '%b' "$command")" || ok=1
    done 3< <(commands "$1")
    return "$ok"
}

programs() {
    row 'git, make and gcc' inside / 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends git make gcc' &&
        row 'clone' checkout &&
        row 'packages' inside /root/fedloom 'make deps' &&
        row 'the programs that tests call' inside /root/fedloom 'tools/check-programs.sh --installed'
}
readme() {
    every other /root/fedloom ''
    row "README.md's deployment" inside /root/fedloom 'tests/docs/deploy.sh build'
    row "README.md's C" inside /root/fedloom 'make build && tests/docs/run.sh build'
}
guide() {
    local page
    for page in "$root"/docs/guide/[0-9]*.md; do
        page=$(basename "$page")
        row "guide/$page" inside /root/fedloom "tests/guide/run.sh build/fedloom docs/guide/$page"
    done
}
dist() {
    row 'make dist' inside /root/fedloom 'make dist && rm -rf ../dist && mkdir ../dist && tar xf build-dist/*.tar.xz -C ../dist --strip-components=1' &&
        every run /root/dist 'the release: ' && every test /root/dist 'the release: '
}

main() {
    echo ' seconds  result        step'
    if row "debootstrap $suite" debian && programs; then
        for step in "$@"; do
            case $step in
            packages) ;;
            run | test) every "$step" /root/fedloom '' ;;
            readme) readme ;;
            guide) guide ;;
            dist) dist ;;
            esac
        done
    fi
    echo
    echo "in all $((SECONDS - began)) seconds, $([ "$bad" = 0 ] && echo 'all is well' || echo 'with failures'); the logs are in $logs"
    exit "$bad"
}
main "$@" # by now all of the file has been read, whatever becomes of it
