"""Engines: where the parts of a run are processed. Each is a short file over one protocol of three methods.

`engine="local"` runs parts in worker processes of this machine, `"ray"` as tasks of Ray Core,
`"dask"` on a cluster of Dask. Slurm runs commands, so `slurm` writes and submits scripts. To write
an engine, see `bushel.engines.Engine`.
"""

from __future__ import annotations

from importlib import import_module

from bushel._runtime.public import public
from bushel._runtime.tasks import AnyEngine, Engine, Finished, LostWorkerError, Task

__all__ = ["AnyEngine", "Engine", "Finished", "LostWorkerError", "Task", "connect"]

ENGINES = ("local", "ray", "dask")
"""Names of the engines that Bushel has, each a module of this package with a function `connect`."""

_MODULES = {"distributed": "dask", "ray": "ray"}
_SCHEMES = {"tcp": "dask", "tls": "dask", "ucx": "dask", "ray": "ray"}


@public("bushel.engines")
def connect(engine: AnyEngine) -> Engine:
    """Return the engine that a user names.

    Args:
        engine: `local`, `ray` or `dask`; an address such as `tcp://host:8786` (Dask) or
            `ray://host:10001`; a `distributed.Client`; or an engine.

    Raises:
        ValueError: The name is unknown.
        TypeError: The argument is not an engine.
        MissingPackageError: The package of the engine is not installed.

    Examples:
        >>> from bushel.engines import connect
        >>> engine = connect("local")
        >>> engine.slots >= 1
        True
        >>> engine.close()
    """
    if isinstance(engine, str):
        name = (
            engine
            if engine in ENGINES
            else _SCHEMES.get(engine.partition("://")[0] if "://" in engine else "")
        )
        if engine == "slurm":
            raise ValueError(
                "Slurm runs commands: use `bushel pack ... --engine slurm`, "
                "or bushel.engines.slurm.script(...)"
            )
        if name is None:
            raise ValueError(
                f"unknown engine {engine!r}: use one of "
                f"{', '.join(ENGINES)}, an address such as tcp://host:8786"
            )
    else:
        if isinstance(engine, Engine):
            return engine
        name = _MODULES.get(type(engine).__module__.partition(".")[0])
        if name is None:
            raise TypeError(
                f"{type(engine).__name__} is not an engine: it needs slots, submit, wait and close"
            )
    connected: Engine = import_module(f"bushel.engines.{name}").connect(engine)
    return connected
