"""Columns of Parquet whose values have no extents, decoded by pyarrow: nested values and rarer encodings."""

from __future__ import annotations

from collections.abc import Sequence

from bushel.containers.by_pyarrow import as_json
from bushel.errors import FormatError, needed_by
from bushel.storage import File, Seekable

__all__ = ["decoded"]


def decoded(file: File, name: str, groups: Sequence[int]) -> list[bytes | None]:
    """Return the values of a column in some row groups as JSON (`as_json`); None for a null.

    Raises:
        MissingPackageError: pyarrow is not installed.
        FormatError: pyarrow cannot read the column, or its values take more than 256 MiB.
    """
    with needed_by(f"{file.path}: column {name!r}, which is nested or has an unusual encoding,", "bushel[arrow]"):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    try:
        with ParquetFile(Seekable(file)) as opened:
            batches = opened.iter_batches(batch_size=1024, row_groups=list(groups), columns=[name])
            return as_json((batch.column(0) for batch in batches), name, file.path)
    except (ArrowException, OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"column {name!r}: {error}", file=file.path) from error
