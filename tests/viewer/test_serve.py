"""The viewer as a process, as a thread, and without its extra."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.viewer.serving import write

import bushel

HERE = [sys.executable, "-m", "bushel", "view"]


def opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def test_the_command_prints_a_url_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    folder = write(tmp_path / "data", 3)
    with subprocess.Popen([*HERE, str(folder), "--no-browser"], stdout=-1, stderr=-1, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:")
            browser = opener()
            with browser.open(url, timeout=60) as answer:
                assert b"3 samples" in answer.read()
            with browser.open(f"{url}api/0/rows", timeout=60) as answer:
                assert b"set/002" in answer.read()
            with pytest.raises(urllib.error.HTTPError, match="403") as refused:
                opener().open(url.partition("-/")[0], timeout=60)
            refused.value.close()
            process.send_signal(signal.SIGINT)
            _, messages = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "viewer ended" in messages
    assert "Traceback" not in messages, messages


def test_a_viewer_in_this_process(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    dataset = bushel.open(write(tmp_path / "data", 4))
    with bushel.view(dataset[1:]) as viewer:
        assert f'src="{viewer.url}"' in viewer._repr_html_()
        with opener().open(viewer.url, timeout=60) as answer:
            text = answer.read().decode()
        assert "3 samples" not in text  # of the dataset, whose facts the page shows
        assert f'href="{viewer.url.partition(str(viewer.port))[2]}static/view.css' in text
    with pytest.raises(urllib.error.URLError):
        opener().open(viewer.url, timeout=60)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    folder = write(tmp_path / "data", 1)
    with (
        bushel.view(folder) as viewer,
        pytest.raises(OSError, match=f"127.0.0.1:{viewer.port}: Address already in use"),
    ):
        bushel.view(folder, port=viewer.port)


def test_port_0_is_a_free_one(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    folder = write(tmp_path / "data", 1)
    run = f"from bushel.cli import main; import sys; sys.argv = ['bushel', 'view', {str(folder)!r}, '--port', '0', "
    command = [sys.executable, "-c", run + "'--no-browser']; main()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as viewer:
        assert viewer.stdout is not None
        line = viewer.stdout.readline()
        viewer.send_signal(signal.SIGINT)
    assert line.startswith("http://127.0.0.1:")
    assert int(line.split(":")[2].partition("/")[0]) > 0


def test_without_the_extra_the_error_names_it(tmp_path: Path) -> None:
    block = "import sys; sys.modules['starlette'] = None; sys.modules['jinja2'] = None\n"
    run = block + f"from bushel.cli import main; sys.argv = ['bushel', 'view', {str(tmp_path)!r}]; main()"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "pip install 'bushel[view]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_view_needs_a_dataset() -> None:
    with pytest.raises(TypeError, match="needs a dataset"):
        bushel.view()


def test_too_many_paths_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    done = subprocess.run([*HERE, *["x"] * 9], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "quote a pattern" in done.stderr


def test_answers_do_not_wait_for_acknowledgements(tmp_path: Path) -> None:
    """asyncio turns Nagle's algorithm off for connections of a socket whose protocol is TCP by name, not 0."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    with bushel.view(write(tmp_path / "data", 3)) as viewer:
        assert viewer._socket.proto == socket.IPPROTO_TCP


def test_a_kept_token_is_that_of_the_next_viewer(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    folder, file = write(tmp_path / "data", 2), tmp_path / "token"
    with bushel.view(folder, token_file=file) as viewer:
        url, port = viewer.url, viewer.port
    assert file.stat().st_mode & 0o777 == 0o600
    with bushel.view(folder, port=port, token_file=file) as viewer:
        assert viewer.url == url
        with opener().open(f"{url}d/0/s/1", timeout=60) as answer:
            assert b"set/001" in answer.read()
    file.chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        bushel.view(folder, token_file=file)
    file.write_text("short")
    with pytest.raises(ValueError, match="32 to 128"):
        bushel.view(folder, token_file=file)
    done = subprocess.run([*HERE, str(folder), "--token-file", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "32 to 128" in done.stderr
