"""Permission to run commands and to load pickles, which data may contain. Both are off by default."""

from __future__ import annotations

import os

from bushel.errors import UnsupportedError

from . import utils


class NotAllowedError(UnsupportedError, ValueError):
    """Data contain a command or a pickle that is not allowed. The original raises a `ValueError` under `WDS_SECURE`."""


def secure() -> bool:
    """Return whether `utils.enforce_security` or `WDS_SECURE=1` forbids all commands and pickles."""
    return utils.enforce_security or os.environ.get("WDS_SECURE", "0") not in ("", "0")


def refuse_if_secure(original: str, what: object) -> None:
    """Raise an error that begins with the `original` words of webdataset, which programs may look for, if `secure`."""
    if secure():
        raise NotAllowedError(
            f"{original} ({what}; unset webdataset.utils.enforce_security "
            "and WDS_SECURE to allow it)"
        )


def _check(variable: str, asked: bool | None, problem: str, remedy: str) -> None:
    if not (os.environ.get(variable) == "1" if asked is None else asked):
        raise NotAllowedError(
            f"{problem}: if you trust where it comes from, "
            f"{remedy}, or set the environment variable {variable}=1"
        )


def check_commands(what: object, asked: bool | None = None) -> None:
    """Refuse to run a command, unless the caller's `allow_commands=` (None: `BUSHEL_ALLOW_COMMANDS`) allows it."""
    refuse_if_secure("gopen_pipe: unsafe_gopen is False, cannot open pipe URLs", what)
    remedy = "pass allow_commands=True (--allow-commands on a command line)"
    _check("BUSHEL_ALLOW_COMMANDS", asked, f"{what!r} would run a command", remedy)


def check_pickle(what: str, asked: bool | None = None) -> None:
    """Refuse to load a pickle from the field `what`, unless `asked` (None: `BUSHEL_ALLOW_PICKLE`) allows it."""
    refuse_if_secure(
        "Unpickling is not allowed for security reasons when enforce_security is set.", what
    )
    problem = f"{what!r} is a pickle, which may run any code when it is loaded"
    _check("BUSHEL_ALLOW_PICKLE", asked, problem, "pass your own decoder for this field")
