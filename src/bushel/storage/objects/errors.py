"""What object stores answer, in words that say what to do next."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from bushel.errors import UnsupportedError

__all__ = ["is_transient", "summary", "translated"]

_STATUS = re.compile(r"status code: (\d{3})")
_CAUSE = re.compile(r'message: "([^"]+)"|\b(TimedOut|IncompleteMessage|UnexpectedEof)\b')
_BAD_CERTIFICATE = "InvalidCertificate("
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, a role of this machine; or AWS_SKIP_SIGNATURE=true"
    " for what is public",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, a role of this machine; or GOOGLE_SKIP_SIGNATURE=true for what is public",
    "az": "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, a role of this"
    " machine; or AZURE_SKIP_SIGNATURE=true for what is public",
}


@contextmanager
def translated(path: object) -> Iterator[None]:
    """Turn what obstore raises into errors that name the URL, which is the text of `path`.

    Raises:
        FileNotFoundError: There is no such object, or no such bucket.
        PermissionError: The server does not know the credentials, or they may not do this.
        FileExistsError: An object that was to be new is there already.
        UnsupportedError: The server cannot do this, such as answer requests for a range.
        ConnectionError: It cannot be reached, or does not do its work.
    """
    url = str(path)
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such object or bucket", url) from error
    except Exception as error:
        kind = type(error).__name__
        if not type(error).__module__.startswith("obstore"):
            raise
        found = _STATUS.search(str(error))
        status = "" if found is None else found[1]
        if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in ("401", "403"):
            scheme = url.partition("://")[0]
            keys = f"; credentials come from {_KEYS[scheme]}" if scheme in _KEYS else ""
            raise PermissionError(errno.EACCES, f"the server refuses access{keys}", url) from error
        if kind == "AlreadyExistsError":
            raise FileExistsError(errno.EEXIST, "there is an object of this name already", url) from error
        if kind == "NotSupportedError":
            raise UnsupportedError(
                f"{url}: the server cannot do this: {summary(error)}; copy the files to a disk or an object store"
            ) from error
        if kind == "InvalidPathError":
            raise UnsupportedError(
                f"{url}: {summary(error)}; names of objects with empty parts, `.`, `..` or control characters are not "
                "read: rename or remove that object"
            ) from error
        if status == "404":
            raise FileNotFoundError(errno.ENOENT, "there is no such object or bucket", url) from error
        raise ConnectionError(f"{url}: {summary(error)}") from error


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed when it is made again."""
    if type(error).__name__ not in ("GenericError", "BaseError"):
        return False
    status = _STATUS.search(str(error))
    return _BAD_CERTIFICATE not in str(error) if status is None else int(status[1]) in _TRY_AGAIN


def summary(error: Exception) -> str:
    """What an exception of obstore says, with the cause but without the rest of the dump of its insides."""
    text, _, insides = str(error).partition("\n\nDebug source")
    text = " ".join(text.split())
    if _BAD_CERTIFICATE in insides:
        return f"{text}: its certificate is not trusted; BUSHEL_NETWORK_CA names a file with one to trust as well"
    cause = _CAUSE.search(insides)
    return text if cause is None else f"{text}: {cause[1] or cause[2]}"
