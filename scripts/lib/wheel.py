"""Packs the wheel of crates/python: wheel.py MODULE COMMAND FOLDER [LAYER]. Called by scripts/lib/build-wheel.

MODULE is lib_warpbell.so, COMMAND the `warpbell` command, both as cargo built them; LAYER has what scripts/lib/build-flat made. The tag is manylinux_2_28 where they need
no newer glibc and no other library, else linux. The same files make the same wheel.
"""

import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile

import third_party

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRATE = ROOT / "crates/python"
HEADERS = [ROOT / "kernels/include", ROOT / "crates/capi/include"]
LICENSES = ("LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY")
GLIBC = (2, 28)
# What every Linux has that manylinux knows.
LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.|ld-linux")
# Files have no time of their own: that of the oldest zip.
TIME = (1980, 1, 1, 0, 0, 0)


def stripped(built):
    """A program or module without debug information."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", target, built], check=True)
        return target.read_bytes()


def is_manylinux(built):
    """Whether it needs no newer glibc than that, and no other library."""
    shown = subprocess.run(["objdump", "-p", built], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"^\s+NEEDED\s+(\S+)", shown, re.MULTILINE)
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(\d+\.\d+)", shown)}
    return max(versions) <= GLIBC and all(LIBRARIES.match(name) for name in needed)


def sources():
    """Name in the wheel and contents of what is not built."""
    package = CRATE / "python/warpbell"
    for file in sorted(package.rglob("*")):
        if file.suffix in {".py", ".pyi"} or file.name == "py.typed":
            yield f"warpbell/{file.relative_to(package)}", file.read_bytes()
    for include in HEADERS:
        for file in sorted((include / "warpbell").rglob("*")):
            if file.is_file():
                yield f"warpbell/_include/{file.relative_to(include)}", file.read_bytes()


def flat_layer(folder):
    """Name in the wheel and contents of what kernels of other compilers are linked with."""
    files = [file for file in sorted(folder.glob("warpbell_device.*")) if file.suffix in {".ltoir", ".o", ".bc"}]
    if not files:
        sys.exit(f"error: {folder}: has no warpbell_device.ltoir, .o or .bc (scripts/lib/build-flat makes them)")
    return [(f"warpbell/_device/{file.name}", file.read_bytes()) for file in files]


def metadata(project, version):
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}"]
    lines += [f"Requires-Python: {project['requires-python']}", f"License-Expression: {project['license']}"]
    lines += [f"License-File: {name}" for name in LICENSES]
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    for extra, needed in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {one} ; extra == '{extra}'" for one in needed)]
    readme = (CRATE / project["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme]).encode()


def record_of(files, own):
    """RECORD: each file with its hash and size."""
    lines = []
    for name, content in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{own},,", ""]).encode()


def main():
    module, command, folder, *layer = map(pathlib.Path, sys.argv[1:])
    project = tomllib.loads((CRATE / "pyproject.toml").read_text())["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    system = "manylinux_2_28" if is_manylinux(module) and is_manylinux(command) else "linux"
    tag = f"cp311-abi3-{system}_{platform.machine()}"
    info = f"warpbell-{version}.dist-info"
    program = f"warpbell-{version}.data/scripts/warpbell"
    files = [*sources(), ("warpbell/_warpbell.abi3.so", stripped(module)), (program, stripped(command))]
    files += [built for folder_of_layer in layer for built in flat_layer(folder_of_layer)]
    files += [(f"{info}/licenses/{name}", (ROOT / name).read_bytes()) for name in LICENSES[:2]]
    files.append((f"{info}/licenses/{LICENSES[2]}", third_party.text(["warpbell-python", "warpbell-cli"]).encode()))
    files.append((f"{info}/METADATA", metadata(project, version)))
    files.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: warpbell\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()))
    files.append((f"{info}/RECORD", record_of(files, f"{info}/RECORD")))
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"warpbell-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name in (program, "warpbell/_warpbell.abi3.so") else 0o100644) << 16
            archive.writestr(entry, content)
    print(f"{wheel}: {wheel.stat().st_size} bytes")


if __name__ == "__main__":
    main()
