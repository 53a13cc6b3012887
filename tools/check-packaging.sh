#!/bin/sh
# What is said in several places must be the same in all of them: the version (include/fedloom.h is the one that
# counts), the commits of releases, the libraries to build with, what the shared library exports, and which headers tests share.
set -eu
cd "$(dirname "$0")/.."
bad=0
complain() { echo "packaging: $1"; bad=1; }

version=$(sed -n 's/^#define FL_VERSION "\(.*\)"/\1/p' include/fedloom.h)
agree() { # agree FILE ITS-VERSION
    [ "$2" = "$version" ] || complain "$1 is of version $2, include/fedloom.h of $version"
}
agree CHANGELOG.md "$(sed -n 's/^## \([0-9][^ ]*\).*/\1/p' CHANGELOG.md | head -n 1)" # the newest that is released
agree debian/changelog "$(sed -n '1s/.*(\(.*\)-[^-]*).*/\1/p' debian/changelog)"
agree docs/fedloom.1 "$(sed -n 's/^\.TH.*"fedloom \([^"]*\)".*/\1/p' docs/fedloom.1)"

# The commits that CHANGELOG.md names are those versions, where this is a checkout that has them.
while read -r release commit; do
    there=$(git show "$commit:include/fedloom.h" 2>/dev/null) || continue
    there=$(echo "$there" | sed -n 's/^#define FL_VERSION "\(.*\)"/\1/p')
    [ "$there" = "$release" ] || complain "CHANGELOG.md calls commit $commit $release, but it is $there"
done <<END
$(sed -n 's/^## \([0-9][^ ]*\) (.*, commit \([0-9a-f]*\))$/\1 \2/p' CHANGELOG.md)
END

for library in $(tools/install-deps.sh --list | tr ' ' '\n' | grep -- '-dev$' | grep -vE '^(libc6|libcmocka)-dev$'); do
    sed -n '/^Build-Depends:/,/^[^ ]*Version:/p' debian/control | grep -q "^ $library\b" ||
        complain "debian/control does not build with $library"
    case $library in libcurl*|libgnutls*) continue ;; esac # of the program alone
    sed -n '/^Package: libfedloom-dev$/,/^Description:/p' debian/control | grep -q "^ $library\b" ||
        complain "libfedloom-dev in debian/control does not suggest $library, which the static library needs"
done

sed -n 's/^ \(fl_[a-z0-9_]*\)@.*/\1/p' debian/libfedloom0.symbols | LC_ALL=C sort | diff - tools/symbols.txt ||
    complain "debian/libfedloom0.symbols (<) and tools/symbols.txt (>) have different functions: make symbols"

for header in tests/*.h tests/*/*.h; do
    grep -qF "\`${header#tests/}\`" tests/README.md || complain "tests/README.md does not say what $header gives"
done

[ "$bad" = 0 ] && echo "packaging: ok"
exit "$bad"
