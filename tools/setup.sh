#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the packages that a make target needs.
#   tools/setup.sh [--try | --check] TARGET...    TARGET: a word of the first column below, or `all`
# Prints nothing if no package is missing.  Otherwise the script installs the missing packages if it
# runs as root on a Debian system; for other users it prints the command to type and exits with 1.
# With --check, or if WEFT_NO_INSTALL is 1, it never installs a package.
# --try is for targets that also work without the packages, as `make test` does: the exit status is
# always 0, and the script does not repeat an installation that failed before.
set -u
cd "$(dirname "$0")/.." || exit 2

# target    command, or file     package
needs='
build       COMPILER             gcc
build       cmake                cmake
build       /usr/include/stdio.h libc6-dev
uring       pkg-config           pkgconf
uring       /usr/include/liburing.h liburing-dev
test        python3              python3
install     pkg-config           pkgconf
install     c++                  g++
http        curl                 curl
http        wrk                  wrk
stacks      gdb                  gdb
tidy        python3              python3
lint        clang-tidy-14        clang-tidy-14
lint        clang                clang
format      clang-format-14      clang-format-14
clang       clang                clang
clang       /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.tsan*.a libclang-rt-14-dev
fuzz        clang                clang
fuzz        /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a libclang-rt-14-dev
cov         gcovr                gcovr
cov         python3              python3
valgrind    valgrind             valgrind
aarch64     aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
aarch64     /usr/aarch64-linux-gnu/lib/libc.a libc6-dev-arm64-cross
aarch64     qemu-aarch64         qemu-user
'

is_optional=no
may_install=yes
[ "${WEFT_NO_INSTALL-}" != 1 ] || may_install=no
case ${1-} in
--try)
    is_optional=yes
    shift ;;
--check)
    may_install=no
    shift ;;
esac
if [ $# -eq 0 ]; then
    echo "usage: tools/setup.sh [--try | --check] TARGET..." >&2
    exit 2
fi

is_there() {
    case $1 in
    COMPILER) command -v "${CC:-cc}" >/dev/null ;;
    /*) ls $1 >/dev/null 2>&1 ;; # unquoted: the name may be a pattern
    *) command -v "$1" >/dev/null ;;
    esac
}

for wanted in "$@"; do
    case $needs in
    *"
$wanted "*) ;;
    *) [ "$wanted" = all ] || { echo "tools/setup.sh: unknown target $wanted" >&2; exit 2; } ;;
    esac
done

# The packages that the given targets lack, without duplicates.
missing=$(echo "$needs" | while read -r target what package; do
    for wanted in "$@"; do
        if [ -n "$target" ] && { [ "$wanted" = "$target" ] || [ "$wanted" = all ]; }; then
            is_there "$what" || echo "$package"
        fi
    done
done | sort -u | tr '\n' ' ')
missing=${missing% }
[ -n "$missing" ] || exit 0

# The output goes to a log, of which the script prints the end if the installation fails.
install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update && apt-get -q -y install --no-install-recommends $missing
}

mkdir -p build
tried=build/setup.tried
if [ $may_install = yes ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    if [ $is_optional = no ] || ! grep -qx "$missing" "$tried" 2>/dev/null; then
        echo "installing $missing" >&2
        install >build/setup.log 2>&1 && exit 0
        echo "$missing" >>"$tried"
        tail -n 3 build/setup.log >&2
    fi
fi
command="apt-get install --no-install-recommends $missing"
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null; then
    command="sudo $command"
elif [ "$(id -u)" != 0 ]; then
    command="$command      (as root)"
fi
echo "missing: $missing" >&2
echo "type:    $command" >&2
[ $is_optional = yes ] || exit 1
case " $* " in
*" uring "*) echo "optional: without it all I/O uses epoll" >&2 ;;
*" stacks "*) echo "optional: without it the log of a test that hangs shows no stacks" >&2 ;;
*) echo "optional: without it the tests of the tools are skipped" >&2 ;;
esac
