# shellcheck shell=bash
# The guest's initial file system: a base that is kept (busybox, kernel modules, init), and what a run adds to it.

readonly GUEST_CACHE=$TARGET_DIR/guest

# Modules of a kernel that has them as modules, in the order in which they are loaded; those of EXT4 and XFS only lie
# there, for tests that mount a disk.
readonly VFIO_MODULES='irqbypass vfio_virqfd vfio vfio_iommu_type1 vfio-pci-core vfio-pci'
readonly EXT4_MODULES='crc16 mbcache jbd2 crc32c_generic ext4'
readonly XFS_MODULES='libcrc32c xfs'

# base_image MODULES: prints the path of the base image for a kernel's folder of modules ('' for none).
base_image() {
  local modules=$1 hash image root
  hash=$({ sha256sum /bin/busybox scripts/lib/guest/{init,image.sh}; say "$modules"; } | sha256sum | cut -c1-16)
  image=$GUEST_CACHE/base-$hash.cpio
  if [[ ! -e $image ]]; then
    root=$(mktemp -d -p "$GUEST_CACHE")
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,run,root,modules/{ext4,xfs}}
    cp /bin/busybox "$root/bin/"
    busybox --list | while read -r name; do
      [[ $name == busybox ]] || ln -s busybox "$root/bin/$name"
    done
    install -m 755 scripts/lib/guest/init "$root/init"
    if [[ -n $modules ]]; then
      add_modules "$modules" "$root/modules" "$VFIO_MODULES"
      add_modules "$modules" "$root/modules/ext4" "$EXT4_MODULES"
      add_modules "$modules" "$root/modules/xfs" "$XFS_MODULES"
    fi
    pack "$root" >"$root.cpio"
    mv "$root.cpio" "$image"
    rm -rf "$root"
  fi
  say "$image"
}

# add_modules FROM TO NAMES: numbered, so that the order of names is the order of loading.
add_modules() {
  local name file number=10
  for name in $3; do
    file=$(find "$1" -name "$name.ko*" | head -n 1)
    case $file in
      '') continue ;; # another version of the kernel has it built in, or has none
      *.xz) xz -dc "$file" >"$2/$number-$name.ko" ;;
      *) cp "$file" "$2/$number-$name.ko" ;;
    esac
    number=$((number + 1))
  done
}

# pack FOLDER: a cpio archive of it, all files root's.
pack() { (cd "$1" && find . -mindepth 1 | cpio -o -H newc -R 0:0 --quiet); }

# add_program ROOT FILE PATH: a program and the shared libraries it needs, without debug information.
add_program() {
  local root=$1 file=$2 path=$3 library
  mkdir -p "$root$(dirname "$path")"
  if ! have objcopy || ! objcopy --strip-debug "$file" "$root$path" 2>/dev/null; then
    cp -L "$file" "$root$path"
  fi
  chmod 755 "$root$path"
  while read -r library; do
    [[ -e $root$library ]] && continue
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done < <(ldd "$file" 2>/dev/null | grep -oE '/[^ ]+')
}

# add_file ROOT FILE[=PATH]
add_file() {
  local root=$1 file=${2%%=*} path=${2##*=}
  [[ -e $file ]] || die "$EXIT_USAGE" "--file $file: there is no such file"
  mkdir -p "$root$(dirname "$path")"
  cp -rL "$file" "$root$path"
}

# guest_kernel KIND: sets `image` (the kernel) and `modules` (a folder, or nothing).
guest_kernel() {
  local paths
  [[ $1 == debian || $1 == own ]] || die "$EXIT_USAGE" "--kernel $1: debian or own"
  paths=$(scripts/lib/guest-kernel "$1") || exit
  { read -r image; read -r modules || true; } <<<"$paths"
}
