"""Damaged gulp chunks are refused, and name the file."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.containers.gulp.chunks import DATA, META, chunk, read

from bushel.errors import BushelError, FormatError

ENTRY = '{"v": {"frame_info": [[%s]], "meta_data": [{}]}}'


@pytest.mark.parametrize(
    "meta",
    [
        "",
        "[]",
        "3",
        "{",
        '{"v": 1}',
        '{"v": {"meta_data": [{}]}}',
        '{"v": {"frame_info": []}}',
        '{"v": {"frame_info": [], "meta_data": null}}',
        '{"v": {"frame_info": [], "meta_data": [{}]}} x',
        '{"v": {"frame_info": [], "meta_data": [nul]}}',
        '{"v": {"frame_info": [], "meta_data": [' + "[" * 100_000 + "]" * 100_000 + "]}}",
        '{"\\ud800": {"frame_info": [], "meta_data": [{}]}}',
        ENTRY % "0, 0, 17",
        ENTRY % "1, 0, 16",
        ENTRY % "17, 0, 0",
        ENTRY % "0, 17, 16",
        ENTRY % "-4, 0, 16",
        ENTRY % "0, -1, 16",
        ENTRY % "0, 0, -1",
        ENTRY % "0, 0, 9223372036854775807",
        ENTRY % "4611686018427387904, 0, 4611686018427387904",
        ENTRY % "9223372036854775807, 0, 16",
        ENTRY % "18446744073709551616, 0, 16",
        ENTRY % "1e3, 0, 16",
        ENTRY % "0, 16",
        ENTRY % '"0", 0, 16',
        ENTRY % "0, 0, 8",  # 8 bytes that no frame covers
        '{"v": {"frame_info": [[0, 0, 12], [8, 0, 8]], "meta_data": [{}]}}',  # frames that overlap
    ],
)
def test_damaged_tables_are_refused(tmp_path: Path, meta: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(chunk(tmp_path, b"\0" * 16, meta.encode()))
    assert caught.value.file in (str(tmp_path / "data_0.gulp"), str(tmp_path / "meta_0.gmeta"))


def test_golden_damage_is_found(golden: Path) -> None:
    cases = json.loads((golden / "damaged" / "damaged.json").read_text())["cases"]
    gulp = [case for case in cases if case["container"] == "gulp" and case["revealed_by"] == "format"]
    assert len(gulp) >= 10
    for case in gulp:
        folder = golden / "damaged" / case["open"]
        if case["name"] == "id-in-two-chunks":  # each chunk is sound: that two have an id is for verify to say
            assert sorted(key for key, _ in read(folder)).count("item 00") == 2
            continue
        with pytest.raises(FormatError) as caught:
            read(folder)
        assert Path(str(caught.value.file)).name in case["named"], case["name"]


def test_no_cut_or_change_of_a_table_gets_out_of_hand(tmp_path: Path) -> None:
    for size in range(len(META)):
        with pytest.raises(FormatError):
            read(chunk(tmp_path, DATA, META[:size]))
    for size in range(len(DATA)):
        with pytest.raises(FormatError):
            read(chunk(tmp_path, DATA[:size]))
    generator = random.Random(0)
    survived = 0
    for _ in range(2000):
        text = bytearray(META)
        for _ in range(generator.randint(1, 3)):
            text[generator.randrange(len(text))] = generator.choice(b'0123456789-{}[]",:ax\\\xff\0')
        try:
            read(chunk(tmp_path, DATA, bytes(text)))
            survived += 1
        except BushelError:
            pass
    assert 0 < survived < 2000  # a table cannot show a change inside a string
