# shellcheck shell=bash
# Steps of scripts/test: each runs one command into a log, says how it went, and adds to its bed's tally.

readonly LOGS=target/test-logs
step_number=0

# Is this bed asked for?
wanted() { [[ $only_bed == all || $only_bed == "$1" ]]; }

# tally PARSER BED LOG: adds what a step's log says to the beds, and puts it into `counts`. Takes the step's `code`,
# and sets it where nothing ran.
tally() {
  local parser=$1 bed=$2 log=$3 p=0 f=0 s=0 name a b c
  case "$parser" in
    cargo)
      while read -r name a b c; do
        if [[ $name == why ]]; then
          because "$bed" "$a${b:+ $b}${c:+ $c}"
        else
          add "$(bed_of "$bed" "$name")" "$a" "$b" "$c"
          p=$((p + a)) f=$((f + b)) s=$((s + c))
        fi
      done < <(parse_cargo "$log")
      ;;
    plain) # one line for all: N passed, N failed, and what was skipped if that can be
      read -r p f s < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$log" | tail -n 1) || true
      add "$bed" "${p:-0}" "${f:-0}" "${s:-0}"
      ;;
    programs) # a line for each program, with its assertions: NAME: N passed, N failed; or SKIPPED: WHY
      p=$(grep -Ec '^[a-z_]+: [0-9]+ passed, 0 failed$' "$log" || true)
      f=$(grep -Ec '^FAILED: ' "$log" || true)
      while read -r a; do
        because "$bed" "$a"
        s=$((s + 1))
      done < <(sed -n 's/^SKIPPED: //p' "$log")
      add "$bed" "$p" "$f" "$s"
      ;;
    exit)
      [[ $code == 0 ]] && p=1
      add "$bed" "$p" 0 0
      ;;
  esac
  # A step that ran nothing has shown nothing.
  if [[ $code == 0 && ${p:-0} == 0 ]]; then
    say 'error: no test ran' >>"$log"
    code=1
  fi
  # A command that failed without a failing test (it did not compile, it crashed) is one failure.
  if [[ $code != 0 && ${f:-0} == 0 ]]; then
    add "$bed" 0 1 0
    f=1
  fi
  counts="${p:-0} passed, ${f:-0} failed, ${s:-0} skipped"
}

# what_failed LOG: the tests that failed and what they said, wherever in the log that is.
what_failed() {
  awk '
    /^test .*FAILED$|^FAILED|^error|FAILED  / { print; next }
    /panicked at / { left = 6 }
    left > 0 { left--; print }' "$1" | head -n 80
}

# Steps that failed, and those that passed only when they ran again, with what failed: told at the end once more.
trouble=()

# run_step LOG COMMAND...: sets `code`. In CI, on machines that others slow down, a step of tests that fails runs once
# more; that it had to is told beside its result and at the end of everything, with what failed, to be mended.
run_step() {
  local log=$1
  shift
  code=0 again=''
  "$@" >"$log" 2>&1 </dev/null || code=$?
  [[ $code != 0 && ${CI:-} == true && $parser != exit ]] || return 0
  mv "$log" "${log%.log}-first.log"
  code=0 again=' (UNSTEADY: it failed the first time)'
  trouble+=("$(printf -- '--- %s failed and ran again\n%s' "$name" "$(what_failed "${log%.log}-first.log")")")
  "$@" >"$log" 2>&1 </dev/null || code=$?
}

# step BED PARSER NAME COMMAND...
step() {
  local bed=$1 parser=$2 name=$3 log code again begin=$SECONDS counts
  shift 3
  wanted "$bed" || return 0
  step_number=$((step_number + 1))
  log=$LOGS/$(printf '%02d' "$step_number")-${name//[^a-zA-Z0-9]/-}.log
  printf '%s  %-44s ' "$bed" "$name"
  run_step "$log" "$@"
  tally "$parser" "$bed" "$log"
  [[ $code == 0 ]] || again=''
  printf '%-6s %4d s  %s%s\n' "$([[ $code == 0 ]] && echo ok || echo FAILED)" $((SECONDS - begin)) "$counts" "$again"
  [[ $code == 0 ]] && return 0
  printf -- '--- end of %s ---\n' "$log"
  tail -n 60 "$log"
  printf -- '---\n'
  trouble+=("$(printf -- '--- %s FAILED\n%s' "$name" "$(what_failed "$log")")")
}

# What went wrong, all of it in one place: logs are long, and their readers may have only the end.
print_trouble() {
  [[ ${#trouble[@]} == 0 ]] || printf '\n%s\n' "${trouble[@]}"
}

# Where CI=true the set-up has to have worked: what is skipped for want of a tool is a failure there.
must_run() { [[ ${CI:-} == true && $1 == [USQ] && $quick == no ]]; }

# skip BED NAME REASON: a step that cannot run here.
skip() {
  wanted "$1" || return 0
  if must_run "$1"; then
    printf '%s  %-44s %s\n' "$1" "$2" "FAILED: $3"
    add "$1" 0 1 0
  else
    printf '%s  %-44s %s\n' "$1" "$2" "skipped: $3"
    add "$1" 0 0 1
  fi
  because "$1" "$2: $3"
}

# A planted race must be reported, by a test that ran: silence here would mean that the bed sees nothing. Its threads
# have to meet for that, so it has a few tries.
readonly RACE_TRIES=5
expect_race() {
  local log try
  log=$(mktemp)
  for ((try = 1; try <= RACE_TRIES; try++)); do
    if "$@" >"$log" 2>&1; then
      say "try $try of $RACE_TRIES: nothing was reported"
      continue
    fi
    cat "$log"
    grep -q 'WARNING: ThreadSanitizer: data race' "$log" && grep -Eq '^test result: .* 1 passed' "$log" && return
    say "error: the run failed, but not with a report of the planted race"
    return 1
  done
  cat "$log"
  say "error: the planted race was not reported"
  return 1
}
