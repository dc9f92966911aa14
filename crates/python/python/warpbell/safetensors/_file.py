"""A safetensors file on SSDs: what is in it, and its tensors by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from .._checks import one_of, whole
from .._drives import Drives, Ssds
from .._reader import read
from .._warpbell import Queues
from ..errors import ArgumentError, CommandError
from ._header import LENGTH_BYTES, TABLE_SUM, TENSOR_SUMS, ChecksumError, Entry, FormatError, Header, check_length, parse, table_sum
from ._kernel import KernelReader
from ._kinds import to_numpy, to_torch

FRAMEWORKS = ("numpy", "torch", "dlpack", "bytes")


class TensorReadError(CommandError):
    """A tensor that could not be read."""

    tensor: str | None = None
    """Which one; None: the header."""


class Handle:
    """A file that was opened. Any number of threads may use it, one at a time where it reads through a kernel."""

    def __init__(self, drives: Drives, offset: int, verify: bool, queues: Queues | None) -> None:
        self._drives, self._offset, self._verify = drives, offset, verify
        self._place = f"safetensors at byte {offset} of {', '.join(drives.names)}"
        opened = drives.open()
        self._kernel = None
        if queues is not None:
            if len(opened.ssds) != 1:
                raise ArgumentError(f"queues: a kernel reads from 1 SSD, and not from {len(opened.ssds)}")
            self._kernel = KernelReader(opened.ssds[0], queues)
        try:
            self._begin, self._header = self._read_header(opened.space.nbytes)
        except FormatError as error:
            raise FormatError(f"{self._place}: {error}") from None
        self._sums = self._read_sums() if verify else {}

    def _read_header(self, most: int) -> tuple[int, Header]:
        """Where the tensors begin, and the header."""
        if self._offset + LENGTH_BYTES > most:
            raise ArgumentError(f"offset {self._offset}: the SSDs have {most} bytes")
        length = check_length(int.from_bytes(self._bytes(self._offset, LENGTH_BYTES), "little"))
        begin = self._offset + LENGTH_BYTES + length
        if begin > most:
            raise FormatError(f"header of {length} bytes: the SSDs have {most - self._offset - LENGTH_BYTES} behind its length")
        header = parse(self._bytes(self._offset + LENGTH_BYTES, length))
        if begin + header.nbytes > most:
            raise FormatError(f"tensors of {header.nbytes} bytes: the SSDs have {most - begin} behind the header")
        return begin, header

    def _bytes(self, begin: int, nbytes: int) -> bytes:
        (memory,) = self._memory([(begin, nbytes)], [None])
        return bytes(memory)

    def _read_sums(self) -> dict[str, str]:
        """Checksums of tensors, after a look at that of the header; none where the file has none."""
        metadata = self._header.metadata
        if TABLE_SUM not in metadata and TENSOR_SUMS not in metadata:
            return {}
        try:
            sums = json.loads(metadata.get(TENSOR_SUMS, ""))
        except ValueError:
            sums = None
        if metadata.get(TABLE_SUM) != table_sum(self._header) or not isinstance(sums, dict) or set(sums) != set(self._header.tensors):
            raise ChecksumError(f"{self._place}: header: is not the one that was saved: its checksum does not fit")
        return sums

    def keys(self) -> list[str]:
        """The names of all tensors, in the order in which they lie."""
        return sorted(self._header.tensors, key=lambda name: (self._header.tensors[name].begin, name))

    def metadata(self) -> dict[str, str]:
        """The metadata of the file, with the checksums if there are such."""
        return dict(self._header.metadata)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole file."""
        return self._begin - self._offset + self._header.nbytes

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self._entry(name).shape

    def dtype(self, name: str) -> str:
        """The kind of a tensor's elements, as the format calls it: F32, BF16."""
        return self._entry(name).dtype

    def load(self, name: str, framework: str = "numpy") -> Any:
        """A tensor. `framework`: numpy, torch, dlpack (an object with `__dlpack__`), or bytes (a memoryview).

        Its memory is what the SSD wrote to. Kinds that NumPy has no type for have that of ml_dtypes; without it, and for
        dlpack, they are unsigned numbers of the same size. Kinds of less than a byte are one row of bytes.
        """
        return self._load([name], framework)[name]

    def load_all(self, framework: str = "numpy") -> dict[str, Any]:
        """All tensors by name."""
        return self._load(self.keys(), framework)

    def _load(self, names: Sequence[str], framework: str) -> dict[str, Any]:
        one_of("framework", framework, FRAMEWORKS)
        entries = [self._entry(name) for name in names]
        memories = self._memory([(self._begin + entry.begin, entry.end - entry.begin) for entry in entries], names)
        loaded = {}
        for name, entry, memory in zip(names, entries, memories):
            self._check_sum(name, memory)
            loaded[name] = _shaped(memory, entry, framework)
        return loaded

    def _memory(self, extents: Sequence[tuple[int, int]], names: Sequence[str | None]) -> Iterator[memoryview]:
        """The bytes of parts, read at once."""
        self._drives.check_open()
        if self._kernel is not None:
            return (self._by_kernel(self._kernel, *extent, name) for extent, name in zip(extents, names))

        def failed(part: int, ssd: str, offset: int, error: CommandError) -> Exception:
            failure = TensorReadError(f"{self._what(names[part])}, {extents[part][1]} bytes at {offset} of {ssd}: {error}")
            failure.tensor, failure.status = names[part], error.status
            return failure

        begun = read(self._drives, extents, failed)
        whole_view = memoryview(begun.result()).cast("B")
        return (whole_view[place : place + nbytes] for place, (_, nbytes) in zip(begun.places, extents))

    def _by_kernel(self, kernel: KernelReader, begin: int, nbytes: int, name: str | None) -> memoryview:
        if nbytes == 0:
            return memoryview(bytearray())
        block = self._drives.open().space.block_size
        first, end = begin - begin % block, -(-(begin + nbytes) // block) * block
        try:
            buffer = kernel.read(first, end - first, f"{self._what(name)}, {nbytes} bytes at {begin} of {self._drives.names[0]}")
        except CommandError as error:
            failure = TensorReadError(str(error))
            failure.tensor, failure.status = name, error.status
            raise failure from None
        return memoryview(buffer)[begin - first : begin - first + nbytes]

    def _what(self, name: str | None) -> str:
        return "header" if name is None else f"tensor {name!r}"

    def _check_sum(self, name: str, memory: memoryview) -> None:
        wanted = self._sums.get(name)
        if wanted is None:
            return
        found = hashlib.sha256(memory).hexdigest()
        if found != wanted:
            text = f"tensor {name!r} of {len(memory)} bytes: SHA-256 is {found}, and {wanted} was saved"
            failure = ChecksumError(f"{self._place}: {text}")
            failure.tensor = name
            raise failure

    def _entry(self, name: str) -> Entry:
        entry = self._header.tensors.get(name)
        if entry is None:
            import difflib

            near = difflib.get_close_matches(str(name), self._header.tensors, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ArgumentError(f"tensor {name!r}: {self._place} has {len(self._header.tensors)} tensors, and none of this name{hint}")
        return entry

    def close(self) -> None:
        """Closes the SSDs that were opened here: those that were given by name. Tensors stay, and no more are loaded."""
        self._drives.close()

    def __enter__(self) -> Self:
        self._drives.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _shaped(memory: memoryview, entry: Entry, framework: str) -> Any:
    if framework == "bytes":
        return memory
    if framework == "torch":
        return to_torch(memory, entry.dtype, entry.shape)
    return to_numpy(memory, entry.dtype, entry.shape, raw=framework == "dlpack")


def open(
    ssds: Ssds,
    offset: int = 0,
    *,
    verify: bool = True,
    queues: Queues | None = None,
    options: Mapping[str, Any] | None = None,
) -> Handle:
    """Opens the file that begins at byte `offset`. `verify`: whether checksums are compared, of files that have them.

    With `queues` of the SSD, a kernel over them reads it; without, the host. `options` are those of `warpbell.open`, for an SSD that is
    given by name.
    """
    drives = Drives(ssds, options=options)
    try:
        return Handle(drives, whole("offset", offset), bool(verify), queues)
    except BaseException:
        drives.close()
        raise
