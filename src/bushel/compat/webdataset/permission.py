"""What data may make a program do: run commands, load pickles. Both are off until someone says otherwise."""

from __future__ import annotations

import os

from bushel.errors import UnsupportedError

__all__ = ["NotAllowedError", "check_commands", "check_pickle", "secure"]

_COMMANDS = "BUSHEL_ALLOW_COMMANDS"
_PICKLE = "BUSHEL_ALLOW_PICKLE"


class NotAllowedError(UnsupportedError, ValueError):
    """It is not allowed. A `ValueError` too, which is what the original raises under `WDS_SECURE`."""


def secure() -> bool:
    """Whether `WDS_SECURE=1` forbids everything that data should not be able to ask for."""
    return os.environ.get("WDS_SECURE", "0") not in ("", "0")


def _allowed(asked: bool | None, variable: str) -> bool:
    if secure():
        return False
    return os.environ.get(variable, "0") not in ("", "0") if asked is None else asked


def check_commands(what: object, asked: bool | None = None) -> None:
    """Refuse to run a command that nobody has allowed.

    Args:
        what: The command, for the message.
        asked: The caller's `allow_commands=`; None: what the environment says.

    Raises:
        NotAllowedError: It is not allowed.
    """
    if not _allowed(asked, _COMMANDS):
        raise NotAllowedError(
            f"{what!r} would run a command: if you trust where this name comes from, pass allow_commands=True "
            f"(--allow-commands on a command line), or set the environment variable {_COMMANDS}=1"
            + (" (and not WDS_SECURE)" if secure() else "")
        )


def check_pickle(what: str, asked: bool | None = None) -> None:
    """Refuse to load a pickle that nobody has allowed.

    Args:
        what: The field.
        asked: The caller's `allow_pickle=`; None: what the environment says.

    Raises:
        NotAllowedError: It is not allowed.
    """
    if not _allowed(asked, _PICKLE):
        raise NotAllowedError(
            f"{what!r} is a pickle, which may run any code when it is loaded: if you trust where the data come from, "
            f"set the environment variable {_PICKLE}=1, or pass a decoder of your own for it"
            + (" (and do not set WDS_SECURE)" if secure() else "")
        )
