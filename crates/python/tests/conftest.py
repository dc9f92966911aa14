"""Options and fixtures of all tests."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

import warpbell
from on_disk import ROWS
from warpbell import records

ROOT = pathlib.Path(__file__).resolve().parents[3]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--calls", type=int, default=5000, help="random calls of the test with eight threads")


@pytest.fixture
def ssd() -> Iterator[warpbell.Ssd]:
    """An SSD in memory, of 64 MiB."""
    with warpbell.open("soft:size=64m") as ssd:
        yield ssd


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An SSD over a file, which any process may open, with ROWS on it from byte 512 on."""
    file = tmp_path_factory.mktemp("disk") / "disk.img"
    file.write_bytes(bytes(1 << 20))
    records.write(f"soft:file={file}", ROWS, offset=512, index=file.with_suffix(".index"), options={"allow_write": str(file)})
    return f"soft:file={file}"


@pytest.fixture(scope="session")
def program() -> warpbell.Program:
    """Kernels of the tests, for the CPU target."""
    reason = warpbell.what_works()["cpu"]
    if reason is not None:
        pytest.skip(reason)
    source = pathlib.Path(__file__).with_name("kernels.cu").read_text()
    return warpbell.compile(source, name="kernels.cu", defines={"ADDED": 7})
