"""`bushel who`: the keys of a step and the steps of a key, from a saved state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import fails, run
from tests.loader.documents import LENGTHS, write

import bushel
from bushel.loader import Megatron


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("who")
    write(root / "data", LENGTHS, container="bag")
    return root


PACKS = {"pack_by": "tokens.length", "pack_tokens": 40, "shuffle": True}
CHUNKS = {"chunk_by": "tokens.length", "chunk_tokens": 40, "shuffle": True}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True},
        {"shuffle": bushel.loader.Blocks(len(LENGTHS), 0, size=16, window=4)},
        PACKS,
        {**PACKS, "pack_tokens": 10, "pack_longer": "split"},
        {**PACKS, "pack_tokens": 10, "pack_longer": "cut"},
        CHUNKS,
        {**CHUNKS, "shuffle": Megatron()},
        {**CHUNKS, "shuffle": Megatron(rows=90)},
    ],
    ids=str,
)
def test_steps_and_keys(root: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    loader = bushel.Loader(bushel.open(root / "data"), 4, world_size=2, rank=1, **options)
    loader.epoch = 3
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    shared = ["who", root / "data", "--state", tmp_path / "state.json", "--batch-size", 4, "--world-size", 2]
    if "pack_by" in options or "chunk_by" in options:
        assert "needs the column with the lengths" in fails(*shared, "--step", 2)
        shared += ["--lengths", "tokens.length"]
    keys = loader.who(2)
    assert json.loads(run(*shared, "--step", 2, "--rank", 1, "--json"))["keys"] == keys
    said = run(*shared, "--step", 2, "--rank", 1).splitlines()
    assert said == [key if isinstance(key, str) else " ".join(key) for key in keys]
    assert run(*shared, "--key", "k7").splitlines() == [
        f"epoch {epoch}, step {step}, rank {rank}" for epoch, step, rank in loader.when("k7")
    ]
    found = json.loads(run(*shared, "--key", "k7", "--epoch", 1, "--json"))["steps"]
    assert [(one["epoch"], one["step"], one["rank"]) for one in found] == loader.when("k7", 1)


@pytest.mark.parametrize(
    "options",
    [{"weights": "tokens.length"}, {"balance": "tokens.length"}, {"bucket_by": "tokens.length"}],
    ids=lambda options: next(iter(options)),
)
def test_orders_by_columns_are_asked_of_the_loader(root: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    loader = bushel.Loader(bushel.open(root / "data"), 4, **options)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    said = fails("who", root / "data", "--state", tmp_path / "state.json", "--batch-size", 4, "--step", 2)
    assert "depends on more than the state contains: make the same loader, and call its who() and when()" in said


@pytest.mark.parametrize("version", ["mixed(40,8;7,3;60)/1", "exact/0"])
def test_orders_of_other_releases_are_asked_of_them(root: Path, tmp_path: Path, version: str) -> None:
    state = bushel.Loader(bushel.open(root / "data"), 4).state_dict() | {"version": version}
    (tmp_path / "state.json").write_text(json.dumps(state))
    said = fails("who", root / "data", "--state", tmp_path / "state.json", "--batch-size", 4, "--step", 2)
    assert "this release does not have: ask the release of bushel that saved the state" in said
    assert "make the same loader" not in said


def test_mixtures(root: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", LENGTHS[:40], container="tar")
    first = bushel.open(root / "data")
    for mixture in (
        bushel.mix({"a": first, "b": other}, weights={"a": 0.7, "b": 0.3}),
        bushel.mix({"a": first, "b": other}, schedule=[(0, {"a": 1}), (50, {"b": 1})], until=80),
    ):
        loader = bushel.Loader(mixture, 4)
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
        shared = ["who", root / "data", tmp_path / "other", "--state", tmp_path / "state.json", "--batch-size", 4]
        assert json.loads(run(*shared, "--step", 14, "--json"))["keys"] == loader.who(14)


def test_mistakes(root: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    shared = ["who", root / "data", "--state", state, "--batch-size", 4]
    state.write_text(json.dumps(bushel.Loader(bushel.open(root / "data"), 4).state_dict()))
    assert "step=99: epoch 0 has 38 steps" in fails(*shared, "--step", 99)
    assert "k999" in fails(*shared, "--key", "k999")
    assert "give --step" in fails(*shared)
    assert "Missing option '--batch-size'" in fails(*shared[:-2], "--step", 1)
    assert "'dog' is not 'wrap'" in fails(*shared, "--step", 1, "--pad", "dog")
    state.write_text(json.dumps(bushel.Loader(bushel.open(root / "data")[:9], 4).state_dict()))
    assert "another dataset" in fails(*shared, "--step", 1)
    state.write_text("{")
    assert "is not JSON" in fails(*shared, "--step", 1)


@pytest.mark.parametrize("options", [{"shuffle": True}, PACKS], ids=["exact", "packs"])
def test_removed_since(tmp_path: Path, options: dict[str, Any]) -> None:
    ds = write(tmp_path / "data", LENGTHS, container="tar")
    loader = bushel.Loader(ds, 4, **options)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    keys, steps = loader.who(2), loader.when("k7")
    bushel.remove(tmp_path / "data", keys=["k7", "k9"], reason="opt-out")
    shared = ["who", tmp_path / "data", "--state", tmp_path / "state.json", "--batch-size", 4]
    shared += ["--lengths", "tokens.length"] if "pack_by" in options else []
    assert json.loads(run(*shared, "--step", 2, "--json"))["keys"] == keys
    found = json.loads(run(*shared, "--key", "k7", "--json"))["steps"]
    assert [(one["epoch"], one["step"], one["rank"]) for one in found] == steps


def test_removed_and_appended_since(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for mode, first in (("create", 0), ("append", 40)):
        with bushel.Writer(path, {"x": "int"}, container="tar", shard_samples=10, mode=mode) as writer:  # type: ignore[arg-type]
            for number in range(first, first + 40):
                writer.append({"x": number}, key=f"k{number}")
        if mode == "create":
            loader = bushel.Loader(bushel.open(path), 4, shuffle=True)
            (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
            keys, steps = loader.who(2), loader.when("k7")
    bushel.remove(path, keys=["k7", "k50"], reason="opt-out")
    shared = ["who", path, "--state", tmp_path / "state.json", "--batch-size", 4]
    assert json.loads(run(*shared, "--step", 2, "--json"))["keys"] == keys
    found = json.loads(run(*shared, "--key", "k7", "--json"))["steps"]
    assert [(one["epoch"], one["step"], one["rank"]) for one in found] == steps


def test_a_state_is_needed(root: Path) -> None:
    assert "Missing option '--state'" in fails("who", root / "data", "--batch-size", 4, "--step", 3)
