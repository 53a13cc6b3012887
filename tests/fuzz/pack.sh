#!/bin/sh
# pack.sh FOLDER ARCHIVE: the inputs in FOLDER as corpus/TARGET.tar.xz. The same inputs give the same bytes: they are numbered in the
# order of their lengths and digests, which also packs best.
set -eu
folder=$1
archive=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/inputs"
cd "$folder"
export LC_ALL=C
n=0
for file in $(sha1sum -- * | while read -r digest file; do echo "$(wc -c <"$file") $digest $file"; done | sort -k 1,1n -k 2,2 -u | cut -d ' ' -f 3); do
    n=$((n + 1))
    cp "$file" "$work/inputs/$(printf '%04d' "$n")"
done
tar -C "$work/inputs" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=0644 --mtime=@0 -cf - . |
    env -u XZ_DEFAULTS -u XZ_OPT xz -9e -T1 --check=crc32 >"$work/archive"
mv "$work/archive" "$archive"
echo "$archive: $n inputs, $(wc -c <"$archive") bytes"
