# shellcheck shell=bash
# Beds and their tallies. A bed is a kind of test environment (docs/testing.md).

readonly BEDS='U S Q V G R'
declare -A bed_title=(
  [U]='unit, property, CUDA compile matrix, house checks'
  [S]='soft controller + CPU target, sanitizers'
  [Q]='QEMU guest'
  [V]='vfio-user socket'
  [G]='CUDA GPU'
  [R]='real SSD + GPU'
)
declare -A bed_passed=() bed_failed=() bed_skipped=() bed_why=()

# bed_of STEP_BED BINARY: the bed of one test binary, in a step of that bed. The unit tests of a crate are a binary with
# the crate's name.
bed_of() {
  case "$2" in
    warpbell* | cuda_matrix | abi | headers | toolchain) echo U ;;
    guest) echo Q ;;
    vfio_user) echo V ;;
    *) echo "$1" ;;
  esac
}

# add BED PASSED FAILED SKIPPED
add() {
  bed_passed[$1]=$((${bed_passed[$1]:-0} + $2))
  bed_failed[$1]=$((${bed_failed[$1]:-0} + $3))
  bed_skipped[$1]=$((${bed_skipped[$1]:-0} + $4))
}

# because BED REASON: why something of the bed was skipped; each reason once.
because() {
  case "; ${bed_why[$1]:-}; " in
    *"; $2; "*) ;;
    *) bed_why[$1]="${bed_why[$1]:+${bed_why[$1]}; }$2" ;;
  esac
}

# Reads the output of `cargo test -- --show-output`; prints "BINARY PASSED FAILED SKIPPED" lines, and a
# "why REASON" line for each skip. A test that could not run printed `skipped: REASON`, perhaps with its name before the
# reason and a remedy behind it, and passed.
# Left out are tests that run elsewhere: those named planted_*, by a step of their own; child_*, by other tests, as
# processes; and those that the guest bed runs.
parse_cargo() {
  awk '
    /^ +Running .*\(.*\)$/ { name = $NF; sub(/.*\//, "", name); sub(/-[0-9a-f]+\)$/, "", name) }
    /^ +Doc-tests / { name = $2 "_doc" }
    /^test .*(planted|child)_.* ignored/ { planted++; next }
    /^test .* ignored, / { why = $0; sub(/.* ignored, /, "", why); print "why " why }
    /^skipped: .*scripts\/guest/ { late++; planted++; next }
    /^skipped: / {
      late++; why = substr($0, 10)
      sub(/^[a-z0-9]+_[a-z0-9_]+: /, "", why); sub(/;.*/, "", why)
      print "why " why
    }
    /^test result: / {
      print name, $4 - late, $6, $8 - planted + late
      late = 0; planted = 0
    }' "$1"
}

# The table at the end, and the one line that programs read.
print_table() {
  local bed passed=0 failed=0 skipped=0
  printf '\n%-4s %-50s %7s %7s %8s  %s\n' bed what passed failed skipped why
  for bed in $BEDS; do
    printf '%-4s %-50s %7d %7d %8d  %s\n' "$bed" "${bed_title[$bed]}" \
      "${bed_passed[$bed]:-0}" "${bed_failed[$bed]:-0}" "${bed_skipped[$bed]:-0}" "${bed_why[$bed]:-}"
    passed=$((passed + ${bed_passed[$bed]:-0}))
    failed=$((failed + ${bed_failed[$bed]:-0}))
    skipped=$((skipped + ${bed_skipped[$bed]:-0}))
  done
  printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [[ $failed == 0 && $passed != 0 ]]
}
