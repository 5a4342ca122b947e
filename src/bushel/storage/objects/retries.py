"""Retries of failed requests, and errors of object stores with hints on what to do next.

Requests are retried here rather than by obstore, for three reasons: a truncated answer counts as a
failure too, one time limit holds for everything, and Ctrl-C waits for running requests only.
obstore retries by the same policy where a request is a part of a longer one: the pages of a
listing, and the parts of an upload.
"""

from __future__ import annotations

import errno
import random
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from bushel.errors import UnsupportedError

from .client import FIRST_PAUSE, LONGEST_PAUSE, patience

T = TypeVar("T")

_STATUS = re.compile(r"status code: (\d{3})")
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"|\b(TimedOut|IncompleteMessage|UnexpectedEof)\b')
_UNREACHABLE = re.compile(
    r'kind: (?:ConnectionRefused|HostUnreachable|NetworkUnreachable)|"dns' r' error"'
)
_FIRST_PATIENCE = 1.0
"""Seconds for which a request is retried if no server has ever answered this process at the address."""
_SILENT_SECONDS, _WARN_EVERY = 5.0, 60.0
"""Seconds of failures of a request before a warning, and from one warning of the process to the next."""
_NO_FOLDER = "Not a directory (os error 20)"
"""The error of obstore for `a/b` in a store that is a folder, if `a` is a file: the object does not exist."""
_LONG_NAME = "File name too long (os error 36)"
"""Its error for a name that no file in such a store can have; HTTP servers answer with the status 414."""
_NO_RANGES = "Received non-partial response when range requested"
_NO_ACCOUNT = "Account must be specified"
_BAD_CERTIFICATE = "InvalidCertificate("
_FINAL = (_NO_FOLDER, _LONG_NAME, _NO_RANGES, _NO_ACCOUNT)
"""Errors of obstore for requests that fail in the same way each time, which their class does not show."""
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, a "
    "role of this machine; or AWS_SKIP_SIGNATURE=true for public data",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, a role of this "
    "machine; or GOOGLE_SKIP_SIGNATURE=true for public data",
    "hf": "HF_TOKEN or `hf auth login`; the dataset may be private, gated or misspelt",
    "az": "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, "
    "a role of this machine; or AZURE_SKIP_SIGNATURE=true for public data",
}


_reached: set[str] = set()  # servers and buckets that have answered this process
_warned = -_WARN_EVERY


class TruncatedError(Exception):
    """An answer ended too early."""


def persistently(url: object, request: Callable[[], T], stop: threading.Event | None = None) -> T:
    """Make a request until it succeeds, with growing pauses, while its errors are transient and time is left.

    If no server listens at an address that has never answered, it is probably wrong, and a second
    is enough. If retrying takes long, a warning is given.

    Args:
        url: The URL that errors name, or an object whose text is the URL.
        request: Makes one attempt.
        stop: When another thread sets it, a failed request is not made again.

    Raises:
        OSError: See `translated`; `ConnectionError` after `BUSHEL_NETWORK_PATIENCE` seconds of
            failures.
        BushelError: The error that `request` raised.
    """
    begin = time.monotonic()
    pause, attempts = FIRST_PAUSE, 0
    while True:
        attempts += 1
        try:
            answer = request()
        except Exception as error:
            unreachable = _UNREACHABLE.search(str(error)) is not None
            if not unreachable:
                _reached.add(_server(url))
            if not isinstance(error, TruncatedError) and not is_transient(error):
                with translated(url):
                    raise
            limit = patience()
            advice = (
                "check the network and the endpoint, or set BUSHEL_NETWORK_PATIENCE to more seconds"
            )
            if unreachable and _server(url) not in _reached:
                limit, advice = (
                    min(_FIRST_PATIENCE, limit),
                    "check the URL, the endpoint and the network",
                )
            jittered = pause * (0.5 + random.random())
            now = time.monotonic()
            if (stop is not None and stop.is_set()) or now + jittered > begin + limit:
                tried = f"{attempts} requests failed, the last one with: {summary(error)}"
                raise ConnectionError(f"{url}: {tried}; {advice}") from error
            if now > begin + _SILENT_SECONDS:
                _warn(url, error, begin + limit - now)
        else:
            _reached.add(_server(url))
            return answer
        (stop or threading.Event()).wait(jittered)
        pause = min(2 * pause, LONGEST_PAUSE)


def _server(url: object) -> str:
    """Return the scheme and the host or bucket of a URL."""
    root = getattr(url, "root", None)  # of an `ObjectPath`, whose text takes longer
    if isinstance(root, str):
        return root
    return "/".join(str(url).split("/", 3)[:3])


def _warn(url: object, error: Exception, left: float) -> None:
    """Warn that a request is tried again, from time to time."""
    global _warned
    now = time.monotonic()
    if now - _warned >= _WARN_EVERY:
        _warned = now
        warnings.warn(
            (
                f"{url}: {summary(error)}; trying again for up "
                f"to {left:.0f} seconds (BUSHEL_NETWORK_PATIENCE)"
            ),
            RuntimeWarning,
            stacklevel=3,
        )


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
        kind, text = type(error).__name__, str(error)
        if isinstance(error, ValueError) and "Could not parse path" in text:
            kind = "InvalidPathError"
        elif not type(error).__module__.startswith("obstore"):
            raise
        match = _STATUS.search(text)
        status = "" if match is None else match[1]
        if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in ("401", "403"):
            scheme = url.partition("://")[0]
            keys = ""
            if scheme in _KEYS:
                keys = f"; credentials come from {_KEYS[scheme]}"
            raise PermissionError(errno.EACCES, f"the server refuses access{keys}", url) from error
        if kind == "AlreadyExistsError":
            raise FileExistsError(
                errno.EEXIST, "an object of this name exists already", url
            ) from error
        if _NO_ACCOUNT in text:
            message = "no storage account is named: set AZURE_STORAGE_ACCOUNT_NAME"
            raise PermissionError(
                errno.EACCES, f"{message}; credentials come from {_KEYS['az']}", url
            ) from error
        if kind == "NotSupportedError" or _NO_RANGES in text:
            raise UnsupportedError(
                f"{url}: the server does not support this: {summary(error)}; copy the files to a "
                "disk or object store, or read archives from front to back through 'pipe:curl -s URL'"
            ) from error
        if kind == "InvalidPathError":
            raise UnsupportedError(
                f"{url}: {summary(error)}; object names with empty parts, `.`, `..` "
                "or control characters are not supported: rename or remove that object"
            ) from error
        message = "the object or bucket does not exist"
        if status == "414" or _LONG_NAME in text:
            message = "no such object: its name is too long for the server"
        elif status != "404" and _NO_FOLDER not in text:
            raise ConnectionError(f"{url}: {summary(error)}") from error
        raise FileNotFoundError(errno.ENOENT, message, url) from error


def is_transient(error: Exception) -> bool:
    """Return whether the same request may succeed when it is made again."""
    if type(error).__name__ not in ("GenericError", "BaseError"):
        return False
    if any(final in str(error) for final in _FINAL):
        return False
    status = _STATUS.search(str(error))
    if status is None:
        return _BAD_CERTIFICATE not in str(error)
    return int(status[1]) in _TRY_AGAIN


def summary(error: Exception) -> str:
    """Return the message of an exception of obstore with its cause, without the debug dump."""
    text, _, insides = str(error).partition("\n\nDebug source")
    text = " ".join(text.split())
    if _BAD_CERTIFICATE in insides:
        return (
            f"{text}: its certificate is not trusted; set "
            "BUSHEL_NETWORK_CA to a file with a certificate to trust"
        )
    cause = _CAUSE.search(insides)
    if cause is None:
        return text
    return f"{text}: {cause[1] or cause[2]}"
