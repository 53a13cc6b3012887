#!/bin/sh
# Debian packages of what is committed, source and binary, in FOLDER, and what lintian says of them: an error there is
# one here. Nothing of the working tree is in the way: they are built from the release's source. Usage: deb.sh FOLDER
set -eu
folder=${1:?usage: $0 FOLDER}
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$folder"
tarball=$(realpath "$("$root/tools/dist.sh" "$folder")")
cd "$folder"
name=$(basename "$tarball" .tar.xz)
mv "$tarball" "fedloom_${name#fedloom-}.orig.tar.xz"
tar xf "fedloom_${name#fedloom-}.orig.tar.xz"
git -C "$root" archive HEAD debian | tar x -C "$name"
(cd "$name" && dpkg-buildpackage -us -uc -j"${JOBS:-$(nproc)}") >build.log 2>&1 || { tail -n 40 build.log; exit 1; }
rm -rf "$name"
lintian --fail-on error ./*.changes
ls ./*.deb
