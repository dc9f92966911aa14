"""How many tests of a JUnit file passed, and how many did not: junit_counts.py FILE."""

from __future__ import annotations

import sys
import xml.etree.ElementTree


def main() -> None:
    suite = xml.etree.ElementTree.parse(sys.argv[1]).getroot().find("testsuite")
    if suite is None:
        sys.exit(f"error: {sys.argv[1]} has no suite of tests")
    total, bad, skipped = (sum(int(suite.get(name, "0")) for name in names) for names in (["tests"], ["failures", "errors"], ["skipped"]))
    print(total - bad - skipped, bad)


if __name__ == "__main__":
    main()
