#!/usr/bin/env bash
# Builds and runs the tests of the page cache's rules, as built, and with each rule switched off, which the scenario
# named beside it must notice.
#
#     kernels/tests/cache/run.sh [plain|rules ...]     default: both
#
# Environment: CXX (g++), SEEDS (6), OUT (a build folder, default: a temporary one that is removed).
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "$0"
    exit 0
fi

here=$(cd "$(dirname "$0")" && pwd)
kernels=$(cd "$here/../.." && pwd)
CXX=${CXX:-g++}
SEEDS=${SEEDS:-6}
if [[ -z ${OUT:-} ]]; then
    OUT=$(mktemp -d)
    trap 'rm -rf "$OUT"' EXIT
fi
flags=(-std=c++20 -Wall -Wextra -pthread "-I$kernels/include" "-I$kernels")
failed=0

# Switch, and the scenario that notices.
rules=(
    CACHE_PINNED_TAKEN:words_1 CACHE_STUCK_TAKEN:silent CACHE_LOADED_TWICE:one_read CACHE_ANY_PAGE:words_7
    CACHE_UNLINKED_EARLY:words_7 CACHE_READY_EARLY:one_read CACHE_FAILURE_HIDDEN:unreadable
    CACHE_DIRTY_LOST:words_1 CACHE_UNWRITTEN_LEAVES:unwritable CACHE_TWO_WRITERS:flushed
    CACHE_FLUSH_IMPATIENT:flushed CACHE_CLEANED_LATE:flushed CACHE_WAITS_FOR_EVER:crowded
    CACHE_READ_ONLY_STORED:refusals CACHE_PAGE_UNCHECKED:refusals ARRAY_STRADDLE_LOST:straddling
    ARRAY_INDEX_UNCHECKED:refusals
)

# executor NAME FLAGS...: the CPU executor's objects.
executor() {
    local name=$1 source
    shift
    mkdir -p "$OUT/$name"
    for source in "$kernels"/simt/*.cpp; do
        "$CXX" "${flags[@]}" "$@" -c "$source" -o "$OUT/$name/$(basename "$source" .cpp).o"
    done
}

# program NAME EXECUTOR FLAGS...: the tests, in $OUT/NAME-cache.
program() {
    local name=$1 with=$2
    shift 2
    "$CXX" "${flags[@]}" "$@" "$here/cache.cpp" "$OUT/$with"/*.o -o "$OUT/$name-cache"
}

suite() {
    local name=$1
    shift
    executor "$name" "$@"
    program "$name" "$name" "$@"
    echo "# $name"
    "$OUT/$name-cache" "$SEEDS" || { echo "FAILED: $name" && failed=$((failed + 1)); }
}

switched_off() {
    local rule switch scenario said
    [[ -f $OUT/plain/executor.o ]] || executor plain -O0
    for rule in "${rules[@]}"; do
        switch=${rule%:*} scenario=${rule#*:}
        program "$switch" plain -O0 "-DWARPBELL_MUTATE_$switch=1"
        said=$("$OUT/$switch-cache" 40 1 "$scenario" || true)
        if [[ $said == *"$scenario is broken"* ]]; then
            grep -Em 1 'failed: ' <<<"$said" || true
            echo "without_${switch,,}: 1 passed, 0 failed"
        else
            echo "FAILED: nobody notices $switch in $scenario"
            failed=$((failed + 1))
        fi
    done
}

for part in "${@:-plain rules}"; do
    for each in $part; do
        case $each in
        plain) suite plain -O0 ;;
        rules) switched_off ;;
        *) echo "unknown part $each" >&2 && exit 2 ;;
        esac
    done
done
[[ $failed == 0 ]]
