"""Batches of similar samples: the order agrees with its document, and no batch is larger than allowed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests._runtime.order_by_document import derive_by_document, permute_by_document

from bushel.loader.order.bucketed import Bucketed, TooLongError, bucketed_order

Cases = tuple[list[float], Any, float | None]


@st.composite
def cases(draw: st.DrawFn) -> Cases:
    """Lengths, batch size and batch tokens that fit them."""
    numbers = st.one_of(st.integers(0, 40), st.floats(0, 40), st.sampled_from([7, 8, 9]))
    lengths = [float(each) for each in draw(st.lists(numbers, max_size=60))]
    longest = max([1.0, *lengths])
    tokens = draw(st.one_of(st.none(), st.floats(longest, 5 * longest), st.integers(math.ceil(longest), 200)))
    size: Any = draw(st.one_of(st.none() if tokens is not None else st.just(3), st.integers(1, 9)))
    if draw(st.booleans()):
        limits = sorted({*draw(st.lists(st.integers(0, 39), max_size=4)), math.ceil(longest)})
        size = {limit: draw(st.integers(1, 9)) for limit in limits}
    return lengths, size, tokens


def by_document(
    lengths: list[float], batch_size: Any, tokens: float | None, seed: int, epoch: int, *, drop_last: bool
) -> list[list[int]]:
    """The batches of an epoch, as docs/order.md defines them."""

    def bucket(x: float) -> int:
        if isinstance(batch_size, dict):
            return next(n for n, limit in enumerate(sorted(batch_size)) if limit >= x)
        if x == 0:
            return -16384
        m, e = math.frexp(x)
        return 8 * e + math.ceil(16 * m)

    listed = sorted(range(len(lengths)), key=lambda sample: bucket(lengths[sample]))
    present = sorted({bucket(x) for x in lengths})
    bounds, sizes = [0], []
    for each in present:
        own = [x for x in lengths if bucket(x) == each]
        bounds.append(bounds[-1] + len(own))
        limits = [] if tokens is None else [max(k for k in range(1, 20000) if k * (max(own) or 1) <= tokens)]
        if isinstance(batch_size, dict):
            limits.append(batch_size[sorted(batch_size)[each]])
        elif batch_size is not None:
            limits.append(batch_size)
        sizes.append(min(limits))
    batches, start = [], 0
    for i, size in enumerate(sizes):
        first, end = bounds[i], bounds[i + 1]
        if start < first and (isinstance(batch_size, dict) or first - start >= size):
            batches += [] if drop_last else [range(start, first)]
            start = first
        while start + size <= end:
            batches.append(range(start, start + size))
            start += size
    if start < len(lengths) and not drop_last:
        batches.append(range(start, len(lengths)))

    def sample(m: int) -> int:
        i = next(i for i in range(len(sizes)) if m < bounds[i + 1])
        count = bounds[i + 1] - bounds[i]
        key = derive_by_document(1, 8, count, seed, epoch, i)
        return listed[bounds[i] + permute_by_document(count, key, 0, m - bounds[i])]

    key = derive_by_document(1, 7, len(batches), seed, epoch)
    turns = [permute_by_document(len(batches), key, 0, t) for t in range(len(batches))]
    return [[sample(m) for m in batches[turn]] for turn in turns]


def batches_of(order: Bucketed, epoch: int) -> list[list[int]]:
    ends = order.epoch(epoch).ends
    samples = order.take(epoch, np.arange(order.samples))
    return [each.tolist() for each in np.split(samples, ends[:-1])] if len(ends) else []


@given(case=cases(), seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**64 - 1), drop_last=st.booleans())
@example(case=([2.2250738585e-313], None, 1.0), seed=0, epoch=0, drop_last=False)
@example(case=([0.0], None, 2), seed=0, epoch=0, drop_last=True)  # fewer samples than a batch may have
def test_the_order_agrees_with_the_document(case: Cases, seed: int, epoch: int, drop_last: bool) -> None:
    lengths, size, tokens = case
    order = bucketed_order(np.array(lengths), size, tokens, drop_last=drop_last, seed=seed)
    assert batches_of(order, epoch) == by_document(lengths, size, tokens, seed, epoch, drop_last=drop_last)


@given(case=cases(), seed=st.integers(0, 9))
def test_each_sample_comes_once_and_no_batch_is_too_large(case: Cases, seed: int) -> None:
    lengths, size, tokens = case
    order = bucketed_order(np.array(lengths), size, tokens, seed=seed)
    batches = batches_of(order, 3)
    assert sorted(sample for batch in batches for sample in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[sample] for sample in batch)
        assert tokens is None or len(batch) * longest <= tokens
        if isinstance(size, dict):
            assert len(batch) <= size[min(limit for limit in size if limit >= longest)]
            assert len({min(limit for limit in size if limit >= lengths[sample]) for sample in batch}) == 1
        else:
            assert size is None or len(batch) <= size


@given(case=cases(), position=st.integers(0, 59))
def test_similar_samples_are_not_longer_than_the_bucket_allows(case: Cases, position: int) -> None:
    lengths, size, _ = case
    if not isinstance(size, dict) or position >= len(lengths):
        return
    order = bucketed_order(np.array(lengths), size)
    [sample] = order.take(0, np.array([position])).tolist()
    limit = min(limit for limit in size if limit >= lengths[sample])
    others = list(order.similar(0, position))
    assert sorted([sample, *others]) == [n for n, length in enumerate(lengths) if length <= limit]


def test_epochs_and_seeds_differ() -> None:
    lengths = np.arange(200) % 23
    order = bucketed_order(lengths, None, 64)
    assert batches_of(order, 0) != batches_of(order, 1)
    assert batches_of(order, 0) != batches_of(bucketed_order(lengths, None, 64, seed=1), 0)
    assert order.version != bucketed_order(lengths, None, 65).version != bucketed_order(lengths, 9, 65).version


def test_few_batches_are_not_full() -> None:
    order = bucketed_order(np.random.default_rng(0).integers(5, 400, 5000), 16)
    assert (order.stops - order.starts < 16).sum() == 1  # one bucket is filled up from the next


def test_samples_that_are_too_long() -> None:
    with pytest.raises(TooLongError, match="2 samples are longer than 8, up to 9.5") as error:
        bucketed_order(np.array([3, 9.0, 8, 9.5]), None, 8)
    assert error.value.sample == 3
    with pytest.raises(TooLongError):
        bucketed_order(np.array([3, 9.0]), {4: 8, 8: 4})


@pytest.mark.parametrize(
    ("size", "tokens", "says"),
    [
        (None, None, "any size"),
        (None, 0, "batch_tokens"),
        (None, float("inf"), "batch_tokens"),
        ({}, 8, "for each largest length"),
        ({"a": 1}, None, "lengths as keys"),
        ({4: 0}, None, "from 1 of samples"),
        (-1, None, "from 1 of samples"),
    ],
)
def test_wrong_arguments(size: Any, tokens: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        bucketed_order(np.arange(3), size, tokens)
