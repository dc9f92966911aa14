#!/bin/sh
# Runs in the guest, with four SSDs and warpbell in /bin: what a user would do with them. Fails unless each says its serial
# number and a namespace; at the end all are with the kernel's driver again.
set -eu
cd /tmp

functions() { grep -l '^0x010802' /sys/bus/pci/devices/*/class | sed 's|/class||; s|.*/||'; }

warpbell list
number=0
for bdf in $(functions); do
  warpbell bind "$bdf" | tail -n 1
  warpbell identify "$bdf" >identify.txt
  grep -E "^(device|sn|mn|fr|queues|size) |^NVME Identify Namespace" identify.txt
  grep -Eq "^sn .*: WARP$number *$" identify.txt
  grep -Eq "^mn .*: QEMU NVMe Ctrl *$" identify.txt
  grep -q "^NVME Identify Namespace 1" identify.txt
  number=$((number + 1))
done
[ $number = 4 ]
warpbell list
for bdf in $(functions); do warpbell unbind "$bdf" --restore >/dev/null; done
