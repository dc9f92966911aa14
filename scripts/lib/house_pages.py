"""What every page of the documentation keeps: links lead somewhere, prose has lines of at most 100 characters."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
MAX_WIDTH = 100


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def without_fences(text):
    """The text with an empty line for each line of a fenced block."""
    return re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """What links to the headings of a page end with."""
    found = []
    for heading in HEADING.findall(without_fences(text)):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        same = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", one) is not None for one in found)
        found.append(f"{name}-{same}" if same else name)
    return found


def dead_links(page, text):
    """Local links of a page that lead nowhere. In code, as in a lambda of C++, the same characters are no link."""
    for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", CODE.sub("", text)):
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        if "://" in target:
            continue
        if not other.exists():
            yield f"link to {target}, which does not exist"
        elif anchor and other.suffix == ".md" and anchor not in anchors(text if other == page else other.read_text()):
            yield f"link to {target}: that page has no such heading"


def long_lines(text):
    """Lines of prose that are too long; tables and fenced blocks may have such."""
    for number, line in enumerate(without_fences(text).splitlines(), 1):
        if len(line) > MAX_WIDTH and not line.startswith("|"):
            yield f"line {number} has {len(line)} characters; the limit is {MAX_WIDTH}"


def faults(page, text):
    return [*dead_links(page, text), *long_lines(text)]


def plants():
    """What `faults` must find, once in each text; and what it finds in a sound one."""
    page = ROOT / "README.md"
    for planted in ("[a](docs/gone.md)", "[a](docs/testing.md#gone)", "# A\n[a](#b)", "x" * (MAX_WIDTH + 1)):
        if len(faults(page, f"{planted}\n")) != 1:
            yield f"does not find what is planted: {planted}"
    sound = "# A `b`, c\n# A\n# A\n[a](#a-b-c) [a](#a-1) `[](gone.md)`\n```\n# B\n" + "x" * 200 + "\n```\n"
    yield from faults(page, sound)
