#!/usr/bin/env python3
"""Figures of docs/flat-layer.md, compared with what was made.

    flat_figures.py size FILE                           bytes of a file of lib/device, within a tenth
    flat_figures.py kernel NAME LINKED ARCHITECTURE     registers and stack by `cuobjdump -res-usage`, from standard input
"""

import pathlib
import re
import sys

PAGE = pathlib.Path("docs/flat-layer.md")
ARCHITECTURES = (75, 80, 90, 120)


def row(*cells):
    """What follows these first cells of a row of a table."""
    start = "".join(f"| {cell} " for cell in cells)
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith(start)]
    if len(lines) != 1:
        raise SystemExit(f"error: {PAGE}: expected one row that begins with {start}, found {len(lines)}")
    return [cell.strip() for cell in lines[0][len(start):].strip(" |").split("|")]


def wrong_size(file):
    """What is wrong with the page's size of a file of lib/device."""
    told, found = int(row(f"`{file.name}`")[-1].replace(",", "")), file.stat().st_size
    if abs(found - told) * 10 <= told:
        return []
    return [f"{PAGE}: {file.name} has {told} bytes there, within a tenth, and {found} as it was made"]


def used(text):
    """Registers and bytes of stack, by cuobjdump."""
    return tuple(max(int(n) for n in re.findall(rf"{what}:(\d+)", text)) for what in ("REG", "STACK"))


def wrong_kernel(name, linked, architecture, registers, stack):
    """What is wrong with the page's figures of a kernel. Of an architecture that it does not have, nothing."""
    *told, range_told = row(f"`{name}`", linked)
    if architecture not in ARCHITECTURES or told[ARCHITECTURES.index(architecture)] == "-":
        return []
    what, faults = f"{PAGE}: {name} of {linked} for sm_{architecture}", []
    if registers != int(told[ARCHITECTURES.index(architecture)]):
        faults.append(f"{what}: {told[ARCHITECTURES.index(architecture)]} registers there, {registers} in the cubin")
    ends = [int(end) for end in range_told.split(" to ")]
    if not ends[0] <= stack <= ends[-1]:
        faults.append(f"{what}: {range_told} bytes of stack there, {stack} in the cubin")
    return faults


def main(what, *arguments):
    if what == "size":
        faults = wrong_size(pathlib.Path(arguments[0]))
    else:
        name, linked, architecture = arguments
        faults = wrong_kernel(name, linked, int(architecture), *used(sys.stdin.read()))
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
