#!/bin/sh
# Installs the Debian packages that fedloom is built with and run on, if any is missing. Needs root or sudo only then; without them it
# prints the command for root. --first goes on all the same then; --check installs nothing, and names what is missing.
# The C++ compiler is for tests of CUDA kernels. --dev adds what the checks need: clang, clang-format, clang-tidy, a browser for the
# report's test, rsvg-convert for PNG, YAML for Python, MPI, shells that complete; --aarch64 the compiler and the emulator for 64-bit ARM;
# --deb what makes Debian packages. --list, before one of these or alone, prints the packages and installs nothing.
# tools/check-programs.sh holds the lists to the programs that tests and scripts call.
set -eu
list=0
[ "${1:-}" != --list ] || { list=1; shift; }
packages="cmake make gcc g++ libc6-dev pkg-config libopenblas-pthread-dev libdnnl-dev zlib1g-dev liblzma-dev libyaml-dev libjansson-dev
          libpng-dev libjpeg62-turbo-dev libmicrohttpd-dev libgnutls28-dev libcurl4-gnutls-dev nettle-dev libcmocka-dev dataset-fashion-mnist
          xz-utils python3"
case ${1:-} in
--dev) packages="$packages clang libclang-rt-14-dev clang-format clang-tidy chromium librsvg2-bin libopenmpi-dev openmpi-bin zsh fish python3-yaml" ;;
--python) packages="$packages python3-dev python3-venv python3-pip python3-numpy python3-scipy python3-pandas python3-matplotlib python3-torch" ;;
--deb) packages="$packages chrpath debhelper dpkg-dev fakeroot libopenmpi-dev lintian" ;;
--aarch64) packages="$packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" ;;
esac
if [ "$list" = 1 ]; then
    echo $packages
    exit
fi

missing=""
for p in $packages; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

by_hand="apt-get install --no-install-recommends$missing"
cannot=""
command -v apt-get >/dev/null || cannot="there is no apt-get here: install what these Debian packages are called on this system:$missing"
sudo=""
if [ "$(id -u)" != 0 ]; then
    sudo=sudo
    command -v sudo >/dev/null || : "${cannot:="packages are missing, and neither root nor sudo is there to install them; as root: $by_hand"}"
fi
case ${1:-} in
--check)
    echo "${cannot:-"packages are missing, which \`make deps\` installs:$missing"}" >&2
    exit
    ;;
--first) # the build tells whether it can do without them
    [ -z "$cannot" ] || { echo "$cannot" >&2; exit 0; }
    ;;
esac
[ -z "$cannot" ] || { echo "$cannot" >&2; exit 1; }
echo "installing by ${sudo:+sudo }apt-get, which may take a minute:$missing"
# A package list fetched earlier may be stale or absent: ask for the packages first, refresh and ask again if that fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >"$log" 2>&1; }
install || { $sudo apt-get update >"$log" 2>&1 && install; } || {
    cat "$log" >&2
    echo "the packages could not be installed; ${sudo:+as root: }$by_hand" >&2
    exit 1
}
