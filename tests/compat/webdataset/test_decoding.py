import gzip
import io
import pickle
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.compat.webdataset.shards import jpeg, png

import bushel.compat.webdataset as wds
from bushel.compat.webdataset.autodecode import Decoder, ImageHandler, basichandlers, default_decoder
from bushel.compat.webdataset.encoders import default_handlers
from bushel.compat.webdataset.stages import map_ahead


def test_fields_decode_by_their_last_extension() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    values: dict[str, Any] = {
        "txt": "é",
        "x.cls": -5,
        "json": {"a": [1, None]},
        "npy": array,
        "npz": {"a": array},
        "ten": [array],
        "mp": {"i": [1.5]},
    }
    stored = {field: default_handlers[field.rpartition(".")[2]](value) for field, value in values.items()}
    found = default_decoder({"__key__": "a", **{field: bytes(data) for field, data in stored.items()}, "bin": b"b"})
    assert (found["txt"], found["x.cls"], found["json"], found["mp"]) == ("é", -5, {"a": [1, None]}, {"i": [1.5]})
    for decoded in (found["npy"], found["npz"]["a"], found["ten"][0]):
        assert decoded.dtype == np.float32
        assert (decoded == array).all()
    assert (found["__key__"], found["bin"]) == ("a", b"b")


def test_packed_fields_are_unpacked() -> None:
    packed = {"json.gz": gzip.compress(b"[1]"), "x.gz": gzip.compress(b"x")}
    assert default_decoder(packed) == {"json.gz": [1], "x.gz": b"x"}
    with pytest.raises(wds.DecodingError, match="gzip"):
        default_decoder({"txt.gz": b"no"})


@pytest.mark.parametrize("field", ["pyd", "pickle", "x.pkl"])
def test_pickles_are_refused_unless_allowed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = {"__key__": "k", field: pickle.dumps([1])}
    monkeypatch.delenv("BUSHEL_ALLOW_PICKLE", raising=False)
    with pytest.raises(wds.DecodingError, match="BUSHEL_ALLOW_PICKLE=1") as caught:
        default_decoder(sample)
    assert isinstance(caught.value.__cause__, ValueError)
    monkeypatch.setenv("BUSHEL_ALLOW_PICKLE", "1")
    assert default_decoder(sample)[field] == [1]
    monkeypatch.setenv("WDS_SECURE", "1")
    with pytest.raises(wds.DecodingError, match="WDS_SECURE"):
        default_decoder(sample)


def test_tensors_are_read_without_running_code() -> None:
    torch = pytest.importorskip("torch")
    assert default_decoder({"pth": wds.torch_dumps(torch.arange(3))})["pth"].tolist() == [0, 1, 2]
    with pytest.raises(wds.DecodingError):
        default_decoder({"pth": wds.torch_dumps(Exception("code"))})


def test_a_decoding_error_says_where() -> None:
    sample = {"__key__": "k", "__url__": "u.tar", "cls": b"x"}
    with pytest.raises(wds.DecodingError) as caught:
        default_decoder(sample)
    error = caught.value
    assert (error.key, error.url, error.k, error.sample) == ("k", "u.tar", "cls", sample)
    assert str(error) == (
        "field 'cls' of sample 'k' in u.tar could not be decoded: invalid literal for int() with base 10: b'x'"
    )
    assert pickle.loads(pickle.dumps(error)).k == "cls"


def test_handlers_come_in_order_and_may_go_on() -> None:
    def strip(key: str, data: bytes) -> Any:
        return wds.Continue(key.removesuffix(".x"), data[1:]) if key.endswith(".x") else None

    def count(key: str, data: bytes) -> Any:
        return len(data) if key == ".n" else None

    assert Decoder([strip, count])({"n.x": b"abc", "n": b"a", "txt.x": b"-t"}) == {"n.x": 2, "n": 1, "txt.x": "t"}
    alone = Decoder([count], pre=[], post=[])
    assert alone({"n": b"a", "txt": b"t", "y.gz": b"z"}) == {"n": 1, "txt": b"t", "y.gz": b"z"}
    assert Decoder([], only="cls txt")({"cls": b"1", "json": b"[]"}) == {"cls": 1, "json": b"[]"}


def test_values_are_not_decoded_again_unless_partial() -> None:
    with pytest.raises(wds.DecodingError, match="partial=True"):
        Decoder([])({"cls": 1})
    assert Decoder([], partial=True)({"cls": 1, "txt": b"t"}) == {"cls": 1, "txt": "t"}
    with pytest.raises(wds.DecodingError):
        Decoder([], partial=True)({"cls": None})


@pytest.mark.parametrize("wrong", [("rgb8",), [3]])
def test_handlers_are_a_list_of_functions(wrong: Any) -> None:
    with pytest.raises(TypeError):
        Decoder(wrong)
    with pytest.raises(TypeError, match="decode before to_tuple"):
        Decoder([])((b"1",))  # type: ignore[arg-type]


def test_extensions_of_a_handler() -> None:
    handler = wds.handle_extension("jpg seg.PNG", len)
    assert [handler(key, b"ab") for key in (".jpg", ".x.JPG", ".seg.png", ".png", ".xjpg")] == [2, 2, 2, None, None]
    assert basichandlers(".unknown", b"") is None


def test_images_of_every_kind_are_pillows() -> None:
    for content in (jpeg(1), png(1)):
        image = Image.open(io.BytesIO(content))
        for mode in ("l", "rgb", "rgba"):
            wanted = np.asarray(image.convert(mode.upper()))
            small = ImageHandler(f"{mode}8")(".jpg", content)
            assert small.dtype == np.uint8
            assert (small == wanted).all()
            real = ImageHandler(mode)(".x.PNG", content)
            assert real.dtype == np.float32
            assert (real == wanted.astype(np.float32) / 255).all()
            pil = ImageHandler("pil" + mode if mode != "l" else "pill")(".jpg", content)
            assert pil.mode == mode.upper()
            assert (np.asarray(pil) == wanted).all()
    assert ImageHandler("rgb8")(".txt", b"") is None
    with pytest.raises(ValueError, match="Unknown imagespec: rgb16"):
        wds.imagehandler("rgb16")


def test_odd_jpegs_are_pillows_too() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 9, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).convert("CMYK").save(out, "JPEG")
    wanted = np.asarray(Image.open(io.BytesIO(out.getvalue())).convert("RGB"))
    assert (ImageHandler("rgb8")(".jpg", out.getvalue()) == wanted).all()
    with pytest.raises(OSError):
        ImageHandler("rgb8")(".jpg", jpeg(1)[:200])


def test_tensors_are_channels_first() -> None:
    torch = pytest.importorskip("torch")
    found = ImageHandler("torchrgb8")(".jpg", jpeg(1, (10, 12)))
    assert found.shape == (3, 10, 12)
    assert found.dtype == torch.uint8
    assert ImageHandler("torchl")(".jpg", jpeg(1, (10, 12))).shape == (10, 12)
    assert ImageHandler("torch")(".jpg", jpeg(1)).dtype == torch.float32


def test_only_decoders_of_our_own_run_in_threads() -> None:
    assert Decoder([ImageHandler("rgb8")]).concurrent
    assert not Decoder([]).concurrent  # nothing to gain
    assert not Decoder([ImageHandler("rgb8"), lambda key, data: None]).concurrent


class Slow:
    """Takes longer for earlier samples."""

    concurrent = True

    def __call__(self, value: int) -> int:
        time.sleep(0.02 if value % 4 == 0 else 0)
        if value == 13:
            raise ValueError("13")
        return value


def test_threads_keep_the_order_and_errors_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel.compat.webdataset.stages._threads", lambda: 4)
    found: list[int] = []
    with pytest.raises(ValueError, match="13"):
        found.extend(map_ahead(range(20), Slow()))
    assert found == list(range(13))
    assert list(map_ahead(range(20), Slow(), wds.ignore_and_continue)) == [i for i in range(20) if i != 13]
    assert list(map_ahead(range(20), Slow(), wds.ignore_and_stop)) == list(range(13))

    def broken() -> Iterator[int]:
        yield from range(5)
        raise OSError("source")

    found = []
    with pytest.raises(OSError, match="source"):
        found.extend(map_ahead(broken(), Slow()))
    assert found == list(range(5))
    iterator = map_ahead(range(20), Slow())
    next(iterator)
    del iterator
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bushel-webdataset")]


def test_an_empty_gzip_field_is_empty() -> None:
    assert Decoder([basichandlers])({"__key__": "k", "txt.gz": b""})["txt.gz"] == ""


def test_only_bytes_are_lists_of_arrays() -> None:
    with pytest.raises(ValueError, match="not NoneType"):
        basichandlers("ten", None)  # type: ignore[arg-type]
    for error in (ValueError, TypeError):
        with pytest.raises(error, match="not str"):
            basichandlers("npy", "text")  # type: ignore[arg-type]
