"""Orders: the published vectors, an implementation written from the document, and the quality of the shuffle."""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests._runtime.order_by_document import derive_by_document, hash32, mix64, permute_by_document

from bushel._runtime.draws import Order, Weighted, balanced_order, weighted_order
from bushel._runtime.order import Blocks, Exact, Permutation, Sequential, Shuffle, derive, make_order
from bushel._runtime.scheduled import SampleOrder, Scheduled
from bushel.loader.order.bucketed import Bucketed, bucketed_order
from bushel.loader.order.chunks import Chunked, Chunks, Megatron, MegatronChunks
from bushel.loader.order.packed import Packed, pieces_of

I64 = npt.NDArray[np.int64]

DOCUMENT = Path(__file__).parents[2] / "docs" / "order.md"


def weighted(weights: list[float], samples: int, seed: int) -> Order:
    assert len(weights) == samples
    return weighted_order(np.array(weights, np.float64), seed)


def balanced(classes: list[int], samples: int, seed: int) -> Order:
    assert len(classes) == samples
    return balanced_order(np.array(classes), "label", seed)


def bucketed(lengths: list[float], samples: int, seed: int, **given: Any) -> Bucketed:
    sizes = given.pop("batch_size", None)
    made = bucketed_order(
        np.array(lengths, np.float64), dict(sizes) if isinstance(sizes, list) else sizes, seed=seed, **given
    )
    assert made.samples == samples
    return made


def packed(lengths: list[int], samples: int, seed: int, **given: Any) -> Packed:
    pieces = pieces_of(np.array(lengths, np.int64), given["tokens"], given["longer"])
    bases: dict[str, Any] = {"exact": Exact, "sequential": Sequential}
    return Packed(bases[given["base"]](samples, seed), pieces, given["tokens"], given["window"], 0)


def scheduled(samples: int, seed: int, **given: Any) -> Scheduled:
    sources = [one if isinstance(one, int) else scheduled(**one) for one in given["sources"]]
    points = tuple((at, tuple(weights)) for at, weights in given["points"])
    return Scheduled(tuple(sources), points, given["ramp"], samples, seed)


KINDS: dict[str, Callable[..., SampleOrder | Bucketed | Packed]] = {
    "exact": Exact,
    "blocks": Blocks,
    "sequential": Sequential,
    "weighted": weighted,
    "balanced": balanced,
    "bucketed": bucketed,
    "packed": packed,
    "scheduled": scheduled,
}


def vectors(having: str) -> list[dict[str, Any]]:
    blocks = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    found = [json.loads(line) for block in blocks for line in block.splitlines()]
    return [vector for vector in found if having in vector]


def whole(order: Order, epoch: int = 0) -> I64:
    return order.take(epoch, np.arange(order.samples))


# The document, word for word, one value at a time.


def blocks_by_document(samples: int, seed: int, size: int, window: int, epoch: int, p: int) -> int:
    width = size * window
    w = p // width
    start = w * width
    inner = min(width, samples - start)
    key = derive_by_document(1, 3, samples, seed, epoch)
    fold = (w % 2**32) ^ ((w >> 32) * 0x9E3779B9 % 2**32)
    tweak = hash32(fold ^ (key >> 32))
    q = start + permute_by_document(inner, key, tweak, p - start)
    blocks = math.ceil(samples / size)
    lacking = blocks * size - samples
    key = derive_by_document(1, 2, samples, seed, epoch)
    slot = next(x for x in range(blocks) if permute_by_document(blocks, key, 0, x) == blocks - 1)
    if q >= slot * size + size - lacking:
        q += lacking
    return permute_by_document(blocks, key, 0, q // size) * size + q % size


@pytest.mark.parametrize("vector", vectors("words"), ids=str)
def test_derive_gives_the_published_keys(vector: dict[str, Any]) -> None:
    assert derive(*vector["words"]) == int(vector["derived"], 16) == derive_by_document(*vector["words"])


@pytest.mark.parametrize("vector", vectors("order"), ids=lambda v: f"{v['order']}-{v['samples']}-{v['epoch']}")
def test_orders_give_the_published_samples(vector: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {name: vector[name] for name in ("samples", "seed", "size", "window") if name in vector}
    given = ["weights", "classes", "lengths", "batch_size", "batch_tokens", "drop_last", "tokens", "longer", "base"]
    given += ["sources", "points", "ramp"]
    arguments |= {name: vector[name] for name in given if name in vector}
    order = KINDS[vector["order"]](**arguments)
    if isinstance(order, Bucketed):
        assert np.diff(order.epoch(vector["epoch"]).ends, prepend=0).tolist() == vector["batches"]
    if isinstance(order, Packed):
        windows = [order.at(vector["epoch"], number) for number in range(order.windows)]
        assert [size for own in windows for size in np.diff(own.ends, prepend=own.start).tolist()] == vector["rows"]
    there = order.take(vector["epoch"], np.array(vector["positions"], np.int64))
    assert there.tolist() == vector["samples_there"]


@pytest.mark.parametrize("vector", vectors("chunks"), ids=lambda v: f"{v['chunks']}-{v['tokens']}")
def test_chunks_have_the_published_pieces(vector: dict[str, Any]) -> None:
    shape = np.array(vector["lengths"], np.uint32), vector["tokens"], vector["overlap"], 0
    bases: dict[str, Any] = {"exact": Exact, "sequential": Sequential}
    if vector["chunks"] == "megatron":
        order: Chunks = MegatronChunks(Megatron(vector["rows"]), *shape, vector["seed"])
    else:
        order = Chunked(bases[vector["chunks"]](len(vector["lengths"]), vector["seed"]), *shape)
    own = order.pieces(vector["epoch"], np.arange(order.rows(vector["epoch"])))
    pieces = np.stack([own.documents, own.begins, own.begins + own.counts], axis=1).tolist()
    assert [pieces[start:end] for start, end in itertools.pairwise([0, *own.ends])] == vector["pieces"]


def test_the_document_has_vectors_of_every_order() -> None:
    assert Counter(vector["chunks"] for vector in vectors("chunks")).keys() == {"exact", "sequential", "megatron"}
    assert Counter(vector["order"] for vector in vectors("order")).keys() == KINDS.keys()
    assert len(vectors("words")) >= 2


@given(samples=st.integers(1, 300), seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**64 - 1), data=st.data())
def test_exact_agrees_with_the_document(samples: int, seed: int, epoch: int, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, samples - 1), max_size=5))
    key = derive_by_document(1, 1, samples, seed, epoch)
    expected = [permute_by_document(samples, key, 0, p) for p in positions]
    assert Exact(samples, seed).take(epoch, np.array(positions, np.int64)).tolist() == expected


@given(
    samples=st.integers(1, 120),
    seed=st.integers(0, 2**64 - 1),
    size=st.integers(1, 20),
    window=st.integers(1, 5),
    data=st.data(),
)
def test_blocks_agree_with_the_document(samples: int, seed: int, size: int, window: int, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, samples - 1), max_size=3))
    expected = [blocks_by_document(samples, seed, size, window, 2, p) for p in positions]
    assert Blocks(samples, seed, size, window).take(2, np.array(positions, np.int64)).tolist() == expected


@given(
    samples=st.integers(0, 20_000), seed=st.integers(0, 2**64 - 1), size=st.integers(1, 500), window=st.integers(1, 40)
)
def test_every_order_is_a_permutation(samples: int, seed: int, size: int, window: int) -> None:
    for order in (Exact(samples, seed), Blocks(samples, seed, size, window), Sequential(samples)):
        assert np.array_equal(np.sort(whole(order, 3)), np.arange(samples))


@given(size=st.integers(1, 2**48), key=st.integers(0, 2**64 - 1), data=st.data())
def test_find_inverts_take_at_any_size(size: int, key: int, data: st.DataObject) -> None:
    permutation = Permutation(size, key)
    value = data.draw(st.integers(0, size - 1))
    taken = int(permutation.take(np.array([value], np.int64))[0])
    assert 0 <= taken < size
    assert permutation.find(taken) == value


def test_positions_can_be_requested_in_any_pieces() -> None:
    order = Blocks(30_001, 5, 64, 4)
    at_once = whole(order, 7)
    assert [int(order.take(7, np.array([p]))[0]) for p in (0, 29_999, 30_000)] == at_once[[0, 29_999, 30_000]].tolist()
    assert np.array_equal(order.take(7, np.arange(30_001)[::-1]), at_once[::-1])


@pytest.mark.parametrize("order", [Exact(10), Blocks(10), Sequential(10)], ids=lambda order: order.version)
@pytest.mark.parametrize("position", [-1, 10])
def test_positions_outside_the_epoch_are_refused(order: Order, position: int) -> None:
    with pytest.raises(IndexError, match="between 0 and 9"):
        order.take(0, np.array([position]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exact(2**48 + 1),
        lambda: Exact(-1),
        lambda: Exact(5, -1),
        lambda: Exact(5, 2**64),
        lambda: Blocks(5, 0, 0, 1),
        lambda: Blocks(5, 0, 1, 0),
        lambda: Exact(5).take(-1, np.arange(5)),
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()


def test_versions_name_kind_and_parameters() -> None:
    assert [order.version for order in (Sequential(1), Exact(1), Blocks(1, 0, 64, 8))] == [
        "sequential/1",
        "exact/1",
        "blocks(64,8)/1",
    ]


# Quality. Seeds are fixed, so these pass or fail forever; the limits are four standard deviations or more.


def chi_square(counts: I64, expected: float) -> float:
    """Standard deviations above its mean of the chi-square statistic of the counts."""
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return (statistic - (counts.size - 1)) / math.sqrt(2 * (counts.size - 1))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_small_permutations_are_all_as_likely(size: int) -> None:
    trials = 1200
    seen = Counter(tuple(whole(Exact(size, seed)).tolist()) for seed in range(trials))
    permutations = list(itertools.permutations(range(size)))
    assert chi_square(np.array([seen[p] for p in permutations]), trials / len(permutations)) < 4


@pytest.mark.parametrize("samples", [50, 64, 1000])
def test_a_sample_comes_at_any_position(samples: int) -> None:
    trials, counts = 40 * samples // 10, np.zeros((10, samples), np.int64)
    for epoch in range(trials):
        counts[np.arange(samples) * 10 // samples, whole(Exact(samples, 11), epoch)] += 1
    assert chi_square(counts, trials / 10) < 4


@pytest.mark.parametrize("samples", [100_000, 2**17])
def test_neighbours_are_as_far_apart_as_by_chance(samples: int) -> None:
    distances = np.abs(np.diff(whole(Exact(samples, 4))))
    deviation = samples * math.sqrt(1 / 18) / math.sqrt(samples)
    assert abs(distances.mean() - samples / 3) < 4 * deviation
    shares = np.histogram(distances, bins=20, range=(0, samples))[0]
    edges = np.linspace(0, 1, 21)
    expected = np.diff(2 * edges - edges**2) * (samples - 1)
    statistic = float(((shares - expected) ** 2 / expected).sum())
    assert statistic < 19 + 6 * math.sqrt(38)  # more room than elsewhere: neighbouring distances share a position


@pytest.mark.parametrize("pair", [(Exact(50_000, 1), Exact(50_000, 2)), (Exact(50_000, 1), Exact(50_000, 1))])
def test_seeds_and_epochs_share_no_structure(pair: tuple[Exact, Exact]) -> None:
    first, second = whole(pair[0], 0), whole(pair[1], 1)
    assert (first == second).sum() < 6  # one by chance
    assert (np.diff(first) == np.diff(second)).sum() < 10  # under two by chance
    grid = np.histogram2d(first, second, bins=20)[0].astype(np.int64)
    assert abs(chi_square(grid, 50_000 / 400)) < 4
    assert abs(float(np.corrcoef(first, second)[0, 1])) < 4 / math.sqrt(50_000)


def test_low_bits_are_shuffled_like_high_ones() -> None:
    order = whole(Exact(2**16, 9))
    for bit in range(16):
        flips = ((order >> bit) & 1) != ((np.arange(2**16) >> bit) & 1)
        assert abs(int(flips.sum()) - 2**15) < 4 * 2**7


def test_blocks_read_few_stretches_at_a_time() -> None:
    samples, size, window = 100_000, 100, 8
    order = whole(Blocks(samples, 3, size, window), 5)
    for start in range(0, samples, size * window):
        blocks = np.unique(order[start : start + size * window] // size)
        assert len(blocks) <= window + 1
    starts = order[:: size * window] // size
    assert len(np.unique(starts)) == len(starts)
    assert abs(float(np.corrcoef(np.arange(len(starts)), starts)[0, 1])) < 4 / math.sqrt(len(starts))


def test_blocks_mix_a_window_evenly() -> None:
    size, window, windows = 50, 4, 500
    order = whole(Blocks(size * window * windows, 3, size, window), 1)
    inside = order.reshape(windows, size * window)
    thirds = np.zeros((4, size), np.int64)
    for part, samples in enumerate(np.split(inside, 4, axis=1)):
        thirds[part] = np.bincount((samples % size).ravel(), minlength=size)
    assert abs(chi_square(thirds, windows * window / 4)) < 4
    firsts = np.array([np.argsort(row, kind="stable")[0] for row in inside])
    assert abs(chi_square(np.bincount(firsts * 10 // (size * window), minlength=10), windows / 10)) < 4


def test_the_short_block_comes_anywhere() -> None:
    places = [int(np.flatnonzero(whole(Blocks(41, seed, 10, 1)) == 40)[0]) // 10 for seed in range(500)]
    assert min(np.bincount(places, minlength=5)[:5]) > 60


@pytest.mark.parametrize(
    ("shuffle", "order"),
    [
        (False, Sequential(9, 4)),
        (None, Sequential(9, 4)),
        (True, Exact(9, 4)),
        ("exact", Exact(9, 4)),
        ("blocks", Blocks(9, 4)),
        (Blocks(9, 4, size=2, window=3), Blocks(9, 4, size=2, window=3)),
    ],
)
def test_shuffle_means_an_order(shuffle: Shuffle, order: Order) -> None:
    assert make_order(shuffle, 9, 4) == order


@pytest.mark.parametrize(
    ("shuffle", "error", "says"),
    [
        ("random", ValueError, "shuffle='random'"),
        (4, TypeError, "shuffle=True, seed=4"),
        (0, TypeError, "shuffle=True, seed=0"),
        (0.5, TypeError, "an order such as Blocks"),
        (weighted([1] * 9, 9, 4), TypeError, "not an order"),
        (Exact(8, 4), ValueError, "8 samples, but there are 9"),
        (Exact(9, 3), ValueError, "seed 3"),
    ],
)
def test_other_values_of_shuffle_are_refused(shuffle: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make_order(shuffle, 9, 4)


def weighted_by_document(weights: list[float], seed: int, e: int, p: int) -> int:
    c = [sum(weights[: i + 1]) for i in range(len(weights))]
    key = derive_by_document(1, 6, len(weights), seed, e)
    x = mix64((key + (p + 1) * 0x9E3779B97F4A7C15) % 2**64)
    t = (x >> 11) / 2**53 * c[-1]
    last = max(i for i, weight in enumerate(weights) if weight > 0)
    return next((i for i, each in enumerate(c) if each > t), last)


def balanced_by_document(classes: list[int | None], seed: int, e: int, p: int) -> int:
    kinds = sorted({each for each in classes if each is not None})
    members = [i for kind in kinds for i, each in enumerate(classes) if each == kind]
    sizes = [classes.count(kind) for kind in kinds]
    s = -(-4096 // len(kinds))
    length = len(kinds) * s
    g = e * len(classes) + p
    b = g // length
    key = derive_by_document(1, 4, length, seed, b)
    class_of = [permute_by_document(length, key, 0, x) // s for x in range(g % length + 1)]
    i = class_of[-1]
    draw = b * s + class_of[:-1].count(i)
    key = derive_by_document(1, 5, sizes[i], seed, draw // sizes[i], i)
    return members[sum(sizes[:i]) + permute_by_document(sizes[i], key, 0, draw % sizes[i])]


@given(
    weights=st.lists(st.integers(0, 9) | st.floats(0, 1e6), min_size=1, max_size=20).filter(any),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**64 - 1),
)
def test_weighted_agrees_with_the_document(weights: list[float], seed: int, epoch: int) -> None:
    order = weighted(weights, len(weights), seed)
    expected = [weighted_by_document([float(each) for each in weights], seed, epoch, p) for p in range(len(weights))]
    assert whole(order, epoch).tolist() == expected
    assert all(weights[sample] > 0 for sample in expected)


@given(
    classes=st.lists(st.none() | st.integers(0, 4), min_size=1, max_size=12).filter(lambda own: set(own) != {None}),
    seed=st.integers(0, 2**64 - 1),
)
def test_balanced_agrees_with_the_document(classes: list[int | None], seed: int) -> None:
    array = np.ma.MaskedArray([each or 0 for each in classes], [each is None for each in classes])
    order = balanced_order(array, "label", seed)
    assert whole(order, 3).tolist() == [balanced_by_document(classes, seed, 3, p) for p in range(len(classes))]


def test_weights_are_the_shares_of_samples() -> None:
    weights = np.array([1, 0, 3, 6], np.float64)
    order = Weighted(np.cumsum(np.tile(weights, 5000)), 3)
    counts = np.bincount(whole(order) % 4, minlength=4) / order.samples
    assert np.allclose(counts, weights / 10, atol=0.015)
    assert order.version != replace(order, sums=order.sums * 2).version
    assert replace(order, seed=4).version == order.version


def test_every_class_of_a_balanced_order_has_its_share() -> None:
    classes = np.repeat([7, 1, 3], [30000, 50, 2])
    order = balanced_order(classes, "label", 5)
    drawn = classes[np.concatenate([whole(order, epoch) for epoch in range(2)])]
    block = 3 * 1366
    for first in range(0, len(drawn) - block, block):
        assert np.unique(drawn[first : first + block], return_counts=True)[1].tolist() == [1366] * 3
    of_class = np.concatenate([whole(order, epoch) for epoch in range(2)])
    ones = of_class[drawn == 1][:100]
    assert len(set(ones[:50].tolist())) == len(set(ones[50:].tolist())) == 50
    assert ones[:50].tolist() != ones[50:].tolist()
