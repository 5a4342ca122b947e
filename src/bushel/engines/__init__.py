"""Engines: where the parts of a run are processed. Each is a short file over one protocol of three methods.

`engine="local"` runs parts in worker processes of this machine, `"ray"` as tasks of Ray Core,
`"dask"` on a cluster of Dask. Slurm runs commands, so `slurm` writes and submits scripts. To write
an engine, see `bushel.engines.Engine`, and test it with `bushel.testing.check_engine`.
"""

from bushel._runtime.tasks import AnyEngine, Engine, Finished, LostWorkerError, Task

from .named import connect

__all__ = ["AnyEngine", "Engine", "Finished", "LostWorkerError", "Task", "connect"]
