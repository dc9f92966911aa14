# shellcheck shell=bash
# scripts/guest test: boots each scene of tests/tests/guest once, and runs the tests of its module there.

readonly SCENES=tests/tests/guest

# built PACKAGE KIND NAME: builds a program with the profile of the checks, and prints its path.
built() {
  local path
  path=$(cargo build --quiet --profile checks --package "$1" "--$2" "$3" --message-format json |
    sed -nE 's/.*"name":"'"$3"'".*"executable":"([^"]+)".*/\1/p' | tail -n 1)
  [[ -n $path ]] || die "$EXIT_FAILED" "$1: $3 does not build"
  say "$path"
}

# tests_of SCENE: sets `program`, built, and `filter`, the names of its tests. A scene's file may say in a line
# `# tests: PACKAGE PROGRAM [FILTER]` whose they are; by default they are those of the module of its name in our own.
tests_of() {
  local package test
  read -r package test filter <<<"$(sed -n 's/^# tests: //p' "$SCENES/$1.args")"
  [[ -n $package ]] || { package=warpbell-tests test=guest filter=$1::; }
  program=$(built "$package" test "$test")
}

# programs_of SCENE: sets `options` to those for more programs in its guest, built: lines `# program: PACKAGE NAME`.
programs_of() {
  local package name
  options=()
  while read -r package name; do options+=(--program "$(built "$package" bin "$name")"); done \
    < <(sed -n 's/^# program: //p' "$SCENES/$1.args")
}

# boot_scene SCENE: runs the tests of a scene on its machine, which the words of its file describe to scripts/guest run.
# A scene that takes long says so: `# timeout: SECONDS`.
boot_scene() {
  local scene=$1 filter program options words limit
  tests_of "$scene"
  programs_of "$scene"
  mapfile -t words < <(sed '/^#/d' "$SCENES/$scene.args" | xargs -n 1 printf '%s\n')
  limit=$(sed -n 's/^# timeout: //p' "$SCENES/$scene.args")
  "$0" run --timeout "${WARPBELL_GUEST_TIMEOUT:-${limit:-400}}" --env "WARPBELL_SCENE=$scene" "${options[@]}" "${words[@]}" \
    -- "$program" ${filter:+"$filter"} --test-threads=1 --show-output
}

# ran LOG: how many tests did not skip themselves for want of the scene that they belong to.
ran() { awk '/^test result: / { ran += $4 + $6 } /^skipped: only in the guest/ { ran-- } END { print ran + 0 }' "$1"; }

guest_test() {
  local scene program filter options failed=0 begin code result log scenes=("$@") summary=()
  guest_needs
  [[ ${#scenes[@]} -gt 0 ]] || mapfile -t scenes < <(cd "$SCENES" && ls ./*.args | sed 's|^./||; s|\.args$||')
  for scene in "${scenes[@]}"; do
    [[ -e $SCENES/$scene.args ]] || die "$EXIT_USAGE" "there is no scene '$scene': see $SCENES/*.args"
    tests_of "$scene" # built before the clock runs
    programs_of "$scene"
  done
  log=$(mktemp)
  for scene in "${scenes[@]}"; do
    begin=$SECONDS code=0 result=ok
    # cargo's own line, by which scripts/test knows whose results follow.
    say "     Running scene $scene ($SCENES/guest-0)"
    boot_scene "$scene" >"$log" 2>&1 || code=$?
    cat "$log"
    if [[ $code == "$EXIT_MISSING" ]]; then
      # Its kernel cannot be had here. In cargo's words, so that scripts/test counts it and says why.
      code=0 result=skipped
      say "skipped: scene $scene: $(sed -n 's/^error: //p' "$log" | tail -n 1)"
      say 'test result: ok. 1 passed; 0 failed; 0 ignored' | tee -a "$log"
    elif [[ $code == 0 && $(ran "$log") == 0 ]]; then
      code=$EXIT_FAILED
      say "error: scene $scene: no test ran in it"
    fi
    [[ $code == 0 ]] || { failed=$((failed + 1)) && result=FAILED; }
    summary+=("$(printf '%-10s %-8s %5d s  %s' "$scene" "$result" \
      $((SECONDS - begin)) "$(sed -n 's/^test result: //p' "$log" | tail -n 1)")")
  done
  rm -f "$log"
  printf '\n%-10s %-8s %7s  %s\n' scene result time tests
  printf '%s\n' "${summary[@]}"
  [[ $failed == 0 ]]
}

# scripts/guest binding: bind, unbind and list of `warpbell` against a real kernel.
guest_binding() {
  local program
  guest_needs
  program=$(built warpbell-cli bin warpbell)
  "$0" run --ssds 2 --program "$program" \
    --file scripts/lib/guest/bind-check.sh=/run/bind-check.sh -- sh /run/bind-check.sh
}

# scripts/guest identify: what a user would do with four SSDs. Fails unless each says its serial number and a namespace.
guest_identify() {
  local program
  guest_needs
  program=$(built warpbell-cli bin warpbell)
  # shellcheck disable=SC2016 # the guest's shell expands it
  "$0" run --ssds 4 --program "$program" -- sh -euc '
    warpbell list
    number=0
    for path in /sys/bus/pci/devices/*; do
      [ "$(cat "$path/class")" = 0x010802 ] || continue
      bdf=${path##*/}
      warpbell bind "$bdf" | tail -n 1
      warpbell identify "$bdf" >identify.txt
      grep -E "^(device|sn|mn|fr|queues|size) |^NVME Identify Namespace" identify.txt
      grep -Eq "^sn .*: WARP$number *$" identify.txt
      grep -Eq "^mn .*: QEMU NVMe Ctrl *$" identify.txt
      grep -q "^NVME Identify Namespace 1" identify.txt
      number=$((number + 1))
    done
    [ $number = 4 ]
    warpbell list'
}
