"""Make calls with an original package or with its drop-in, and write down what each gives.

    run_calls.py SETTINGS

SETTINGS is the path of a JSON that ``compare_calls.py`` has written. The script runs in the environment of the original,
and in Bushel's: it uses the standard library and NumPy only. Each line of the results is
the outcome of a call: the values of its expressions, what it printed, the files that it left, or the error's classes.
"""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

import ast
import contextlib
import gc
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import os
import pkgutil
import random
import re
import runpy
import shutil
import signal
import sys
import time
import traceback
import types
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

MOST = 60
"""Items of an iterator that are looked at."""
SECONDS = 20
"""A call is interrupted after this time."""
PATIENCE = 90.0
"""Seconds without an outcome after which a process is ended: the call hangs in compiled code."""


class Signature(list):  # type: ignore[type-arg]
    """The parameters of a function, described already."""


class TooLongError(BaseException):
    """A call took longer than `SECONDS`."""


def digest(data: bytes) -> str:
    """Return a few letters that stand for bytes."""
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:12]}"


def describe(value: Any, depth: int = 0) -> Any:
    """Return JSON that says what a value is, in any version of NumPy and for both sides."""
    if depth > 6:
        return "…"
    if hasattr(value, "asnumpy"):
        value = value.asnumpy()
    if value is None or isinstance(value, bool | int | str):
        return value if type(value) in (type(None), bool, int, str) else [type(value).__name__, str(value)]
    if isinstance(value, float):
        return ["float", repr(float(value))] if type(value) is float else ["numpy", value.dtype.str, repr(value.item())]
    if isinstance(value, bytes | bytearray | memoryview):
        return ["bytes", digest(bytes(value))]
    if isinstance(value, np.generic):
        return ["numpy", value.dtype.str, repr(value.item())]
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ["objects", list(value.shape), [describe(each, depth + 1) for each in value.ravel()]]
        return ["array", value.dtype.str, list(value.shape), digest(np.ascontiguousarray(value).tobytes())]
    if isinstance(value, Mapping):
        return ["map", [[describe(key, depth + 1), describe(each, depth + 1)] for key, each in value.items()]]
    if isinstance(value, tuple):
        return ["tuple", [describe(each, depth + 1) for each in value]]
    if isinstance(value, Signature):
        return list(value)
    if isinstance(value, list):
        return ["list", [describe(each, depth + 1) for each in value]]
    if isinstance(value, set | frozenset):
        return ["set", sorted(json.dumps(describe(each, depth + 1)) for each in value)]
    if isinstance(value, range | slice):
        return repr(value)
    if isinstance(value, Path):
        return ["path", str(value)]
    if hasattr(value, "tobytes") and hasattr(value, "mode"):
        return ["picture", value.mode, list(value.size), digest(value.tobytes())]
    if isinstance(value, BaseException):
        return ["error", [kind.__name__ for kind in type(value).__mro__[:-2]]]
    if hasattr(value, "fileno"):
        return ["file", type(value).__name__]
    if isinstance(value, Iterator):
        return ["iterator", [describe(each, depth + 1) for _, each in zip(range(MOST), value, strict=False)]]
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
        return [type(value).__name__, getattr(value, "__name__", "")]
    return ["object", type(value).__name__]


def files_in(folder: Path) -> dict[str, str]:
    """Return the files that a call left, without Bushel's own."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if ".bushel" not in name.split("/") and "__pycache__" not in name:
            found[name] = "folder" if path.is_dir() else digest(path.read_bytes()) if path.is_file() else "link"
    return found


class Side:
    """The original, or its drop-in.

    Args:
        settings: `package` of the original; `commands`, the script of each; `mapped`, the modules of drop-ins by those
            of the original; None on the side of the original.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.mapped: Mapping[str, str] | None = settings["mapped"]
        if self.mapped is not None:
            os.environ["MAPPED_IMPORTS"] = json.dumps(self.mapped)
            sys.path.insert(0, settings["interop"])
            importlib.import_module("map_imports")

    def names(self) -> dict[str, Any]:
        """Return the names that calls can use."""
        return {"np": np, "signature": self.signature, "command": self.command, "see": describe, "os": os}

    def command(self, name: str, *arguments: Any) -> int:
        """Run a command line in this process, and return its exit code."""
        words = [str(each) for each in arguments]
        if self.mapped is None:
            before, sys.argv = sys.argv, [name, *words]
            try:
                runpy.run_path(self.settings["commands"][name], run_name="__main__")
            except SystemExit as ended:
                return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
            except Exception:  # the interpreter would print it, and exit with 1
                return 1
            finally:
                sys.argv = before
            return 0
        from bushel.cli.app import ORIGINALS
        from bushel.cli.output import exit_code_of

        code = 0

        def work() -> None:
            nonlocal code
            code = getattr(importlib.import_module(ORIGINALS[name]), name)(words)

        try:
            with contextlib.redirect_stderr(io.StringIO()):
                return exit_code_of(work) or code
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 1

    def signature(self, name: str) -> Any:
        """Return the parameters of a function by its dotted name: name, kind and default of each."""
        value = self.find(name)
        found = inspect.signature(value)
        return Signature(["signature", [[one.name, one.kind.name, _default(one)] for one in found.parameters.values()]])

    def find(self, name: str) -> Any:
        """Return a value by its dotted name, of which the first words are a module."""
        words = name.split(".")
        for at in range(len(words), 0, -1):
            try:
                value: Any = importlib.import_module(".".join(words[:at]))
            except ModuleNotFoundError:
                continue
            for word in words[at:]:
                value = getattr(value, word)
            return value
        raise ModuleNotFoundError(name)

    def public(self) -> list[str]:
        """Return the dotted names of the functions, classes and methods that the original defines."""
        found = []
        for module in self.settings["modules"] or self._modules():
            try:
                loaded = importlib.import_module(module)
            except Exception as error:
                print(f"{module} cannot be imported: {error}", file=sys.stderr)
                continue
            for name, value in sorted(vars(loaded).items()):
                if name.startswith("_") or not callable(value) or inspect.ismodule(value):
                    continue
                home = str(getattr(value, "__module__", ""))
                if home != module and not home.startswith(f"{module}."):
                    continue  # imported for the module's own use
                found.append(f"{module}.{name}")
                if inspect.isclass(value):
                    for method, function in sorted(vars(value).items()):
                        if not method.startswith("_") and inspect.isfunction(function):
                            found.append(f"{module}.{name}.{method}")
        return found

    def _modules(self) -> list[str]:
        package = importlib.import_module(self.settings["package"])
        inner = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
        return [package.__name__, *(one.name for one in inner if "._" not in one.name)]


def _default(parameter: inspect.Parameter) -> Any:
    if parameter.default is parameter.empty:
        return "needed"
    return _without_names(describe(parameter.default))


def _without_names(described: Any) -> Any:
    """Return the description of a default without the names of functions, which may be private."""
    if isinstance(described, list):
        if described[:1] in (["function"], ["builtin_function_or_method"]):
            return described[:1]
        return [_without_names(each) for each in described]
    return described


def _too_long(signum: int, frame: types.FrameType | None) -> None:
    raise TooLongError


def outcome(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the statements of a call, and return what its expressions give and how it ended."""
    given: list[Any] = []
    printed = io.StringIO()
    result: dict[str, Any] = {"given": given}
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(printed):
            for statement in ast.parse(code).body:
                if isinstance(statement, ast.Expr):
                    compiled: Any = compile(ast.Expression(statement.value), "<call>", "eval")
                    given.append(describe(eval(compiled, names)))
                else:
                    exec(compile(ast.Module([statement], []), "<call>", "exec"), names)
    except TooLongError:
        result["hangs"] = True
    except BaseException as error:  # what a call raises is its outcome
        result["raises"] = [kind.__name__ for kind in type(error).__mro__[:-1]]
        result["message"] = str(error)[:200]
    finally:
        signal.alarm(0)
    result["printed"] = printed.getvalue()
    return result


class Runner:
    """Makes the calls one after the other, each in an empty folder with the files that it names.

    Args:
        settings: What ``compare_calls.py`` has written.
        side: Whose names calls can use.
    """

    def __init__(self, settings: Mapping[str, Any], side: Side) -> None:
        self.side = side
        self.calls: list[str] = settings["calls"]
        self.place = Path(settings["place"]).resolve()
        self.results = Path(settings["results"])
        self.results.touch()
        self.assets = sorted(Path(settings["assets"]).iterdir())
        self.prelude = compile(settings["prelude"], "<prelude>", "exec")

    def all(self) -> None:
        """Make all calls, in a child process that is replaced if a call kills it, or hangs in compiled code."""
        exec(self.prelude, self.side.names())  # imports the packages, once for all children
        gc.collect()
        gc.freeze()  # so that the collections after calls pass over them
        done = 0
        while done < len(self.calls):
            child = os.fork()
            if child == 0:
                try:
                    self._from(done)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)  # without waiting for what an original left behind
            code = self._awaited(child)
            done = len(self.results.read_text("utf-8").splitlines())
            if code > 0:
                raise RuntimeError(f"{self.calls[done]!r} could not be made")
            if done < len(self.calls):
                self._write({"number": done, "given": [], "kills": code, "files": {}, "printed": ""})
                done += 1
        os.chdir("/")
        shutil.rmtree(self.place, ignore_errors=True)

    def _awaited(self, child: int) -> int:
        """Return the exit code of a process, which is killed if it writes no outcome for `PATIENCE` seconds."""
        before, since = -1, time.monotonic()
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
            if (size := self.results.stat().st_size) != before:
                before, since = size, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                os.kill(child, signal.SIGKILL)

    def _from(self, first: int) -> None:
        for number, call in enumerate(self.calls[first:], first):
            self._write({"number": number, **self._outcome(call)})

    def _write(self, found: Mapping[str, Any]) -> None:
        with open(self.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")

    def _outcome(self, call: str) -> dict[str, Any]:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        os.chdir(self.place)
        for source in self.assets:
            if re.search(rf"(?<![\w.]){re.escape(source.name)}(?!\w)", call):  # copied if the call names it
                (shutil.copytree if source.is_dir() else shutil.copy)(source, self.place / source.name)
        before = files_in(self.place)
        random.seed(0)
        np.random.seed(0)
        module = sys.modules["prelude"] = types.ModuleType("prelude")  # so that its classes pickle
        names = vars(module)
        names.update(self.side.names())
        kept = dict(os.environ)
        try:
            exec(self.prelude, names)
            found = outcome(call, names)
        finally:
            os.environ.clear()
            os.environ.update(kept)
        del sys.modules["prelude"]
        names.clear()
        gc.collect()  # so that an object that kills the process does so here
        after = files_in(self.place)
        found["files"] = {name: what for name, what in after.items() if before.get(name) != what}
        found["removed"] = sorted(before.keys() - after.keys())
        return found


def main() -> None:
    """Write the public names if there are no calls, else the outcomes of the calls."""
    settings = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    side = Side(settings)
    if not settings["calls"]:
        Path(settings["results"]).write_text(json.dumps(side.public()), "utf-8")
        return
    warnings.simplefilter("ignore")
    Runner(settings, side).all()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # without waiting for what an original left behind
