"""The flat layer as kernels/include/warpbell/warpbell_device.h declares it."""

import pathlib
import re

HEADER = pathlib.Path("kernels/include/warpbell/warpbell_device.h")


def without_comments():
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)


def functions():
    """{name: kinds of its arguments}: `pointer`, or bits of a number."""
    found = {}
    for name, arguments in re.findall(r"WARPBELL_DEVICE uint32_t warpbell_(\w+)\(([^)]*)\);", without_comments()):
        found[name] = tuple(kind(argument) for argument in arguments.split(","))
    return found


def kind(argument):
    if "*" in argument:
        return "pointer"
    return {"uint32_t": 32, "uint64_t": 64, "warpbell_token": 64}[argument.split()[0]]


def number(name):
    """A macro that is a number."""
    text = re.search(rf"#define WARPBELL_{name} (\w+)", HEADER.read_text())[1]
    return int(text.rstrip("u"), 0)
