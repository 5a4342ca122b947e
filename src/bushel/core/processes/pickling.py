"""What travels to a helper process, and what comes back."""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any, TypeVar

from bushel.errors import BushelError

__all__ = ["pickle_for_helper", "portable"]

E = TypeVar("E", bound=BaseException)


class _Pickler(pickle.Pickler):
    """Refuses by name what a fresh interpreter could not find."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type) and obj.__module__ == "__main__":
            raise TypeError(
                f"{obj.__qualname__} is defined in the main script, which helper processes do not run: move it to a "
                f"module of its own and import it, or leave processes= out to use threads"
            )
        return NotImplemented


def pickle_for_helper(job: Any, made_of: str) -> bytes:
    """Pickle a job.

    Args:
        job: Any object.
        made_of: What it holds of the user's, for the error: "the source and the transforms".

    Raises:
        TypeError: It cannot be pickled; says what is in the way.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=5).dump(job)
    except BushelError:
        raise
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"processes= pickles {made_of}, and one cannot be: {error}") from error
    return buffer.getvalue()


def portable(error: E) -> E | RuntimeError:
    """The same exception, or, of one that does not survive pickling, a RuntimeError that quotes it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
