"""URLs: files, commands, programs; and copies of them."""

import os
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.compat.webdataset.shards import archive, files_of, numbered, write_shards

import bushel.compat.webdataset as wds
from bushel.compat.webdataset.cache import (
    FileCache,
    LRUCleanup,
    StreamingOpen,
    check_tar_format,
    islocal,
    pipe_cleaner,
    url_to_cache_name,
)
from bushel.compat.webdataset.gopen import Pipe, gopen, gopen_schemes, reader, rewrite_url
from bushel.errors import FormatError, UnsupportedError


@pytest.fixture(autouse=True)
def no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUSHEL_ALLOW_COMMANDS", "WDS_SECURE", "GOPEN_REWRITE", "WDS_CACHE", "WDS_CACHE_SIZE"):
        monkeypatch.delenv(name, raising=False)


def keys(samples: Any) -> list[str]:
    return [sample["__key__"] for sample in samples]


def test_files_by_path_and_by_url(tmp_path: Path) -> None:
    for url in (str(tmp_path / "a b#1"), f"file:{tmp_path}/c%20d"):
        with gopen(url, "wb") as sink:
            sink.write(b"x")
        with reader(url) as stream:
            assert stream.read() == b"x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a b#1", "c d"]


@pytest.mark.parametrize(("url", "mode"), [("x", "r"), ("nothing://x", "rb"), ("htgs://x", "wb")])
def test_wrong_modes_and_schemes(url: str, mode: str) -> None:
    with pytest.raises(ValueError, match="unknown mode|no gopen handler|cannot be written"):
        gopen(url, mode)


def test_commands_run_only_when_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = write_shards(tmp_path, 1).replace("{0000..0000}", "0000")
    url = f"pipe:cat {shard}"
    mark = tmp_path / "mark"
    for what in (
        lambda: gopen(f"pipe:touch {mark}"),
        lambda: list(wds.WebDataset(f"pipe:touch {mark}", shardshuffle=False)),
        lambda: wds.TarWriter(f"pipe:cat > {mark}"),
        lambda: wds.ShardWriter(f"pipe:cat > {mark}.%d", verbose=0),
    ):
        with pytest.raises(UnsupportedError, match="BUSHEL_ALLOW_COMMANDS=1"):
            what()
        assert not mark.exists()
    with gopen(url, allow_commands=True) as stream:
        assert stream.read() == Path(shard).read_bytes()
    assert keys(wds.WebDataset(url, shardshuffle=False, allow_commands=True))[:2] == ["s000", "s001"]
    monkeypatch.setenv("BUSHEL_ALLOW_COMMANDS", "1")
    assert len(keys(wds.WebDataset(url, shardshuffle=False))) == 10
    with pytest.raises(UnsupportedError):
        list(wds.WebDataset(url, shardshuffle=False, allow_commands=False))
    monkeypatch.setenv("WDS_SECURE", "1")
    with pytest.raises(ValueError, match="WDS_SECURE"):
        gopen(url, allow_commands=True)
    with pytest.raises(ValueError, match="cannot open local files"):
        gopen(shard)


def test_security_is_enforced_by_the_module_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert wds.utils.enforce_security is False
    monkeypatch.setattr(wds.utils, "enforce_security", True)
    monkeypatch.setenv("GOPEN_REWRITE", "a=b")
    for url in (str(tmp_path), "pipe:true"):
        with pytest.raises(ValueError, match="unsafe_gopen is False, cannot"):
            gopen(url, allow_commands=True)
    monkeypatch.setenv("BUSHEL_ALLOW_PICKLE", "1")
    with pytest.raises(ValueError, match="Unpickling is not allowed for security reasons when enforce_security is set"):
        wds.autodecode.unpickle_loads(pickle.dumps(1))


def test_a_local_shard_through_a_cache(tmp_path: Path) -> None:
    shard = str(tmp_path / "a.tar")
    Path(shard).write_bytes(archive(numbered(0, 1)))
    (found,) = FileCache(str(tmp_path / "cache"))([{"url": shard}])
    with found["stream"] as stream:
        assert stream.read() == Path(shard).read_bytes()
    assert (found["url"], found["local_path"]) == (shard, shard)
    with pytest.raises(AssertionError):
        url_to_cache_name(3)  # type: ignore[arg-type]


def test_a_refused_command_reaches_the_handler() -> None:
    found = wds.WebDataset("pipe:true", shardshuffle=False, handler=wds.ignore_and_continue, empty_check=False)
    assert list(found) == []


def test_braces_are_expanded_in_commands(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path, 2, 1)
    assert keys(wds.WebDataset(f"pipe:cat {pattern}", shardshuffle=False, allow_commands=True)) == ["s000", "s001"]


def test_writing_into_a_command(tmp_path: Path) -> None:
    with wds.TarWriter(f"pipe:cat > {tmp_path}/a.tar", mtime=0, allow_commands=True) as writer:
        writer.write({"__key__": "a", "txt": "x"})
    assert files_of(tmp_path / "a.tar") == [("a.txt", b"x")]
    pipe = Pipe("cat >/dev/null; exit 3", "wb")
    pipe.write(b"x")
    with pytest.raises(OSError, match="exit status 3"):
        pipe.close()


def test_a_command_that_fails_is_an_error_after_its_data(tmp_path: Path) -> None:
    shard = write_shards(tmp_path, 1).replace("{0000..0000}", "0000")
    found: list[Any] = []
    with pytest.raises(OSError, match="exit status 7"):
        found.extend(wds.WebDataset(f"pipe:cat {shard}; exit 7", shardshuffle=False, allow_commands=True))
    assert len(found) >= 9
    with gopen("pipe:echo a; exit 141", allow_commands=True) as stream:
        assert stream.readline() == b"a\n"
        assert stream.readline() == b""
    with pytest.raises(ValueError, match="unknown mode"):
        Pipe("true", "ab")


def test_a_command_that_is_left_ends(tmp_path: Path) -> None:
    shard = write_shards(tmp_path, 1).replace("{0000..0000}", "0000")
    pid = tmp_path / "pid"
    url = f"pipe:echo $$ > {pid}; cat {shard}; exec sleep 1000"
    samples = iter(wds.WebDataset(url, shardshuffle=False, allow_commands=True))
    next(samples)
    del samples
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_programs_get_the_url_as_one_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("curl", "gsutil", "ais"):
        (tools / name).write_text(
            f'#!/bin/sh\n[ "$1" = cp ] && exec cat > "{tmp_path}/put"\nprintf "%s|" {name} "$@"\n'
        )
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    for url, wanted in {
        "https://h/a b;c": "curl|--connect-timeout|30|--retry|30|--retry-delay|2|-f|-s|-L|--url|https://h/a b;c|",
        "gs://b/x": "gsutil|cat|gs://b/x|",
        "ais://b/x": "ais|get|ais://b/x|-|",
        "htgs://b/x": "curl|--connect-timeout|30|--retry|30|--retry-delay|2|-f|-s|-L|--url|gs://b/x|",
    }.items():
        with gopen(url) as stream:
            assert stream.read().decode() == wanted
    with gopen("gs://b/x", "wb") as sink:
        sink.write(b"data")
    assert (tmp_path / "put").read_bytes() == b"data"


def test_secrets_are_neither_arguments_nor_in_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "curl").write_text('#!/bin/sh\ncase "$*" in *hub*) cat; echo "$@";; *) exit 22;; esac\n')
    (tmp_path / "curl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    place = SimpleNamespace(repo_id="r", path_in_repo="p", repo_type="t", revision="v")
    hub = SimpleNamespace(
        HfFileSystem=lambda: SimpleNamespace(resolve_path=lambda url: place),
        hf_hub_url=lambda **_: "https://hub/file",
        get_token=lambda: "hf_secret",
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with gopen("hf://datasets/r/p") as stream:
        header, arguments = stream.read().decode().splitlines()
    assert header == 'header = "Authorization: Bearer hf_secret"'
    assert "hf_secret" not in arguments
    assert arguments.endswith("--config - --url https://hub/file")
    with (
        pytest.raises(OSError, match="exit status 22") as caught,
        gopen("https://me:hunter2@h/a.tar?X-Amz-Signature=abc&part=1&token=def") as stream,
    ):
        stream.read()
    assert "https://…@h/a.tar?X-Amz-Signature=…&part=1&token=…'" in str(caught.value)


def test_a_program_may_add_schemes(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setitem(gopen_schemes, "mem", lambda url, mode, bufsize: io.BytesIO(archive(numbered(0, 2))))
    assert keys(wds.WebDataset("mem://x", shardshuffle=False)) == ["s000", "s001"]


def test_urls_are_rewritten(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert rewrite_url("http://old/x") == "http://old/x"
    monkeypatch.setenv("GOPEN_REWRITE", "ftp:=http:;http://old/=/new/")
    monkeypatch.setenv("GOPEN_VERBOSE", "1")
    assert rewrite_url("http://old/x") == "/new/x"
    assert capsys.readouterr().out == "GOPEN REWRITE http://old/x -> /new/x\n"
    monkeypatch.setenv("WDS_SECURE", "1")
    with pytest.raises(ValueError, match="cannot rewrite URLs"):
        rewrite_url("http://old/x")


def test_names_of_copies() -> None:
    assert url_to_cache_name("http://h/a/b.tar?x=1") == "b.tar"
    assert url_to_cache_name("gs://h/a/b.tar", 1) == "a/b.tar"
    assert url_to_cache_name("pipe:cat a/b") == "pipe%3Acat%20a%2Fb"
    assert pipe_cleaner("pipe:curl -s http://h/a.tar | cat") == "http://h/a.tar"
    assert pipe_cleaner("a.tar") == "a.tar"
    assert [islocal(url) for url in ("a", "file:a", "http://a")] == [True, True, False]


def test_remote_shards_are_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = write_shards(tmp_path, 1).replace("{0000..0000}", "0000")
    cache, log = tmp_path / "cache", tmp_path / "log"
    cache.mkdir()
    url = f"pipe:echo x >> {log}; cat {shard}"
    for _ in range(2):
        found = list(wds.WebDataset(url, shardshuffle=False, cache_dir=str(cache), allow_commands=True))
        assert len(found) == 10
        assert found[0]["__local_path__"] == str(cache / url_to_cache_name(url))
    assert log.read_text() == "x\n"
    [copy] = cache.iterdir()
    assert copy.read_bytes() == Path(shard).read_bytes()
    monkeypatch.setenv("WDS_CACHE", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="does not exist"):
        wds.WebDataset(url, shardshuffle=False)


def test_other_bytes_than_an_archive_are_not_kept(tmp_path: Path) -> None:
    cache = FileCache(str(tmp_path / "cache"), allow_commands=True)
    with pytest.raises(FormatError, match="contains b'page"):
        cache.get_file("pipe:echo page")
    with pytest.raises(OSError, match="exit status 1"):
        cache.get_file("pipe:echo page; false")
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(ValueError, match="cannot be the file name"):
        FileCache(str(tmp_path), url_to_name=lambda url: "../x", allow_commands=True).get_file("pipe:true")
    assert cache.get_file(str(tmp_path)) == str(tmp_path)
    assert [list(cache(["pipe:false"])) for cache in [FileCache(str(tmp_path), handler=wds.ignore_and_stop)]] == [[]]


def test_formats(tmp_path: Path) -> None:
    import gzip

    for content, wanted in (
        (archive([]), True),
        (archive(numbered(0, 1)), True),
        (gzip.compress(b""), True),
        (b"x", False),
    ):
        (tmp_path / "f").write_bytes(content)
        assert check_tar_format(str(tmp_path / "f")) is wanted


def test_a_cache_forgets_the_oldest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, name in enumerate("abcd"):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (number, number))
    cleaner = LRUCleanup(str(tmp_path), 250, keyfn=os.path.getmtime, verbose=True, interval=None)
    cleaner.cleanup()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d"]
    assert capsys.readouterr().err.splitlines() == [f"# deleting {tmp_path}/a", f"# deleting {tmp_path}/b"]
    cleaner.set_cache_dir(str(tmp_path / "nowhere"))
    cleaner.cleanup()


def test_streams_are_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    Path(path).write_bytes(b"x")
    first, second = StreamingOpen(allow_commands=True)([path, {"url": "pipe:echo y"}])
    with first.pop("stream") as stream:
        assert stream.read() == b"x"
    assert first == {"url": path, "local_path": path}
    with second["stream"] as stream:
        assert stream.read() == b"y\n"
    assert list(StreamingOpen(handler=wds.ignore_and_continue)(["nowhere"])) == []
    with pytest.raises(FileNotFoundError):
        list(StreamingOpen()(["nowhere"]))


def test_standard_output(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import bushel.compat.webdataset as w; w.TarWriter('-', mtime=0).__enter__().write({'__key__': 'a', 'x': b''})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout[:3] == b"a.x"
