"""The header of the safetensors format: read as strictly as the format demands, and made."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import Error
from ._kinds import KINDS

# The format's limit.
HEADER_BYTES_MAX = 100_000_000
LENGTH_BYTES = 8
METADATA = "__metadata__"
# Checksums of ours among the metadata: of the table of tensors with the rest of the metadata, and of each tensor.
TABLE_SUM, TENSOR_SUMS = "warpbell.sha256.table", "warpbell.sha256"
_SIZE_MAX = (1 << 63) - 1
# Bytes come from anyone: messages show the beginning of what is long.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_SHORT.maxlist = 8


class FormatError(Error, ValueError):
    """Bytes that are no safetensors file."""


class ChecksumError(Error, ValueError):
    """A tensor whose bytes are not those that were saved."""

    tensor: str | None = None
    """Which one; None: the header."""


class Entry(NamedTuple):
    """A tensor in the header. Its bytes count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """What the header says."""

    tensors: dict[str, Entry]
    metadata: dict[str, str]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return max((entry.end for entry in self.tensors.values()), default=0)


def check_length(length: int) -> int:
    """The length of a header."""
    if not 2 <= length <= HEADER_BYTES_MAX:
        raise FormatError(f"header of {length} bytes: must have 2 to {HEADER_BYTES_MAX}")
    return length


def parse(data: bytes) -> Header:
    """Reads the text of a header."""
    if not data.startswith(b"{"):
        raise FormatError(f"header begins with {data[:1]!r}: must begin with {{")
    try:
        found = json.loads(data.decode(), object_pairs_hook=_object)
    except (UnicodeDecodeError, RecursionError, json.JSONDecodeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"header is no JSON: {error}") from None
    metadata = found.pop(METADATA, None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError(f"header: {METADATA} must have text for each name")
    for text in (*found, *metadata, *metadata.values()):
        if not is_text(text):
            raise FormatError(f"header: text {shown(text)}: has half of a surrogate pair")
    tensors = {name: _entry(shown(name), value) for name, value in found.items()}
    _check_places(tensors)
    return Header(tensors, metadata)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise FormatError(f"header: name {shown(name)} is there twice")
            seen.add(name)
    return made


def shown(value: Any) -> str:
    """What a message shows of a value."""
    return _SHORT.repr(value)


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entry(name: str, value: Any) -> Entry:
    """A tensor, whose name is given as messages show it."""
    if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= set(value):
        raise FormatError(f"tensor {name}: must have dtype, shape and data_offsets")
    dtype, shape, places = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in KINDS:
        raise FormatError(f"tensor {name}: dtype {shown(dtype)}: must be one of {', '.join(KINDS)}")
    if not _are_sizes(shape):
        raise FormatError(f"tensor {name}: shape {shown(shape)}: must be a list of whole numbers from 0 to 2^63 - 1")
    if not _are_sizes(places) or len(places) != 2 or places[0] > places[1]:
        raise FormatError(f"tensor {name}: data_offsets {shown(places)}: must be a begin, and an end not before it")
    bits = _bits(shape, KINDS[dtype].bits)
    if bits is None or bits != 8 * (places[1] - places[0]):
        elements = "x".join(map(str, shape[:8])) + "x..." * (len(shape) > 8) if shape else "one"
        takes = "2^63 bytes or more" if bits is None else f"{bits} bits" if bits % 8 else f"{bits // 8} bytes"
        raise FormatError(f"tensor {name}: {elements} elements of {dtype}: take {takes}, and it has {places[1] - places[0]} bytes")
    return Entry(dtype, tuple(shape), *places)


def _bits(shape: Sequence[int], each: int) -> int | None:
    """Bits of all elements; None: too many, or too many before a size of 0, which others refuse as well."""
    bits = each
    for size in shape:
        bits *= size
        if bits > 8 * _SIZE_MAX:
            return None
    return bits


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size <= _SIZE_MAX for size in value)


def _check_places(tensors: Mapping[str, Entry]) -> None:
    """Tensors lie one behind the other from the first byte on, without holes."""
    end = 0
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != end:
            what = "overlaps the tensor before it" if entry.begin < end else "leaves a hole"
            raise FormatError(f"tensor {shown(name)}: begins at {entry.begin}, the tensor before it ends at {end}: {what}")
        end = entry.end


def make(tensors: Mapping[str, Entry], metadata: Mapping[str, str], block: int) -> bytes:
    """A header with its length, padded so that the tensors begin at a block of the SSD."""
    text: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    for name, entry in tensors.items():
        text[name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [entry.begin, entry.end]}
    data = json.dumps(text, separators=(",", ":"), ensure_ascii=False).encode()
    data += b" " * (-(LENGTH_BYTES + len(data)) % block)
    return check_length(len(data)).to_bytes(LENGTH_BYTES, "little") + data


def table_sum(header: Header) -> str:
    """The checksum of all that a header says, but for our own checksums."""
    metadata = {name: text for name, text in header.metadata.items() if name not in (TABLE_SUM, TENSOR_SUMS)}
    said = [sorted(metadata.items()), sorted((name, list(entry)) for name, entry in header.tensors.items())]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
