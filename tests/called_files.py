"""Which files of Bushel the code passes: what a reader has to open to follow it."""

from __future__ import annotations

from pathlib import Path
from types import FrameType

import bushel

PACKAGE = Path(bushel.__file__).parent


class CalledFiles(set[str]):
    """The files whose functions were called, relative to the package. `note` is for `sys.setprofile`.

    Attributes:
        switches: How often a function of another file was called than that of the call before, in any thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.switches = 0
        self._last = ""

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Add the file of a function that is called."""
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            self.switches += self._last not in ("", name)
            self._last = name
            self.add(name)
