#!/bin/sh
# Runs in the guest, with two SSDs, warpbell, mkfs.ext4, mkfs.xfs and filefrag in /bin: files that Linux wrote are captured,
# and read without Linux. ext4 lies in a partition, XFS on a whole namespace. Ends with the line `N passed, N failed`.

. /run/checks.sh

has_node() { [ -b "/dev/$1" ]; }
# Its number is that of the first free controller: another one after an unbind.
has_part() { has_node "$(disk_of "$1")$2"; }

# The files that are digested by kernels, and those of them whose bytes are copied.
FILES='plain ahead one empty fragmented sparse huge d3/e2/f1'
COPIED='plain ahead one empty fragmented sparse d3/e2/f1'

# sum_of KIND NAME: the file that has the SHA-256 of a copied one.
sum_of() { echo "/tmp/$1/$(echo "$2" | tr / -).sum"; }

# make_files: in this folder: whole, in pieces, with holes, 5 GiB, one byte, none, allocated ahead, 60 in 20 folders, and a folder
# of 200 names, every third of which is removed again.
make_files() {
  head -c 3000001 /dev/urandom >plain
  printf x >one
  : >empty
  fallocate -l 1048576 ahead
  printf y | dd of=ahead bs=4096 seek=10 conv=notrunc 2>/dev/null
  for i in $(seq 0 23); do
    # Each block is on the disk before the next one of the other file asks for its place.
    for name in fragmented other; do
      dd if=/dev/urandom of=$name bs=4096 count=1 seek="$i" conv=notrunc,fsync 2>/dev/null
    done
  done
  dd if=/dev/urandom of=sparse bs=4096 count=3 seek=77 2>/dev/null
  truncate -s 1000000 sparse
  truncate -s 5G huge
  head -c 70000 /dev/urandom | dd of=huge bs=1M seek=4500 conv=notrunc 2>/dev/null
  for i in 0 1 2 3 4; do
    for k in 0 1 2 3; do
      mkdir -p d$i/e$k
      for m in 0 1 2; do echo "$i$k$m" >d$i/e$k/f$m; done
    done
  done
  ln -s d3/e2 link
  mkdir many
  for i in $(seq 0 199); do echo "$i" >"many/a-name-of-some-length-$i"; done
  for i in $(seq 0 3 199); do rm "many/a-name-of-some-length-$i"; done
}

# joined: extents of three numbers, those that touch as one.
joined() {
  awk '{ if (n && $1 == o + b && $2 == a + b) { b += $3 } else { if (n) print o, a, b; o = $1; a = $2; b = $3; n = 1 } }
    END { if (n) print o, a, b }'
}

# extents FILE START: as filefrag tells them: offset, byte of the disk, bytes; without what is not written.
extents() {
  filefrag -b512 -v "$1" | tr -d ':' | tr '.' ' ' |
    awk -v start="$2" '$1 ~ /^[0-9]+$/ && !/unwritten/ { printf "%.0f %.0f %.0f\n", $2 * 512, $4 * 512 + start, $6 * 512 }' | joined
}

# file_of MANIFEST PATH: what it has of a file, to the end of its extents. checksum_of, extents_of: parts of it.
file_of() { sed 's/{"path"/\n&/g' "$1" | grep -F "{\"path\":\"/$2\","; }
checksum_of() { file_of "$1" "$2" | sed 's/.*"checksum":"\([0-9a-f]*\)".*/\1/'; }
extents_of() {
  file_of "$1" "$2" | grep -o '{"offset":[0-9]*,"at":[0-9]*,"bytes":[0-9]*}' | tr -c '0-9\n' ' ' | joined
}

# captured KIND NODE START: the files of the file system on /dev/NODE, which begins at byte START of its disk.
captured() {
  kind=$1 node=$2 start=$3
  mkdir -p "/mnt/$kind" "/tmp/$kind"
  mount -t "$kind" "/dev/$node" "/mnt/$kind"
  count $? "$kind: mount"
  cd "/mnt/$kind" && make_files
  expect 0 'left out' "$kind: capture" warpbell files capture "/mnt/$kind" -o "/tmp/$kind.json" --checksum crc32c
  mkfifo pipe
  expect 3 'a pipe, no file' "$kind: what is no file is refused by name" warpbell files capture "/mnt/$kind" -o /tmp/none.json
  [ ! -e /tmp/none.json ]
  count $? "$kind: and nothing is written"
  expect 0 'left out: ' "$kind: or left out by name" warpbell files capture pipe one -o /tmp/none.json --skip-refused
  rm pipe /tmp/none.json
  for name in $COPIED; do sha256sum <"$name" >"$(sum_of "$kind" "$name")"; done
  find . | sed -n 's|^\./||p' | sort >"/tmp/$kind/names"
  # Of files that were appended to, XFS frees what it allocated ahead when it is unmounted: a change like any other.
  cd / && umount "/mnt/$kind" && mount -t "$kind" "/dev/$node" "/mnt/$kind" && cd "/mnt/$kind"
  count $? "$kind: mount once more, before the capture that counts"
  expect 0 'WARP' "$kind: capture again, with the serial number" warpbell files capture "/mnt/$kind" -o "/tmp/$kind.json"
  for name in $FILES; do
    extents $name "$start" >/tmp/told
    extents_of "/tmp/$kind.json" $name | cmp - /tmp/told
    count $? "$kind: extents of $name are those of filefrag ($(wc -l </tmp/told))"
    [ $name != fragmented ] || pieces=$(wc -l </tmp/told)
  done
  [ "$pieces" -gt 3 ]
  count $? "$kind: a file is in $pieces pieces"
  cd /
  umount "/mnt/$kind"
  count $? "$kind: unmount"
}

# read_back KIND BDF: everything of the manifest is what it was, by our driver.
read_back() {
  kind=$1 bdf=$2 manifest=/tmp/$1.json
  expect 0 'and equal their checksums' "$kind: every file equals its checksum" warpbell files check "$manifest" "$bdf"
  for name in $FILES; do
    expect 0 "crc32c $(checksum_of "$manifest" $name)," "$kind: digest of $name by kernels" \
      warpbell digest "$bdf#/$name" --manifest "$manifest"
  done
  for name in $COPIED; do
    warpbell read "$bdf#/$name" --manifest "$manifest" 2>/tmp/err | sha256sum | cmp - "$(sum_of "$kind" "$name")"
    count $? "$kind: sha256 of $name"
  done
  expect 0 "crc32c $(checksum_of "$manifest" d3/e2/f1)," "$kind: through a symbolic link" \
    warpbell digest "$bdf#/link/f1" --manifest "$manifest"
  expect 2 'the manifest has no /nothing' "$kind: a file that is not in it" warpbell read "$bdf#/nothing" --manifest "$manifest"
}

# names_of BDF FOLDER/: everything in the folder and below, by the file system alone.
names_of() {
  warpbell files ls "$1#/$2" --partition 1 | while read -r type bytes name; do
    echo "$2$name"
    [ "$type" != directory ] || names_of "$1" "$2$name/"
  done
}

# read_alone BDF: the same by the ext4 in partition 1, without a manifest: its reader alone finds folders and files.
read_alone() {
  bdf=$1
  names_of "$bdf" '' | sort >/tmp/names
  cmp /tmp/names /tmp/ext4/names
  count $? "ext4 alone: names in all folders ($(wc -l </tmp/names))"
  for name in $FILES; do
    expect 0 "crc32c $(checksum_of /tmp/ext4.json "$name")," "ext4 alone: digest of $name by kernels" \
      warpbell digest "$bdf#/$name" --partition 1
  done
  for name in $COPIED; do
    warpbell read "$bdf#/$name" --partition 1 2>/tmp/err | sha256sum | cmp - "$(sum_of ext4 "$name")"
    count $? "ext4 alone: sha256 of $name"
  done
  expect 2 'there is no "a-name-of-some-length-3"' 'ext4 alone: a name that was removed' \
    warpbell read "$bdf#/many/a-name-of-some-length-3" --partition 1
}

# stale KIND BDF PART WORD: Linux mounts it again, one file changes: the manifest is refused, and says what changed.
stale() {
  kind=$1 bdf=$2 part=$3 word=$4
  warpbell unbind "$bdf" --restore >/dev/null
  until_true 60 has_part "$bdf" "$part"
  mount -t "$kind" "/dev/$(disk_of "$bdf")$part" "/mnt/$kind"
  count $? "$kind: mount again"
  printf z | dd of="/mnt/$kind/d3/e2/f1" conv=notrunc 2>/dev/null
  umount "/mnt/$kind"
  bind "$bdf"
  expect 1 "$word" "$kind: check says that it is stale" warpbell files check "/tmp/$kind.json" "$bdf"
  expect 3 '/d3/e2/f1: written at' "$kind: read refuses, and names the file" \
    warpbell read "$bdf#/plain" --manifest "/tmp/$kind.json"
  expect 3 'stale' "$kind: digest refuses" warpbell digest "$bdf#/plain" --manifest "/tmp/$kind.json"
}

bind() { warpbell bind "$1" --allow-signed="$(sed 's/ *$//' "/sys/bus/pci/devices/$1/nvme/"*/serial)" >/tmp/bound 2>&1 || cat /tmp/bound; }

for module in /modules/xfs/*.ko; do [ ! -e "$module" ] || insmod "$module"; done
for kind in ext4 xfs; do grep -qw $kind /proc/filesystems || { echo "FAILED  this kernel has no $kind" && failed=1; }; done
grep -l '^0x010802' /sys/bus/pci/devices/*/class | sed 's|/class||; s|.*/||' >/tmp/functions
first=$(sed -n 1p /tmp/functions) second=$(sed -n 2p /tmp/functions)
until_true 20 has_node "$(disk_of "$first")" && until_true 20 has_node "$(disk_of "$second")"
count $? "the kernel's driver owns both SSDs"
part=$(disk_of "$first")p1 whole=$(disk_of "$second")
printf 'o\nn\np\n1\n\n\nw\n' | fdisk "/dev/${part%p1}" >/dev/null 2>&1
until_true 20 has_node "$part"
count $? 'a partition'
mkfs.ext4 -q "/dev/$part" && mkfs.xfs -q -K "/dev/$whole"
count $? 'file systems'

captured ext4 "$part" $(($(cat "/sys/class/block/$part/start") * 512))
captured xfs "$whole" 0
bind "$first"
bind "$second"
read_back ext4 "$first"
read_back xfs "$second"
read_alone "$first"
expect 1 'serial number WARP0' 'another SSD is noticed' warpbell files check /tmp/ext4.json "$second"
stale ext4 "$first" p1 'mount count 2'
stale xfs "$second" '' 'records of changes'

report
