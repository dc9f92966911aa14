"""SSDs by name: opened at the first use, in each process anew."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ._checks import one_of, type_name, whole
from ._memory import Pool
from ._space import CHUNK_BYTES, LAYOUTS, FileSpace, Space
from ._warpbell import Ssd
from ._warpbell import open as open_ssd
from .errors import ArgumentError, ArgumentTypeError, ClosedError, Error

Ssds = str | Ssd | Sequence[str | Ssd]

_ALL: weakref.WeakSet[Drives] = weakref.WeakSet()
# What a process inherited by fork: its threads are not there, so it is neither used nor closed.
_INHERITED: list[Any] = []


# What of the options is for the file, where one is named.
_OF_FILES = ("manifest", "partition", "allow_dirty")
# What is not pickled.
_OF_THIS_PROCESS = frozenset({"_given", "_lock", "_opened", "_own", "_forked"})


class Opened:
    """Open SSDs, or a file on one, as one space, and memory for them."""

    def __init__(self, ssds: Sequence[Ssd], space: Space | FileSpace) -> None:
        self.ssds = list(ssds)
        self.space = space
        self.pool = Pool(self.ssds)


class Drives:
    """One SSD or several as one range of bytes. Any number of threads may use it. It is pickled by the SSDs' names,
    with the namespaces of those that were given open."""

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
        named = [name for name, ssd in zip(self.names, given) if isinstance(ssd, str) and "#/" in name]
        if named and len(given) > 1:
            raise ArgumentError(f"ssds {named[0]}: names a file, which lies on one SSD; name it alone")
        self._given: list[Ssd | None] = [None if isinstance(ssd, str) else ssd for ssd in given]
        # Of SSDs that were given open: another process opens the same namespace. None: given by name.
        self._namespaces = [None if isinstance(ssd, str) else ssd.namespace for ssd in given]
        self._known = options is not None
        self._options = _checked({} if options is None else options, self.file is not None)
        self._check_namespace()
        self._check_twice()
        self._closed = False
        self._start()

    def _check_twice(self) -> None:
        """Whether each SSD is there once, as far as it is known before they are open."""
        for at, (name, given) in enumerate(zip(self.names, self._given)):
            before = zip(self.names[:at], self._given)
            if given is None:
                twice = not _is_memory(name) and (name, None) in before
            else:
                twice = any(ssd is given for _, ssd in before)
            if twice:
                raise ArgumentError(f"ssds {name}: is there twice; each SSD once")

    def _check_namespace(self) -> None:
        """Whether the options name the namespace of SSDs that were given open, if they name one."""
        wanted = self._options.get("namespace")
        for name, namespace in zip(self.names, self._namespaces):
            if None not in (wanted, namespace) and wanted != namespace:
                raise ArgumentError(f"options namespace {wanted}: {name} was given open, with namespace {namespace}")

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
            self.check_open()
            if self._opened is None:
                self._opened = self._open_all()
            return self._opened

    def check_open(self) -> None:
        """Refuses what is done after `close`."""
        if self._closed:
            raise ClosedError(f"ssds {', '.join(self.names)}: what reads from them here was closed before")

    @property
    def file(self) -> str | None:
        """The path of the file, where one is named: what stands behind the first `#`, where a `/` follows it."""
        at = self.names[0].find("#/")
        return self.names[0][at + 1 :] if at >= 0 and self._namespaces[0] is None else None

    def _open_all(self) -> Opened:
        try:
            return self._opened_now()
        except BaseException:
            own, self._own = self._own, []
            for ssd in own:
                # What is told is why it could not be used.
                with contextlib.suppress(Error):
                    ssd.close()
            raise

    def _opened_now(self) -> Opened:
        path = self.file
        if path is not None:
            options = {name: self._options[name] for name in _OF_FILES if name in self._options}
            ssd = self._open(self.names[0][: -len(path) - 1], None, None)
            return Opened([ssd], FileSpace(ssd.open_file(path, **options)))
        ssds = [self._open(*each) for each in zip(self.names, self._given, self._namespaces)]
        self._check_each_once(ssds)
        return Opened(ssds, Space([(ssd.nbytes, ssd.block_size) for ssd in ssds], self.layout, self.chunk_bytes))

    def _check_each_once(self, ssds: Sequence[Ssd]) -> None:
        """Whether each is another namespace. Two in memory are so, even where they have the same name."""
        places = [(ssd.name, ssd.namespace) for ssd in ssds if not _is_memory(ssd.name)]
        for at, (name, namespace) in enumerate(places):
            if (name, namespace) in places[:at]:
                raise ArgumentError(f"ssds {name}: its namespace {namespace} is there twice; each SSD once")

    def _open(self, name: str, given: Ssd | None, namespace: int | None) -> Ssd:
        if given is not None:
            return given
        if self._forked:
            self._check_others(name, namespace)
        options = {name: value for name, value in self._options.items() if self.file is None or name not in _OF_FILES}
        if namespace is not None:
            options["namespace"] = namespace
        ssd = open_ssd(name, **options)
        self._own.append(ssd)
        return ssd

    def _check_others(self, name: str, namespace: int | None) -> None:
        """Whether another process can open the same SSD in the same way."""
        if _is_memory(name):
            raise ArgumentError(f"ssd {name}: lies in the memory of one process, others would open an empty one; soft:file=PATH can be shared")
        if namespace is not None and not self._known:
            rule = "options={...} has those of warpbell.open for other processes, or give the SSD by name"
            raise ArgumentError(f"ssd {name}: was given open, and how it was opened is not known: {rule}")

    def close(self) -> None:
        """Closes the SSDs that were opened here, not those that were open before. Later uses are refused."""
        with self._lock:
            self._closed = True
            own, self._own, self._opened = self._own, [], None
        for ssd in own:
            ssd.close()

    def __getstate__(self) -> dict[str, Any]:
        for each in zip(self.names, self._namespaces):
            self._check_others(*each)
        return {name: value for name, value in self.__dict__.items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
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


def _checked(options: Any, file: bool) -> dict[str, Any]:
    """Options of `warpbell.open`, and of `Ssd.open_file` where a file is named."""
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise ArgumentTypeError(f"options of type {type_name(options)}: must be a mapping of names to values, as warpbell.open takes them")
    for name in options:
        if name in _OF_FILES and not file:
            raise ArgumentError(f"options {name}: is of a file, and no file is named: DEVICE#/path")
        if name not in (*_of_open(), *_OF_FILES):
            import difflib

            near = difflib.get_close_matches(name, _of_open(), 1)
            raise ArgumentError(f"options {name}: warpbell.open has no such option{f'; did you mean {near[0]}?' if near else ''}")
    return dict(options)


@functools.cache
def _of_open() -> tuple[str, ...]:
    import inspect

    return tuple(inspect.signature(open_ssd).parameters)[1:]


def _after_fork() -> None:
    for drives in list(_ALL):
        drives.leave_behind()


os.register_at_fork(after_in_child=_after_fork)
