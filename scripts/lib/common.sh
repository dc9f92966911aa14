# shellcheck shell=bash
# Shared by the scripts in this folder's parent. Source it; it changes to the repository root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Exit codes are those of the `warpbell` command.
readonly EXIT_FAILED=1 EXIT_USAGE=2 EXIT_MISSING=4

# Where cargo builds; the user may have moved it.
readonly TARGET_DIR=${CARGO_TARGET_DIR:-target}
# Where built programs lie. WARPBELL_PROFILE names a profile whose programs are there already: scripts/test sets it.
readonly BUILT=$TARGET_DIR/${WARPBELL_PROFILE:-release}

# Where what takes long to make is kept for other checkouts too: kernels of the guest, modules of the CPU target.
CACHE_DIR=$(realpath -m "${WARPBELL_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/warpbell}")
readonly CACHE_DIR

# build CARGO-OPTIONS...: builds what a script runs from $BUILT, unless it is there already.
build() { [[ -n ${WARPBELL_PROFILE:-} ]] || cargo build --release "$@"; }

say() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
# die CODE MESSAGE. scripts/test counts what ends with EXIT_MISSING as skipped, if a line says so: a program that a script
# runs may end with that code, too.
die() {
  local word=error
  [[ $1 != "$EXIT_MISSING" ]] || word='cannot run'
  printf '%s: %s\n' "$word" "$2" >&2
  exit "$1"
}
have() { command -v "$1" >/dev/null 2>&1; }

# What tells one flat layer from the next: a sum over all that scripts/lib/build-flat makes it of.
flat_sources() {
  find kernels/include kernels/flat scripts/lib/build-flat -type f -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

# python_packages FOLDER REQUIREMENTS PIP-OPTIONS...: a virtual environment with what the file names, made where it is not
# there yet.
python_packages() {
  local folder=$1 requirements=$2
  shift 2
  cmp -s "$requirements" "$folder/installed-requirements.txt" && return 0
  "$folder/bin/pip" --version >/dev/null 2>&1 || python3 -m venv --clear "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" -r "$requirements" ||
    die "$EXIT_MISSING" "the packages of $requirements could not be installed"
  cp "$requirements" "$folder/installed-requirements.txt"
}

version_of_workspace() { sed -nE '/^\[workspace\.package\]/,/^\[/ s/^version = "(.*)"/\1/p' Cargo.toml; }

# Prints the comment block at the top of a script: its help is its header.
help_of() { awk 'NR == 1 { next } /^#/ { sub(/^# ?/, ""); print; next } { exit }' "$1"; }

# Scripts without options of their own: --help, or nothing.
only_help() {
  local script=$1
  shift
  case "${1:-}" in
    '') ;;
    -h | --help) help_of "$script" && exit 0 ;;
    *) die "$EXIT_USAGE" "unknown option '$1'; $(basename "$script") --help lists what there is" ;;
  esac
}

cxx() {
  local c
  for c in ${CXX:-} c++ g++ clang++ clang++-19; do
    have "$c" && { printf '%s\n' "$c"; return 0; }
  done
  return 1
}
