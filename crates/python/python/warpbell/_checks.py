"""Arguments of the layers in Python: each refusal names the argument, its value and the limit, as Rust's do."""

from __future__ import annotations

import operator
from typing import Any

from .errors import ArgumentError, ArgumentTypeError

MOST = (1 << 63) - 1


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """A whole number from `least` to `most`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name} of type {type_name(value)}: must be a whole number") from None
    if not least <= found <= most:
        raise ArgumentError(f"{name} {found}: must be from {least} to {most}")
    return found


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in choices:
        raise ArgumentError(f"{name} {value}: must be {', '.join(choices[:-1])} or {choices[-1]}")
    return str(value)


def type_name(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
