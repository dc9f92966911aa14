"""Where records are: all of one size, or each at a place of its own; and the file that says so.

The file of an index, all numbers little-endian:

| bytes | what |
| --- | --- |
| 8 | `WBRECIDX` |
| 4 | version: 1 |
| 4 | bytes of the text, H |
| H | JSON: `kind` (`fixed` or `indexed`), `count`, `layout`, `chunk_bytes`, `ssds`, `dtype`, `shape`; `record_bytes`, `stride` and `offset` of fixed ones |
| 8 * count | only indexed: the offset of each record in bytes |
| 8 * count | only indexed: the length of each record in bytes |
| 32 | SHA-256 of all before |
"""

from __future__ import annotations

import array
import hashlib
import json
import os
import pathlib
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from .._checks import MOST, one_of, type_name, whole
from .._space import CHUNK_BYTES, LAYOUTS
from .._stream import plain
from ..errors import ArgumentError, ArgumentTypeError, MissingError

_MAGIC, _VERSION = b"WBRECIDX", 1
_HEAD = struct.Struct("<8sII")
_DIGEST_BYTES = 32
_PLACED = ("layout", "chunk_bytes", "dtype", "shape")
_OF_FIXED = ("record_bytes", "count", "stride", "offset")


class Numbers(Protocol):
    """Whole numbers: a list, an array of NumPy, or another sequence."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """How the SSDs make one range of bytes, and what a record's bytes are."""

    layout: str = "stripe"
    chunk_bytes: int = CHUNK_BYTES
    dtype: str = "uint8"
    """Of the elements, as NumPy names it."""
    shape: tuple[int, ...] | None = None
    """Of a record; None: one dimension."""

    def _check_placed(self) -> None:
        one_of("layout", self.layout, LAYOUTS)
        whole("chunk_bytes", self.chunk_bytes, 1)
        if not isinstance(self.dtype, str):
            raise ArgumentTypeError(f"dtype of type {type_name(self.dtype)}: must be text, such as float32")
        if self.shape is None:
            return
        if not isinstance(self.shape, Iterable):
            raise ArgumentTypeError(f"shape of type {type_name(self.shape)}: must be a tuple of whole numbers, or None")
        sizes = tuple(whole("shape", size, -1) for size in self.shape)
        if sizes.count(-1) > 1:
            raise ArgumentError(f"shape {sizes}: has -1 more than once; at most one size follows from the others")
        object.__setattr__(self, "shape", sizes)


@dataclass(frozen=True, kw_only=True)
class Fixed(_Placed):
    """Records of one size: record i begins at byte `offset + i * stride`. The stride is the size if it is not given."""

    record_bytes: int
    count: int
    offset: int = 0
    stride: int = 0

    def __post_init__(self) -> None:
        self._check_placed()
        whole("record_bytes", self.record_bytes, 1)
        whole("count", self.count)
        whole("offset", self.offset)
        if self.stride == 0:
            object.__setattr__(self, "stride", self.record_bytes)
        whole("stride", self.stride, self.record_bytes)

    def extent(self, record: int) -> tuple[int, int]:
        """Where a record begins, and its bytes."""
        return self.offset + record * self.stride, self.record_bytes

    @property
    def end(self) -> int:
        """The byte behind the last record."""
        return self.offset + (self.count - 1) * self.stride + self.record_bytes if self.count else self.offset


@dataclass(frozen=True, kw_only=True)
class Indexed(_Placed):
    """Records at places of their own. Offsets and lengths are sequences of numbers, such as NumPy arrays."""

    offsets: Numbers = field(repr=False)
    lengths: Numbers = field(repr=False)

    def __post_init__(self) -> None:
        self._check_placed()
        for name in ("offsets", "lengths"):
            object.__setattr__(self, name, _words(name, getattr(self, name)))
        if len(self.offsets) != len(self.lengths):
            raise ArgumentError(f"lengths {len(self.lengths)}: must be as many as offsets, {len(self.offsets)}")

    @property
    def count(self) -> int:
        """Records of it."""
        return len(self.offsets)

    def extent(self, record: int) -> tuple[int, int]:
        """Where a record begins, and its bytes."""
        return self.offsets[record], self.lengths[record]

    @property
    def end(self) -> int:
        """The byte behind the last record."""
        return max((offset + length for offset, length in zip(self.offsets, self.lengths)), default=0)


Index = Fixed | Indexed


def _words(name: str, values: Any) -> array.array[int]:
    """Numbers of 64 bits, checked. NumPy's arrays and tensors are taken as a whole."""
    wrong = f"{name}: each must be from 0 to 2^63 - 1"
    values = plain(values)
    try:
        if hasattr(values, "dtype") and values.dtype.kind in "iu" and values.ndim == 1:
            if values.size and values.min() < 0:
                raise ArgumentError(wrong)
            words = array.array("Q", values.astype("u8").tobytes())
        else:
            words = array.array("Q", values)
    except OverflowError:
        raise ArgumentError(wrong) from None
    except TypeError:
        raise ArgumentTypeError(f"{name} of type {type_name(values)}: must be a sequence of whole numbers") from None
    if max(words, default=0) >> 63:
        raise ArgumentError(wrong)
    return words


def save_index(path: str | os.PathLike[str], index: Index, ssds: int) -> None:
    """Writes the file of an index; one that is there already is replaced as a whole."""
    text, words = _parts_of(index)
    head = json.dumps({**text, "ssds": ssds}).encode()
    body = _HEAD.pack(_MAGIC, _VERSION, len(head)) + head + words
    file = _path(path)
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(new, "wb") as out:
            out.write(body + hashlib.sha256(body).digest())
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, file)
    except OSError as error:
        raise MissingError(f"index {path}: {error.strerror}") from None


def check_folder(path: str | os.PathLike[str]) -> None:
    """Whether an index can be written there, as far as it is known before."""
    folder = _path(path).parent
    if not folder.is_dir():
        raise MissingError(f"index {path}: there is no folder {folder}")


def _path(path: Any) -> pathlib.Path:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ArgumentTypeError(f"path of type {type_name(path)}: must be the path of an index")
    return pathlib.Path(path)


def digest_of(index: Index) -> str:
    """What tells an index from others: a checksum of all that it says."""
    text, words = _parts_of(index)
    return hashlib.sha256(json.dumps(text).encode() + words).hexdigest()


def _parts_of(index: Index) -> tuple[dict[str, Any], bytes]:
    """What the file of an index has: its text, but for the SSDs, and its words."""
    if not isinstance(index, (Fixed, Indexed)):
        raise ArgumentTypeError(f"index of type {type_name(index)}: must be records.Fixed or records.Indexed")
    text: dict[str, Any] = {"kind": "fixed" if isinstance(index, Fixed) else "indexed", "count": index.count}
    text |= {name: getattr(index, name) for name in _PLACED}
    if isinstance(index, Fixed):
        return text | {"record_bytes": index.record_bytes, "stride": index.stride, "offset": index.offset}, b""
    return text, _bytes_of(index.offsets) + _bytes_of(index.lengths)


def load_index(path: str | os.PathLike[str], ssds: int | None = None) -> Index:
    """Reads the file of an index. `ssds`: how many there are to be read from."""
    try:
        data = _path(path).read_bytes()
    except OSError as error:
        raise MissingError(f"index {path}: {error.strerror}") from None
    if len(data) < _HEAD.size + _DIGEST_BYTES or not data.startswith(_MAGIC):
        raise ArgumentError(f"index {path}: is no index of records: {len(data)} bytes that do not begin with {_MAGIC.decode()}")
    _, version, length = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ArgumentError(f"index {path}: version {version}: must be {_VERSION}")
    body = data[:-_DIGEST_BYTES]
    if hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
        raise ArgumentError(f"index {path}: its checksum does not fit its {len(data)} bytes: it was cut or changed")
    text, words = _text_of(path, body[_HEAD.size : _HEAD.size + length]), body[_HEAD.size + length :]
    if ssds is not None and ssds != text["ssds"]:
        raise ArgumentError(f"index {path}: its records lie on {text['ssds']} SSDs, and not on {ssds}")
    fixed = text["kind"] == "fixed"
    half = 0 if fixed else 8 * text["count"]
    if len(words) != 2 * half:
        raise ArgumentError(f"index {path}: {len(words)} bytes behind its text: must be {2 * half}, for {text['count']} records")
    # Values are checked as those of a call.
    placed = {name: text[name] for name in _PLACED}
    try:
        if fixed:
            return Fixed(**placed, **{name: text[name] for name in _OF_FIXED})
        return Indexed(**placed, offsets=_words_of(words[:half]), lengths=_words_of(words[half:]))
    except (ArgumentError, ArgumentTypeError) as error:
        raise ArgumentError(f"index {path}: {error}") from None


def _text_of(path: str | os.PathLike[str], data: bytes) -> dict[str, Any]:
    """The text of an index, with all names of its kind. A checksum says only that it is what somebody wrote."""
    try:
        text = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"index {path}: its text is no JSON: {error}") from None
    kind = text.get("kind") if isinstance(text, dict) else None
    if kind not in ("fixed", "indexed"):
        raise ArgumentError(f"index {path}: kind {kind!r}: must be fixed or indexed")
    missing = sorted({"count", "ssds", *_PLACED, *(_OF_FIXED if kind == "fixed" else ())} - set(text))
    if missing:
        raise ArgumentError(f"index {path}: its text has no {missing[0]}")
    for name in ("count", "ssds"):
        if type(text[name]) is not int or not 0 <= text[name] <= MOST:
            raise ArgumentError(f"index {path}: {name} {text[name]!r}: must be a whole number from 0 to {MOST}")
    return dict(text)


def _bytes_of(words: Numbers) -> bytes:
    copy: array.array[int] = array.array("Q", words)
    if sys.byteorder == "big":
        copy.byteswap()
    return copy.tobytes()


def _words_of(data: bytes) -> array.array[int]:
    words = array.array("Q", data)
    if sys.byteorder == "big":
        words.byteswap()
    return words
