"""`mx.nd`, `NDArrayIter`, `PrefetchingIter` and `ImageFolderDataset`, with values as MXNet 1.9.1 has them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel.compat.mxnet as mx
from bushel.compat.mxnet import nd


def values_of(iterator: Any) -> list[tuple[list[float], int]]:
    return [(batch.data[0].asnumpy().tolist(), batch.pad) for batch in iterator]


@pytest.mark.parametrize(
    ("made", "right", "dtype"),
    [
        (lambda: nd.array(np.arange(3)), [0, 1, 2], "float32"),
        (lambda: nd.array(nd.zeros(2, dtype="uint8")), [0, 0], "uint8"),
        (lambda: nd.arange(1, 3, repeat=2), [1, 1, 2, 2], "float32"),
        (lambda: nd.full(2, 7), [7, 7], "float32"),
        (lambda: nd.transpose(nd.array([[1, 2]])), [[1], [2]], "float32"),
        (lambda: nd.flip(nd.array([[1, 2]]), axis=1), [[2, 1]], "float32"),
        (lambda: nd.concat(nd.ones((1, 1)), nd.zeros((1, 1))), [[1, 0]], "float32"),
        (lambda: nd.stack(nd.ones(1), nd.zeros(1)), [[1], [0]], "float32"),
        (lambda: nd.clip(nd.array([1, 9], dtype="uint8"), 2, 5), [2, 5], "uint8"),
        (lambda: (nd.ones(2) * 3 - 1) / 2, [1, 1], "float32"),
    ],
)
def test_functions(made: Any, right: Any, dtype: str) -> None:
    array = made()
    assert isinstance(array, mx.NDArray)
    assert (array.asnumpy().tolist(), str(array.dtype)) == (right, dtype)


def test_a_function_of_networks_is_named() -> None:
    with pytest.raises(AttributeError, match=r"mxnet\.nd\.softmax is not one of the functions"):
        _ = nd.softmax


@pytest.mark.parametrize(
    ("last", "epochs"),
    [
        ("pad", [[([0, 1, 2], 0), ([3, 4, 0], 1)]] * 2),
        ("discard", [[([0, 1, 2], 0)]] * 2),
        ("roll_over", [[([0, 1, 2], 0)], [([3, 4, 0], 2), ([1, 2, 3], 0)]]),
    ],
)
def test_the_last_batch(last: Any, epochs: Any) -> None:
    batches = mx.io.NDArrayIter(np.arange(5), batch_size=3, last_batch_handle=last)
    for right in epochs:
        assert values_of(batches) == right
        batches.reset()


def test_fewer_samples_than_a_batch() -> None:
    assert values_of(mx.io.NDArrayIter(np.arange(2), batch_size=5)) == [([0, 1, 0, 1, 0], 3)]


def test_each_epoch_shuffles_the_arrays_of_the_last() -> None:
    np.random.seed(1)
    batches = mx.io.NDArrayIter(np.arange(6), batch_size=6, shuffle=True)
    first = values_of(batches)
    batches.reset()
    np.random.seed(1)
    numbers, arrays, right = np.arange(6), np.arange(6), []
    for _ in range(2):
        np.random.shuffle(numbers)
        arrays = arrays[numbers]
        right.append([(arrays.tolist(), 0)])
    assert [first, values_of(batches)] == right


def test_names_and_errors() -> None:
    batches = mx.io.NDArrayIter({"b": np.zeros((4, 2)), "a": np.zeros(4)}, np.zeros(4), 2)
    assert batches.provide_data == [("a", (2,)), ("b", (2, 2))]
    assert batches.provide_label == [("softmax_label", (2,))]
    with pytest.raises(ValueError, match="same number of samples"):
        mx.io.NDArrayIter(np.zeros(4), np.zeros(3))
    with pytest.raises(TypeError, match="must be an array"):
        mx.io.NDArrayIter("four")


def test_prefetching_gives_the_batches_of_its_iterators() -> None:
    before = threading.active_count()
    parts = [mx.io.NDArrayIter(np.arange(4) * sign, batch_size=2, data_name=f"x{sign}") for sign in (1, -1)]
    batches = mx.io.PrefetchingIter(parts, rename_data=[{}, {"x-1": "y"}])
    assert [name for name, _ in batches.provide_data] == ["x1", "y"]
    for _ in range(2):
        assert [[array.tolist() for array in batch.data] for batch in batches] == [
            [[0, 1], [0, -1]],
            [[2, 3], [-2, -3]],
        ]
        batches.reset()
    del batches
    for thread in threading.enumerate():
        if thread.name.startswith("bushel-prefetch"):
            thread.join(60)
    assert threading.active_count() <= before


def test_a_folder_of_classes(tmp_path: Path) -> None:
    for name in ("cat/a.png", "cat/b.JPG", "dog/a.jpeg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 3)).save(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "list.csv").write_text("no folder")
    with pytest.warns(UserWarning, match="Ignoring") as warned:
        folder = mx.gluon.data.vision.ImageFolderDataset(tmp_path)
    assert len(warned) == 2
    assert folder.synsets == ["cat", "dog"]
    assert [(Path(path).name, label) for path, label in folder.items] == [("a.png", 0), ("b.JPG", 0), ("a.jpeg", 1)]
    image, label = folder[2]
    assert (image.shape, label, len(folder)) == ((3, 4, 3), 1, 3)


def test_a_number_of_an_array_is_assigned_to() -> None:
    labels = mx.nd.empty((3,))
    for index, label in enumerate((5, 6, 7)):
        labels[index][:] = label
    labels[-1][:] = 8
    assert labels.tolist() == [5, 6, 8]
    assert (int(labels[1]), float(labels[-1]), labels[0].asscalar(), labels[0].shape) == (6, 8.0, 5, (1,))
    with pytest.raises(IndexError):
        labels[3]
