"""Opening of datasets whose checksums are compared."""

from __future__ import annotations

from pathlib import Path

import bushel


def opened(path: Path | str, *, allow_incomplete: bool = False) -> bushel.Dataset:
    return bushel.open(path, verify=True, allow_incomplete=allow_incomplete)
