#!/bin/sh
# Runs in the guest, with two SSDs and warpbell in /bin: bind, unbind and list against a real kernel.
# Ends with the line `N passed, N failed`.

. /run/checks.sh

has_disk() { [ -b "/dev/$(disk_of "$1")" ]; }
driver_of() { basename "$(readlink "/sys/bus/pci/devices/$1/driver")"; }

# Contents, mounts and swap, on a disk that is empty before and after.
check_contents() {
  mke2fs "/dev/$disk" >/dev/null 2>&1
  expect 3 'ext2, ext3 or ext4 file system' 'a file system is refused' warpbell bind "$ssd" --dry-run
  expect 0 'allowed by name' 'and allowed by name' warpbell bind "$ssd" --dry-run --allow-signed="$serial"
  mkdir -p /mnt/data
  mount -t ext4 "/dev/$disk" /mnt/data
  count $? 'ext4 mounts'
  expect 3 "mounted at /mnt/data ($disk)" 'a mounted SSD is refused, and the mount point named' warpbell bind "$ssd" --dry-run --allow-signed="$serial"
  expect 3 "mounted at /mnt/data ($disk)" 'also without --dry-run' warpbell bind "$ssd" --allow-signed="$serial"
  expect 0 "mounted at /mnt/data ($disk)" 'list names the mount point' warpbell list
  umount /mnt/data

  # Mounted where /proc/self/mountinfo does not show it.
  unshare -m sh -c "mount -t ext4 /dev/$disk /mnt/data && touch /tmp/mounted && until [ -e /tmp/over ]; do usleep 100000; done" &
  until_true 10 test -e /tmp/mounted
  count $? 'a mount of another mount namespace'
  expect 3 EBUSY 'is refused too' warpbell bind "$ssd" --dry-run --allow-signed="$serial"
  touch /tmp/over
  wait

  dd if=/dev/zero "of=/dev/$disk" bs=1M count=1 2>/dev/null
  printf 'o\nn\np\n1\n\n\nw\n' | fdisk "/dev/$disk" >/dev/null 2>&1
  expect 3 'master boot record' 'a partition table is refused' warpbell bind "$ssd" --dry-run
  part=${disk}p1
  if until_true 5 test -b "/dev/$part"; then
    mke2fs "/dev/$part" >/dev/null 2>&1
    mount -t ext4 "/dev/$part" /mnt/data
    expect 3 "mounted at /mnt/data ($part)" 'a mounted partition is refused' warpbell bind "$ssd" --dry-run --allow-signed="$serial"
    umount /mnt/data
  else
    count 1 'the partition appears'
  fi
  dd if=/dev/zero "of=/dev/$disk" bs=1M count=2 2>/dev/null
  blockdev --rereadpt "/dev/$disk"

  mkswap "/dev/$disk" >/dev/null && swapon "/dev/$disk"
  expect 3 "swap space in use ($disk)" 'swap is refused' warpbell bind "$ssd" --dry-run --allow-signed="$serial"
  swapoff "/dev/$disk"
  dd if=/dev/zero "of=/dev/$disk" bs=1M count=1 2>/dev/null
}

mkdir -p /etc
echo 'ann:x:1000:1000::/tmp:/bin/sh' >/etc/passwd
for module in /modules/ext4/*.ko; do [ -e "$module" ] && insmod "$module"; done
grep -l '^0x010802' /sys/bus/pci/devices/*/class | sed 's|/class||; s|.*/||' >/tmp/functions
ssd=$(sed -n 1p /tmp/functions) other=$(sed -n 2p /tmp/functions)
until_true 20 has_disk "$ssd"
count $? "the kernel's driver owns $ssd"
disk=$(disk_of "$ssd")
serial=$(sed 's/ *$//' "/sys/bus/pci/devices/$ssd/nvme/"*/serial)
other_serial=$(sed 's/ *$//' "/sys/bus/pci/devices/$other/nvme/"*/serial)
group=$(basename "$(readlink "/sys/bus/pci/devices/$ssd/iommu_group")")

expect 0 "no: warpbell bind $ssd" 'list says how to make an SSD usable' warpbell list
expect 0 "echo vfio-pci > /sys/bus/pci/devices/$ssd/driver_override" 'a dry run prints the writes' warpbell bind "$ssd" --dry-run
expect 0 nvme 'and changes nothing' driver_of "$ssd"

if grep -qw ext4 /proc/filesystems; then
  check_contents
else
  echo 'skipped contents, mounts and swap: this kernel has no ext4'
fi

sh -c "exec 3<'/dev/$disk'; touch /tmp/opened; until [ -e /tmp/closed ]; do usleep 100000; done" &
opener=$!
until_true 10 test -e /tmp/opened
expect 3 "open in process $opener" 'an open SSD is refused, and the process named' warpbell bind "$ssd" --dry-run
touch /tmp/closed
wait

expect 0 "opens as /dev/vfio/$group" 'bind' warpbell bind "$ssd" --user ann
expect 0 vfio-pci 'the driver is vfio-pci' driver_of "$ssd"
expect 0 1000 'the node belongs to the user' stat -c %u "/dev/vfio/$group"
expect 0 "is already with vfio-pci" 'binding again does nothing' warpbell bind "sn:$serial"
expect 0 "$serial" 'list still knows the serial number' warpbell list
expect 0 "\"usable\": true" 'and that it can be used' warpbell list -o json

expect 0 "$serial" 'the driver reads the serial number itself' warpbell identify "$ssd"
expect 1 "there is no NVMe function" 'list names a function that is none' warpbell list 00:00.0
expect 0 "Usable now: $ssd; " 'list says what can be opened' warpbell list "$ssd"

as_user() { start-stop-daemon -S -c ann -p /tmp/none -x /bin/sh -- -c "$*"; }
expect 0 '"usable": true' 'its user may open it' as_user "warpbell list -o json | grep -A 22 '$ssd'"
expect 1 'run as root' 'but may not unbind it' as_user warpbell unbind "$ssd"
expect 3 'run as root' 'nor bind another' as_user warpbell bind "$other"
expect 0 vfio-pci 'and nothing came of it' driver_of "$ssd"

sh -c "exec 3<>'/dev/vfio/$group'; touch /tmp/held; until [ -e /tmp/free ]; do usleep 100000; done" &
holder=$!
until_true 10 test -e /tmp/held
expect 3 "open in process $holder" 'a driven SSD is not unbound, and the process named' warpbell unbind "$ssd"
touch /tmp/free
wait

expect 0 'is with nvme' 'unbind --restore' warpbell unbind "sn:$serial" --restore
until_true 20 has_disk "$ssd"
count $? "the kernel's driver brings the disk up again"
expect 0 '(null)' 'no override is left' cat "/sys/bus/pci/devices/$ssd/driver_override"
! [ -e "/run/warpbell/bindings/$ssd.json" ]
count $? 'no note is left'
expect 0 'is already with nvme' 'unbinding again does nothing' warpbell unbind "$ssd"

mkdir -p "/etc/udev/rules.d/99-warpbell-$other_serial.rules"
expect 1 "$ssd was released too" 'of two, one cannot be bound' warpbell bind "$ssd" "$other" --persist
expect 0 nvme 'and neither is' sh -c "readlink /sys/bus/pci/devices/$ssd/driver && readlink /sys/bus/pci/devices/$other/driver"
! [ -e "/etc/udev/rules.d/99-warpbell-$serial.rules" ]
count $? 'nor is a rule left'
rmdir "/etc/udev/rules.d/99-warpbell-$other_serial.rules"
until_true 20 has_disk "$other"
until_true 20 has_disk "$ssd"

expect 0 "$other" 'two at once' warpbell bind "$ssd" "$other"
expect 0 'is with nvme' 'and back by the choice of the kernel' warpbell unbind "$ssd" "$other"
until_true 20 has_disk "$other"
count $? 'the other disk comes up again'

report
