# shellcheck shell=bash
# scripts/guest test: boots machines of tests/tests/guest, and runs the tests of their scenes there.

readonly SCENES=tests/tests/guest
# Of the scene `four`: an SSD is what QEMU was told, data comes back, queues come and go.
readonly SMOKE='four::each_is_what_qemu_was_told four::the_suite_holds_with_registers_as_doorbells four::queues_come_and_go'

# built KIND NAME: the path of a program. scripts/test has built them all; otherwise it is built here, with the same profile
# and the same features.
built() {
  local path
  if [[ -z ${WARPBELL_PROFILE:-} ]]; then
    path=$(cargo build --quiet --profile checks --workspace "--$1" "$2" --message-format json |
      sed -nE 's/.*"name":"'"$2"'".*"executable":"([^"]+)".*/\1/p' | tail -n 1)
  elif [[ $1 == bin ]]; then
    path=$BUILT/$2
  else
    path=$(python3 - "$2" <<-'PYTHON'
	import json, sys
	programs = json.load(open("target/test-logs/binaries.json"))["rust-binaries"]
	print(programs["warpbell-tests::" + sys.argv[1]]["binary-path"])
	PYTHON
    )
  fi
  [[ -e $path ]] || die "$EXIT_FAILED" "$1 $2 does not build"
  say "$path"
}

# told WORD SCENE: what a scene's file says in lines `# WORD: ...`:
#   machine: SCENE     it runs on that scene's machine, in the same boot, after it
#   tests: FILTER      whose tests they are; by default those of the module of its name
#   program: NAME      one more program in its guest
#   timeout: SECONDS   of its machine, where it takes long
told() { scene_lines "$2" | sed -n "s/^# $1: //p"; }

machine_of() {
  local machine
  machine=$(told machine "$1")
  say "${machine:-$1}"
}

all_scenes() { sed -n 's/^== //p' "$SCENES/scenes"; }

# scene_lines SCENE: its lines.
scene_lines() { awk -v scene="$1" '/^== / { here = $2 == scene; next } here && NF' "$SCENES/scenes"; }

# scene_script FILTERS SCENE...: what the guest runs: each scene, told by cargo's own line, by which scripts/test knows whose
# results follow. Filters are those of the first scene, instead of its own.
scene_script() {
  local filters=$1 scene
  shift
  say 'code=0'
  for scene in "$@"; do
    say "echo '     Running scene $scene ($SCENES/guest-0)'"
    [[ -n $filters ]] || { filters=$(told tests "$scene") && filters=${filters:-$scene::}; }
    say "WARPBELL_SCENE=$scene guest $filters --test-threads=1 --show-output || code=\$?"
    filters=''
  done
  # shellcheck disable=SC2016 # the guest's shell expands it
  say 'exit $code'
}

# boot_machine FILTERS SCENE...: runs the tests of scenes on the machine that $SCENES/scenes describes for the
# first.
boot_machine() {
  local filters=$1 scene name words limit options=() folder code=0
  shift
  for name in $(for scene in "$@"; do told program "$scene"; done | sort -u); do options+=(--program "$(built bin "$name")"); done
  folder=$(mktemp -d)
  ln -s "$(realpath "$(built test guest)")" "$folder/guest" # without the hash that cargo gives its name
  scene_script "$filters" "$@" >"$folder/scenes"
  mapfile -t words < <(scene_lines "$(machine_of "$1")" | sed '/^#/d' | xargs -n 1 printf '%s\n')
  limit=$(for scene in "$@"; do told timeout "$scene"; done | awk '{ sum += $1 } END { print sum + 400 }')
  "$0" run --timeout "${WARPBELL_GUEST_TIMEOUT:-$limit}" --program "$folder/guest" --file "$folder/scenes=/run/scenes" \
    "${options[@]}" "${words[@]}" -- sh /run/scenes || code=$?
  rm -rf "$folder"
  return "$code"
}

# ran LOG SCENE: how many of its tests did not skip themselves for want of the scene that they belong to.
ran() {
  awk -v scene="$2" '/^ +Running scene / { here = $3 == scene }
    here && /^test result: / { ran += $4 + $6 } here && /^skipped: only in the guest/ { ran-- } END { print ran + 0 }' "$1"
}

# run_machine FILTERS SCENE...: boots it, and says what came of each scene. Fails if one did, or had no tests; returns
# EXIT_MISSING where its kernel cannot be had.
run_machine() {
  local filters=$1 log code=0 scene why
  shift
  log=$(mktemp)
  boot_machine "$filters" "$@" >"$log" 2>&1 || code=$?
  cat "$log"
  why=$(sed -n 's/^cannot run: //p' "$log" | tail -n 1)
  [[ $code != "$EXIT_MISSING" || -n $why ]] || code=$EXIT_FAILED # of a program in the guest
  for scene in "$@"; do
    if [[ $code == "$EXIT_MISSING" ]]; then
      # In cargo's words, so that scripts/test counts it and says why.
      say "     Running scene $scene ($SCENES/guest-0)"
      say "test scene_$scene ... ignored, $why"
    elif [[ $(ran "$log" "$scene") == 0 ]]; then
      code=$EXIT_FAILED
      say "error: scene $scene: no test ran in it"
    fi
  done
  rm -f "$log"
  return "$code"
}

guest_test() {
  local scene machine begin result code scenes=("$@") shared failed=0 ran=0 summary=() seen=' '
  guest_needs
  [[ ${#scenes[@]} -gt 0 ]] || mapfile -t scenes < <(all_scenes)
  for scene in "${scenes[@]}"; do
    grep -qxF "== $scene" "$SCENES/scenes" || die "$EXIT_USAGE" "there is no scene '$scene': see $SCENES/scenes"
  done
  for scene in "${scenes[@]}"; do
    machine=$(machine_of "$scene")
    [[ $seen != *" $machine "* ]] || continue
    seen+="$machine " begin=$SECONDS code=0
    mapfile -t shared < <(for scene in "${scenes[@]}"; do [[ $(machine_of "$scene") != "$machine" ]] || say "$scene"; done)
    run_machine '' "${shared[@]}" || code=$?
    case $code in
      0) result=ok ran=$((ran + 1)) ;;
      "$EXIT_MISSING") result=skipped ;;
      *) result=FAILED failed=$((failed + 1)) ;;
    esac
    summary+=("$(printf '%-8s %5d s  %s' "$result" $((SECONDS - begin)) "${shared[*]}")")
  done
  printf '\n%-8s %7s  %s\n' result time 'scenes of one boot'
  printf '%s\n' "${summary[@]}"
  [[ $failed == 0 ]] || exit "$EXIT_FAILED"
  [[ $ran -gt 0 ]] || exit "$EXIT_MISSING"
}

# scripts/guest smoke: one boot of Debian's kernel.
guest_smoke() {
  guest_needs
  run_machine "$SMOKE" four
}

# scripts/guest fetch: kernels and packages, so that tests find them. What cannot be had is told at the end: each scene that
# needs it says so itself.
guest_fetch() {
  local what code worst=0 lacking=() all=('guest-kernel debian' 'guest-kernel own' 'guest/linux-client --fetch')
  guest_needs
  for what in "${all[@]}"; do
    code=0
    # shellcheck disable=SC2086 # words are wanted
    scripts/lib/$what >/dev/null || code=$?
    [[ $code != 0 ]] || continue
    lacking+=("$what")
    [[ $code == "$EXIT_MISSING" ]] || worst=$code
  done
  [[ ${#lacking[@]} == 0 ]] || warn "not there, of scripts/lib: $(printf "'%s' " "${lacking[@]}")"
  [[ $worst == 0 ]] || exit "$worst"
  [[ ${#lacking[@]} -lt ${#all[@]} ]] || die "$EXIT_MISSING" 'nothing of what the guest needs can be had'
}

# scripts/guest binding: what a user would do with four SSDs: bind, list and identify each; then bind, unbind and list of
# `warpbell` against a real kernel. One boot.
guest_binding() {
  guest_needs
  "$0" run --ssds 4 --program "$(built bin warpbell)" --file scripts/lib/guest/identify-check.sh=/run/identify-check.sh \
    --file scripts/lib/guest/bind-check.sh=/run/bind-check.sh --file scripts/lib/guest/checks.sh=/run/checks.sh -- sh -c 'sh /run/identify-check.sh && sh /run/bind-check.sh'
}

# scripts/guest files: manifests of files on ext4 and XFS, made by Linux's own mounts, beside what our driver reads. One boot.
guest_files() {
  local name options=()
  guest_needs
  PATH+=:/usr/sbin:/sbin
  for name in mkfs.ext4 mkfs.xfs filefrag; do
    have "$name" || die "$EXIT_MISSING" "$name is missing: this needs the Debian packages e2fsprogs and xfsprogs: run scripts/setup"
    options+=(--program "$(command -v "$name")")
  done
  [[ ! -e /etc/mke2fs.conf ]] || options+=(--file /etc/mke2fs.conf)
  "$0" run --ssds 2 --size 512M --program "$(built bin warpbell)" "${options[@]}" --timeout 900 \
    --file scripts/lib/guest/files-check.sh=/run/files-check.sh --file scripts/lib/guest/checks.sh=/run/checks.sh -- sh /run/files-check.sh
}
