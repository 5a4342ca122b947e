"""What all readers, writers and loaders share: `close()` at the end of a `with`."""

from __future__ import annotations

from types import TracebackType
from typing import Self

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
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"closing {type(self).__name__} failed too: {failure}")

    def close(self) -> None:
        """Let go of everything."""
        self.closed = True
