"""Pickling between this process and its worker processes.

Functions and classes of the main script or of a notebook, and lambdas, are pickled by value, by cloudpickle: a worker
process does not run the main script, so it could not import them. Everything else is pickled as usual.
"""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any, TypeVar

from bushel.errors import BushelError

E = TypeVar("E", bound=BaseException)

_REFUSED = (pickle.PicklingError, AttributeError, TypeError)


class _OfMainScriptError(Exception):
    """A function or class is defined in the main script."""


class _Pickler(pickle.Pickler):
    """A pickler that stops at objects which a fresh interpreter cannot import."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type) and obj.__module__ == "__main__":
            raise _OfMainScriptError
        return NotImplemented


def pickle_for_worker(job: Any, content: str) -> bytes:
    """Pickle a job for a worker process.

    Args:
        job: Any object.
        content: The objects of the user in the job, for the error: "the source and the transforms".

    Raises:
        TypeError: Something in it cannot be pickled; the error names it.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=5).dump(job)
    except BushelError:
        raise
    except (_OfMainScriptError, *_REFUSED):
        import cloudpickle  # 1 ms, for those who need it

        try:
            pickled: bytes = cloudpickle.dumps(job, protocol=5)
        except BushelError:
            raise
        except _REFUSED as error:
            raise TypeError(f"processes= pickles {content}, and one cannot be: {error}") from error
        return pickled
    return buffer.getvalue()


def pickle_for_parent(result: Any) -> bytes:
    """Pickle the result of a worker process, with protocol 5.

    Objects of classes that the parent's main script defines become objects of these classes there.

    Raises:
        TypeError: It cannot be pickled.
        pickle.PicklingError: Likewise.
    """
    try:
        return pickle.dumps(result, 5)
    except _REFUSED:
        import cloudpickle

        pickled: bytes = cloudpickle.dumps(result, 5)
        return pickled


def pickle_with_buffers(result: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Pickle the result of a worker process without the contents of its arrays, which are returned beside it.

    Raises:
        TypeError: It cannot be pickled.
        pickle.PicklingError: Likewise.
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        return pickle.dumps(result, 5, buffer_callback=buffers.append), buffers
    except _REFUSED:
        import cloudpickle

        buffers.clear()
        return cloudpickle.dumps(result, 5, buffer_callback=buffers.append), buffers


def portable(error: E) -> E | RuntimeError:
    """Return the exception, or a RuntimeError that quotes it if it does not survive pickling."""
    try:
        pickle.loads(pickle_for_parent(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
