"""Our protocol beside `marks` in real time, on two pinned cores: medians of runs in turns, over warps x depth."""

import statistics
import sys

import protocol_run
from protocol_run import LANES

OURS = ("turns", "turns-alone")
OTHER = "marks"
WARPS = (1, 4, 16)
DEPTHS = (1, 2, 4, 16, 128)
CLIENT, CONTROLLER = 0, 1


def medians(warpbell, warps, depth, rounds, runtime):
    device, end = f"soft:size=64m,block=512,stride=4,pin={CONTROLLER}", ["--cpus", str(CLIENT), "--runtime", runtime]
    found = [protocol_run.runs(warpbell, device, warps, depth, (*OURS, OTHER), end) for _ in range(rounds)]
    return {name: statistics.median(round_[name]["iops"] for round_ in found) for name in (*OURS, OTHER)}


def grid(warpbell, rounds, runtime):
    print(f"M IOPS, and the ratio to {OTHER}: medians of {rounds} runs of {runtime}, client on core {CLIENT}, controller on {CONTROLLER}")
    print(f"{'warps':>5} {'depth':>5} {OTHER:>8}" + "".join(f"{name:>20}" for name in OURS))
    for warps, depth in [(warps, depth) for warps in WARPS for depth in DEPTHS if depth <= LANES * warps]:
        found = medians(warpbell, warps, depth, rounds, runtime)
        ours = "".join(f"{found[name] / 1e6:>14.2f} {found[name] / found[OTHER]:>5.2f}" for name in OURS)
        print(f"{warps:>5} {depth:>5} {found[OTHER] / 1e6:>8.2f}{ours}", flush=True)
