"""Connections to object stores: one per process, bucket and settings.

obstore runs its requests on threads of its own, which a fork does not copy: a forked process that used the parent's
copy would wait for ever. So a forked process loads the library a second time, from a copy of its file, since a shared
object is loaded once per file; its connections are then its own.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bushel.errors import UnsupportedError
from bushel.storage.objects.credentials import s3_settings

if TYPE_CHECKING:
    from types import ModuleType

    from obstore.store import ClientConfig, ObjectStore, RetryConfig

__all__ = ["SCHEMES", "library", "patience", "silence", "store_of"]

SCHEMES = ("s3", "gs", "az", "https", "http")

_COMPILED = "obstore._obstore"
_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", "BUSHEL_NETWORK_")
_lock = threading.Lock()
_inherited = False
"""Whether this process was forked by one that had loaded obstore, and has not loaded its own copy yet."""


def library() -> ModuleType:
    """The module obstore, with threads that live in this process."""
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
    package = importlib.machinery.PathFinder.find_spec("obstore")
    if package is None or not package.submodule_search_locations:
        raise ImportError("obstore was here when this process was forked, and is gone")
    found = importlib.machinery.PathFinder.find_spec(_COMPILED, list(package.submodule_search_locations))
    if found is None or found.origin is None:
        raise ImportError(f"{_COMPILED} was here when this process was forked, and is gone")
    with tempfile.TemporaryDirectory(prefix="bushel-") as folder:
        copy = shutil.copy(found.origin, folder)
        loader = importlib.machinery.ExtensionFileLoader(_COMPILED, copy)
        spec = importlib.util.spec_from_file_location(_COMPILED, copy, loader=loader)
        if spec is None:
            raise ImportError(f"{copy} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_COMPILED] = module
        loader.exec_module(module)


def patience() -> float:
    """Seconds for which a request that fails is made again: `BUSHEL_NETWORK_PATIENCE`, 120."""
    return _seconds("BUSHEL_NETWORK_PATIENCE", 120)


def silence() -> float:
    """Seconds without a byte after which a request has failed: `BUSHEL_NETWORK_TIMEOUT`, 30."""
    return _seconds("BUSHEL_NETWORK_TIMEOUT", 30)


def store_of(root: str, *, retries: bool = True) -> ObjectStore:
    """The connection to what is at `s3://bucket`, `gs://bucket`, `az://container`, `https://host`.

    Settings come from the environment as they are now.

    Args:
        root: The URL without a key.
        retries: Whether obstore itself makes failed requests again.
    """
    settings = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_SETTINGS)))
    return _make(os.getpid(), root, settings, retries)


@lru_cache(maxsize=256)
def _make(process: int, root: str, settings: tuple[tuple[str, str], ...], retries: bool) -> ObjectStore:
    library()
    from obstore import store

    scheme, _, place = root.partition("://")
    options, retry = _client_options(), _retry_config(retries)
    environment = dict(settings)
    if scheme == "s3":
        config: dict[str, Any] = s3_settings(environment)
        provider = config.pop("credential_provider", None)
        if _is_plain(config.get("endpoint", environment.get("AWS_ENDPOINT_URL", environment.get("AWS_ENDPOINT", "")))):
            options["allow_http"] = True
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
        endpoint = environment.get("AZURE_STORAGE_ENDPOINT", environment.get("AZURE_ENDPOINT", ""))
        if _is_plain(endpoint) or environment.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true"):
            options["allow_http"] = True
        return store.AzureStore(place, client_options=options, retry_config=retry)
    if scheme in ("http", "https"):
        if scheme == "http":
            options["allow_http"] = True
        return store.HTTPStore(root, client_options=options, retry_config=retry)
    raise UnsupportedError(f"{root}: URLs begin with one of {', '.join(SCHEMES)}")


def _is_plain(endpoint: object) -> bool:
    return isinstance(endpoint, str) and endpoint.startswith("http://")


def _client_options() -> ClientConfig:
    seconds = silence()
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=min(10.0, seconds)),
        "read_timeout": timedelta(seconds=seconds),
        "timeout": timedelta(seconds=10 * seconds),
    }
    if certificate := os.environ.get("BUSHEL_NETWORK_CA"):
        with open(certificate, "rb") as file:
            options["root_certificate"] = file.read()
    return options


def _retry_config(retries: bool) -> RetryConfig:
    if not retries:
        return {"max_retries": 0, "retry_timeout": timedelta(0)}
    return {
        "max_retries": 1000,  # the time is the limit
        "retry_timeout": timedelta(seconds=patience()),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
    }


def _seconds(name: str, usual: float) -> float:
    text = os.environ.get(name)
    if text is None:
        return usual
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise ValueError(f"{name} is {text!r}, not a number of seconds above 0")
    return value
