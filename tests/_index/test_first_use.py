"""Many threads use a library for the first time at once: what it sets up then must be set up already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bushel

PROGRAM = """
import sys, threading
sys.setswitchinterval(1e-6)
from pathlib import Path
from bushel._index.sidecar import load_index, load_manifest

index, manifest = map(Path, sys.argv[1:])
for number in range(60):
    for name in [name for name in sys.modules if name.startswith("bushel._index.sidecar")]:
        del sys.modules[name]
    from bushel._index.sidecar import load_index, load_manifest
    together = threading.Barrier(4)
    def work():
        together.wait()
        assert load_index(index).samples == 3
        assert load_manifest(manifest).container == "tar"
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_parse_their_first_sidecar_together(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"label": "int"}, container="tar") as writer:
        for number in range(3):
            writer.append({"label": number}, key=str(number))
    folder = tmp_path / "data" / ".bushel"
    [index] = folder.glob("*.safetensors")
    command = [sys.executable, "-c", PROGRAM, str(index), str(folder / "manifest.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
