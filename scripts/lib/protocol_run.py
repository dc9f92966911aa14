"""One `warpbell bench`: protocols of the laboratory in turns, on a queue that all warps share."""

import json
import subprocess

BLOCK = 512
LANES = 32


def runs(warpbell, device, warps, depth, protocols, end):
    """{protocol: run}; a RuntimeError has what the command said. `end`: more of its words."""
    command = [warpbell, "bench", "--device", device, "--target", "cpu", "--threads", "1", "--api", "raw", "--sharing", "shared"]
    command += ["--bs", str(BLOCK), "--warps", str(warps), "--iodepth", str(depth), "--axis", "protocol=" + ",".join(protocols)]
    done = subprocess.run([*command, "-o", "json", *end], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return {run["job"]["protocol"]: run for run in json.loads(done.stdout)["runs"]}
