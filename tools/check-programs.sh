#!/bin/sh
# Every program that a test, a script, a recipe or a page of the guide calls must come from a package that is there: one of every
# Debian, or one that tools/install-deps.sh installs for whoever calls it. A script that asks first (command -v) may do without.
# The table below says which package has which program; a program that is not in it fails.
#   tools/check-programs.sh               the check
#   tools/check-programs.sh --without PACKAGE   the same, as if no list had this package
#   tools/check-programs.sh --installed   the programs that a plain build and `make test` call are on this machine
set -eu
cd "$(dirname "$0")/.."
without=
[ "${1:-}" != --without ] || without=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "debian" is what every installation has (debootstrap's minbase), "readme" what README.md asks for before anything is installed,
# "elsewhere" what is no package of Debian's and is named to its script. Some programs are of what a package depends on.
sed '/^#/d' >"$work/packages" <<'END'
debian apt-config apt-get awk basename bash cat chmod chown chroot cmp comm cp cut date dd diff dirname dpkg-deb dpkg-query env expr find grep gzip head id
debian kill ldconfig ldd ln localedef ls mkdir mktemp mount mountpoint mv nproc od paste perl printf pwd realpath rm script sed seq setsid sh sha1sum sha256sum
debian sleep sort stat stty tail tar tee test timeout touch tr true tsort false umount uniq unshare wc xargs
readme git
elsewhere flower-superlink flwr nvidia-smi
binutils nm readelf strip
clang clang
clang-format clang-format
clang-tidy clang-tidy
cmake cmake ctest
debhelper dh dh_auto_configure dh_compress dh_installdocs dh_installsystemd
debootstrap debootstrap
chrpath chrpath
dpkg-dev dpkg-buildpackage
fish fish
g++ c++ g++
gcc cc gcc nm readelf
gnutls-bin certtool
groff groff
iproute2 ip
librsvg2-bin rsvg-convert
lintian lintian
make make
man-db man
openmpi-bin mpirun
openssl openssl
pkg-config pkg-config
procps pgrep pkill ps
python3 python3
sudo sudo
systemd systemd-analyze
xz-utils xz
zsh zsh
END

# The lists of install-deps.sh, as lines "LIST PACKAGE".
for list in plain dev python deb aarch64; do
    option=--$list
    [ "$list" != plain ] || option=
    tools/install-deps.sh --list $option | tr ' ' '\n' | grep -vxF "$without" | sed "s/^/$list /"
done >"$work/lists"
printf 'plain %s\n' debian readme >>"$work/lists"

# What is in the release's source alone has no git, and no folders of a build.
scripts=$(find Makefile .ci bench debian docs/guide packaging python tests tools -type f \( -name '*.sh' -o -name '*.bash' -o -path '.ci/run' -o -name pre-commit \
    -o -path 'debian/rules' -o -path 'debian/tests/compile' -o -path 'docs/guide/*.md' -o -name Makefile \) 2>/dev/null | sort)
awk -f tools/programs.awk $scripts README.md $(grep -lE '\<(system|popen)\(' tests/*/*.c) >"$work/words"
[ "$(grep -c ' call ' "$work/words")" -gt 1000 ] || { echo "programs: tools/programs.awk finds hardly any calls" >&2; exit 1; }

# Who may rely on which list beside the plain one, and words of bash.
cat >"$work/may" <<'END'
Makefile dev
.ci/run dev
docs/guide/08-cluster.md dev
bench/ dev
python/ python
tools/deb.sh deb
debian/ deb
tools/aarch64-sysroot.sh aarch64
END
bash -c 'compgen -bk' >"$work/builtins"

awk '
    FILENAME ~ /builtins$/ { own[$1] = 1; next }
    FILENAME ~ /packages$/ { for (i = 2; i <= NF; i++) package[$i] = package[$i] " " $1; next }
    FILENAME ~ /lists$/    { listed[$1, $2] = 1; next }
    FILENAME ~ /may$/      { prefix[++prefixes] = $1; list[prefixes] = $2; next }
    $2 == "define"         { own[$3] = 1; next }
    {
        file = $1
        sub(/:[0-9]*$/, "", file)
        if ($2 == "guard") { guarded[file, $3] = 1; next }
        call[++calls] = $1; of[calls] = file; kind[calls] = $2; name[calls] = $3
    }
    function there(file, program,    n, which, i, k) {
        n = split(package[program], which, " ")
        for (i = 1; i <= n; i++) {
            if (("plain", which[i]) in listed) { plainly[program] = 1; return 1 }
            for (k = 1; k <= prefixes; k++)
                if (index(file, prefix[k]) == 1 && (list[k], which[i]) in listed) return 1
            if (which[i] == "elsewhere" && index(file, "bench/") == 1) return 1
        }
        return 0
    }
    END {
        for (i = 1; i <= calls; i++) {
            p = name[i]; f = of[i]
            # a word may be anything, but after a name that runs its arguments (check, succeeds) a known program is one; sudo is for people
            if (p in own || (kind[i] == "word" && (!(p in package) || f !~ /^tests\// || package[p] ~ /debian|readme|sudo/))) continue
            if ((f, p) in guarded || ((f, p) in said)) continue
            said[f, p] = 1
            if (!(p in package)) { print "programs: " call[i] ": no package is known to have " p " (tools/check-programs.sh has the table)"; bad = 1 }
            else if (!there(f, p)) {
                print "programs: " call[i] ": " p " is in" package[p] ", which tools/install-deps.sh does not install for it"
                bad = 1
            }
        }
        for (p in plainly) print p >needed
        exit bad
    }' needed="$work/needed" "$work/builtins" "$work/packages" "$work/lists" "$work/may" "$work/words"

if [ "${1:-}" = --installed ]; then
    missing=""
    for p in $(cat "$work/needed"); do command -v "$p" >/dev/null || missing="$missing $p"; done
    [ -z "$missing" ] || { echo "programs: not on this machine:$missing" >&2; exit 1; }
    echo "programs: $(wc -l <"$work/needed") are here"
    exit
fi
[ -n "$without" ] || ! "$0" --without xz-utils >/dev/null || { echo "programs: a package that is missing is not noticed" >&2; exit 1; }
echo "programs: ok"
