"""How fields are converted, planned without I/O."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._pack.encoder import BadItem, EncodedSample, Encoder
from bushel._pack.feeds import StreamFeed
from bushel._pack.field_plan import FieldPlan, plan_fields, plan_values, target_fields
from bushel.codecs import get_codec
from bushel.codecs.base import Buffer
from bushel.containers import get_container
from bushel.containers.base import Layout, LayoutField, WriteOptions
from bushel.errors import SpecError
from bushel.spec import Field, parse_spec

SOURCE = parse_spec({"image": "jpg", "label": "cls", "words": "utf8[]", "raw": "bytes"})
NAMES = st.sampled_from(list(SOURCE))
NEW = st.sampled_from(["image", "label", "words", "raw", "a", "b", "c"])


@given(st.lists(NAMES, min_size=1), st.dictionaries(NAMES, NEW), st.sampled_from(["bag", "tar"]))
def test_fields_keep_their_order_and_types(fields: list[str], rename: dict[str, str], container: str) -> None:
    kept = list(dict.fromkeys(fields))
    new = [rename.get(name, name) for name in kept]
    if len(set(new)) < len(new):
        with pytest.raises(SpecError, match="would both be called"):
            target_fields(SOURCE, get_container(container), fields=fields, rename=rename, spec={})
        return
    found = target_fields(SOURCE, get_container(container), fields=fields, rename=rename, spec={})
    assert list(found) == kept
    assert [field.name for field in found.values()] == new
    for name, field in found.items():
        granular = container == "bag" and name == "label"  # cls is unknown to Granular
        assert (field.codec, field.sequence) == ("int" if granular else SOURCE[name].codec, SOURCE[name].sequence)


def test_unknown_fields_are_refused() -> None:
    for fields, rename, spec in ((["x"], {}, {}), (None, {"x": "y"}, {}), (None, {}, {"x": "jpg"})):
        with pytest.raises(KeyError, match="unknown field 'x': the fields are image, label, words, raw"):
            target_fields(SOURCE, get_container("tar"), fields=fields, rename=rename, spec=spec)
    with pytest.raises(KeyError, match="unknown field 'x': name it 'raw' here, as the source does"):
        target_fields(SOURCE, get_container("tar"), fields=None, rename={"raw": "x"}, spec={"x": "utf8"})


def test_bytes_are_copied_if_both_store_them_alike() -> None:
    targets = target_fields(
        SOURCE, get_container("tar"), fields=None, rename={"raw": "text"}, spec={"raw": "utf8", "label": "int"}
    )
    codecs_of_target = {"image": "jpg", "label": "int", "words": "utf8", "raw": "utf8"}

    def layout(codecs: dict[str, str]) -> Layout:
        columns = tuple(LayoutField(targets[name], codec, 0) for name, codec in codecs.items())
        return Layout(columns, WriteOptions(keyed=True))

    columns = layout(codecs_of_target)
    codecs = {name: frozenset({field.codec}) for name, field in SOURCE.items()}
    plans = plan_fields(SOURCE, codecs, targets, columns)
    assert {name: plan.copied for name, plan in plans.items()} == {
        "image": True,
        "label": False,
        "words": True,
        "raw": True,
    }
    assert plans["raw"].known_as == "utf8"  # the user says what the bytes are
    mixed = codecs | {"words": frozenset({"utf8", "bytes"})}
    words = plan_fields(SOURCE, mixed, targets, columns)["words"]
    assert not words.copied
    damaged = codecs | {"image": frozenset({"image", "bytes"})}
    columns = layout({**codecs_of_target, "image": "image"})
    image = plan_fields(SOURCE, damaged, targets, columns)["image"]
    assert image.copied


@given(st.lists(st.integers(0, 99), max_size=3))
def test_a_sequence_of_one_element_can_become_plain(values: list[int]) -> None:
    sequence, plain = Field("n", "cls", True), Field("n", "int", False)
    stored = [get_codec("cls").encode(value) for value in values]
    as_sequence = encoded(FieldPlan(sequence, Field("n", "int", True), "int", copied=False), stored)
    assert isinstance(as_sequence, EncodedSample)
    assert [get_codec("int").decode(data) for data in as_sequence.values["n"]] == values
    as_plain = encoded(FieldPlan(sequence, plain, "int", copied=False), stored)
    if len(values) == 1:
        assert isinstance(as_plain, EncodedSample)
        assert get_codec("int").decode(as_plain.values["n"]) == values[0]
    else:
        assert isinstance(as_plain, BadItem)
        assert isinstance(as_plain.error, SpecError)
        assert f"sample 'key' has {len(values)} elements in field 'n'" in str(as_plain.error)


def encoded(plan: FieldPlan, stored: list[Buffer]) -> object:
    plans = {"n": plan}
    encoder = Encoder(StreamFeed(plans, frozenset(plans)), plans, {}, 0, frozenset(), True)
    [result] = encoder([(0, {"__key__": "key", "n": stored})])
    return result


@pytest.mark.parametrize(
    ("codec", "holds"),
    [("jpg", True), ("jpeg", True), ("image", True), ("jpg(90)", True), ("png", False), ("bytes", False)],
)
def test_the_fields_that_may_hold_jpegs(codec: str, holds: bool) -> None:
    [field] = parse_spec({"x": codec}).values()
    assert FieldPlan(field, field, codec, copied=True).holds_jpegs is holds


def test_a_field_that_is_bytes_in_some_shards_is_copied_from_all() -> None:
    targets = target_fields(SOURCE, get_container("tar"), fields=["raw"], rename={}, spec={})
    columns = (LayoutField(targets["raw"], "bytes", 0),)
    for codecs, copied in (({"bytes", "jpg"}, True), ({"bytes"}, True), ({"jpg", "png"}, False)):
        plan = plan_fields(SOURCE, {"raw": frozenset(codecs)}, targets, Layout(columns, WriteOptions(keyed=True)))[
            "raw"
        ]
        assert plan.copied is copied


@pytest.mark.parametrize(
    ("given_codec", "codec", "copied", "quick"),
    [
        ("jpg", "jpg", True, False),
        ("jpeg", "jpg(90)", True, False),
        ("jpg", "image", True, False),
        ("png", "jpg", False, False),
        ("int", "int", True, True),
        ("int", "float", False, True),
        ("bytes", "utf8", False, False),
        ("utf8", "utf8", True, True),
    ],
)
def test_bytes_of_a_source_are_stored_where_the_container_stores_such(
    given_codec: str, codec: str, copied: bool, quick: bool
) -> None:
    source, targets = parse_spec({"x": given_codec}), parse_spec({"x": codec})
    layout = Layout((LayoutField(targets["x"], codec, 0),), WriteOptions(keyed=True))
    plan = plan_values(source, targets, layout, targets)["x"]
    assert (plan.copied, plan.is_quick) == (copied, quick)
