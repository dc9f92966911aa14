"""The code of the documentation runs: each block `python check` of a page, in order, in one program in an empty folder."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from conftest import ROOT

FENCE = re.compile(r"^```python(?: check)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ["docs/python.md", "docs/datasets.md", "README.md", "crates/python/README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page: str, tmp_path: pathlib.Path) -> None:
    blocks = FENCE.findall((ROOT / page).read_text())
    assert blocks, f"{page} has no block of Python"
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
