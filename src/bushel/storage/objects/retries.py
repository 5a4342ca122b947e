"""Retries of failed requests, and the errors of object stores in words that say what to do next.

Requests are retried here rather than by obstore, for three reasons: a truncated answer counts as a failure too, one
time limit holds for everything, and Ctrl-C waits for running requests only. obstore retries by the same policy where a
request is a part of a longer one: the pages of a listing, and the parts of an upload.
"""

from __future__ import annotations

import errno
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from bushel.errors import UnsupportedError
from bushel.storage.objects.client import FIRST_PAUSE, LONGEST_PAUSE, patience

__all__ = ["TruncatedError", "is_transient", "persistently", "summary", "translated"]

T = TypeVar("T")

_STATUS = re.compile(r"status code: (\d{3})")
_CAUSE = re.compile(r'message: "([^"]+)"|\b(TimedOut|IncompleteMessage|UnexpectedEof)\b')
_BAD_CERTIFICATE = "InvalidCertificate("
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, a role of this machine; or AWS_SKIP_SIGNATURE=true"
    " for public data",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, a role of this machine; or GOOGLE_SKIP_SIGNATURE=true for public data",
    "hf": "HF_TOKEN or `hf auth login`; the dataset may be private, gated or misspelt",
    "az": "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, a role of this"
    " machine; or AZURE_SKIP_SIGNATURE=true for public data",
}


class TruncatedError(Exception):
    """An answer ended too early."""


def persistently(url: object, request: Callable[[], T], stop: threading.Event | None = None) -> T:
    """Make a request until it succeeds, with growing pauses, while its errors are transient and time is left.

    Args:
        url: The URL that errors name, or an object whose text is the URL.
        request: Makes one attempt.
        stop: When another thread sets it, a failed request is not made again.

    Raises:
        OSError: As `translated` says; `ConnectionError` after `BUSHEL_NETWORK_PATIENCE` seconds of failures.
        BushelError: What `request` raised.
    """
    begin = time.monotonic()
    pause, attempts = FIRST_PAUSE, 0
    while True:
        attempts += 1
        try:
            return request()
        except Exception as error:
            if not isinstance(error, TruncatedError) and not is_transient(error):
                with translated(url):
                    raise
            jittered = pause * (0.5 + random.random())
            if (stop is not None and stop.is_set()) or time.monotonic() + jittered > begin + patience():
                tried = f"{attempts} requests failed, the last one with: {summary(error)}"
                advice = "check the network and the endpoint, or set BUSHEL_NETWORK_PATIENCE to more seconds"
                raise ConnectionError(f"{url}: {tried}; {advice}") from error
        (stop or threading.Event()).wait(jittered)
        pause = min(2 * pause, LONGEST_PAUSE)


@contextmanager
def translated(path: object) -> Iterator[None]:
    """Turn the exceptions of obstore into errors that name the URL.

    Args:
        path: The URL, or an object whose text is the URL.

    Raises:
        FileNotFoundError: The object or the bucket does not exist.
        PermissionError: The server refuses the credentials.
        FileExistsError: The object exists and should have been new.
        UnsupportedError: The server does not support the request, such as a range request.
        ConnectionError: The server cannot be reached, or fails.
    """
    url = str(path)
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "the object or bucket does not exist", url) from error
    except Exception as error:
        kind = type(error).__name__
        if isinstance(error, ValueError) and "Could not parse path" in str(error):
            kind = "InvalidPathError"
        elif not type(error).__module__.startswith("obstore"):
            raise
        found = _STATUS.search(str(error))
        status = "" if found is None else found[1]
        if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in ("401", "403"):
            scheme = url.partition("://")[0]
            keys = f"; credentials come from {_KEYS[scheme]}" if scheme in _KEYS else ""
            raise PermissionError(errno.EACCES, f"the server refuses access{keys}", url) from error
        if kind == "AlreadyExistsError":
            raise FileExistsError(errno.EEXIST, "an object of this name exists already", url) from error
        if kind == "NotSupportedError":
            raise UnsupportedError(
                f"{url}: the server does not support this: {summary(error)}; copy the files to a disk or object store"
            ) from error
        if kind == "InvalidPathError":
            raise UnsupportedError(
                f"{url}: {summary(error)}; object names with empty parts, `.`, `..` or control characters are not "
                "supported: rename or remove that object"
            ) from error
        if status == "404":
            raise FileNotFoundError(errno.ENOENT, "the object or bucket does not exist", url) from error
        raise ConnectionError(f"{url}: {summary(error)}") from error


def is_transient(error: Exception) -> bool:
    """Return whether the same request may succeed when it is made again."""
    if type(error).__name__ not in ("GenericError", "BaseError"):
        return False
    status = _STATUS.search(str(error))
    return _BAD_CERTIFICATE not in str(error) if status is None else int(status[1]) in _TRY_AGAIN


def summary(error: Exception) -> str:
    """Return the message of an exception of obstore with its cause, without the debug dump."""
    text, _, insides = str(error).partition("\n\nDebug source")
    text = " ".join(text.split())
    if _BAD_CERTIFICATE in insides:
        return f"{text}: its certificate is not trusted; set BUSHEL_NETWORK_CA to a file with a certificate to trust"
    cause = _CAUSE.search(insides)
    return text if cause is None else f"{text}: {cause[1] or cause[2]}"
