# shellcheck shell=bash
# What the logs of a run say. QEMU completes commands with success whose DMA failed: only its messages and the guest's
# kernel log show it.

# Each prints the lines that it finds.
dma_faults() {
  grep -aE 'DMAR: \[|DMAR: DRHD: handling fault' "$1/kernel.log" || true
  grep -aE 'vtd_' "$1/qemu.log" || true
}
# complaints WORK: of the kernel; what a PCIe port reports of errors (AER) is one too.
complaints() {
  grep -aE 'BUG:|WARNING: CPU|Oops|general protection fault|Kernel panic|Bad page|blocked for more than|PCIe Bus Error|AER: .*(error|received)' \
    "$1/kernel.log" || true
}
# kernel_faults WORK PATTERN...: complaints that no pattern announced.
kernel_faults() {
  local work=$1 pattern lines
  shift
  lines=$(complaints "$work")
  for pattern in "$@"; do lines=$(grep -avE -- "$pattern" <<<"$lines" || true); done
  [[ -z $lines ]] || printf '%s\n' "$lines"
}
# unsaid WORK PATTERN...: the first pattern that was announced and is in no line of the kernel log.
unsaid() {
  local work=$1 pattern
  shift
  for pattern in "$@"; do
    grep -aqE -- "$pattern" "$work/kernel.log" || { printf '%s\n' "$pattern" && return; }
  done
}

# no_result WORK QEMU_STATUS: why a run says nothing about the program, if so. QEMU's controller (7.2) completes commands on
# queues that it has freed, if it is reset while it fetches more: SIGSEGV, or SIGABRT by malloc. Its processors now and
# then run half of an instruction that the other one is patching, while the kernel boots.
no_result() {
  ! grep -aqs '^GUEST-EXIT ' "$1/out.log" || return 0
  if [[ $2 == 139 || $2 == 134 ]]; then
    say "QEMU itself crashed (exit code $2)"
  elif grep -aqs 'Kernel panic' "$1/kernel.log" && ! grep -aqs 'Run /init as init process' "$1/kernel.log"; then
    say 'the kernel had a panic before it ran a program'
  fi
}

# judge WORK QEMU_STATUS EXPECT_DMA_FAULT PATTERN...: prints the program's output; returns its exit code, or 1 for a run
# that is no result, with the reason on stderr. Each pattern announces lines of the kernel log, which must be there.
judge() {
  local work=$1 status=$2 expected=$3 code faults
  shift 3
  [[ -e $work/out.log ]] || : >"$work/out.log"
  grep -av '^GUEST-EXIT ' "$work/out.log" || true
  code=$(sed -n 's/^GUEST-EXIT //p' "$work/out.log" | tail -n 1)
  faults=$(dma_faults "$work")
  if [[ -z $code ]]; then
    [[ $status == 124 || $status == 137 ]] && warn "the guest was ended at its time limit"
    complain "$work" "no exit status from the guest (QEMU ended with $status)"
  elif [[ -n $(kernel_faults "$work" "$@") ]]; then
    complain "$work" "the guest's kernel complains: $(kernel_faults "$work" "$@" | head -n 3)"
  elif [[ -n $(unsaid "$work" "$@") ]]; then
    complain "$work" "no '$(unsaid "$work" "$@")' in the kernel log, but --expect-kernel announced it"
  elif [[ -n $faults && $expected == no ]]; then
    complain "$work" "a DMA fault that was not announced: $(head -n 5 <<<"$faults")"
  elif [[ -z $faults && $expected == yes ]]; then
    complain "$work" "no DMA fault in the logs, but --expect-dma-fault announced one"
  else
    return "$code"
  fi
}

# complain WORK TEXT: the reason, and the ends of both logs.
complain() {
  {
    printf -- '--- guest: end of the kernel log\n'
    tail -n 25 "$1/kernel.log"
    printf -- '--- guest: QEMU\n'
    tail -n 10 "$1/qemu.log"
    printf 'error: guest: %s\n' "$2"
  } >&2
  return "$EXIT_FAILED"
}
