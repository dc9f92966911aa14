"""SSDs by name: opened at the first use, in each process anew."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ._checks import one_of, type_name, whole
from ._memory import Pool
from ._space import CHUNK_BYTES, LAYOUTS, Space
from ._warpbell import Ssd
from ._warpbell import open as open_ssd
from .errors import ArgumentError, ArgumentTypeError

Ssds = str | Ssd | Sequence[str | Ssd]

_ALL: weakref.WeakSet[Drives] = weakref.WeakSet()
# What a process inherited by fork: its threads are not there, so it is neither used nor closed.
_INHERITED: list[Any] = []


class Opened:
    """Open SSDs as one space, and memory for them."""

    def __init__(self, ssds: Sequence[Ssd], layout: str, chunk_bytes: int) -> None:
        self.ssds = list(ssds)
        self.space = Space([(ssd.nbytes, ssd.block_size) for ssd in ssds], layout, chunk_bytes)
        self.pool = Pool(self.ssds)


class Drives:
    """One SSD or several as one range of bytes. Any number of threads may use it. It is pickled by the SSDs' names."""

    def __init__(
        self,
        ssds: Ssds,
        *,
        options: Mapping[str, Any] | None = None,
        layout: str = "stripe",
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        given = [ssds] if isinstance(ssds, (str, Ssd)) else ssds
        if not isinstance(given, Sequence) or not all(isinstance(ssd, (str, Ssd)) for ssd in given):
            raise ArgumentTypeError(f"ssds of type {type_name(ssds)}: must be the name of an SSD, an open SSD, or a list of such")
        if not given:
            raise ArgumentError("ssds: there are none; at least 1")
        self.names = [ssd if isinstance(ssd, str) else ssd.name for ssd in given]
        self.layout = one_of("layout", layout, LAYOUTS)
        self.chunk_bytes = whole("chunk_bytes", chunk_bytes, 1)
        self._options = dict(options or {})
        self._given: list[Ssd | None] = [None if isinstance(ssd, str) else ssd for ssd in given]
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._opened: Opened | None = None
        self._own: list[Ssd] = []
        self._forked = False
        _ALL.add(self)

    def open(self) -> Opened:
        """The SSDs, open."""
        opened = self._opened
        if opened is not None:
            return opened
        with self._lock:
            if self._opened is None:
                self._opened = Opened([self._open(*each) for each in zip(self.names, self._given)], self.layout, self.chunk_bytes)
            return self._opened

    def _open(self, name: str, given: Ssd | None) -> Ssd:
        if given is not None:
            return given
        if self._forked:
            _check_shared(name)
        ssd = open_ssd(name, **self._options)
        self._own.append(ssd)
        return ssd

    def close(self) -> None:
        """Closes the SSDs that were opened here, not those that were open before. The next use opens them again."""
        with self._lock:
            own, self._own, self._opened = self._own, [], None
        for ssd in own:
            ssd.close()

    def __getstate__(self) -> dict[str, Any]:
        for name in self.names:
            _check_shared(name)
        return {"names": self.names, "layout": self.layout, "chunk_bytes": self.chunk_bytes, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.names, self.layout, self.chunk_bytes = state["names"], state["layout"], state["chunk_bytes"]
        self._options = state["options"]
        self._given = [None] * len(self.names)
        self._start()

    def leave_behind(self) -> None:
        """In a child of fork: keeps the parent's SSDs as they are, and opens its own when it needs them."""
        memories = [] if self._opened is None else self._opened.pool.inherited()
        _INHERITED.append((self._opened, self._own, self._given, memories))
        self._given = [None] * len(self.names)
        self._start()
        self._forked = True


def _is_memory(name: str) -> bool:
    """Whether it is a soft SSD in the memory of one process."""
    if not name.startswith("soft:"):
        return False
    settings = re.split(r"(?<!\\),", name.removeprefix("soft:"))
    return any(setting.startswith("size=") for setting in settings) or not any(setting.startswith("file=") for setting in settings)


def _check_shared(name: str) -> None:
    if _is_memory(name):
        raise ArgumentError(f"ssd {name}: lies in the memory of one process, others would open an empty one; soft:file=PATH can be shared")


def _after_fork() -> None:
    for drives in list(_ALL):
        drives.leave_behind()


os.register_at_fork(after_in_child=_after_fork)
