"""What Warpbell raises: `Error`, and a class for each kind of failure. Each message is one line that names the object,
the value and the limit."""

from __future__ import annotations


class Error(Exception):
    """Whatever fails in Warpbell."""


class ArgumentError(Error, ValueError):
    """An argument outside its limits: a name, a number, an option."""


class ArgumentTypeError(Error, TypeError):
    """An argument of the wrong type."""


class ClosedError(Error, ValueError):
    """The object was closed before."""


class BusyError(Error, RuntimeError):
    """Something that is still in use, and so is not closed."""


class ExportedError(BusyError, BufferError):
    """A buffer of which views live, and which so is not closed."""


class RefusedError(Error, PermissionError):
    """Something that could destroy data, and was not allowed by name."""


class MissingError(Error, OSError):
    """Something that this machine does not have, with what would help."""


class CompileError(Error):
    """A kernel's source that does not compile."""

    log: str = ""
    """All that the compiler said."""


class CommandError(Error, OSError):
    """A command that the SSD answered with a failure, or not at all."""

    status: int | None = None
    """The status that it answered with: code and type; None where it did not answer."""


class WaitTimeoutError(Error, TimeoutError):
    """A wait that ended by its limit; what was waited for goes on."""


class DeviceError(Error, OSError):
    """An SSD, its driver, or memory for it."""


class KernelError(Error, RuntimeError):
    """A kernel that could not be run, or did not end as it should."""


class UndeletedError(Error, RuntimeError):
    """Closed, but the controller may still use the memory, which so stays: it did not delete a queue, or a command of a
    kernel has no completion."""


class BenchError(Error, RuntimeError):
    """A run of `warpbell bench` that failed."""

    exit_code: int = 1
    """What the command ended with."""
