"""Writing ffrecord files, and going on with them."""

from __future__ import annotations

import os
import pickle
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.containers.ffrecord.by_hand import GOLDEN, MAPS, NONE, PLAIN, ffr, final, plain, shard_of
from tests.containers.writing import Sample, ShardInProgress, same_table, stored_samples, write_shard

from bushel.containers.base import ReadOptions, WriteOptions
from bushel.containers.ffrecord import CONTAINER
from bushel.containers.ffrecord.packed_folder import MAGIC
from bushel.errors import SpecError
from bushel.kernels import crc32
from bushel.spec import parse_spec


class TestWriting:
    def test_golden_bytes(self, tmp_path: Path) -> None:
        for number, expected in enumerate([None, 3, 2, 9]):
            samples = plain(b"hello", bytearray(), memoryview(b"\0\1\2"))  # type: ignore[arg-type]
            shard, table = write_shard(CONTAINER, tmp_path, PLAIN, samples, expected=expected, number=number)
            assert final(shard) == GOLDEN
            same_table(table, CONTAINER.index(shard, ReadOptions()))
        shard, _ = write_shard(CONTAINER, tmp_path, PLAIN, [], name="none.ffr")
        assert final(shard) == NONE

    def test_a_packed_folder_as_the_original_writes_it(self, tmp_path: Path) -> None:
        samples: list[Sample] = [("a.txt", {"data": b"1"}), ("b/z.bin", {"data": b""}), ("b.txt", {"data": b"22"})]
        shard, _ = write_shard(CONTAINER, tmp_path, PLAIN, samples, keyed=True)
        data = final(shard)
        from collections import OrderedDict

        tree = OrderedDict([("a.txt", 0), ("b", OrderedDict([("z.bin", 1)])), ("b.txt", 2)])
        assert data == ffr([b"1", b"", b"22", MAGIC + pickle.dumps(tree, protocol=4)])
        known, _ = write_shard(CONTAINER, tmp_path, PLAIN, samples, keyed=True, expected=3, name="known.ffr")
        assert final(known) == data

    def test_an_empty_packed_folder(self, tmp_path: Path) -> None:
        shard, _ = write_shard(CONTAINER, tmp_path, PLAIN, [], keyed=True)
        table = CONTAINER.index(shard, ReadOptions())
        assert table.samples == 0
        assert table.keys is not None

    def test_maps(self, tmp_path: Path) -> None:
        samples: list[Sample] = [
            ("a", {"image": b"IMG", "label": b"\1", "words": [b"x", b"yy"]}),
            ("b", {"words": iter(())}),
            ("c", {}),
        ]
        shard, table = write_shard(CONTAINER, tmp_path, MAPS, samples, keyed=True)
        import msgpack

        header = np.frombuffer(final(shard)[24:48], "<i8").tolist()
        records = [msgpack.unpackb(part) for part in np.split(np.frombuffer(final(shard), np.uint8), header)[1:]]
        assert records == [
            {"__key__": "a", "image": b"IMG", "words": [b"x", b"yy"], "label": b"\1"},
            {"__key__": "b", "words": []},
            {"__key__": "c"},
        ]
        spec = parse_spec(MAPS)
        same_table(table, CONTAINER.index(shard, ReadOptions(spec=spec)))
        expected = [
            ("a", {"image": b"IMG", "label": b"\1", "words": [b"x", b"yy"]}),
            ("b", {"words": []}),
            ("c", {}),
        ]
        assert stored_samples(shard, table) == expected
        assert stored_samples(shard, CONTAINER.index(shard, ReadOptions())) == expected

    def test_checksums_in_the_file_are_right(self, tmp_path: Path) -> None:
        shard, _ = write_shard(CONTAINER, tmp_path, MAPS, [(None, {"image": bytes(5000)})] * 3)
        data = final(shard)
        offsets = [*struct.unpack_from("<3q", data, 24), len(data)]
        for row, crc in enumerate(struct.unpack_from("<3I", data, 12)):
            assert zlib.crc32(data[offsets[row] : offsets[row + 1]]) == crc

    def test_keys_that_are_no_paths(self, tmp_path: Path) -> None:
        progress = ShardInProgress(CONTAINER, tmp_path, PLAIN, keyed=True)
        progress.append([("a/b", {"data": b""})])
        for key in ("../x", "/x", "a", "a/b/c"):
            with pytest.raises(SpecError):
                progress.writer.append(key, {"data": b""})
        progress.append([("a/c", {"data": b"1"})])
        assert stored_samples(progress.shard, progress.finish()) == [("a/b", {"data": b""}), ("a/c", {"data": b"1"})]

    def test_values_that_would_be_misread(self, tmp_path: Path) -> None:
        progress = ShardInProgress(CONTAINER, tmp_path, PLAIN)
        for value in (MAGIC + b"x", b"\x81\xa7__key__\xc0"):
            with pytest.raises(SpecError, match="starts"):
                progress.writer.append(None, {"data": value})
        progress.append(plain(b"1", b"\x81\xa7__key__\xc0"))
        assert stored_samples(progress.shard, progress.finish())[1] == ("1", {"data": b"\x81\xa7__key__\xc0"})
        keyed, table = write_shard(CONTAINER, tmp_path, PLAIN, [("a", {"data": MAGIC})], keyed=True, number=1)
        assert stored_samples(keyed, CONTAINER.index(keyed, ReadOptions())) == [("a", {"data": MAGIC})]

    def test_layouts(self) -> None:
        assert not CONTAINER.layout(parse_spec(PLAIN), WriteOptions(keyed=True)).sparse
        layout = CONTAINER.layout(parse_spec({"x": "jpg[]"}), WriteOptions(keyed=False))
        assert layout.sparse
        assert [column.codec for column in layout.columns] == ["jpg"]
        with pytest.raises(SpecError, match="at least one field"):
            CONTAINER.layout({}, WriteOptions(keyed=False))

    def test_where_files_cannot_have_two_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise OSError("not here")

        monkeypatch.setattr(os, "link", refuse)
        monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
        for expected in (3, None):
            samples = plain(b"hello", b"", b"\0\1\2")
            shard, _ = write_shard(CONTAINER, tmp_path / str(expected), PLAIN, samples, expected=expected)
            assert final(shard) == GOLDEN

    values = st.lists(st.binary(max_size=200).filter(lambda value: not value.startswith(MAGIC)), max_size=8)

    @settings(max_examples=40)
    @given(values, st.one_of(st.none(), st.integers(0, 9)))
    def test_any_values(
        self, tmp_path_factory: pytest.TempPathFactory, values: list[bytes], expected: int | None
    ) -> None:
        root = tmp_path_factory.mktemp("plain")
        shard, table = write_shard(CONTAINER, root, PLAIN, plain(*values), expected=expected)
        assert final(shard) == ffr(values)
        same_table(table, CONTAINER.index(shard, ReadOptions()))

    keys = st.lists(
        st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
            lambda key: key not in (".", "..")
        ),
        unique=True,
        max_size=8,
    )

    @settings(max_examples=40)
    @given(keys, st.data())
    def test_any_keys(self, tmp_path_factory: pytest.TempPathFactory, keys: list[str], data: st.DataObject) -> None:
        root = tmp_path_factory.mktemp("keyed")
        names = [f"{key}/file" if number % 2 else f"dir/{key}" for number, key in enumerate(keys)]
        names = [name for name in names if not name.startswith("dir/file") and name != "dir/file"]
        samples: list[Sample] = [(name, {"data": data.draw(st.binary(max_size=50))}) for name in dict.fromkeys(names)]
        shard, table = write_shard(CONTAINER, root, PLAIN, samples, keyed=True)
        read = CONTAINER.index(shard, ReadOptions())
        same_table(table, read)
        assert stored_samples(shard, read) == samples

    fields = st.fixed_dictionaries(
        {}, optional={"image": st.binary(max_size=300), "words": st.lists(st.binary(max_size=20)), "label": st.binary()}
    )

    @settings(max_examples=40)
    @given(st.lists(fields, max_size=6), st.booleans())
    def test_any_samples(
        self, tmp_path_factory: pytest.TempPathFactory, fields: list[dict[str, Any]], keyed: bool
    ) -> None:
        root = tmp_path_factory.mktemp("maps")
        samples: list[Sample] = [(f"k{number}☕" if keyed else None, one) for number, one in enumerate(fields)]
        shard, table = write_shard(CONTAINER, root, MAPS, samples, keyed=keyed)
        expected = [(key or str(number), dict(one)) for number, (key, one) in enumerate(samples)]
        assert stored_samples(shard, table) == expected
        if samples:
            assert stored_samples(shard, CONTAINER.index(shard, ReadOptions())) == expected

    def test_a_value_beyond_16_mib(self, tmp_path: Path) -> None:
        big = bytes(range(256)) * (17 << 12)
        shard, table = write_shard(CONTAINER, tmp_path, MAPS, [(None, {"image": big, "words": [b"a", big]})] * 2)
        read = CONTAINER.index(shard, ReadOptions())
        for column in (table.fields["image"], read.fields["image"]):
            assert column.crc32 is not None
            assert column.crc32.tolist() == [crc32(big)] * 2
            assert column.length.tolist() == [len(big)] * 2


class TestGoingOn:
    CASES: Mapping[str, tuple[dict[str, str], list[Sample]]] = {
        "plain": (PLAIN, plain(b"1", b"", b"333", b"4")),
        "folder": (PLAIN, [(f"d/{n}", {"data": bytes([n])}) for n in range(4)]),
        "maps": (MAPS, [(f"k{n}", {"image": bytes(n), "words": [b"x"] * n}) for n in range(4)]),
    }

    @pytest.mark.parametrize("kind", CASES)
    @pytest.mark.parametrize("expected", [None, 4])
    def test_after_a_kill(self, kind: str, expected: int | None, tmp_path: Path) -> None:
        spec, samples = self.CASES[kind]
        keyed = kind != "plain"
        whole, _ = write_shard(CONTAINER, tmp_path, spec, samples, keyed=keyed, expected=expected, name="whole.ffr")
        progress = ShardInProgress(CONTAINER, tmp_path, spec, keyed=keyed, expected=expected, name="killed.ffr")
        for number, sample in enumerate(samples):
            if number % 2 == 0:
                progress.kill_and_resume()
            progress.append([sample])
        progress.finish()
        assert (tmp_path / "killed.ffr").read_bytes() == (tmp_path / "whole.ffr").read_bytes()

    @pytest.mark.parametrize("kind", CASES)
    @pytest.mark.parametrize("expected", [None, 4])
    def test_after_a_kill_in_the_middle_of_finish(self, kind: str, expected: int | None, tmp_path: Path) -> None:
        spec, samples = self.CASES[kind]
        keyed = kind != "plain"
        whole, _ = write_shard(CONTAINER, tmp_path, spec, samples, keyed=keyed, name="whole.ffr")
        progress = ShardInProgress(CONTAINER, tmp_path, spec, keyed=keyed, expected=expected, name="killed.ffr")
        progress.append(samples[:3])
        positions, rows = (
            progress.staging.positions,
            [(column.offset[:], column.length[:]) for column in progress.builder.columns.values()],
        )
        progress.writer.finish()
        for sink in progress.staging.sinks.values():
            sink.close(sync=False)
        for column, (offset, length) in zip(progress.builder.columns.values(), rows, strict=True):
            column.offset[:], column.length[:] = offset, length
        progress._start(positions)
        progress.append(samples[3:])
        table = progress.finish()
        assert (tmp_path / "killed.ffr").read_bytes() == (tmp_path / "whole.ffr").read_bytes()
        assert stored_samples(progress.shard, table) == [
            (key or str(number), dict(fields)) for number, (key, fields) in enumerate(samples)
        ]

    def test_after_a_failed_append(self, tmp_path: Path) -> None:
        progress = ShardInProgress(CONTAINER, tmp_path, MAPS)
        progress.append([(None, {"image": b"1"})])
        positions = progress.staging.positions

        def broken() -> Any:
            yield b"x"
            raise RuntimeError("from the user")

        with pytest.raises(RuntimeError):
            progress.writer.append(None, {"image": b"2", "words": broken()})
        progress.abandon(1, positions)
        progress.append([(None, {"image": b"3"})])
        assert stored_samples(progress.shard, progress.finish()) == [
            ("0", {"image": b"1"}),
            ("1", {"image": b"3"}),
        ]

    @pytest.mark.parametrize("kind", CASES)
    def test_an_existing_file_is_continued(self, kind: str, tmp_path: Path) -> None:
        spec, samples = self.CASES[kind]
        keyed = kind != "plain"
        write_shard(CONTAINER, tmp_path, spec, samples, keyed=keyed, name="whole.ffr")
        write_shard(CONTAINER, tmp_path, spec, samples[:2], keyed=keyed, name="x.ffr")
        progress = ShardInProgress(CONTAINER, tmp_path, spec, keyed=keyed, name="x.ffr")
        progress.reopen()
        progress.append(samples[2:])
        table = progress.finish()
        assert (tmp_path / "x.ffr").read_bytes() == (tmp_path / "whole.ffr").read_bytes()
        same_table(table, CONTAINER.index(progress.shard, ReadOptions(spec=parse_spec(spec))))

    def test_a_file_of_the_original_is_continued(self, golden: Path, tmp_path: Path) -> None:
        source = golden / "ffrecord-1.4.0" / "packed-folder" / "data" / "packed.ffr"
        before = stored_samples(shard := shard_of(tmp_path, source.read_bytes()), CONTAINER.index(shard, ReadOptions()))
        progress = ShardInProgress(CONTAINER, tmp_path, PLAIN, keyed=True, name="x.ffr")
        progress.reopen()
        with pytest.raises(SpecError, match="'001.txt' is already a file"):
            progress.writer.append("001.txt/x", {"data": b""})
        progress.append([("just_another_folder/zzz", {"data": b"new"})])
        progress.finish()
        after = CONTAINER.index(shard, ReadOptions())
        assert stored_samples(shard, after) == [*before, ("just_another_folder/zzz", {"data": b"new"})]

    def test_other_samples_are_refused(self, tmp_path: Path) -> None:
        write_shard(CONTAINER, tmp_path, PLAIN, plain(b"1"), name="x.ffr")
        progress = ShardInProgress(CONTAINER, tmp_path, MAPS, name="x.ffr")
        with pytest.raises(SpecError, match="holds records of one field without keys, but .* packed maps"):
            progress.reopen()
        progress.staging.discard()
