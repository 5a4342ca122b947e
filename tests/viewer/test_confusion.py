"""The confusion matrix of two columns."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
from tests.viewer.serving import client_of, write

import bushel
from bushel.viewer.compare_pages import confusion_of


def test_pairs_are_counted() -> None:
    labels, predictions = np.array([0, 0, 1, 2, 2, 9]), np.array([0, 1, 1, 0, 2, 9])
    known = np.array([True, True, True, True, True, False])
    found = confusion_of(labels, predictions, known)
    assert list(found.classes) == [0, 1, 2]
    assert found.counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert (found.samples, found.equal, found.hidden) == (5, 3, 0)


def test_of_many_classes_those_that_disagree_are_shown() -> None:
    labels = np.arange(200)
    predictions = np.where(labels < 4, labels[::-1] % 4, labels)
    found = confusion_of(labels, predictions, np.ones(200, np.bool_))
    assert len(found.classes) == 60
    assert set(range(4)) <= set(found.classes)
    assert found.hidden == 140


def test_nothing_is_known() -> None:
    found = confusion_of(np.array([1]), np.array([2]), np.array([False]))
    assert (found.samples, found.counts.size) == (0, 0)


def test_cells_list_their_samples(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"label": "utf8", "prediction": "utf8"}, container="bag") as writer:
        for number in range(12):
            predicted = "dog" if number % 4 == 0 else "cat's"
            writer.append({"label": "dog" if number % 2 == 0 else "cat's", "prediction": predicted}, key=f"k{number}")
    bushel.index(tmp_path / "data", columns="auto").close()
    with client_of(tmp_path / "data") as client:
        assert "/d/0/confusion" in client.get("/d/0").text
        text = client.get("/d/0/confusion").text
        assert "9 of 12 samples agree (75.0 %)" in text
        [query] = re.findall(r'<td>dog</td><td>cat&#39;s</td><td><a href="/d/0\?([^"]+)">3</a>', text)
        assert "<td>dog</td><td>dog</td>" not in text  # a pair is confused only if its classes differ
        rows = client.get(f"/api/0/rows?{html.unescape(query)}").json()
        assert rows["total"] == 3
        assert client.get("/d/0/confusion?first=odd").status_code == 404


def test_without_predictions_there_is_no_page_in_the_menu(tmp_path: Path) -> None:
    with client_of(write(tmp_path / "data")) as client:
        assert "/confusion" not in client.get("/d/0").text


def test_the_labels_are_a_column_of_the_same_kind(tmp_path: Path) -> None:
    spec = {"caption": "utf8", "size": "int", "truth": "int", "prediction": "int"}
    with bushel.Writer(tmp_path / "data", spec, container="bag") as writer:
        for number in range(12):
            writer.append({"caption": "a", "size": number, "truth": number % 3, "prediction": number % 2})
    bushel.index(tmp_path / "data", columns=list(spec)).close()
    with client_of(tmp_path / "data") as client:
        chosen = re.findall(r"<option[^>]*selected[^>]*>([^<]*)", client.get("/d/0/confusion").text)
        assert [name.strip() for name in chosen] == ["truth", "prediction"]
        wrong = client.get("/d/0/confusion?first=caption")
        assert wrong.status_code == 400
        assert "choose two columns of one kind: caption has texts and prediction has numbers" in wrong.text
