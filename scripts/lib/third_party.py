"""The licences of the crates that a program is linked of: one text, for packages that carry the program."""

import collections
import json
import pathlib
import subprocess
import sys

PREFIXES = ("LICEN", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT")


def linked(packages):
    """Name and version of each crate that these packages are linked of."""
    chosen = [argument for package in packages for argument in ("-p", package)]
    shown = subprocess.run(
        ["cargo", "tree", "--offline", "-e", "normal", "--prefix", "none", "--format", "{p}", *chosen],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {tuple(line.split()[:2]) for line in shown.splitlines() if line}


def texts_of(crate):
    folder = pathlib.Path(crate["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(PREFIXES))
    if not files:
        sys.exit(f"error: crate {crate['name']} {crate['version']}: {folder} has no text of its licence, {crate['license']}")
    return [file.read_text(errors="replace").strip() for file in files]


def text(packages):
    """Each crate of others with its licence, then each text once, with the crates that it is of."""
    wanted = linked(packages)
    shown = subprocess.run(["cargo", "metadata", "--offline", "--format-version", "1"], check=True, capture_output=True)
    crates = [crate for crate in json.loads(shown.stdout)["packages"] if crate["source"]]
    crates = [crate for crate in crates if (crate["name"], f"v{crate['version']}") in wanted]
    users = collections.defaultdict(list)
    for crate in crates:
        for licence in texts_of(crate):
            users[licence].append(crate["name"])
    lines = ["Warpbell is linked of these crates.", ""]
    lines += [f"{crate['name']} {crate['version']}: {crate['license']}" for crate in crates]
    for licence, names in users.items():
        lines += ["", "-" * 80, "Of " + ", ".join(names) + ":", "", licence]
    return "\n".join([*lines, ""])
