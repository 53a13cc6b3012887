#!/bin/sh
# The source of a release, as it is committed: dist.sh FOLDER writes FOLDER/fedloom-VERSION.tar.xz and says so. The same
# commit gives the same bytes: names, times and modes are git's, and xz has one thread and no surroundings. debian/ is
# not in it: the packaging has versions of its own, and Debian's tools add it.
set -eu
folder=${1:?usage: $0 FOLDER}
root=$(cd "$(dirname "$0")/.." && pwd)
git -C "$root" rev-parse --verify -q HEAD >/dev/null || { echo "dist: $root is no git checkout" >&2; exit 1; }
[ -z "$(git -C "$root" status --porcelain)" ] || echo "dist: changes that are not committed are left out" >&2

name=fedloom-$(git -C "$root" show HEAD:include/fedloom.h | sed -n 's/^#define FL_VERSION "\(.*\)"/\1/p')
mkdir -p "$folder"
new=$(mktemp "$folder/dist-XXXXXX")
trap 'rm -f "$new"' EXIT
git -C "$root" -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD -- . ':(exclude)debian' >"$new"
env -u XZ_DEFAULTS -u XZ_OPT xz -6 -T1 --check=crc64 <"$new" >"$new.xz"
mv "$new.xz" "$folder/$name.tar.xz"
echo "$folder/$name.tar.xz"
