"""The page of batches: loaders as training sees them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.loader.documents import LENGTHS
from tests.loader.documents import write as write_documents
from tests.viewer.serving import client_of, write

import bushel
from bushel.transforms import CenterCrop, Resize
from bushel.viewer.batch_pages import rows_of_batch
from bushel.viewer.named import loader_named, tokenizer_named


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    return write_documents(tmp_path_factory.mktemp("batches") / "data", LENGTHS, container="bag")


def words(tokens: list[int]) -> str:
    return "".join(f"<{token}>" for token in tokens)


def packs(texts: bushel.Dataset, **options: Any) -> bushel.Loader:
    return bushel.Loader(texts, 4, shuffle=True, pack_by="tokens.length", pack_tokens=40, **options)


def test_documents_of_packs_have_borders_keys_and_text(texts: bushel.Dataset) -> None:
    loader = packs(texts)
    batch = loader.peek(2, 0, 1)
    rows = rows_of_batch(batch, "tokens", words)
    assert [[each.key for each in row.documents] for row in rows] == batch["__key__"]
    for number, row in enumerate(rows):
        assert [each.start for each in row.documents] == batch["cu_seqlens"][number][:-1].tolist()
        assert row.length == 40
        for each in row.documents:
            stored = texts[each.key]["tokens"]
            assert each.size == len(stored)
            assert each.tokens == words(stored.tolist())
            assert each.more == 0
    assert not rows_of_batch(batch, "tokens")[0].documents[0].tokens.startswith("<")
    with pytest.raises(ValueError, match=r"the tokenizer fails for \[.*ZeroDivisionError"):
        rows_of_batch(batch, "tokens", lambda tokens: str(1 // 0))


@pytest.mark.parametrize("chunks", [False, True])
def test_the_page_shows_what_a_rank_gets(texts: bushel.Dataset, chunks: bool) -> None:
    loader = packs(texts, rank=1, world_size=2)
    if chunks:
        loader = bushel.Loader(texts, 4, shuffle=True, chunk_by="tokens.length", chunk_tokens=40, rank=0, world_size=2)
    state = loader.state_dict()
    with client_of(texts, loaders={"train": loader}, tokenizer=words) as client:
        assert 'href="/d/0/batches"' in client.get("/d/0").text
        page = client.get("/d/0/batches?epoch=2&step=1&rank=1").text
        assert "Epoch 2, step 1, rank 1 of 2" in page
        keys = [key for row in loader.who(1, 1, 2) for key in row]
        listed = re.findall(r'<dt><a href="/d/0/s/(\d+)">([^<]+)</a>', page)
        assert [key for _, key in listed] == keys
        assert [texts.keys[int(position)] for position, _ in listed] == keys
        assert page.count("<rect ") == len(keys)
        assert "&lt;" in page  # the tokenizer's text
        assert "unknown loader" in client.get("/d/0/batches?loader=other").text
        lost = client.get("/d/0/batches?step=100000")
        assert lost.status_code == 200
        assert "step=100000" in lost.text
    assert loader.state_dict() == state


def test_pictures_are_those_of_the_loader(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with bushel.Writer(tmp_path / "data", {"image": "png", "label": "int", "text": "utf8"}, container="tar") as writer:
        for number in range(10):
            image = rng.integers(0, 256, (40, 60, 3), np.uint8)
            writer.append({"image": image, "label": number, "text": f"<b>{number}"}, key=f"k{number}")
    ds = bushel.open(tmp_path / "data")
    loader = bushel.Loader(ds, 4, shuffle=True, transforms=[Resize(32), CenterCrop(24)])
    with client_of(loader) as client:
        page = client.get("/d/0/batches?step=1").text
        keys = loader.who(1)
        assert re.findall(r'<span class="key">(k\d)</span>', page) == keys
        assert "uint8[4, 24, 24, 3]" in page
        assert "&lt;b&gt;" in page
        sources = re.findall(r'src="(/d/0/batch-picture[^"]+)"', page)
        assert len(sources) == 4
        answer = client.get(sources[2].replace("&amp;", "&"))
        assert answer.headers["content-type"] in ("image/png", "image/jpeg")
        if answer.headers["content-type"] == "image/png":
            shown = np.array(Image.open(io.BytesIO(answer.content)))
            np.testing.assert_array_equal(shown, loader.peek(1)["image"][2])
        assert client.get("/d/0/batch-picture?f=label&row=0").status_code == 422
        assert client.get("/d/0/batch-picture?f=image&row=9").status_code == 404


def test_a_transform_that_fails_is_named(tmp_path: Path) -> None:
    def broken(image: Any) -> Any:
        raise ValueError("this transform is broken")

    ds = bushel.open(write(tmp_path / "data", 4))
    with client_of(bushel.Loader(ds, 2, transforms={"image": [broken]})) as client:
        answer = client.get("/d/0/batches")
        assert answer.status_code in (400, 422)
        assert "this transform is broken" in answer.text


def test_a_viewer_without_loaders_has_no_page_of_batches(texts: bushel.Dataset) -> None:
    with client_of(texts) as client:
        assert "/d/0/batches" not in client.get("/d/0").text
        assert "--loader MODULE:NAME" in client.get("/d/0/batches").text


def test_shares_of_a_mixture(texts: bushel.Dataset) -> None:
    mixture = bushel.mix(
        {"web": texts[:40], "code": texts[40:]}, schedule=[(0, {"web": 1}), (8, {"web": 1, "code": 1})]
    )
    loader = bushel.Loader(mixture, 4)
    with client_of(texts, loaders={"mixed": loader}) as client:
        page = client.get("/d/0/batches").text
        assert "<td>4 <small>100 %</small></td><td>0 <small>0 %</small></td>" in page
        assert "<td>2 <small>50 %</small></td>" in page
        assert '<small class="chip">web</small>' in page


def test_single_samples_and_batches_of_another_kind(texts: bushel.Dataset) -> None:
    single = bushel.Loader(texts, shuffle=True)
    other = bushel.Loader(texts, 4, collate=lambda samples: len(samples))
    with client_of(texts, loaders={"single": single, "other": other}) as client:
        assert single.who(3)[0] in client.get("/d/0/batches?step=3").text
        answer = client.get("/d/0/batches?loader=other")
        assert answer.status_code == 400
        assert "gives int" in answer.text


def test_a_loader_of_mapped_samples_needs_its_dataset(texts: bushel.Dataset) -> None:
    loader = bushel.Loader(texts.map(lambda sample: sample), 4)
    with pytest.raises(TypeError, match="give the dataset beside it"), client_of(loader):
        pass
    with client_of(texts, loaders={"mapped": loader}) as client:
        assert loader.who(0)[0] in client.get("/d/0/batches").text


def test_names_of_loaders_and_tokenizers(
    texts: bushel.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "named_loader.py").write_text(
        f"import bushel\ndef make():\n    return bushel.Loader(bushel.open({str(texts.shards[0].path(0))!r}), 4)\n"
        "loader = make()\nclass Words:\n    def decode(self, tokens):\n        return str(tokens)\n"
        "words = Words()\nten = 10\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert loader_named("named_loader:make").batch_size == loader_named("named_loader:loader").batch_size == 4
    assert tokenizer_named("named_loader:words")([1, 2]) == "[1, 2]"
    for wrong in ("named_loader", "named_loader:none", "named_loader:ten"):
        with pytest.raises(ValueError, match="named_loader"):
            loader_named(wrong)
        with pytest.raises(ValueError, match="named_loader"):
            tokenizer_named(wrong)
    with pytest.raises(OSError, match=r"no\.json"):
        tokenizer_named(tmp_path / "no.json")


def test_a_file_of_tokenizers(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"hello": 0, "world": 1, "[UNK]": 2}, unk_token="[UNK]")
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    assert tokenizer_named(tmp_path / "tokenizer.json")([0, 1]) == "hello world"
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match=r"other\.json: not a tokenizer"):
        tokenizer_named(tmp_path / "other.json")
