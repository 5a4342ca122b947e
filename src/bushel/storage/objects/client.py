"""Connections to object stores, one per process, bucket and settings, and their credentials.

obstore makes its requests in threads of its own, which a fork does not copy: a forked process that
used the parent's copy of the library would wait forever. A forked process therefore loads the
library a second time, from a copy of its file, since a shared object is loaded once per file. Its
connections are then its own.

obstore reads credentials from the environment and gets the roles of machines, containers and pods.
It does not read `~/.aws/credentials` and `~/.aws/config`: this module reads plain keys in them, and
leaves what needs more (single sign-on, roles to assume, a credential process) to boto3 if it is
installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from importlib.machinery import ExtensionFileLoader, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bushel.errors import UnsupportedError

if TYPE_CHECKING:
    from types import ModuleType

    from obstore.store import ClientConfig, ObjectStore, RetryConfig

SCHEMES = ("s3", "gs", "az", "hf", "https", "http")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a failed request is made again. Each pause is twice the one before."""

_COMPILED = "obstore._obstore"
_SETTINGS = (b"AWS_", b"GOOGLE_", b"AZURE_", b"HF_", b"BUSHEL_NETWORK_")
_lock = threading.Lock()
_inherited = False
"""Whether this process was forked by one that had loaded obstore, and has not loaded its own copy yet."""

_OBSTORE_FINDS_THEM = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
_HUB_ROOT = re.compile(r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)@(?P<commit>[0-9a-f]{40})")
_BEYOND = (
    "sso_session",
    "sso_start_url",
    "role_arn",
    "credential_process",
    "web_identity_token_file",
    "login_session",
)


def library() -> ModuleType:
    """Return the module obstore, with threads in this process."""
    global _inherited
    if _inherited:
        with _lock:
            if _inherited:
                _load_copy()
                _inherited = False
    import obstore

    return obstore


def _after_fork() -> None:
    global _inherited, _lock
    _lock = threading.Lock()
    if _COMPILED in sys.modules:
        _inherited = True


os.register_at_fork(after_in_child=_after_fork)


def _load_copy() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
        del sys.modules[name]
    package = PathFinder.find_spec("obstore")
    compiled = package and PathFinder.find_spec(_COMPILED, package.submodule_search_locations)
    if compiled is None or compiled.origin is None:
        raise ImportError(
            f"{_COMPILED} cannot be found after fork(); start worker processes with 'spawn'"
        )
    with tempfile.TemporaryDirectory(prefix="bushel-") as folder:
        copy = shutil.copy(compiled.origin, folder)
        loader = ExtensionFileLoader(_COMPILED, copy)
        spec = importlib.util.spec_from_file_location(_COMPILED, copy, loader=loader)
        if spec is None:
            raise ImportError(f"{copy} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_COMPILED] = module
        loader.exec_module(module)


def patience() -> float:
    """Return for how many seconds a failing request is retried: `BUSHEL_NETWORK_PATIENCE`, by default 120."""
    return _seconds("BUSHEL_NETWORK_PATIENCE", 120)


def silence() -> float:
    """Return after how many seconds without a byte a request fails: `BUSHEL_NETWORK_TIMEOUT`, by default 30."""
    return _seconds("BUSHEL_NETWORK_TIMEOUT", 30)


def store_of(root: str, *, retries: bool = True) -> ObjectStore:
    """Return the connection to `s3://bucket`, `gs://bucket`, `az://container` or `https://host`.

    Settings come from the environment as they are now.

    Args:
        root: The URL without a key.
        retries: Whether obstore itself retries failed requests. Only for what cannot be retried as
            a whole: the pages of a listing and the parts of an upload.
    """
    variables = os.environb  # text would be decoded, of all variables and every time
    settings = tuple(
        sorted((name, variables[name]) for name in variables if name.startswith(_SETTINGS))
    )
    return _make(os.getpid(), root, settings, retries)


@lru_cache(maxsize=256)
def _make(
    process: int, root: str, settings: tuple[tuple[bytes, bytes], ...], retries: bool
) -> ObjectStore:
    library()
    from obstore import store

    scheme, _, place = root.partition("://")
    options, retry = _client_options(), _retry_config(retries)
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in settings}
    if scheme == "s3":
        config: dict[str, Any] = s3_settings(environment)
        provider = config.pop("credential_provider", None)
        options["allow_http"] = _is_plain(
            config.get(
                "endpoint", environment.get("AWS_ENDPOINT_URL", environment.get("AWS_ENDPOINT", ""))
            )
        )
        return store.S3Store(
            place,
            config=config,  # type: ignore[arg-type] # of the keys that S3Config has
            client_options=options,
            retry_config=retry,
            credential_provider=provider,
        )
    if scheme == "gs":
        return store.GCSStore(place, client_options=options, retry_config=retry)
    if scheme == "az":
        azure = environment.get("AZURE_STORAGE_ENDPOINT", environment.get("AZURE_ENDPOINT", ""))
        emulator = environment.get("AZURE_STORAGE_USE_EMULATOR", "").lower()
        options["allow_http"] = _is_plain(azure) or emulator in ("1", "true")
        return store.AzureStore(place, client_options=options, retry_config=retry)
    if scheme not in SCHEMES:
        expected = f"expected a URL that starts with one of {', '.join(SCHEMES)}"
        raise UnsupportedError(f"{root}: {expected}")
    if scheme == "hf":
        repo, commit = parts_of(root)
        root = f"{endpoint()}/datasets/{repo}/resolve/{commit}"
        options["default_headers"] = authorization()
    options["allow_http"] = _is_plain(root)
    return store.HTTPStore(root, client_options=options, retry_config=retry)


def _is_plain(endpoint: str) -> bool:
    return endpoint.startswith("http://")


def _client_options() -> ClientConfig:
    seconds = silence()
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=min(10.0, seconds)),
        "read_timeout": timedelta(seconds=seconds),
        "timeout": timedelta(seconds=10 * seconds),
    }
    if certificate := os.environ.get("BUSHEL_NETWORK_CA"):
        try:
            with open(certificate, "rb") as file:
                options["root_certificate"] = file.read()
        except OSError as error:  # a missing local file is not a missing object
            raise ValueError(
                f"BUSHEL_NETWORK_CA is {certificate!r}, which cannot be read: {error.strerror}"
            ) from error
    return options


def _retry_config(retries: bool) -> RetryConfig:
    if not retries:
        return {"max_retries": 0, "retry_timeout": timedelta(0)}
    return {
        "max_retries": 1000,  # the limit is the time
        "retry_timeout": timedelta(seconds=patience()),
        "backoff": {
            "init_backoff": timedelta(seconds=FIRST_PAUSE),
            "max_backoff": timedelta(seconds=LONGEST_PAUSE),
            "base": 2,
        },
    }


def _seconds(name: str, usual: float) -> float:
    text = os.environ.get(name)
    if text is None:
        return usual
    value = -1.0
    with suppress(ValueError):
        value = float(text)
    if not 0 < value < 1e6:
        raise ValueError(f"{name} is {text!r}, not a number of seconds above 0")
    return value


def s3_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments for obstore's `S3Store` that it does not find by itself.

    Args:
        environment: The environment variables that start with `AWS_`.

    Raises:
        UnsupportedError: The profile needs boto3, which is not installed.
    """
    settings: dict[str, Any] = {}
    profile = _profile(environment)
    if not {"AWS_REGION", "AWS_DEFAULT_REGION"} & environment.keys() and "region" in profile:
        settings["region"] = profile["region"]
    if "AWS_ENDPOINT_URL_S3" in environment:
        settings["endpoint"] = environment["AWS_ENDPOINT_URL_S3"]
    elif (
        not {"AWS_ENDPOINT_URL", "AWS_ENDPOINT"} & environment.keys() and "endpoint_url" in profile
    ):
        settings["endpoint"] = profile["endpoint_url"]
    if environment.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true", "yes"):
        return settings
    variables = environment.keys() & _OBSTORE_FINDS_THEM
    if "AWS_ACCESS_KEY_ID" in variables or (variables and "AWS_PROFILE" not in environment):
        return settings
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        for name in ("access_key_id", "secret_access_key", "session_token"):
            if f"aws_{name}" in profile:
                settings[name] = profile[f"aws_{name}"]
    elif any(name in profile for name in _BEYOND):
        settings["credential_provider"] = _boto3(environment.get("AWS_PROFILE", "default"))
    return settings


def _profile(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the chosen profile. The credentials file comes before the config file."""
    import configparser

    name = environment.get("AWS_PROFILE", "default")
    home = Path(os.path.expanduser("~")) / ".aws"
    settings: dict[str, str] = {}
    for variable, usual, section in (
        ("AWS_CONFIG_FILE", home / "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", home / "credentials", name),
    ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(environment.get(variable, usual), encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise UnsupportedError(
                _unreadable(environment.get(variable, usual), error)
            ) from None  # the cause quotes secrets
        if parser.has_section(section):
            settings |= {key: value for key, value in parser.items(section) if value}
    return settings


def _unreadable(path: object, error: Exception) -> str:
    """Describe the error in a credentials file, without quoting it."""
    lines = [str(number) for number, _ in getattr(error, "errors", ())]
    if hasattr(error, "lineno"):
        lines.append(str(error.lineno))
    line = f" (line {', '.join(lines)})" * bool(lines)
    return (
        f"{path} cannot be read{line}: expected [sections] "
        "of lines `name = value`; correct or remove the file"
    )


def _boto3(profile: str) -> Any:
    if importlib.util.find_spec("boto3") is None:
        raise UnsupportedError(
            f"the AWS profile {profile!r} needs boto3 to log in, which is "
            "not installed; run: pip install boto3, or: eval $(aws "
            f"configure export-credentials --profile {profile} --format env)"
        )
    import boto3
    from obstore.auth.boto3 import Boto3CredentialProvider

    return Boto3CredentialProvider(boto3.session.Session(profile_name=profile))


def endpoint() -> str:
    """Return the URL of the Hugging Face Hub: `HF_ENDPOINT`, by default https://huggingface.co."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def authorization() -> dict[str, str]:
    """Return the header with the token of the environment (`HF_TOKEN`) or of `hf auth login`, if one is set."""
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        home = os.environ.get("HF_HOME") or os.path.join(
            os.path.expanduser("~"), ".cache", "huggingface"
        )
        path = Path(os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token"))
        try:
            token = path.read_text("utf-8").strip()
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            return {}
    if not token:
        return {}
    return {"authorization": f"Bearer {token}"}


def parts_of(root: str) -> tuple[str, str]:
    """Return the repository and the commit of `hf://datasets/ORG/NAME@COMMIT`."""
    match = _HUB_ROOT.fullmatch(root)
    if match is None:
        raise ValueError(f"{root}: expected hf://datasets/ORG/NAME@COMMIT")
    return match["repo"], match["commit"]
