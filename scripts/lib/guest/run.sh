# shellcheck shell=bash
# scripts/guest run: options, one boot, the judgement.

guest_needs() {
  local need missing=()
  for need in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio xz:xz-utils; do
    have "${need%%:*}" || missing+=("${need##*:}")
  done
  [[ ${#missing[@]} == 0 ]] || die "$EXIT_MISSING" "the guest needs the Debian packages ${missing[*]}: run scripts/setup"
}

# The words of an option that takes one; dies where it is not there.
value() { [[ $# -ge 2 ]] && printf '%s' "$2" || die "$EXIT_USAGE" "$1 needs a value; scripts/guest --help"; }

run_options() {
  kernel=debian ssds=1 size=64M limit=120 expect=no iommu=yes logs=''
  ssd_options=() extra=() disks=() programs=() files=() variables=() words=() announced=() program=()
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --expect-dma-fault) expect=yes && shift && continue ;;
      --no-iommu) iommu=no && shift && continue ;;
      --) shift && program=("$@") && break ;;
    esac
    value "$@" >/dev/null
    case "$1" in
      --kernel) kernel=$2 ;;
      --ssds) ssds=$2 ;;
      --size) size=$2 ;;
      --ssd) ssd_options[${2%%:*}]=${2#*:} ;;
      --device) extra+=(-device "$2") ;;
      --arg) extra+=("$2") ;;
      --disk) disks+=("$2") ;;
      --program) programs+=("$2") ;;
      --file) files+=("$2") ;;
      --env) variables+=("$2") ;;
      --append) words+=("$2") ;;
      --expect-kernel) announced+=("$2") ;;
      --timeout) limit=$2 ;;
      --logs) logs=$2 ;;
      *) die "$EXIT_USAGE" "unknown option '$1'; scripts/guest --help lists what there is" ;;
    esac
    shift 2
  done
  [[ ${#program[@]} -gt 0 ]] || die "$EXIT_USAGE" 'no program to run: scripts/guest run [OPTION]... -- PROGRAM [ARGUMENT]...'
}

# A path as the caller meant it: the scripts work in the repository's root.
at() { [[ $1 == /* ]] && printf '%s' "$1" || printf '%s/%s' "$from" "$1"; }

# The shell command that the guest runs, with its environment.
guest_command() {
  local name
  for name in $(compgen -e | grep -E '^(WARPBELL_|RUST_)' || true) "${variables[@]}"; do
    [[ $name == *=* ]] && printf 'export %s=%q\n' "${name%%=*}" "${name#*=}" || printf 'export %s=%q\n' "$name" "${!name:-}"
  done
  printf 'export WARPBELL_GUEST=%q PATH=/bin HOME=/root LD_LIBRARY_PATH=\n' "$kernel"
  printf 'exec'
  printf ' %q' "${program[@]}"
  printf '\n'
}

# Everything that this run adds to the base image.
run_image() {
  local root=$1/root item
  mkdir -p "$root/run" "$root/bin"
  if [[ ${program[0]} == */* ]]; then
    add_program "$root" "$(at "${program[0]}")" "/run/$(basename "${program[0]}")"
    program[0]=/run/$(basename "${program[0]}")
  fi
  for item in "${programs[@]}"; do add_program "$root" "$(at "$item")" "/bin/$(basename "$item")"; done
  for item in "${files[@]}"; do add_file "$root" "$(at "$item")"; done
  guest_command >"$root/run/command"
  cat "$(base_image "$modules")" <(pack "$root") >"$1/initrd"
  rm -rf "$root"
}

# boot_once: the machine that guest_run describes in its variables, with empty disks; returns how QEMU ended.
boot_once() {
  local n item
  local -a arguments
  rm -f "$work"/ssd* "$work/qmp"
  for item in "${disks[@]}"; do
    rm -f "$work/${item%%:*}"
    truncate -s "${item#*:}" "$work/${item%%:*}"
  done
  mapfile -t arguments < <(
    machine_arguments "$iommu"
    for ((n = 0; n < ssds; n++)); do ssd_arguments "$work" "$n" "$size" "${ssd_options[$n]:-}"; done
    serial_arguments "$work"
    boot_arguments "$image" "$work/initrd" "intel_iommu=on ${words[*]}"
    [[ ${#extra[@]} == 0 ]] || printf '%s\n' "${extra[@]//%w/$work}"
  )
  timeout -k 5 "$limit" qemu-system-x86_64 "${arguments[@]}" </dev/null >"$work/qemu.log" 2>&1
}

guest_run() {
  local kernel ssds size limit expect iommu logs work image modules faults again reason code=0 status=0
  local -a ssd_options extra disks programs files variables words announced program
  # shellcheck disable=SC2086 # words are wanted
  set -- ${WARPBELL_GUEST_OPTIONS:-} "$@"
  run_options "$@"
  guest_needs
  mkdir -p "$GUEST_CACHE"
  guest_kernel "$kernel"
  work=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$work'" EXIT
  run_image "$work"
  boot_once || status=$?
  for again in 1 2; do
    reason=$(no_result "$work" "$status")
    [[ -n $reason ]] || break
    warn "$reason: no result; booting again ($again of 2)"
    faults=$(dma_faults "$work")
    [[ $reason == *panic* ]] || faults+=$(kernel_faults "$work" "${announced[@]}")
    [[ $expect == yes || -z $faults ]] || die "$EXIT_FAILED" "and there was reason to look at before it did: ${faults:0:1000}"
    status=0
    boot_once || status=$?
  done
  judge "$work" "$status" "$expect" "${announced[@]}" || code=$?
  [[ -z $logs ]] || { mkdir -p "$(at "$logs")" && cp "$work"/{kernel,qemu,out}.log "$(at "$logs")/"; }
  exit "$code"
}
