#!/usr/bin/env bash
# Builds and runs the tests of the CPU executor: plain, under AddressSanitizer with UBSan, and under ThreadSanitizer.
# ThreadSanitizer needs clang++-19 (Debian: clang-19 libclang-rt-19-dev); without it that part is skipped, loudly.
#
#     kernels/simt/tests/run.sh [plain|asan|tsan|boost|bench ...]     default: plain asan tsan
#
# Environment: CXX (g++), CLANGXX (clang++-19), OUT (a build folder, default: a temporary one that is removed).
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "$0"
    exit 0
fi

simt=$(cd "$(dirname "$0")/.." && pwd)
CXX=${CXX:-g++}
CLANGXX=${CLANGXX:-clang++-19}
if [[ -z ${OUT:-} ]]; then
    OUT=$(mktemp -d)
    trap 'rm -rf "$OUT"' EXIT
fi
flags=(-std=c++20 -g -Wall -Wextra -Werror "-I$simt/.." "-I$simt/../include" -pthread)
programs=(collectives scheduling weak_memory module explore charges)
libraries=()
failures=0
skipped=0

# build NAME COMPILER FLAGS...: the executor, then each program, into $OUT/NAME.
build() {
    local name=$1 compiler=$2
    shift 2
    mkdir -p "$OUT/$name"
    local objects=() source object
    for source in "$simt"/*.cpp; do
        object=$OUT/$name/$(basename "$source" .cpp).o
        "$compiler" "${flags[@]}" "$@" -c "$source" -o "$object"
        objects+=("$object")
    done
    "$compiler" -x c -std=c99 -pedantic -Wall -Wextra -Werror "-I$simt/.." -c "$simt/tests/abi.c" -o "$OUT/$name/abi.o"
    local program extra
    for program in "${build_programs[@]}"; do
        extra=()
        [[ $program == module ]] && extra=("$OUT/$name/abi.o")
        "$compiler" "${flags[@]}" "$@" "$simt/tests/$program.cpp" "${objects[@]}" "${extra[@]}" "${libraries[@]}" -o "$OUT/$name/run-$program"
    done
}

# check TEXT COMMAND...: runs it and notes a failure.
check() {
    local text=$1
    shift
    if timeout 300 "$@"; then
        return
    fi
    echo "FAILED: $text"
    failures=$((failures + 1))
}

run_programs() {
    local name=$1 program
    for program in "${programs[@]}"; do
        check "$name: $program" "$OUT/$name/run-$program"
    done
}

# expect_race CASE: ThreadSanitizer must report the bad kernel and be silent about the good one.
expect_race() {
    local log=$OUT/tsan/race-$1.log
    if "$OUT/tsan/run-race" "$1" bad >"$log" 2>&1 || ! grep -q 'WARNING: ThreadSanitizer: data race' "$log"; then
        echo "FAILED: tsan: no race reported in: race $1 bad"
        failures=$((failures + 1))
    fi
    check "tsan: race $1 good" "$OUT/tsan/run-race" "$1" good
}

[[ $# -gt 0 ]] || set -- plain asan tsan
for part in "$@"; do
    echo "== $part"
    build_programs=("${programs[@]}")
    case $part in
    plain)
        build plain "$CXX" -O2
        run_programs plain
        ;;
    asan)
        build asan "$CXX" -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
        run_programs asan
        ;;
    tsan)
        if ! command -v "$CLANGXX" >/dev/null; then
            echo "SKIPPED: $CLANGXX is not installed"
            skipped=$((skipped + 1))
            continue
        fi
        build_programs+=(race)
        build tsan "$CLANGXX" -O1 -fsanitize=thread
        run_programs tsan
        for race in syncwarp late groups syncthreads message; do
            expect_race "$race"
        done
        ;;
    boost)
        libraries=(-lboost_context)
        build boost "$CXX" -O2 -DWARPBELL_SIMT_BOOST
        run_programs boost
        ;;
    bench)
        build_programs=(bench)
        build bench "$CXX" -O2
        "$OUT/bench/run-bench"
        ;;
    *)
        echo "unknown part: $part" >&2
        exit 2
        ;;
    esac
done

echo "simt: $failures failed, $skipped skipped"
[[ $failures == 0 ]]
