#!/usr/bin/env bash
# Builds and runs the tests of the page cache's rules: as built; under AddressSanitizer with UBSan, and on two threads
# under ThreadSanitizer; and with each rule switched off, which the scenario named beside it must notice.
# ThreadSanitizer needs clang++-19; without it that part is skipped, loudly.
#
#     kernels/tests/cache/run.sh [plain|asan|tsan|rules ...]     default: all
#
# Environment: CXX (g++), CLANGXX (clang++-19), SEEDS (6), OUT (a build folder, default: a temporary one that is removed).
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "$0"
    exit 0
fi

here=$(cd "$(dirname "$0")" && pwd)
kernels=$(cd "$here/../.." && pwd)
CXX=${CXX:-g++}
CLANGXX=${CLANGXX:-clang++-19}
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
    ARRAY_INDEX_UNCHECKED:refusals CACHE_PINS_CUT:many_pins CACHE_KEPT_TAKEN:policies
    CACHE_ERROR_SWALLOWED:unwritable
    PREFETCH_OVER_CAP:capped PREFETCH_TAKES_DIRTY:modest PREFETCH_TAKES_AHEAD:modest
    PREFETCH_TAKES_LOADING:shared_pages PREFETCH_FAILURE_HIDDEN:read_in_vain PREFETCH_FAILURE_TOLD:read_in_vain
    PREFETCH_TOKEN_LOST:left_behind PREFETCH_NOT_COLLECTED:crossed PREFETCH_VAIN_UNCOUNTED:useless
    ARRAY_END_UNCHECKED:ends CACHE_LATE_STAMP_OLDEST:hot_line CACHE_FLUSH_LATE:late_flush
    CACHE_WORD_UNCHECKED:changing_line CACHE_WORD_UNSYNCED:one_bucket CACHE_WORD_EARLY:words_7 CACHE_WORD_UNNOTED:hot_word
    PREFETCH_SLOT_KEPT:slots_again PREFETCH_NOT_GIVEN_UP:unanswered
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

# suite NAME THREADS FLAGS...
suite() {
    local name=$1 threads=$2
    shift 2
    executor "$name" "$@"
    program "$name" "$name" "$@"
    echo "# $name"
    timeout 300 "$OUT/$name-cache" "$SEEDS" "$threads" || { echo "FAILED: $name" && failed=$((failed + 1)); }
}

# One program has switches for all rules but those of WARPBELL_CONSTANT, from which others are made at compile time.
switched_off() {
    local rule switch scenario said words
    [[ -f $OUT/plain/executor.o ]] || executor plain -O0
    program switches plain -O0 -DWARPBELL_SWITCHES -rdynamic
    # What is found below is found by the rule that is missing: with all of them nothing is.
    "$OUT/switches-cache" "$SEEDS" 1 >"$OUT/switches.log" || { cat "$OUT/switches.log" && failed=$((failed + 1)); }
    for rule in "${rules[@]}"; do
        switch=${rule%:*} scenario=${rule#*:}
        if grep -q "^WARPBELL_CONSTANT($switch," "$kernels/include/warpbell/mutation.cuh"; then
            program "$switch" plain -O0 "-DWARPBELL_MUTATE_$switch=1"
            words=("$OUT/$switch-cache" 40 1 "$scenario")
        else
            words=("$OUT/switches-cache" 40 1 "$scenario" "$switch")
        fi
        said=$("${words[@]}" || true)
        if [[ $said == *"$scenario is broken"* ]]; then
            grep -Em 1 'failed: ' <<<"$said" || true
            echo "without_${switch,,}: 1 passed, 0 failed"
        else
            echo "FAILED: nobody notices $switch in $scenario"
            failed=$((failed + 1))
        fi
    done
}

for part in "${@:-plain asan tsan rules}"; do
    for each in $part; do
        case $each in
        plain) suite plain 1 -O0 ;;
        asan) suite asan 1 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all ;;
        tsan)
            if command -v "$CLANGXX" >/dev/null; then
                CXX=$CLANGXX suite tsan 2 -O1 -g -fsanitize=thread
            else
                echo "SKIPPED: $CLANGXX is not installed"
            fi
            ;;
        rules) switched_off ;;
        *) echo "unknown part $each" >&2 && exit 2 ;;
        esac
    done
done
[[ $failed == 0 ]]
