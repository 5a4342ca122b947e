"""Writing recordio files, and going on with them."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.recordio.by_hand import (
    FOUR_IDX,
    FOUR_REC,
    IMAGE,
    INTEGER,
    JPEG,
    LABEL,
    MAPS,
    PLAIN,
    SPLIT,
    M,
    content,
    frame,
    plain,
    positions,
    shard_of,
)
from tests.containers.summed import summed_table
from tests.containers.writing import Sample, ShardInProgress, same_table, stored_samples, write_shard

from bushel._index.shard import Shard
from bushel.codecs import get_codec
from bushel.containers.base import ReadOptions, WriteOptions
from bushel.containers.recordio import CONTAINER
from bushel.errors import SpecError
from bushel.spec import parse_spec


class TestWriting:
    def test_golden_bytes(self, tmp_path: Path) -> None:
        samples = plain(b"", bytearray(b"a"), memoryview(b"abcd"), np.frombuffer(b"abcde", np.uint8))  # type: ignore[arg-type]
        shard, table = write_shard(CONTAINER, tmp_path, PLAIN, samples)
        assert content(shard) == (FOUR_REC, FOUR_IDX)
        same_table(table, CONTAINER.index(shard, ReadOptions()))
        split, _ = write_shard(CONTAINER, tmp_path, PLAIN, plain(*SPLIT), number=1)
        assert content(split)[0] == b"".join(map(bytes.fromhex, SPLIT.values()))
        empty, _ = write_shard(CONTAINER, tmp_path, PLAIN, [], number=2)
        assert content(empty) == (b"", b"")
        assert CONTAINER.index(empty, ReadOptions()).samples == 0

    def test_image_records_of_mxnet(self, tmp_path: Path) -> None:
        shard, table = write_shard(
            CONTAINER, tmp_path, IMAGE, [("2574", {"image": b"IMG", "label": INTEGER(4)})], keyed=True
        )
        header = bytes.fromhex("00000000 00008040 0e0a000000000000 0000000000000000 494d47")
        assert content(shard) == (frame(header), b"2574\t0\n")
        assert stored_samples(shard, table) == [("2574", {"image": b"IMG", "label": header[:8]})]
        spec = {"label": "array", "image": "jpg", "id2": "u64", "id": "int"}
        sample = {"image": b"IMG", "label": LABEL([2, 3]), "id": (2).to_bytes(8, "little"), "id2": bytes(8)}
        shard, table = write_shard(CONTAINER, tmp_path, spec, [(None, sample)], number=1)
        vector = bytes.fromhex("02000000 00000000 0200000000000000 0000000000000000 00000040 00004040 494d47")
        assert content(shard) == (frame(vector), b"0\t0\n")
        [(_, fields)] = stored_samples(shard, table)
        assert fields == {"image": b"IMG", "label": vector[:-3], "id": vector[8:16], "id2": bytes(8)}

    @pytest.mark.parametrize(
        ("key", "number"),
        [
            ("7", 7),
            ("007", 7),
            (str(2**64 - 1), 2**64 - 1),
            (str(2**64), 1),
            ("seven", 1),
            ("-7", 1),
            ("٣", 1),
            (None, 1),
        ],
    )
    def test_the_id_of_an_image_record(self, key: str | None, number: int, tmp_path: Path) -> None:
        other = None if key is None else "a"
        fields = {"image": JPEG, "label": INTEGER(0)}
        shard, _ = write_shard(CONTAINER, tmp_path, IMAGE, [(other, fields), (key, fields)], keyed=key is not None)
        _, (_, found) = stored_samples(shard, CONTAINER.index(shard, ReadOptions()))
        assert int.from_bytes(found["id"], "little") == number

    @pytest.mark.parametrize(
        ("spec", "codecs"),
        [
            ({"image": "jpg"}, {"image": "jpg"}),
            (IMAGE, {"image": "jpg", "label": "recordio-label-int"}),
            ({"label": "f32", "image": "png"}, {"label": "recordio-label", "image": "png"}),
            (
                {"image": "bytes", "label": "array", "id": "int"},
                {"image": "bytes", "label": "recordio-label", "id": "u64"},
            ),
            ({"image": "jpg", "label": "utf8"}, {"image": "jpg", "label": "utf8"}),
            ({"image": "jpg", "label": "int[]"}, {"image": "jpg", "label": "int"}),
            ({"image": "jpg", "label": "array(float32,2,2)"}, {"image": "jpg", "label": "array(float32,2,2)"}),
            ({"image": "jpg", "name": "utf8"}, {"image": "jpg", "name": "utf8"}),
            ({"label": "int"}, {"label": "int"}),
        ],
    )
    def test_layouts(self, spec: dict[str, str], codecs: dict[str, str]) -> None:
        layout = CONTAINER.layout(parse_spec(spec), WriteOptions(keyed=False))
        assert {column.field.name: column.codec for column in layout.columns} == codecs
        assert [column.field for column in layout.columns] == list(parse_spec(spec).values())
        is_map = len(spec) > 1 and not any(codec.startswith("recordio-label") for codec in codecs.values())
        assert layout.sparse == is_map

    def test_a_spec_without_fields(self) -> None:
        with pytest.raises(SpecError, match="at least one field"):
            CONTAINER.layout({}, WriteOptions(keyed=False))

    def test_maps(self, tmp_path: Path) -> None:
        samples: list[Sample] = [
            ("a b", {"image": JPEG, "words": [b"x", b"yy"], "note": b"n"}),
            ("c", {"words": iter(())}),
            ("d", {"image": b"abc" + M * 3, "words": [M, M]}),
        ]
        shard, table = write_shard(CONTAINER, tmp_path, MAPS, samples, keyed=True)
        rec, idx = content(shard)
        assert idx.startswith(b"a b\t0\nc\t")
        record = {"__key__": "a b", "image": JPEG, "words": [b"x", b"yy"], "note": b"n"}
        assert rec.startswith(frame(msgpack.packb(record)))
        expected = [samples[0], ("c", {"words": []}), samples[2]]
        assert stored_samples(shard, table) == expected
        found = summed_table(CONTAINER, shard)
        assert stored_samples(shard, found) == expected
        same_table(table, CONTAINER.index(shard, ReadOptions(spec=parse_spec(MAPS))))
        (tmp_path / "000000.idx").unlink()
        [bare] = CONTAINER.shards(tmp_path) or []
        assert stored_samples(bare, CONTAINER.index(bare, ReadOptions())) == expected

    @pytest.mark.parametrize("key", ["", "a\tb", "a\nb", "a\rb", " a", "caf\udce9"])
    def test_keys_that_an_idx_cannot_hold(self, key: str, tmp_path: Path) -> None:
        progress = ShardInProgress(CONTAINER, tmp_path, PLAIN, keyed=True)
        with pytest.raises(SpecError, match="cannot hold the key"):
            progress.writer.append(key, {"data": b""})
        assert progress.staging.positions == {"000000.rec": 0, "000000.idx": 0}
        progress.staging.discard()

    def test_a_value_that_would_be_misread(self, tmp_path: Path) -> None:
        progress = ShardInProgress(CONTAINER, tmp_path, PLAIN)
        with pytest.raises(SpecError, match="starts like a packed sample"):
            progress.writer.append(None, {"data": b"\x81\xa7__key__\xc0"})
        progress.staging.discard()

    @pytest.mark.parametrize("fields", [{"label": bytes(9)}, {"label": b"\1" + bytes(23)}, {"id": bytes(7)}])
    def test_stored_bytes_that_are_none(self, fields: dict[str, bytes], tmp_path: Path) -> None:
        progress = ShardInProgress(CONTAINER, tmp_path, {"image": "jpg", "label": "float", "id": "int"})
        with pytest.raises(SpecError):
            progress.writer.append(None, {"image": b"", "label": bytes(8), "id": bytes(8), **fields})
        progress.staging.discard()

    def test_the_limit_of_a_record(self, tmp_path: Path) -> None:
        progress = ShardInProgress(CONTAINER, tmp_path, PLAIN)
        too_large = np.zeros(2**29, np.uint8)
        with pytest.raises(SpecError, match="holds 536870911"):
            progress.writer.append(None, {"data": too_large})
        progress.staging.discard()

    def test_a_value_beyond_16_mib(self, tmp_path: Path) -> None:
        big = bytes(range(256)) * (17 << 12) + M
        shard, table = write_shard(CONTAINER, tmp_path, PLAIN, plain(big, b"x"))
        assert stored_samples(shard, table) == positions(plain(big, b"x"))
        assert stored_samples(shard, CONTAINER.index(shard, ReadOptions())) == positions(plain(big, b"x"))

    words = st.lists(st.sampled_from([M, b"a", b"bcde", b"\x0a\x23", b"\xd7\xce"]), max_size=8).map(b"".join)

    @given(st.lists(words, max_size=8))
    def test_any_values(self, tmp_path_factory: pytest.TempPathFactory, values: list[bytes]) -> None:
        root = tmp_path_factory.mktemp("plain")
        shard, table = write_shard(CONTAINER, root, PLAIN, plain(*values))
        for found in (table, summed_table(CONTAINER, shard)):
            assert stored_samples(shard, found) == positions(plain(*values))
        (root / "000000.idx").unlink()
        [bare] = CONTAINER.shards(root) or []
        assert stored_samples(bare, CONTAINER.index(bare, ReadOptions())) == positions(plain(*values))

    keys = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=6)
    fields = st.fixed_dictionaries(
        {}, optional={"image": words, "words": st.lists(words, max_size=4), "note": st.binary(max_size=300)}
    )

    @given(st.dictionaries(keys.filter(lambda key: key == key.lstrip()), fields, max_size=6))
    def test_any_samples(self, tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]) -> None:
        root = tmp_path_factory.mktemp("maps")
        samples: list[Sample] = list(content.items())
        shard, table = write_shard(CONTAINER, root, MAPS, samples, keyed=True)
        assert stored_samples(shard, table) == samples
        if samples:
            assert stored_samples(shard, CONTAINER.index(shard, ReadOptions())) == samples

    @given(
        st.lists(
            st.tuples(
                words,
                st.one_of(
                    st.floats(width=32, allow_nan=False), st.lists(st.floats(width=32, allow_nan=False), min_size=1)
                ),
            ),
            max_size=6,
        )
    )
    def test_any_image_records(self, tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[bytes, Any]]) -> None:
        root = tmp_path_factory.mktemp("images")
        samples: list[Sample] = [(None, {"image": JPEG + picture, "label": LABEL(label)}) for picture, label in pairs]
        spec = {"image": "jpg", "label": "array"}
        shard, table = write_shard(CONTAINER, root, spec, samples)
        decode = get_codec("recordio-label").decode
        for found in (table, summed_table(CONTAINER, shard)):
            for (_, fields), (picture, label) in zip(stored_samples(shard, found), pairs, strict=True):
                assert fields["image"] == JPEG + picture
                np.testing.assert_array_equal(decode(fields["label"]), np.array(label, np.float32))


class TestGoingOn:
    @pytest.mark.parametrize(
        ("spec", "samples"),
        [
            (PLAIN, plain(b"1", M, b"333", b"")),
            (IMAGE, [(f"{n}", {"image": JPEG, "label": INTEGER(n)}) for n in range(2, 6)]),
            (MAPS, [(f"k{n}", {"image": M * n, "words": [b"x"] * n}) for n in range(4)]),
        ],
    )
    def test_after_a_kill_and_of_an_existing_file(
        self, spec: dict[str, str], samples: list[Sample], tmp_path: Path
    ) -> None:
        keyed = samples[0][0] is not None
        whole, _ = write_shard(CONTAINER, tmp_path, spec, samples, keyed=keyed, name="whole.rec")
        progress = ShardInProgress(CONTAINER, tmp_path, spec, keyed=keyed, name="killed.rec")
        for number, sample in enumerate(samples):
            if number % 2 == 0:
                progress.kill_and_resume()
            progress.append([sample])
        progress.finish()
        assert content(progress.shard) == content(whole)
        for has_idx in (True, False):
            if keyed and not has_idx:
                continue
            first, _ = write_shard(CONTAINER, tmp_path, spec, samples[:2], keyed=keyed, name="x.rec")
            existing = summed_table(CONTAINER, first, parse_spec(spec))
            if not has_idx:
                (tmp_path / "x.idx").unlink()
            [shard] = CONTAINER.shards(tmp_path / "x.rec") or []
            progress = ShardInProgress(CONTAINER, tmp_path, spec, keyed=keyed, name="x.rec")
            kept = CONTAINER.reopen(progress.layout, shard, existing, progress.staging)
            assert kept == {"x.rec": first.path(0).stat().st_size, "x.idx": first_lines(whole, 2)}
            progress.builder.load(existing)
            for sink in progress.staging.sinks.values():
                sink.close(sync=False)
            progress.shard = shard
            progress._start(kept)
            progress.append(samples[2:])
            progress.finish()
            assert (tmp_path / "x.rec").read_bytes() == content(whole)[0]
            assert (tmp_path / "x.idx").read_bytes() == content(whole)[1]

    def test_the_cut_tail_of_an_existing_file_is_left_behind(self, tmp_path: Path) -> None:
        shard = shard_of(tmp_path, FOUR_REC + M + b"\xff\0\0", FOUR_IDX[:-1])
        progress = ShardInProgress(CONTAINER, tmp_path, PLAIN, name="x.rec")
        table = CONTAINER.index(shard_of(tmp_path / "whole", FOUR_REC, FOUR_IDX), ReadOptions())
        kept = CONTAINER.reopen(progress.layout, shard, table, progress.staging)
        assert kept == {"x.rec": 48, "x.idx": len(FOUR_IDX)}
        progress.staging.discard()

    def test_other_samples_are_refused(self, tmp_path: Path) -> None:
        shard = shard_of(tmp_path, FOUR_REC, FOUR_IDX)
        table = CONTAINER.index(shard, ReadOptions())
        progress = ShardInProgress(CONTAINER, tmp_path / "new", IMAGE, name="x.rec")
        with pytest.raises(SpecError, match="holds records of one field, but .* image records"):
            CONTAINER.reopen(progress.layout, shard, table, progress.staging)
        progress.staging.discard()

    def test_after_a_failed_append(self, tmp_path: Path) -> None:
        progress = ShardInProgress(CONTAINER, tmp_path, MAPS)
        progress.append([(None, {"image": M})])
        before = progress.staging.positions

        def broken() -> Any:
            yield M
            raise RuntimeError("from the user")

        with pytest.raises(RuntimeError):
            progress.writer.append(None, {"image": M, "words": broken()})
        progress.abandon(1, before)
        progress.append([(None, {"note": M})])
        assert stored_samples(progress.shard, progress.finish()) == [("0", {"image": M}), ("1", {"note": M})]


def first_lines(shard: Shard, count: int) -> int:
    return sum(len(line) for line in itertools.islice(io.BytesIO(content(shard)[1]), count))
