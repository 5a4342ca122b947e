"""What all readers, writers and loaders share: `close()` at the end of a `with`."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from bushel.errors import noted_in

__all__ = ["Closing"]


class Closing:
    """Closes itself at the end of a `with` body, also of one that raised.

    Attributes:
        closed: Whether that has happened.
    """

    def __init__(self) -> None:
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        with noted_in(error):
            self.close()

    def close(self) -> None:
        """Let go of everything."""
        self.closed = True
