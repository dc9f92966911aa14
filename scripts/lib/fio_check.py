"""What scripts/lib/check-fio looks at; prints a line for each check, then `N passed, N failed`."""

import errno
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

SCRATCH, WARPBELL, EXAMPLES, FIO_PLOT, FIO_SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:])
ENGINE = SCRATCH / "libwarpbell-fio.so"
BLOCK = 4096
FILE_BYTES = 16 << 20
# Jobs that fio's psync engine runs as well, with the same seed. What they write depends on the place alone: a header of
# verify=crc32c has the time in it. Jobs of numjobs share one pattern in some versions, so that no place may be in it.
SAME = ("--rw=randrw", "--bs=4k", "--randseed=42", "--allrandrepeat=1", "--fsync=128", "--verify=pattern")
FOUR = ("--size=25%", "--offset_increment=25%", "--numjobs=4", "--verify_pattern=0x5be11c0d")
ONE = ("--bs=8k", "--verify_pattern=0x5be11c0d%o")
FAIL = '[[fault]]\nkind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nlba = [1000, 1039]\n'
CORRUPT = '[[fault]]\nkind = "corrupt"\nopcode = "read"\nafter = 100\ncount = 1\n'


class Run:
    """One run of fio: its exit code, what it said, and the jobs of its JSON."""

    def __init__(self, *words, env=()):
        command = ["fio", "--output-format=json", "--verify_state_save=0", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=SCRATCH, env=os.environ | dict(env), timeout=120)
        self.code, begin = done.returncode, done.stdout.find("{")
        self.said = done.stdout[:begin] + done.stderr
        self.jobs = json.loads(done.stdout[begin:])["jobs"] if begin >= 0 else []

    def total(self, direction, field="total_ios"):
        return sum(job[direction][field] for job in self.jobs)

    def errors(self):
        return sum(job.get("total_err", 0) for job in self.jobs)

    def holds(self):
        """What it ran, if all of it succeeded."""
        assert self.code == 0 and self.jobs and not any(job["error"] for job in self.jobs), self.said
        assert self.errors() == 0, self.said
        return self


def ours(device, *words):
    return ("--name=job", f"--ioengine=external:{ENGINE}", "--thread=1", f"--device={device}", *words)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def image(name):
    path = SCRATCH / name
    path.write_bytes(bytes(FILE_BYTES))
    return path


def plan(name, text):
    (SCRATCH / name).write_text(text)
    return SCRATCH / name


def check_verify():
    env = {"ENGINE": str(ENGINE), "SSD": "soft:size=32m", "ALLOW_WRITE": "none"}
    run = Run(EXAMPLES / "verify.fio", env=env.items()).holds()
    writes, reads, syncs = (run.total(direction) for direction in ("write", "read", "sync"))
    # Each block is written, or read as it comes; what was written is read again.
    assert writes > 2000 and reads == (32 << 20) // BLOCK and syncs >= writes // 256, (writes, reads, syncs)
    return f"{run.total('write')} writes of 4 threads, each read back"


def check_trims_in_verify():
    """Each block is trimmed, then written, then read again. fio's own trims of a part (trim_backlog) end it by an
    assertion of its own where rw has no trims."""
    four = ("--rw=trimwrite", "--bs=4k", "--verify=crc32c", "--numjobs=4", "--size=25%", "--offset_increment=25%", "--iodepth=8")
    run = Run(*ours("soft:size=16m", *four)).holds()
    counts = [run.total(direction) for direction in ("trim", "write", "read")]
    assert counts == [FILE_BYTES // BLOCK] * 3, counts
    return f"{counts[0]} trims, each block then written and read by 4 threads"


def check_filename():
    device = r"soft\:size=4m"
    words = ("--name=job", f"--ioengine=external:{ENGINE}", "--thread=1", f"--filename={device}", "--rw=write", "--bs=64k")
    run = Run(*words, "--verify=crc32c").holds()
    return f"{run.total('write')} writes"


def check_jobs_share():
    """The second job, after the first, reads what that wrote: the SSD is the process's."""
    common = ours("soft:size=4m", "--bs=8k", "--verify=crc32c", "--iodepth=8")
    run = Run(*common, "--rw=randwrite", "--do_verify=0", *common, "--stonewall", "--rw=randread", "--norandommap=0").holds()
    # And by a process that has another SSD there is nothing of it.
    alone = Run(*common, "--rw=randread")
    assert alone.code != 0 and alone.jobs[0]["error"] == errno.EILSEQ, (alone.code, alone.said)
    return f"{run.total('read')} blocks"


def check_wrong_read():
    run = Run(*ours(f"soft:size=4m,faults={plan('corrupt.toml', CORRUPT)}", "--rw=randwrite", "--bs=4k", "--verify=crc32c"))
    assert run.code != 0 and run.jobs[0]["error"] == errno.EILSEQ, (run.code, run.said)
    assert "verify failed at file" in run.said, run.said
    return "a flipped bit fails the job"


def check_counted():
    """Five blocks of 4 KiB have the LBAs that fail."""
    words = ours(f"soft:size=4m,faults={plan('fail.toml', FAIL)}", "--rw=randread", "--bs=4k", "--iodepth=8")
    run = Run(*words, "--continue_on_error=read")
    job = run.jobs[0]
    assert (run.errors(), job["first_error"]) == (5, errno.EIO), job
    assert job["read"]["total_ios"] == (4 << 20) // BLOCK, job["read"]["total_ios"]
    stopped = Run(*words)
    assert stopped.code != 0 and stopped.jobs[0]["error"] == errno.EIO, stopped.said
    assert "Unrecovered Read Error" in stopped.said, stopped.said
    return "5 errors of 5, each EIO"


def check_same_image():
    own, file = image("own.img"), image("file.img")
    for words in FOUR, ONE:
        run = Run(*ours(f"soft:file={own}", f"--allow_write={own}", "--iodepth=16", *SAME, *words)).holds()
        other = Run("--name=job", f"--filename={file}", "--ioengine=psync", "--thread=1", *SAME, *words).holds()
        written = run.total("write")
        assert written == other.total("write") > 900, (written, other.total("write"))
        assert digest(own) == digest(file), f"another image than fio's psync engine writes: {words}"
        print(f"{words[-2]} {words[-1]}: {written} writes, sha256 {digest(own)[:16]}; IOPS {rate(run)}, of psync {rate(other)}")
    check_trims(own, file)
    return digest(own)[:16]


def rate(run):
    return round(sum(job["read"]["iops"] + job["write"]["iops"] for job in run.jobs))


def check_trims(own, file):
    """fio trims no files: what its log says of ours is done to the other."""
    log = SCRATCH / "trims.log"
    words = ("--rw=randtrim", "--bs=16k", "--iodepth=8", "--io_size=2m", "--randseed=7", f"--write_iolog={log}")
    run = Run(*ours(f"soft:file={own}", f"--allow_write={own}", *words)).holds()
    lines = [line.split() for line in log.read_text().splitlines()]
    trims = [(int(words[-2]), int(words[-1])) for words in lines if "trim" in words]
    assert len(trims) == run.total("trim") == (2 << 20) // (16 << 10), (len(trims), run.total("trim"))
    before = digest(file)
    with file.open("r+b") as at:
        for offset, length in trims:
            at.seek(offset)
            at.write(bytes(length))
    assert digest(own) == digest(file) != before, "trimmed blocks are not zero, or others are"


def check_socket():
    """An SSD in another process."""
    socket = SCRATCH / "socket"
    server = subprocess.Popen([WARPBELL, "serve", "soft:size=8m", "--socket", socket, "--clients", "1"], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 10
        while not socket.exists():
            assert server.poll() is None and time.monotonic() < end, "no server"
            time.sleep(0.01)
        words = ("--rw=randrw", "--bs=4k", "--iodepth=16", "--verify=crc32c", "--numjobs=2", "--size=50%", "--offset_increment=50%")
        run = Run(*ours(f"vfio-user:{socket}", f"--allow_write={socket}", *words)).holds()
        assert server.wait(10) == 0
    finally:
        server.kill()
    return f"{run.total('write')} writes over a socket"


def refused(part, *words):
    run = Run(*words)
    assert run.code != 0, f"it ran: {words}"
    lines = [line for line in run.said.splitlines() if line.startswith("warpbell: ")]
    assert len(lines) == 1 and part in lines[0], run.said


def check_refusals():
    file = image("kept.img")
    before = digest(file)
    write = ("--rw=write", "--bs=4k")
    refused("set thread=1", "--name=job", f"--ioengine=external:{ENGINE}", "--device=soft:size=1m", *write)
    refused("bs 1000 of writes", *ours("soft:size=1m", "--rw=write", "--bs=1000"))
    refused("bs 512 of reads", *ours("soft:size=1m,block=4096", "--rw=read", "--bs=512"))
    refused("which is not permitted", *ours(f"soft:file={file}", *write))
    refused("which is not permitted", *ours(f"soft:file={file}", "--rw=trim", "--bs=4k"))
    refused("No such file", *ours("soft:file=/nowhere/disk", *write))
    refused("nsid 9", *ours("soft:size=1m", "--nsid=9", *write))
    refused("leave one out", *ours("soft:size=1m", "--filename=x", *write))
    refused("put it into [global]", *ours("soft:size=1m", *write), *ours("soft:size=1m", "--allow_write=x", *write))
    assert digest(file) == before
    return "9 jobs"


def check_nothing_refused_is_lost():
    """The engine beside a library whose polls fail, by fio's headers."""
    root, program = pathlib.Path(__file__).parents[2], SCRATCH / "engine-check"
    words = "-std=gnu11 -g -Wall -Wextra -Werror -D_GNU_SOURCE -ffunction-sections -fdata-sections -Wl,--gc-sections -pthread"
    headers = ["-include", FIO_SOURCE / "config-host.h", "-isystem", FIO_SOURCE, f"-I{root}/crates/capi/include", f"-I{root}/kernels/include"]
    source = root / "scripts/lib/fio_engine_check.c"
    subprocess.run(["cc", *words.split(), '-DWARPBELL_FIO_VERSION="none"', *headers, source, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def check_other_fio():
    other = SCRATCH / "other-fio.so"
    version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    text = ENGINE.read_bytes()
    changed = version[:-1] + ("8" if version[-1] == "9" else "9")
    assert version.encode() + b"\0" in text
    other.write_bytes(text.replace(version.encode() + b"\0", changed.encode() + b"\0"))
    run = Run("--name=job", f"--ioengine=external:{other}", "--thread=1", "--device=soft:size=1m", "--rw=read")
    assert run.code != 0, "another fio's engine runs"
    assert f"built for {changed} " in run.said and f"this is {version}:" in run.said, run.said
    return f"{changed} is not {version}"


def iops_of_bench(depth):
    words = ["bench", "soft:size=64m", "--api", "host", "--rw", "randread", "--bs", "4k", "--iodepth", str(depth), "--runtime", "500ms"]
    done = subprocess.run([WARPBELL, *words, "-o", "json"], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)["runs"][0]["read"]["iops"]


def iops_of_fio(depth, *words):
    timed = ("--rw=randread", "--bs=4k", f"--iodepth={depth}", "--time_based", "--runtime=500ms", *words)
    return Run(*ours("soft:size=64m", *timed)).holds().jobs[0]["read"]["iops"]


def show_rates():
    """The best of three, in turns; nothing is asserted of it."""
    batch = ("--iodepth_batch=16", "--iodepth_batch_complete_max=32")
    for depth, words in ((1, ()), (32, ()), (32, batch)):
        pairs = [(iops_of_fio(depth, *words), iops_of_bench(depth)) for _ in range(3)]
        fio, bench = (max(rates) for rates in zip(*pairs))
        told = "".join(f" {word}" for word in words)
        print(f"4 KiB reads, depth {depth}{told}: fio {fio:.0f} IOPS, bench --api host {bench:.0f}: {fio / bench:.2f}")


def check_drawn():
    """fio-plot, which people draw fio's results with, draws ours."""
    folder = SCRATCH / "drawn"
    folder.mkdir()
    for depth in (1, 4, 16):
        words = ("soft:size=16m,profile=optane,time=virtual", "--rw", "randread", "--iodepth", str(depth), "--io-limit", "2m")
        run = subprocess.run([WARPBELL, "bench", *words, "-o", "fio-json+"], capture_output=True, check=True, timeout=60)
        (folder / f"out-{depth}.json").write_bytes(run.stdout)
    picture = folder / "latency.png"
    command = [FIO_PLOT, "-i", folder, "-T", "title", "-l", "-r", "randread", "-o", picture]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"MPLBACKEND": "Agg"}, timeout=120)
    assert done.returncode == 0 and picture.read_bytes().startswith(b"\x89PNG"), done.stdout + done.stderr
    return f"{picture.stat().st_size} bytes"


CHECKS = (
    ("examples/fio/verify.fio: crc32c, numjobs=4, fsync", check_verify),
    ("trims inside of verify=crc32c, numjobs=4", check_trims_in_verify),
    ("the SSD as filename", check_filename),
    ("a later job reads what an earlier one wrote", check_jobs_share),
    ("wrong data is caught", check_wrong_read),
    ("errors are counted", check_counted),
    ("the image is that of psync, trims too", check_same_image),
    ("a vfio-user socket", check_socket),
    ("what cannot be is refused in a line", check_refusals),
    ("another fio is refused", check_other_fio),
    ("polls that fail", check_nothing_refused_is_lost),
    ("fio-plot draws what bench prints", check_drawn),
)


def main():
    failed = 0
    for name, check in CHECKS:
        try:
            print(f"passed: {name}: {check()}", flush=True)
        except (AssertionError, LookupError, ValueError, OSError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"FAILED: {name}: {type(error).__name__}: {error}", flush=True)
    show_rates()
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
