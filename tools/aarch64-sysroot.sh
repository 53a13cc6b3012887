#!/bin/sh
# Debian's arm64 libraries, unpacked into a folder to link against and to emulate on: tools/aarch64-sysroot.sh FOLDER
# Nothing is installed and root is not needed: apt works on lists of its own, so the packages of this machine stay as they are.
set -eu
folder=$1
packages="libc6-dev libgcc-s1 libopenblas-pthread-dev libdnnl-dev zlib1g-dev liblzma-dev libyaml-dev libjansson-dev libmicrohttpd-dev
          nettle-dev libpng-dev libjpeg62-turbo-dev libcmocka-dev"
[ "$(cat "$folder/complete" 2>/dev/null)" = "$packages" ] && exit 0

rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/usr/lib"
ln -s usr/lib "$folder/lib" # as on every Debian of today
apt=$(cd "$folder/apt" && pwd)
touch "$apt/status"
cat >"$apt/conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
END
echo "fetching arm64 packages into $folder"
{
    APT_CONFIG=$apt/conf apt-get update &&
        APT_CONFIG=$apt/conf apt-get install -y --no-install-recommends --download-only $packages
} >"$apt/log" 2>&1 || { cat "$apt/log" >&2; exit 1; }
for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$folder"; done
rm -rf "$apt"
echo "$packages" >"$folder/complete"
