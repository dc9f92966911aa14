"""What reading records raises."""

from __future__ import annotations

from typing import Any

from ..errors import CommandError


class RecordError(CommandError):
    """A record that could not be read. Where only its text came from another process, as torch passes errors on, the rest is
    None."""

    def __init__(
        self, text: str = "", *, record: int | None = None, ssd: str | None = None, offset: int | None = None, status: int | None = None
    ) -> None:
        super().__init__(text)
        self.record = record
        """Which one."""
        self.ssd = ssd
        """The SSD's name."""
        self.offset = offset
        """Where the part that could not be read begins there, in bytes."""
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, dict(self.__dict__)
