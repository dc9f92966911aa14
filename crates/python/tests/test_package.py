"""The package as it is installed: headers, what works, the demo, and nothing that it needs."""

from __future__ import annotations

import importlib.metadata
import pathlib
import subprocess
import sys

import pytest

import warpbell


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **variables}, check=False)


def test_headers_are_there() -> None:
    include = pathlib.Path(warpbell.get_include())
    for header in ("warpbell/warpbell.cuh", "warpbell/warpbell.h", "warpbell/abi.h"):
        assert (include / header).is_file()


def test_the_flat_layer_is_there_or_named() -> None:
    try:
        assert pathlib.Path(warpbell.get_flat_layer("ltoir")).stat().st_size > 100_000
    except warpbell.MissingError as error:
        assert "warpbell_device.ltoir is not available: this package was built without it" in str(error)
    with pytest.raises(warpbell.ArgumentError, match="^kind 'cubin': must be one of ltoir, o, bc$"):
        warpbell.get_flat_layer("cubin")


def test_licences_of_what_it_is_linked_of_are_there() -> None:
    text = importlib.metadata.distribution("warpbell").read_text("licenses/THIRD-PARTY")
    assert text is not None
    crates, licences = text.split("-" * 80, 1)
    assert "\npyo3 0." in crates and "\nclap 4." in crates and "warpbell-" not in crates
    assert "Permission is hereby granted, free of charge" in licences and "Apache License" in licences


def test_importing_takes_no_time() -> None:
    done = run("-X", "importtime", "-c", "import warpbell")
    line = next(line for line in done.stderr.splitlines() if line.endswith("| warpbell"))
    assert int(line.split("|")[1]) < 150_000, line


def test_what_works_names_each_target() -> None:
    works = warpbell.what_works()
    assert list(works) == ["ssd", "cpu", "ptx", "cuda:0"]
    assert works["ssd"] is None
    assert works["cuda:0"] is None or works["cuda:0"].startswith("target cuda:0: ")


def test_the_demo_passes(tmp_path: pathlib.Path) -> None:
    done = run("-m", "warpbell.demo", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "demo passed"


def test_without_a_compiler_it_works_and_says_so(tmp_path: pathlib.Path) -> None:
    done = run("-m", "warpbell.demo", HOME=str(tmp_path), WARPBELL_CXX="/nowhere/c++", WARPBELL_NVRTC="none")
    assert done.returncode == 0, done.stderr
    assert "kernel: not shown: " in done.stdout and done.stdout.splitlines()[-1] == "demo passed"


def test_nothing_else_is_imported() -> None:
    code = "import sys, warpbell; print(*sorted(name for name in ('numpy', 'asyncio', 'subprocess', 'json', 'pathlib') if name in sys.modules))"
    done = run("-I", "-S", "-c", f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}; {code}")
    assert done.stdout.strip() == "", done.stdout + done.stderr


def test_the_command_is_of_this_version() -> None:
    assert importlib.metadata.version("warpbell") == warpbell.__version__
    command = warpbell._bench._command()
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert warpbell.__version__ in shown


def test_every_public_name_is_documented() -> None:
    for name in warpbell.__all__:
        if name != "__version__":
            assert getattr(warpbell, name).__doc__, name
    for kind in (warpbell.Ssd, warpbell.Buffer, warpbell.Queues, warpbell.Program, warpbell.Future, warpbell.Launch, warpbell.Lease, warpbell.Volume):
        for name, member in vars(kind).items():
            assert name.startswith("__") or member.__doc__, f"{kind.__name__}.{name}"
        assert "thread" in (kind.__doc__ or ""), f"{kind.__name__} does not say what threads may do"
