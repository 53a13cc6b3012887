#!/usr/bin/env bash
# The release's source, as tools/dist.sh makes it from a checkout: the same bytes wherever and however it is made, and
# all that a build needs. Usage: run.sh BUILD
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"
if ! git -C "$root" rev-parse -q --verify HEAD >/dev/null 2>&1; then echo "skipped: not a git checkout"; exit 77; fi

# made FOLDER COMMAND...: leaves $code, out, err.
made() {
    "${@:2}" "$root/tools/dist.sh" "$1" >out 2>err
    code=$?
    check "a tarball in $1" exits 0
}
version=$(git -C "$root" show HEAD:include/fedloom.h | sed -n 's/^#define FL_VERSION "\(.*\)"/\1/p')
made first env
check 'it says where' has out "first/fedloom-$version.tar.xz"
made second env TZ=Asia/Tokyo XZ_OPT=-1 LC_ALL=C bash -c 'umask 077 && exec "$0" "$@"'
check 'another time zone, mask and environment: the same bytes' \
    same "first/fedloom-$version.tar.xz" "second/fedloom-$version.tar.xz"

tar xf "first/fedloom-$version.tar.xz"
code=$?
check 'it unpacks' exits 0
check 'into one folder' [ "$(ls -d ./*/ | grep -c fedloom)" = 1 ]
for there in CMakeLists.txt LICENSE README.md src/cli/main.c tests/run.sh python/pyproject.toml docs/fedloom.1; do
    check "it has $there" [ -e "fedloom-$version/$there" ]
done
for not in .git .gitignore .github .ci debian build; do check "it has no $not" [ ! -e "fedloom-$version/$not" ]; done
check 'scripts can be run' [ -x "fedloom-$version/tests/run.sh" ]
cmake -S "fedloom-$version" -B configured -DFEDLOOM_CUDA=OFF -DFEDLOOM_MPI=OFF -DFEDLOOM_TESTS=OFF >out 2>err
code=$?
check 'it can be built from' exits 0
check 'as this version' has configured/CMakeCache.txt "CMAKE_PROJECT_VERSION:STATIC=$version"

count
