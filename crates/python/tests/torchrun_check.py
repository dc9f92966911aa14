"""Jobs of torchrun over gloo that read records: torchrun_check.py. Prints a line for each, then `N passed, N failed`.

Two ranks read two epochs; then one of them is killed, and is started again; then it is not, and the job must fail.
"""

from __future__ import annotations

import array
import pathlib
import subprocess
import sys
import tempfile

from warpbell import records

JOB = pathlib.Path(__file__).with_name("torchrun_records.py")
# 1001 records are no multiple of two ranks; 400 bytes are no multiple of a block. Each record begins with its id.
RECORDS, RECORD_BYTES = 1001, 400
LIMIT_S = 300
# torch 1.13 has no spelling for "no redirects" with Python 3.11, so one is chosen; with a tee, lines are shown.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"]
TORCHRUN += ["--redirects=2", "--tee=1"]
ONCE = f"2 epochs have each of {RECORDS} records exactly once"


def run(restarts: int, *words: str) -> tuple[int, list[str]]:
    """The exit code of a job on fresh SSDs, and its lines."""
    with tempfile.TemporaryDirectory(prefix="warpbell-torchrun-") as folder:
        files = [str(pathlib.Path(folder, f"disk-{number}.img")) for number in range(2)]
        for file in files:
            pathlib.Path(file).write_bytes(bytes(1 << 20))
        records.write(
            [f"soft:file={file}" for file in files],
            (array.array("q", [record] * (RECORD_BYTES // 8)) for record in range(RECORDS)),
            record_bytes=RECORD_BYTES,
            dtype="int64",
            chunk_bytes=4096,
            index=pathlib.Path(folder, "records.index"),
            options={"allow_write": files},
        )
        command = [*TORCHRUN, f"--max_restarts={restarts}", str(JOB), folder, *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
        return done.returncode, done.stdout.splitlines()


def count(lines: list[str], text: str) -> int:
    return sum(text in line for line in lines)


def two_epochs() -> list[str] | None:
    code, lines = run(0)
    good = code == 0 and count(lines, ONCE) == 2 and count(lines, "begins at epoch 0, record 0") == 2
    return None if good else lines


def one_is_killed() -> list[str] | None:
    code, lines = run(1, "1:20")
    begins = count(lines, "begins at epoch"), count(lines, "begins at epoch 0, record 0"), count(lines, "rank 1: begins at epoch 0, record 304")
    good = code == 0 and count(lines, ONCE) == 2 and begins == (4, 2, 1)
    return None if good else lines


def none_is_started_again() -> list[str] | None:
    code, lines = run(0, "1:20")
    return None if code != 0 and count(lines, ONCE) == 0 else lines


def main() -> int:
    failed = 0
    for check, name in (
        (two_epochs, "two ranks have every record exactly once, in two epochs of different order"),
        (one_is_killed, "a rank that is killed and started again resumes: still exactly once"),
        (none_is_started_again, "a rank that is killed and not started again fails the job"),
    ):
        lines = check()
        failed += lines is not None
        print("\n".join([*(lines or []), f"{'passed' if lines is None else 'FAILED'}: {name}"]), flush=True)
    print(f"{3 - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
