"""Cases in which a file names what it should not: codecs that run code, and files outside the dataset.

A case forges names in the index, in the files of a run, in what killed writers leave, or in views, removal lists and
digests beside the index, or puts links in their place.
Then everything is done with the dataset. Nothing beside it may change, and no codec that runs code may be used.
"""

from __future__ import annotations

import json
import random
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from safetensors.numpy import load, save
from tests._pack.pack_sources import Numbered
from tests.fuzz.campaign.check import Outcome, WrongError
from tests.fuzz.campaign.material import Material, write_files
from tests.fuzz.forged import change_header, header_of, name_codec

import bushel
from bushel._dataset.open.completeness import overwrite_folder
from bushel._dataset.views.saved_views import _ARRAYS as VIEWS
from bushel._index.removal_list import _ARRAYS as REMOVED
from bushel._index.saving import body_crc32, sealed
from bushel._index.shard import Strings
from bushel._pack.finish import finish_run
from bushel._pack.run_folder import find_run
from bushel.errors import BushelError
from bushel.kernels import crc32

__all__ = ["FORGED", "make_run", "run_names"]

FORGED = ("index", "run", "marker", "links", "beside")
_CODECS = ("pickle", "gzip(pickle)", "canary", "gzip(canary)", "stored(canary)", "gzip(gzip(canary))", "canary[]")
_NAMES = (
    "../{up}victim/kept",
    "../{up}victim",
    "{victim}/kept",
    "{victim}",
    "a/../../{up}victim/kept",
    "file://{victim}/kept",
    "s3://campaign/victim/kept",
    "..",
    ".",
    "",
    "/",
    "a\0b",
    "a\nb",
    "link/kept",
    "~/kept",
    "C:\\kept",
)
_used: list[str] = []


def _explode(data: object) -> object:
    _used.append("a codec that runs code was used")
    return None


def make_run(folder: Path, container: str) -> None:
    """Write a run whose parts are committed, and which is not finished."""
    for part in (0, 1):
        bushel.pack(Numbered(6), folder, container=container, parts=2, part=part)


def run_names(container: str, seed: int, number: int, material: Material, folder: Path, address: str) -> Outcome:
    """Lay out a dataset with a victim beside it, forge something, use it, and look at the victim.

    Args:
        container: Name of the container.
        seed: Seed of the campaign.
        number: Number of the case.
        material: The dataset.
        folder: An empty folder, and the run that `make_run` wrote in `run`.
        address: Where the folder is, for `bushel.open`: its path, or a URL.

    Raises:
        WrongError: Something outside the dataset has changed, or a codec that runs code was used.
        Exception: Whatever is not a `BushelError` or an `OSError` is a bug, too.
    """
    for name in ("pickle", "canary"):
        bushel.register_codec(name, bytes, _explode, runs_code=True, replace=True)
    rng = random.Random(f"names/{container}/{seed}/{number}")
    kind = FORGED[number % len(FORGED)]
    place, victim = folder / "case", folder / "case" / "victim"
    shutil.rmtree(place, ignore_errors=True)
    write_files(victim, [("kept", b"kept"), ("part-00000/spec.json", b"{}"), ("sub/kept", b"kept")])
    data = place / "data" / material.name
    if kind == "run":
        shutil.copytree(folder / "run", data)
    else:
        write_files(data, [*material.files.items(), *material.sidecars.items()])
    hostile = _hostile(rng, victim)
    _FORGE[kind](data, rng, hostile, victim)
    before = dict(_contents(place, data))
    _used.clear()
    if kind in ("links", "beside"):  # object stores have no links, and a digest is of local files
        address = str(folder)
    source = f"{address}/case/data/{material.name}"
    uses = [lambda: _finish(source)] if kind == "run" else _uses(source, str(data), str(place / "new"), container)
    if kind == "beside":
        uses = [*_uses_beside(source), *uses]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = sum(map(_done, uses))
    shutil.rmtree(place / "new", ignore_errors=True)
    if _used:
        raise WrongError(f"{kind}: {_used[0]}")
    if (after := dict(_contents(place, data))) != before:
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        raise WrongError(f"{kind}: files outside the dataset have changed: {', '.join(changed)}")
    return Outcome(opened > 0, opened)


def _done(use: Callable[[], object]) -> bool:
    try:
        use()
    except (BushelError, OSError, KeyError):
        return False
    return True


def _uses(source: str, local: str, new: str, container: str) -> list[Callable[[], object]]:
    def read() -> None:
        with bushel.open(source) as dataset:
            positions = range(min(len(dataset), 6))
            dataset.read(positions)
            for position in positions:
                dataset[position]
            for batch in bushel.Loader(dataset, 2, on_error="replace") if len(dataset) else ():
                assert batch
                break

    def append(mode: Any) -> None:
        with bushel.open(local) as dataset:
            spec = dataset.spec
        bushel.Writer(local, spec, container=container, mode=mode, sync=False).close()

    return [
        read,
        lambda: bushel.verify(source, threads=1, decode=True),
        lambda: bushel.index(local, columns="auto"),
        lambda: bushel.convert(local, new, container="tar", mode="overwrite"),
        lambda: append("append"),
        lambda: append("resume"),
        lambda: append("overwrite"),
    ]


def _uses_beside(source: str) -> list[Callable[[], object]]:
    def opened() -> bushel.Dataset:
        return bushel.open(source, on_damage="raise")

    return [
        lambda: list(bushel.open(source, view="mine", allow_stale=True)[:1]),
        lambda: [repr(each) for each in bushel.list_views(source)],
        lambda: opened()[:1].save_view("mine", overwrite=True),
        lambda: opened()[:1].save_view("other"),
        lambda: bushel.remove(source, positions=[0], reason="again"),
        lambda: bushel.erase(source),
        lambda: bushel.removals(source),
        lambda: [bushel.restore(source, done.call) for done in bushel.removals(source)],
        lambda: bushel.card(source),
    ]


def _finish(source: str) -> None:
    finish_run(*find_run(source))


def _contents(place: Path, data: Path) -> Iterator[tuple[str, bytes | None]]:
    """Yield the files outside the dataset, and of the folders that there are."""
    for path in place.rglob("*"):
        inside = data in (path, *path.parents) or ".bushel" in path.relative_to(place).parts
        if not inside and path != data.parent and not path.relative_to(place).parts[0].startswith("new"):
            yield str(path.relative_to(place)), path.read_bytes() if path.is_file() else None


def _hostile(rng: random.Random, victim: Path) -> Callable[[], str]:
    def make() -> str:
        if rng.random() < 0.4:
            return rng.choice(_CODECS)
        return rng.choice(_NAMES).format(victim=victim, up="../" * rng.randrange(5))

    return make


def _forge_strings(value: Any, rng: random.Random, hostile: Callable[[], str]) -> None:
    """Replace some strings in a JSON value."""
    places: list[tuple[Any, Any]] = []

    def look(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, each in list(items):
            if isinstance(each, str):
                places.append((node, key))
            look(each)

    look(value)
    for node, key in rng.sample(places, min(len(places), rng.choice([1, 1, 2, 4]))):
        node[key] = hostile()


def _forge_json(path: Path, rng: random.Random, hostile: Callable[[], str]) -> None:
    value = json.loads(path.read_bytes())
    _forge_strings(value, rng, hostile)
    forged = json.dumps(value).encode()
    path.write_bytes(sealed(forged) if path.name.endswith("manifest.json") and value else forged)


def _forge_index(data: Path, rng: random.Random, hostile: Callable[[], str], victim: Path) -> None:
    indexes = [path for path in data.rglob("*.safetensors") if path.name != "keys.safetensors"]
    tables = [path for path in data.rglob("*") if path.name.endswith((".json", ".gmeta")) and path.is_file()]
    if rng.random() < 0.5:  # all of them name a codec
        fields = sorted({field["name"] for path in indexes for field in header_of(path).get("fields", ())})
        name_codec(data, rng.choice(fields), rng.choice(_CODECS[:-1]))
        return
    path = rng.choice(sorted(indexes + tables))
    if path.suffix != ".safetensors":
        _forge_json(path, rng, hostile)
    elif header_of(path).get("fields") is not None:
        change_header(path, lambda header: _forge_strings(header, rng, hostile))


def _forge_run(data: Path, rng: random.Random, hostile: Callable[[], str], victim: Path) -> None:
    files = sorted(path for path in (data / ".bushel").rglob("*.json"))
    _forge_json(rng.choice(files), rng, hostile)


def _forge_marker(data: Path, rng: random.Random, hostile: Callable[[], str], victim: Path) -> None:
    folder = overwrite_folder(data)
    folder.mkdir(parents=True)
    shutil.copytree(data, folder / data.name)
    marker = {"device": 0, "inode": 0, "old": [hostile()], "new": [hostile()]}
    if rng.random() < 0.2:
        marker[rng.choice(sorted(marker))] = rng.choice([None, "x", [3], {}])
    (folder / "commit.json").write_text(json.dumps(marker))


def _forge_links(data: Path, rng: random.Random, hostile: Callable[[], str], victim: Path) -> None:
    """Put a link in the place of something, or where a writer will make something."""
    sidecars = data / ".bushel"
    names: Mapping[str, Path] = {
        "all": sidecars,
        "staging": sidecars / "staging",
        "run": sidecars / "run",
        "overwrite": overwrite_folder(data),
        "overwrites": overwrite_folder(data).parent,
        "shard": sidecars / "staging" / "dataset",
        "manifest": sidecars / "manifest.json.partial",
        "claim": sidecars / "staging" / "000000.tar" / "writer",
    }
    link = names[rng.choice(sorted(names))]
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        shutil.rmtree(link)
    with suppress(FileExistsError):
        link.symlink_to(rng.choice([victim, victim / "sub", victim / "kept", victim / "missing"]))


def _forge_beside(data: Path, rng: random.Random, hostile: Callable[[], str], victim: Path) -> None:
    """Save a view, remove a sample and sign the dataset; then forge one of the files, or put a link in its place."""
    with bushel.open(data) as dataset:
        dataset[:2].save_view("mine")
    bushel.remove(data, positions=[1], reason="no consent")
    names = ("mine.safetensors", "removed.safetensors", "digest.txt")
    path = rng.choice(sorted(path for path in data.rglob("*") if path.name in names))
    if rng.random() < 0.25:
        path.unlink()
        path.symlink_to(rng.choice([victim, victim / "sub", victim / "kept", victim / "missing"]))
    elif path.suffix == ".txt":
        lines = path.read_text().splitlines()
        at = rng.randrange(1, len(lines))
        text = hostile()
        lines[at] = rng.choice(
            [f"{'0' * 64}  {text}", f"# spec {json.dumps({text: text})}", f"# container {json.dumps(text)}"]
        )
        path.write_text("\n".join([*lines, ""]), errors="surrogateescape")
    else:
        _forge_arrays(path, rng, hostile)


def _forge_arrays(path: Path, rng: random.Random, hostile: Callable[[], str]) -> None:
    """Replace the texts of an array, or strings of the header, of a file of named arrays, with a CRC-32 that fits."""
    arrays = dict(load(path.read_bytes()))
    header = header_of(path)
    texts = sorted(name for name in arrays if name.endswith(".text"))
    if rng.random() < 0.7:
        name = rng.choice(texts)
        offsets = name.removesuffix("text") + "offsets"
        made = Strings.of([hostile() for _ in range(max(len(arrays[offsets]) - 1, 1))])
        arrays[name], arrays[offsets] = made.text, made.offsets
    else:
        _forge_strings(header, rng, hostile)
    order = REMOVED if path.name == "removed.safetensors" else VIEWS
    checksum, header["crc32"] = body_crc32({name: arrays[name] for name in order}), 0
    header["crc32"] = checksum if order is REMOVED else crc32(msgspec.json.encode(header), checksum)
    path.write_bytes(save(arrays, {"bushel": json.dumps(header)}))


_FORGE: Mapping[str, Callable[[Path, random.Random, Callable[[], str], Path], None]] = {
    "index": _forge_index,
    "run": _forge_run,
    "marker": _forge_marker,
    "links": _forge_links,
    "beside": _forge_beside,
}
