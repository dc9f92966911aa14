# shellcheck shell=bash
# The machine that QEMU emulates.

# Never KVM: where /dev/kvm opens, a guest may still die in it.
# Two processors: for one, QEMU before 8.1 leaves the guest's memory barriers out, as if devices ran on the same one. A
# store of a shadow doorbell then comes after the load of EventIdx, and once in some hundred thousand doorbells both
# sides wait for each other.
# machine_arguments IOMMU
machine_arguments() {
  printf '%s\n' -nodefaults -no-user-config -display none -no-reboot \
    -machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m 1G
  [[ $1 == no ]] || printf '%s\n' -device intel-iommu,intremap=on,caching-mode=on
}

# ssd_arguments WORK N SIZE OPTIONS: an SSD behind a root port of its own, so that it has an IOMMU group of its own.
ssd_arguments() {
  local work=$1 n=$2 size=$3 options=$4
  truncate -s "$size" "$work/ssd$n"
  printf '%s\n' -device "pcie-root-port,id=rp$n,chassis=$n,slot=$n" \
    -drive "if=none,id=d$n,file=$work/ssd$n,format=raw,cache=unsafe,discard=unmap" \
    -device "nvme,id=nvme$n,serial=WARP$n,drive=d$n,bus=rp$n${options:+,$options}"
}

# Serial ports: the kernel's log, the program's output, and QEMU's own monitor for programs in the guest.
serial_arguments() {
  local work=$1
  printf '%s\n' -serial "file:$work/kernel.log" -serial "file:$work/out.log" \
    -chardev "socket,id=qmp,path=$work/qmp,server=on,wait=off" -mon chardev=qmp,mode=control \
    -chardev "socket,id=qmpline,path=$work/qmp" -serial chardev:qmpline
}

# boot_arguments KERNEL INITRD WORDS: Linux, with words of its command line besides those that every guest has. Whether
# timer interrupts come is not tested: under software emulation on a busy machine that test fails.
boot_arguments() {
  printf '%s\n' -kernel "$1" -initrd "$2" \
    -append "console=ttyS0 panic=-1 nokaslr mitigations=off tsc=reliable no_timer_check $3"
}
