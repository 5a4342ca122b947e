"""Open a URL for reading or writing: files, standard input and output, and programs that transfer data."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from types import ModuleType
from typing import IO, Any, cast
from urllib.parse import urlparse
from urllib.request import url2pathname

from bushel.compat.errors import WrongUseError
from bushel.storage import end_process

from .errors import MissingPackageError
from .permission import check_commands, refuse_if_secure

_CURL = ("curl", "--connect-timeout", "30", "--retry", "30", "--retry-delay", "2", "-f", "-s", "-L")
_BROKEN_PIPE = 141
_SECRET = re.compile(
    r"(\bBearer |://(?=[^/\s]*@)|[?&][^=&\s]*(?:sig|token|key|credential|secret|password)[^=&\s]*=)[^&@\s'\"]+",
    re.IGNORECASE,
)
"""Secrets in commands (after the first group), which messages leave out: passwords, signatures, tokens."""
_CURL_STOPPED, _CURL_NOT_READ = 23, 26  # exit codes of curl if its reader, or its input, was closed


class Pipe:
    """A running program (words, or a line for the shell): its output to read from, or its input to write to.

    `ignore_status` are exit codes apart from 0 that are not errors. `fed` is the input of a program
    whose output is read.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        mode: str = "rb",
        ignore_status: Collection[int] = (_BROKEN_PIPE,),
        *,
        ignore_errors: bool = False,
        fed: bytes = b"",
    ) -> None:
        if mode not in ("rb", "wb"):
            raise WrongUseError(f"{mode}: unknown mode (rb and wb are known)")
        self.command, self.mode = command, mode
        self.ignore_status, self.ignore_errors = frozenset(ignore_status), ignore_errors
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        reading = mode == "rb"
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE if fed or not reading else subprocess.DEVNULL,
            stdout=subprocess.PIPE if reading else None,
            start_new_session=True,
        )
        self.stream = cast("IO[bytes]", self._process.stdout if reading else self._process.stdin)
        self._checked = False
        if fed and self._process.stdin is not None:
            # its status has the reason
            with contextlib.suppress(BrokenPipeError), self._process.stdin as sink:
                sink.write(fed)

    @property
    def name(self) -> str:
        """The command, for error messages."""
        return self.command if isinstance(self.command, str) else " ".join(self.command)

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes."""
        data = self.stream.read(size)
        if size != 0 and (not data or (size > 0 and len(data) < size) or size < 0):
            self._check()
        return data

    def readline(self, size: int = -1, /) -> bytes:
        """Read a line; raises as `read`."""
        line = self.stream.readline(size)
        if not line:
            self._check()
        return line

    def write(self, data: Any, /) -> int:
        """Write to the program's input."""
        return self.stream.write(data)

    def flush(self) -> None:
        """Flush the program's input."""
        self.stream.flush()

    def _check(self) -> None:
        if self._checked:
            return
        self._checked = True
        status = self._process.wait()
        status = 128 - status if status < 0 else status  # as the shell counts signals
        if status and status not in self.ignore_status and not self.ignore_errors:
            line = _SECRET.sub(r"\1…", self.name)
            raise OSError(f"the command {line!r} failed with exit status {status}")

    def close(self) -> None:
        """Wait for a program that was written to; end a program that was read, if it still runs."""
        if self.stream.closed:
            return
        if self.mode == "wb":
            # the program has ended; its status has the reason
            with contextlib.suppress(BrokenPipeError):
                self.stream.close()
            self._check()
        else:
            self.stream.close()
            end_process(self._process)

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _open_file(url: str, mode: str) -> IO[bytes]:
    refuse_if_secure("gopen: unsafe_gopen is False, cannot open local files", url)
    path = url2pathname(urlparse(url).path) if url.startswith("file:") else url
    return cast("IO[bytes]", open(path, mode, buffering=int(os.environ.get("GOPEN_BUFFER", "-1"))))


def gopen_pipe(
    url: str, mode: str = "rb", bufsize: int = 8192, *, allow_commands: bool | None = None
) -> Pipe:
    """Run `pipe:COMMAND` in the shell, if commands are allowed."""
    check_commands(url, allow_commands)
    return Pipe(url.removeprefix("pipe:"), mode)


def _program(reading: Sequence[str], writing: Sequence[str]) -> _Opener:
    """Return an opener that runs a fixed program, which gets the URL as one argument."""

    def opener(url: str, mode: str = "rb", bufsize: int = 8192) -> Pipe:
        """Read or write the URL through the program."""
        words, ignored = (reading, _CURL_STOPPED) if mode == "rb" else (writing, _CURL_NOT_READ)
        command = [word if word != "URL" else url for word in words]
        return Pipe(command, mode, (_BROKEN_PIPE, ignored))

    return opener


def _check_reading(url: str, mode: str) -> None:
    if mode != "rb":
        raise ValueError(f"{url} cannot be written")


def _htgs(url: str, mode: str = "rb", bufsize: int = 8192) -> Any:
    _check_reading(url, mode)
    return gopen_curl(re.sub(r"(?i)^htgs://", "gs://", url), mode)


def _hf(url: str, mode: str = "rb", bufsize: int = 8192) -> Pipe:
    _check_reading(url, mode)
    try:
        hub: Any = import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"{url}: hf needs a package: pip install huggingface_hub"
        ) from error
    resolved = hub.HfFileSystem().resolve_path(url)
    address = hub.hf_hub_url(
        repo_id=resolved.repo_id,
        filename=resolved.path_in_repo,
        repo_type=resolved.repo_type,
        revision=resolved.revision,
    )
    token = hub.get_token()
    header = b"" if token is None else f'header = "Authorization: Bearer {token}"\n'.encode()
    options = [] if token is None else ["--config", "-"]  # all users could see arguments
    return Pipe(
        [*_CURL, *options, "--url", address], mode, (_BROKEN_PIPE, _CURL_STOPPED), fed=header
    )


def _unknown(url: str, mode: str = "rb", bufsize: int = 8192) -> Any:
    raise ValueError(
        f"{url}: no gopen handler defined. Known schemes: "
        f"{', '.join(sorted(set(gopen_schemes) - {'__default__'}))}; add others to "
        "`gopen_schemes`, or use pipe:, which runs any program if commands are allowed"
    )


_Opener = Callable[..., Any]

gopen_curl = _program(
    [*_CURL, "--url", "URL"], ["curl", "-f", "-s", "-X", "PUT", "-L", "-T", "-", "--url", "URL"]
)
gopen_gsutil = _program(["gsutil", "cat", "URL"], ["gsutil", "cp", "-", "URL"])
gopen_ais = _program(["ais", "get", "URL", "-"], ["ais", "put", "-", "URL"])

gopen_schemes: dict[str, _Opener] = {
    "__default__": _unknown,
    "pipe": gopen_pipe,
    **dict.fromkeys(("http", "https", "sftp", "ftps", "scp"), gopen_curl),
    "ais": gopen_ais,
    "gs": gopen_gsutil,
    "htgs": _htgs,
    "hf": _hf,
    **dict.fromkeys(filter(None, os.environ.get("USE_AIS_FOR", "").split(":")), gopen_ais),
}
"""Openers by the scheme of a URL. Programs add their own."""


def rewrite_url(url: str) -> str:
    """Apply the first rule of `GOPEN_REWRITE` (`PATTERN=REPLACEMENT;…`) that changes the URL."""
    if "GOPEN_REWRITE" not in os.environ:
        return url
    what = "GOPEN_REWRITE is set"
    refuse_if_secure(
        "rewrite_url: unsafe_gopen is False, cannot rewrite URLs using environment variables", what
    )
    for rule in os.environ["GOPEN_REWRITE"].split(";"):
        pattern, _, replacement = rule.partition("=")
        rewritten = re.sub("^" + pattern, replacement, url)
        if rewritten != url:
            if _verbose():
                print(f"GOPEN REWRITE {url} -> {rewritten}")
            return rewritten
    return url


def _verbose() -> bool:
    return os.environ.get("GOPEN_VERBOSE", "0") not in ("", "0")


def gopen(
    url: str,
    mode: str = "rb",
    bufsize: int = 8192,
    *,
    allow_commands: bool | None = None,
    **kw: Any,
) -> Any:
    """Open a URL and return a binary file object.

    The URL is a path, `file:`, `-` (standard input or output), `pipe:COMMAND`, or has a scheme of
    `gopen_schemes`: http(s), sftp, ftps and scp go through curl, gs through gsutil. Commands run if
    `allow_commands` (None: `BUSHEL_ALLOW_COMMANDS=1`).
    """
    if mode not in ("rb", "wb"):
        raise WrongUseError(f"{mode}: unknown mode (rb and wb are known)")
    if _verbose():
        print("GOPEN", url, kw, file=sys.stderr)
    if url == "-":
        return sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
    url = rewrite_url(url)
    scheme = urlparse(url).scheme
    if scheme in ("", "file"):
        return _open_file(url, mode)
    if gopen_schemes.get(scheme) is gopen_pipe:
        kw["allow_commands"] = allow_commands
    return gopen_schemes.get(scheme, gopen_schemes["__default__"])(url, mode, bufsize, **kw)


def reader(url: str, **kw: Any) -> Any:
    """Open a URL for reading."""
    return gopen(url, "rb", **kw)


class _Callable(ModuleType):
    """This module, which can be called like the function: in the original, `webdataset.gopen` is one or the other."""

    def __call__(self, url: str, mode: str = "rb", bufsize: int = 8192, **kw: Any) -> Any:
        return gopen(url, mode, bufsize, **kw)


sys.modules[__name__].__class__ = _Callable
