# What checks in the guest share: they source it as /run/checks.sh, and end with `report`.

passed=0 failed=0
count() { # count STATUS WHAT: one line
  if [ "$1" = 0 ]; then passed=$((passed + 1)) && echo "ok      $2"; else failed=$((failed + 1)) && echo "FAILED  $2"; fi
}

# expect CODE WORD WHAT COMMAND...: the command ends with the code, and says the word.
expect() {
  code=$1 word=$2 what=$3
  shift 3
  "$@" >/tmp/out 2>&1
  found=$?
  [ "$found" = "$code" ] && grep -qF -- "$word" /tmp/out
  status=$?
  count $status "$what"
  [ $status = 0 ] || { echo "        wanted exit $code and '$word', found exit $found and:" && sed 's/^/        /' /tmp/out; }
}

# until_true SECONDS COMMAND...: the kernel brings disks up in its own time.
until_true() {
  left=$(($1 * 10))
  shift
  until "$@"; do
    left=$((left - 1))
    [ $left -gt 0 ] || return 1
    usleep 100000
  done
}

# disk_of BDF: the block device of a function that the nvme driver owns.
disk_of() { basename "$(ls -d /sys/bus/pci/devices/"$1"/nvme/nvme*/nvme*n1 2>/dev/null | head -n 1)"; }

# Ends a check with the line `N passed, N failed`.
report() {
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]
}
