#!/usr/bin/env bash
# What `make` says on its way to a program: tools/build.sh with a build that is only printed, tools/install-deps.sh with package tools that
# only say what they were asked. Usage: make.sh BUILD
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"

mkdir bin

# ---- one line of progress ---------------------------------------------------------------------------------------

cat >bin/cmake <<'END'
#!/bin/sh
echo "$@" >asked
cat printed
exit "$(cat exits)"
END
chmod +x bin/cmake
builds() { # EXIT-CODE: of what is in `printed`
    echo "$1" >exits
    PATH=$PWD/bin:$PATH "$root/tools/build.sh" there 3 one two >out 2>err
    code=$?
}
for i in $(seq 200); do printf '[%3d%%] Building C object CMakeFiles/x.dir/src/a/f%s.c.o\n' $((i / 2)) "$i"; done >printed
builds 0
check 'make: exit code 0' exits 0
check 'make: the targets' has asked '--build there -j 3 --target one two'
check 'make: few lines' [ "$(wc -l <out)" -le 6 ]
check 'make: how far' has out 'there: 60 %'
{
    printf '[%d/400] Building C object CMakeFiles/x.dir/src/f.c.o\n' 4 8 203
    echo 'src/f.c:3:1: warning: what the compiler says'
    printf '[%d/400] Linking C executable x\n' 400
} >printed
builds 0
check 'ninja: how far' has out 'there: 50 %'
check 'ninja: few lines' [ "$(wc -l <out)" -le 4 ]
check 'ninja: a warning' has out 'src/f.c:3:1: warning: what the compiler says'
echo 'src/f.c:7:1: error: what the compiler says' >printed
builds 2
check 'an error: the exit code' exits 2
check 'an error: what it is' has out 'src/f.c:7:1: error: what the compiler says'
if command -v script >/dev/null; then
    printf '[ %d%%] Building C object CMakeFiles/x.dir/src/f.c.o\n' 10 20 30 >printed
    echo 0 >exits
    TERM=xterm script -qec "PATH=$PWD/bin:\$PATH $root/tools/build.sh there 3 one" /dev/null >out 2>err </dev/null
    check 'a terminal: one line' [ "$(wc -l <out)" -eq 0 ]
    check 'a terminal: how far, and with what' has out ' 30 %  src/f.c.o'
fi

# ---- what `make` builds -------------------------------------------------------------------------------------------

# wants TARGET: whether building the program alone builds that target, too; by what CMake has written for make, or for ninja.
wants() {
    if [ -e "$build/CMakeFiles/Makefile2" ]; then
        grep -q "^CMakeFiles/fedloom_program.dir/all: CMakeFiles/$1.dir/all" "$build/CMakeFiles/Makefile2"
    else
        "$(cached CMAKE_MAKE_PROGRAM)" -C "$build" -t inputs fedloom_program | grep -q "CMakeFiles/$1.dir/"
    fi
}
check 'the program alone: its parts' wants fedloom_net
check 'the program alone: no tests' eval '! wants test_run'
if [ -e "$build/libfedloom_mpi.so" ]; then
    check 'the program alone: what it loads in several processes' wants fedloom_mpi
fi

# ---- packages -----------------------------------------------------------------------------------------------------

# A system with nothing but these; gcc alone is installed.
mkdir system
for tool in sh env cat mktemp rm; do ln -s "$(command -v $tool)" "system/$tool"; done
echo '#!/bin/sh
for last; do :; done
[ "$last" != gcc ] || echo "install ok installed"' >system/dpkg-query
echo '#!/bin/sh
while read -r line; do case $line in *"install ok installed"*) exit 0 ;; esac; done; exit 1' >system/grep
echo '#!/bin/sh
cat "$PWD/uid"' >system/id
echo '#!/bin/sh
echo "apt-get $*" >>"$PWD/asked"' >system/apt-get
echo '#!/bin/sh
echo "sudo" >>"$PWD/asked"; exec "$@"' >system/sudo
chmod +x system/dpkg-query system/grep system/id system/apt-get system/sudo
packages() { # UID ARGS...
    echo "$1" >uid
    rm -f asked
    shift
    PATH=$PWD/system sh "$root/tools/install-deps.sh" "$@" >out 2>err
    code=$?
}
packages 0
check 'root: exit code 0' exits 0
check 'root: it is said what is installed' has out 'installing by apt-get, which may take a minute: cmake make g++'
check 'root: it is installed' has asked 'apt-get install -y --no-install-recommends cmake make g++'
packages 1000 --first
check 'sudo: it is said' has out 'installing by sudo apt-get'
check 'sudo: it is asked' has asked sudo
packages 0 --check
check 'a later build: exit code 0' exits 0
check 'a later build: what is missing' has err 'packages are missing, which `make deps` installs: cmake make g++'
check 'a later build: nothing is installed' [ ! -e asked ]
rm system/sudo
packages 1000
check 'neither root nor sudo: exit code 1' exits 1
check 'neither root nor sudo: the command, in one line' has err 'as root: apt-get install --no-install-recommends cmake make g++'
check 'neither root nor sudo: one line' [ "$(wc -l <err)" -eq 1 ]
packages 1000 --first
check 'the first build without them: it is tried' exits 0
check 'the first build without them: the command' has err 'as root: apt-get install'
echo '#!/bin/sh
echo "no network"; exit 100' >system/apt-get
packages 0
check 'apt-get fails: exit code 1' exits 1
check 'apt-get fails: why' has err 'no network'
check 'apt-get fails: the command' has err 'the packages could not be installed; apt-get install'
rm system/apt-get
packages 0
check 'no Debian: exit code 1' exits 1
check 'no Debian: what is needed' has err 'there is no apt-get here: install what these Debian packages are called on this system: cmake make'
packages 0 --first
check 'no Debian: the build is tried' exits 0

count
