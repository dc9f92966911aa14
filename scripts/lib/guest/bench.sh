# shellcheck shell=bash
# scripts/guest bench: our driver against the kernel's own path, side by side, on the same emulated SSD.

readonly BENCH_BDF=0000:01:00.0

# bench_table FILE: medians of its RESULT lines, and ratios to the kernel's path with interrupts.
bench_table() {
  python3 - "$1" <<-'PYTHON'
	import collections, statistics, sys
	rates = collections.defaultdict(list)
	for line in open(sys.argv[1]):
	    if line.startswith("RESULT "):
	        _, path, depth, iops = line.split()
	        rates[path, int(depth)].append(float(iops))
	print("depth  kernel IOPS  polled IOPS  warpbell IOPS  / kernel  / polled")
	for depth in sorted({depth for _, depth in rates}):
	    kernel, polled, ours = (statistics.median(rates[path, depth]) for path in ("kernel", "kernel-poll", "warpbell"))
	    print(f"{depth:5}  {kernel:11.0f}  {polled:11.0f}  {ours:13.0f}  {ours / kernel:8.2f}  {ours / polled:8.2f}")
	PYTHON
}

guest_bench() {
  local rounds=${WARPBELL_BENCH_ROUNDS:-3} seconds=${WARPBELL_BENCH_SECONDS:-2} fio log
  fio=$(command -v fio) || die "$EXIT_MISSING" 'fio is missing: apt-get install fio'
  build --quiet -p warpbell-cli
  log=$(mktemp)
  say "512-byte random reads of one emulated SSD in the guest, software emulation: medians of $rounds rounds of $seconds s"
  scripts/guest run --program "$BUILT/warpbell" --program "$fio" --timeout 300 -- \
    scripts/lib/guest/bench-rounds "$BENCH_BDF" "$rounds" "$seconds" >"$log" || { cat "$log"; return 1; }
  bench_table "$log"
  rm -f "$log"
}
