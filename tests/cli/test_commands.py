"""The commands, called in this process: what they print and how they end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.cli.running import fails, run
from tests.formats import FORMATS
from tests.integrity.small import SPEC, flip, jpeg, key, reading, sample, write

import bushel
from bushel._dataset.views.info import summarise
from bushel.cli.app import _COMMANDS, START, app
from bushel.cli.describe import one_sample, readable
from bushel.cli.output import columns, size


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data", "tar")


# convert


@pytest.mark.parametrize("container", sorted({container for container, _ in FORMATS}))
def test_convert(data: Path, tmp_path: Path, container: str) -> None:
    out = run("convert", data, tmp_path / "out", "-c", container, "--shard-samples", 5)
    assert out.startswith(f"{tmp_path / 'out'}: 7 samples written as {container} (")
    assert run("ls", tmp_path / "out").splitlines() == [key(number) for number in range(7)]
    assert run("verify", tmp_path / "out", "-q") == ""


def test_convert_with_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tokenizer_here.py").write_text(
        "import numpy as np\ndef encode(text): return np.array([len(text), 7])\nten = 10\n"
    )
    with bushel.Writer("texts", {"text": "utf8"}, container="bag") as writer:
        writer.append({"text": "three words here"})
    options = ("--rename", "text=tokens", "--spec", "text=array", "--transform")
    run("convert", "texts", "tokens", "-c", "bag", *options, "tokens=tokenizer_here:encode")
    made = bushel.open("tokens")
    assert made[0]["tokens"].tolist() == [16, 7]
    assert made.column("tokens.length").tolist() == [2]
    for name, says in (
        ("tokenizer_here:dog", "no attribute 'dog'"),
        ("tokenizer_here:ten", "not a function"),
        ("no", ""),
    ):
        assert says in fails("convert", "texts", "other", "-c", "bag", *options, f"tokens={name}")


def test_convert_options(data: Path, tmp_path: Path) -> None:
    [done] = lines(
        run(
            *("convert", data, tmp_path / "out.ffr", "--json", "--fields", "label", "--rename", "label=class"),
            *("--spec", "label=float", "--no-keys", "--threads", 1),
        )
    )
    assert done["target"] == str(tmp_path / "out.ffr")
    assert (done["container"], done["samples"], done["kept"], done["bytes"]) == ("ffrecord", 7, 0, 56)
    assert done["spec"] == {"class": "float"}
    assert isinstance(done["seconds"], float)
    assert any("keys" in limit for limit in done["limits"])
    assert lines(run("cat", tmp_path / "out.ffr", "-n", 2)) == [
        {"__key__": "0", "class": 0.0},
        {"__key__": "1", "class": 37.0},
    ]


def test_convert_generation_and_append(data: Path, tmp_path: Path) -> None:
    run("convert", data, tmp_path / "out", "-c", "bag", "--generation", "C", "--shard-bytes", "1kB", "-q")
    assert (tmp_path / "out" / "000000" / "image.idx").exists()
    write(tmp_path / "more", "gulp", count=9)
    error = fails("convert", tmp_path / "more", tmp_path / "out", "-c", "bag", "--generation", "C", "--append")
    assert f"key {key(0)!r} is in the dataset already: give each sample a key of its own, or leave" in error
    assert "leave the keys out by --no-keys" in error


def test_convert_replaces_dots(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in.ffr", {"x": "utf8"}, sync=False) as writer:
        writer.append({"x": "1"}, key="a/b.c.txt")
    assert "cannot hold the key 'a/b.c.txt'" in fails("convert", tmp_path / "in.ffr", tmp_path / "out.tar")
    run("convert", tmp_path / "in.ffr", tmp_path / "new.tar", "--replace-dots", "_")
    assert run("ls", tmp_path / "new.tar") == "a/b_c_txt\n"


def test_split_by_numbers_of_samples(data: Path, tmp_path: Path) -> None:
    said = run("split", data, tmp_path / "out", "train=rest", "val=2")
    assert said.splitlines()[0].endswith("train: 5 samples written as tar")
    assert run("ls", tmp_path / "out/val").splitlines() == [key(5), key(6)]
    run("split", data, tmp_path / "all", "train=4", "val=3")
    assert "add up to the 7 samples" in fails("split", data, tmp_path / "wrong", "train=4", "val=4")
    assert "a share must be a number" in fails("split", data, tmp_path / "wrong", "train=most", "val=4")


def test_merge_without_keys(data: Path, tmp_path: Path) -> None:
    assert "leave the keys out by --no-keys" in fails("merge", tmp_path / "all", data, data)
    assert "14 samples written as tar" in run("merge", tmp_path / "all", data, data, "--no-keys")


def test_merge_and_split_append_and_resume(data: Path, tmp_path: Path) -> None:
    assert "7 samples written as tar" in run("merge", tmp_path / "all", data)
    assert "use --append to add to it" in fails("merge", tmp_path / "all", data)
    with bushel.Writer(tmp_path / "more", SPEC, container="tar") as writer:
        writer.append(sample(7), key="more")
    assert "1 sample written as tar" in run("merge", tmp_path / "all", tmp_path / "more", "--append")
    assert run("ls", tmp_path / "all").splitlines() == [*(key(number) for number in range(7)), "more"]
    assert "0 samples written" in run("merge", tmp_path / "all", tmp_path / "more", "--resume")
    said = fails("merge", tmp_path / "all", data, tmp_path / "more", "--resume")
    assert "cannot resume: the finished run had samples=1, but this call has samples=8" in said
    run("split", data, tmp_path / "parts", "a=0.5", "b=0.5")
    assert "use --append to add to it" in fails("split", data, tmp_path / "parts", "a=0.5", "b=0.5")
    assert "0 samples written" in run("split", data, tmp_path / "parts", "a=0.5", "b=0.5", "--resume")
    run("split", tmp_path / "more", tmp_path / "parts", "a=1", "--append")
    assert len(reading(tmp_path / "parts/a")) + len(reading(tmp_path / "parts/b")) == 8
    assert "--append and --resume exclude each other" in fails("merge", tmp_path / "all", data, "--append", "--resume")


def test_convert_used_wrongly(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "--append and --resume exclude each other" in fails(
        "convert", data, out, "-c", "tar", "--append", "--resume"
    )
    assert "--no-keys leaves the keys out" in fails(
        "convert", data, out, "-c", "tar", "--no-keys", "--replace-dots", "_"
    )
    assert "'label' should be NAME=VALUE" in fails("convert", data, out, "-c", "tar", "--rename", "label")
    assert "unknown container 'rar'" in fails("convert", data, out, "-c", "rar")
    assert "zip datasets are read in place, and not written" in fails("convert", data, out, "-c", "zip")
    assert "does not tell the container" in fails("convert", data, out)
    assert "unknown field 'x': the fields are" in fails("convert", data, out, "-c", "tar", "--fields", "x")
    assert "no such file or folder:" in fails("convert", tmp_path / "nowhere", out, "-c", "tar")
    assert "invalid size 'much'" in fails("convert", data, out, "-c", "tar", "--shard-bytes", "much")
    assert "write to another path, or replace the source with --overwrite" in fails("convert", data, data, "-c", "tar")
    assert "generation" in fails("convert", data, out, "-c", "bag", "--generation", "Z")
    assert "the new dataset comes first" in fails("merge", data, out)
    assert "Quote a pattern" in fails("remove", data, data)
    assert "Quote a pattern" not in fails("remove", data, "no-such-key")
    assert "'x' is not a valid number" in fails("cat", data, "--limit", "x")
    assert not out.exists()


# index


def test_index(data: Path) -> None:
    for sidecar in (data / ".bushel").iterdir():
        sidecar.unlink()
    [done] = lines(run("index", data, "--no-checksums", "--json"))
    assert (done["container"], done["shards"], done["samples"], done["checksums"]) == ("tar", 3, 7, False)
    out = run("index", data)
    assert out.startswith(f"{data}: 3 shards of tar, 7 samples, ")
    assert " indexed with checksums in " in out
    assert "not read" not in out
    assert "was there and fits: these data were not read. `bushel verify` compares them" in run("index", data)
    [done] = lines(run("index", data, "--json"))
    assert done["bytes"] > done["bytes_read"] == 0
    assert reading(data).info.checksums
    file, offset = reading(data).location(0, "image")
    flip(Path(file), offset)
    assert run("index", data, "-q") == ""
    run("verify", data, code=1)
    run("index", data, "--force")
    run("verify", data)


def test_index_of_damaged_files(data: Path) -> None:
    (data / "shard-000001.tar").write_bytes(b"no tar")
    error = fails("index", data, code=1)
    assert error.splitlines()[0].startswith(f"bushel: {data / 'shard-000001.tar'}@0: not a tar archive")
    assert error.splitlines()[1].strip() == "run `bushel verify` on it"


# verify


def test_verify(data: Path) -> None:
    out = run("verify", data)
    assert out.startswith(f"{data}: ok; 3 shards, 7 samples, ")
    file, offset = reading(data).location(3, "image")
    flip(Path(file), offset)
    first, last = run("verify", data, code=1).splitlines()
    assert first.startswith(f"checksum: {file}@{offset}: sample {key(3)!r}, field 'image': should have the CRC-32 ")
    assert last.startswith(f"{data}: 1 problem; 3 shards, 7 samples, ")
    [found] = lines(run("verify", data, "--json", code=1))
    assert found["ok"] is False
    assert found["problems"] == [
        {
            "file": file,
            "offset": offset,
            "key": key(3),
            "field": "image",
            "kind": "checksum",
            "message": found["problems"][0]["message"],
        }
    ]
    assert set(found) == {
        *("path", "ok", "problems", "samples", "shards", "bytes_checked", "checksums_checked", "more"),
        *("verdict", "bytes_total", "bytes_unchecked", "compared"),
    }
    assert run("verify", data, "--no-checksums", "-q") == ""


def test_verify_says_what_it_could_not_know(data: Path) -> None:
    for sidecar in (data / ".bushel").iterdir():
        sidecar.unlink()
    said = run("verify", data)
    assert "intact, but 7,838 of 7,838 bytes have no checksum to compare with" in said
    assert "` records the checksums" in said
    said = run("verify", data, "--no-checksums")
    assert "records the checksums" not in said
    assert "intact, but 7,838 of 7,838 bytes were not compared" in said


def test_verify_counts_what_it_does_not_list(data: Path) -> None:
    for position in range(7):
        file, offset = reading(data).location(position, "image")
        flip(Path(file), offset)
    out = run("verify", data, "--max-problems", 2, code=1).splitlines()
    assert len(out) == 3
    assert "7 problems (5 of them not listed)" in out[-1]


def test_verify_warns(data: Path) -> None:
    with open(data / "shard-000000.tar", "ab") as file:
        file.write(bytes(512))
    out = run("verify", data).splitlines()
    assert out[0].startswith(f"warning: stale: {data / 'shard-000000.tar'}: ")


def test_verify_decodes(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in.tar", {"image": "jpg"}, sync=False) as writer:
        writer.append({"image": jpeg(0)[:300]}, key="a")
    run("verify", tmp_path / "in.tar")
    assert run("verify", tmp_path / "in.tar", "--decode", code=1).startswith("decode: ")


# info


def test_info(data: Path) -> None:
    text = run("info", data).splitlines()
    assert text[0] == "container  tar, 3 shards, 3 files"
    assert text[1] == "samples    7"
    assert text[3] == f"keys       {key(0)!r}, {key(1)!r}, {key(2)!r}, …"
    assert text[-1].split()[:5] == ["label", "int", "cls", "7", "7"]
    [found] = lines(run("info", data, "--json"))
    sizes = [len(jpeg(number)) for number in range(7)]
    assert found["fields"][0] == {
        "name": "image",
        "type": "jpg",
        "codecs": "jpg",
        "samples": 7,
        "elements": 7,
        "bytes": sum(sizes),
        "mean": sum(sizes) / 7,
        "min": min(sizes),
        "max": max(sizes),
    }
    assert (found["samples"], found["keyed"], found["checksums"], found["indexed"]) == (7, True, True, True)
    assert found["fingerprint"] == reading(data).fingerprint


def test_summary_of_sequences_and_missing_fields(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"words": "utf8[]", "x": "utf8"}, container="ffrecord", sync=False) as writer:
        writer.append({"words": ["a", "bcd"], "x": ""}, key="a")
        writer.append({"words": []}, key="b")
    dataset = reading(tmp_path / "in")
    words, x = summarise(dataset.shards, dataset.spec)
    assert (words.samples, words.elements, words.bytes, words.mean, words.min, words.max) == (2, 2, 4, 2.0, 1, 3)
    assert (x.samples, x.elements, x.bytes, x.mean, x.min, x.max) == (1, 1, 0, 0.0, 0, 0)


# ls, cat, get


def test_ls(data: Path) -> None:
    assert run("ls", data, "--limit", 2, "--start", 4).splitlines() == [key(4), key(5)]
    assert run("ls", data, "--start", 99) == ""
    assert run("ls", data, "-n", 1, "--fields") == f"{key(0)}  image={len(jpeg(0))}  label=1\n"
    assert lines(run("ls", data, "--json", "--start", 6)) == [
        {"position": 6, "key": key(6), "fields": {"image": len(jpeg(6)), "label": 3}}
    ]


def test_cat(data: Path) -> None:
    [first] = lines(run("cat", data, "--limit", 1, "--start", 5))
    assert first["__key__"] == key(5)
    assert first["label"] == sample(5)["label"]
    assert first["image"]["bytes"] == len(jpeg(5))
    assert lines(run("cat", data, "--fields", "label")) == [
        {"__key__": key(number), "label": sample(number)["label"]} for number in range(7)
    ]
    assert "unknown field 'x'" in fails("cat", data, "--fields", "x")


def test_cat_of_every_kind_of_value(tmp_path: Path) -> None:
    values: dict[str, tuple[str, Any, Any]] = {
        "text": ("utf8", "é\n", "é\n"),
        "real": ("float", float("nan"), "nan"),
        "big": ("int", 2**100, 2**100),
        "raw": (
            "bytes",
            b"ab",
            {"bytes": 2, "sha256": "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603"},
        ),
        "map": ("msgpack", {"a": [b"", None], 3: 1.5}, None),
        "list": ("int[]", [1, 2], [1, 2]),
    }
    with bushel.Writer(tmp_path / "x.ffr", {name: kind for name, (kind, _, _) in values.items()}, sync=False) as writer:
        writer.append({name: value for name, (_, value, _) in values.items()})
    [found] = lines(run("cat", tmp_path / "x.ffr"))
    empty = {"bytes": 0, "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
    assert found.pop("map") == {"a": [empty, None], "3": 1.5}
    assert found == {"__key__": "0", **{name: shown for name, (_, _, shown) in values.items() if name != "map"}}


def test_cat_of_bad_values(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.ffr", {"n": "float"}, sync=False) as writer:
        writer.append({"n": b"123"})
    assert "sample '0', field 'n'" in fails("cat", tmp_path / "x.ffr", code=1)


def test_streams(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tar", {"n": "int", "jpg": "jpg"}, sync=False) as writer:
        for number in range(3):
            writer.append({"n": number, "jpg": jpeg(number)}, key=f"s{number}")
    pipe = f"pipe:cat {tmp_path / 'x.tar'}"
    assert run("ls", pipe, "--allow-commands", "--start", 1) == "s1\ns2\n"
    assert run("ls", pipe, "--allow-commands", "--fields", "-n", 1) == f"s0  jpg={len(jpeg(0))}  n=1\n"
    assert lines(run("cat", pipe, "--allow-commands", "--fields", "n", "--start", 2)) == [{"__key__": "s2", "n": 2}]
    run("convert", pipe, tmp_path / "out", "-c", "bag", "--allow-commands")
    assert run("ls", tmp_path / "out") == "s0\ns1\ns2\n"


def test_get(data: Path, tmp_path: Path) -> None:
    out = CliRunner().invoke(app, ["get", str(data), key(3), "image"])
    assert out.stdout_bytes == jpeg(3)
    assert run("get", data, 3, "label") == "111"
    assert run("get", "--", data, -1, "label") == "222"
    assert run("get", data, key(6), "image", "-o", tmp_path / "x.jpg") == ""
    assert (tmp_path / "x.jpg").read_bytes() == jpeg(6)
    assert lines(run("get", data, 2))[0]["label"] == 74
    for arguments, says in (
        ((99,), "position 99 is out of range for a dataset of 7 samples"),
        (("nobody",), "no sample has the key 'nobody'"),
        ((key(3)[:-1],), "did you mean "),
        ((0, "x"), "unknown field 'x': the fields are image, label"),
        ((0, "image[1]"), "field 'image' is not a sequence"),
        ((0, "image", "-o", tmp_path / "no" / "x"), "No such file or directory"),
    ):
        assert says in fails("get", data, *arguments)


def test_get_elements_of_sequences(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"words": "utf8[]", "x": "utf8"}, container="tar", sync=False) as writer:
        writer.append({"words": ["a", "bcd"]}, key="k")
    assert run("get", tmp_path / "in", "k", "words[1]") == "bcd"
    assert run("get", tmp_path / "in", "k", "words[-2]") == "a"
    assert "name one, such as words[0]" in fails("get", tmp_path / "in", "k", "words")
    assert "has 2 elements, not words[2]" in fails("get", tmp_path / "in", "k", "words[2]")
    assert "sample 'k' lacks the field 'x'" in fails("get", tmp_path / "in", "k", "x")


def test_keys_go_before_positions(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"x": "utf8"}, container="bag", sync=False) as writer:
        for name in ("2", "1", "0", "-1"):
            writer.append({"x": name}, key=name)
    assert run("get", tmp_path / "in", 0, "x") == "0"
    assert run("get", tmp_path / "in", 0, "x", "--position") == "2"
    assert run("get", tmp_path / "in", 3, "x") == "-1"
    for position in ("+3", " 3", "-1"):
        assert run("get", tmp_path / "in", position, "x", "--position") == "-1"
    assert "'k1' is not a position: leave out --position if it is a key" in fails(
        "get", tmp_path / "in", "k1", "--position"
    )
    dataset = reading(tmp_path / "in")
    assert one_sample(dataset, "-1", by_position=False)[0]["x"] == "-1"
    assert one_sample(dataset, "-2", by_position=True)[0]["x"] == "0"


def test_a_field_may_look_like_an_element(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in.ffr", {"x[0]": "utf8", "y": "utf8"}, sync=False) as writer:
        writer.append({"x[0]": "a", "y": "b"})
    assert run("get", tmp_path / "in.ffr", 0, "x[0]") == "a"


# The rest


def test_version_and_help() -> None:
    assert run("--version") == f"{bushel.__version__}\n"
    text = run("--help")
    for name in ("convert", "index", "verify", "info", "ls", "cat", "get"):
        assert f"\n  {name} " in text
        assert "Example" in run(name, "--help"), name


def test_wrong_use_of_the_command_line() -> None:
    assert "No such command 'foo'" in fails("foo")
    assert "No such option" in fails("ls", "x", "--foo")
    assert "Missing argument" in fails("ls")


def test_faults_of_bushel_are_not_problems_of_the_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(bushel, "verify", broken)
    result = CliRunner().invoke(app, ["verify", str(data)])
    assert result.exit_code == 70
    assert "a bug" in result.stderr
    assert "a bug in Bushel" in result.stderr


def test_debug_shows_where(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["info", str(tmp_path), "--debug"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-2].startswith("bushel: ")


def test_sizes_and_columns() -> None:
    assert [size(number) for number in (0, 999, 1000, 12345, 999_700, 10**9, 10**18)] == [
        *("0 bytes", "999 bytes", "1 kB", "12.3 kB", "1 MB", "1 GB", "1000 PB"),
    ]
    rows: Sequence[Sequence[str]] = [("field", "type", "stored", "n"), ("a", "jpg", "jpg", "1,234")]
    assert list(columns(rows)) == ["field  type  stored      n", "a      jpg   jpg     1,234"]


def test_only_readable_fields_are_decoded() -> None:
    asked: list[set[str]] = []

    def decode(part: dict[str, Any]) -> dict[str, Any]:
        asked.append(set(part))
        return part

    readable({"__key__": "a", "image": b"", "label": b"1"}, SPEC, decode)
    assert asked == [{"__key__", "label"}]


@pytest.mark.parametrize("name", list(_COMMANDS))
def test_the_list_of_commands_says_what_each_command_says(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    assert command.help is not None
    assert command.help.splitlines()[0] == _COMMANDS[name]


def test_an_unknown_command_is_answered_with_those_like_it() -> None:
    for word, command in (("verfy", "verify"), ("validate", "verify"), ("head", "cat"), ("duplicates", "view")):
        assert f"Did you mean '{command}'?" in fails(word, "x")


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--format", "'--format'. Did you mean --container or --json?"),
        ("--num-workers", "'--num-workers'. Did you mean --processes or --threads?"),
        ("--mode", "'--mode'. Did you mean --append or --overwrite or --resume?"),
        ("--thread", "'--threads'"),
        ("--zzz", "'--zzz'."),
    ],
)
def test_options_of_other_tools_are_answered_with_those_that_do_their_work(option: str, says: str) -> None:
    assert says in fails("pack", "photos", "x.tar", option, "4")


def test_the_format_of_what_is_listed_is_an_option_too() -> None:
    assert "'--format'. Did you mean --container or --json?" in fails("ls", "x.tar", "--format", "csv")


def test_bushel_alone_prints_the_commands_to_start_with() -> None:
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, result.output) == (2, f"{START}\n")
    assert len(START.splitlines()) <= 24
    assert max(map(len, START.splitlines())) <= 82
    rows = [line[2:22] for line in START.splitlines() if line.startswith("  ")]
    named = {name for row in rows for name in row.replace(",", "").split() if name.islower()}
    assert named == _COMMANDS.keys() - {"im2rec-list"}


def test_info_of_an_index_in_another_folder(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "tables"
    run("index", data, "--index", place)
    bushel.remove(data, positions=[0], reason="no", index=place)
    assert "removed" in run("info", data, "--index", place)
    assert "removed" not in run("info", data)
