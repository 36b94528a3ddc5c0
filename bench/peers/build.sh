#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the peers whose toolchain is installed into OUT/NAME, and prints a line for each peer that
# it skips.  HTTP servers, which only bench/http.py uses, go into OUT/http/NAME.
#   bench/peers/build.sh [OUT]    OUT: default build/peers
# A peer that does not build is not an error: nothing else in the project needs it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../build/peers}
work=$out/work
mkdir -p "$work" "$out/http" || exit 2
out=$(cd "$out" && pwd)
work=$out/work

skip() { # NAME REASON
    echo "skipped: $1 ($2)"
    rm -f "$out/$1"
}

have() { command -v "$1" >/dev/null 2>&1; }

# attempt NAME REASON COMMAND...: runs the command with its output in work/NAME.log.
attempt() {
    name=$1
    reason=$2
    shift 2
    if ("$@") >"$work/$(echo "$name" | tr / -).log" 2>&1; then
        echo "built: $name"
    else
        skip "$name" "$reason"
    fi
}

build_go() {
    cd "$here/go" && GOFLAGS=-mod=mod go build -o "$out/go" .
}

# Tries the cached crates first: a machine without network builds with the crates that it has.
build_rust() { # NAME
    cd "$here/rust" &&
        { cargo build --release --offline --bin "$1" --target-dir "$work/rust" ||
            cargo build --release --bin "$1" --target-dir "$work/rust"; } &&
        cp "$work/rust/release/$1" "$out/$1"
}

build_http_go() {
    cd "$here/http" && go build -o "$out/http/go" hello.go
}

build_http_hyper() {
    cd "$here/http/hyper" &&
        { cargo build --release --offline --target-dir "$work/hyper" ||
            cargo build --release --target-dir "$work/hyper"; } &&
        cp "$work/hyper/release/weft-peer-hyper" "$out/http/hyper"
}

# Peers in C and C++ link measure.c of the benchmark harness.
build_measure() {
    cc -std=c11 -O2 -D_GNU_SOURCE -I"$here/.." -c "$here/../measure.c" -o "$work/measure.o"
}

build_c() { # NAME SOURCE LIBRARY...
    name=$1
    source=$here/$2
    shift 2
    build_measure || return 1
    case $source in
    *.c) compile="cc -std=c11 -D_GNU_SOURCE" ;;
    *) compile="c++ -std=c++17" ;;
    esac
    $compile -O2 -I"$here/.." "$source" "$work/measure.o" -o "$out/$name" "$@"
}

build_beam() {
    erlc -o "$work" "$here/beam.erl" &&
        cat >"$out/beam" <<END &&
#!/bin/sh
# ROW VARIANT OPS WORKERS: the emulator takes the number of schedulers when it starts.
exec erl +S "\${4:-1}:\${4:-1}" +P 4000000 -noshell -noinput -pa "$work" \\
    -eval 'beam:main(init:get_plain_arguments()), halt(0)' -extra "\$@"
END
        chmod +x "$out/beam"
}

if have go; then
    attempt go "does not build" build_go
    attempt http/go "does not build" build_http_go
else
    skip go "no go"
    skip http/go "no go"
fi
if have cargo; then
    attempt http/hyper "no crates, or they do not build" build_http_hyper
else
    skip http/hyper "no cargo"
fi
for name in tokio rayon crossbeam; do
    if have cargo; then
        attempt $name "no crates, or they do not build" build_rust $name
    else
        skip $name "no cargo"
    fi
done
if have cc && have c++; then
    attempt tbb "no oneTBB" build_c tbb tbb.cc -ltbb
    attempt openmp "no OpenMP" build_c openmp openmp.c -fopenmp
    attempt boost-fiber "no Boost.Fiber" build_c boost-fiber fiber.cc \
        -lboost_fiber -lboost_context -lpthread
    attempt libuv "no libuv" build_c libuv libuv.c -luv
else
    for name in tbb openmp boost-fiber libuv; do skip $name "no C and C++ compiler"; done
fi
if have erlc && have erl; then
    attempt beam "does not build" build_beam
else
    skip beam "no erlc"
fi
exit 0
