"""Our protocol beside `marks` in real time, on two pinned cores: medians of runs in turns, over warps x depth."""

import json
import statistics
import subprocess
import sys

OURS = ("turns", "turns-alone")
OTHER = "marks"
WARPS = (1, 4, 16)
DEPTHS = (1, 2, 4, 16, 128)
LANES = 32
CLIENT, CONTROLLER = 0, 1


def iops(warpbell, protocol, warps, depth, runtime):
    command = [warpbell, "bench", "--device", f"soft:size=64m,block=512,stride=4,pin={CONTROLLER}", "--target", "cpu", "--threads", "1",
               "--cpus", str(CLIENT), "--api", "raw", "--sharing", "shared", "--bs", "512", "--warps", str(warps), "--iodepth", str(depth),
               "--protocol", protocol, "--runtime", runtime, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)["runs"][0]["iops"]


def medians(warpbell, warps, depth, rounds, runtime):
    found = {name: [] for name in (*OURS, OTHER)}
    for _ in range(rounds):
        for name, runs in found.items():
            runs.append(iops(warpbell, name, warps, depth, runtime))
    return {name: statistics.median(runs) for name, runs in found.items()}


def grid(warpbell, rounds, runtime):
    print(f"M IOPS, and the ratio to {OTHER}: medians of {rounds} runs of {runtime}, client on core {CLIENT}, controller on {CONTROLLER}")
    print(f"{'warps':>5} {'depth':>5} {OTHER:>8}" + "".join(f"{name:>20}" for name in OURS))
    for warps in WARPS:
        for depth in DEPTHS:
            if depth <= LANES * warps:
                found = medians(warpbell, warps, depth, rounds, runtime)
                ours = "".join(f"{found[name] / 1e6:>14.2f} {found[name] / found[OTHER]:>5.2f}" for name in OURS)
                print(f"{warps:>5} {depth:>5} {found[OTHER] / 1e6:>8.2f}{ours}", flush=True)
