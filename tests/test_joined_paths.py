"""Every place that joins a path with a name uses `below` or `inside`, unless it is here, with its reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from tests.joined_paths import joined
from tests.paths import ROOT

SOURCE = ROOT / "src" / "bushel"

EXCEPTIONS = {
    "these check the name": """
        storage/files.py:below _index/shard.py:Shard.path
        _dataset/open/remote_discovery.py:ListedPath.__truediv__
        storage/objects/location.py:ObjectPath.with_name
        compat/granular/paths.py:ForeignPath.__truediv__
    """,
    "the folder's own listing gave the name, which is one component": """
        storage/objects/location.py:ObjectPath.glob
        _dataset/open/sources.py:_inside
        _dataset/open/discovery.py:_datasets_in cards/describing.py:_files
        storage/objects/hub.py:HubPath.listing sources/files.py:_walk sources/media.py:Frames.read
        sources/tables.py:Table._fitting _writer/publishing.py:_files_beside
        containers/bag/container.py:_numbered containers/gulp/reading.py:pair_chunks
        containers/gulp/reading.py:_digits containers/gulp/reading.py:_is_staged
        containers/tar/container.py:_Tar.writer
        compat/granular/reader.py:_shard_folders compat/gulpio2/commands/sanity.py:_open
        compat/gulpio2/adapters.py:ActivitynetAdapter.set_video_storage compat/mxnet/lists.py:find_images
        compat/mxnet/lists.py:_found_in compat/webdataset/cache.py:LRUCleanup.cleanup
    """,
    "the caller gave the name: a target, one of its parts, or a path in a program": """
        _dataset/open/sources.py:_parts_of_file _dataset/open/completeness.py:marker_path
        _dataset/open/completeness.py:is_staged
        _dataset/open/completeness.py:interrupted_write
        _dataset/open/completeness.py:_replacements
        _pack/reshape.py:split _pack/run_folder.py:part_path
        sources/base.py:caller_path
        containers/bag/container.py:_Bag.shards containers/recordio/container.py:_RecordIO.shards
        compat/granular/v24/datasets.py:DatasetWriter.__init__ compat/mxnet/commands.py:_record
        compat/mxnet/io/im2rec.py:im2rec compat/mxnet/io/im2rec.py:_discard compat/mxnet/lists.py:write_lists
        compat/webdataset/writer.py:_Part._own
    """,
    "Bushel makes the name: a number, a kind, a random text, a constant of a container": """
        containers/gulp/container.py:_Gulp.class_names
        _index/shard.py:Shard.removal_lists
        _dataset/open/remote_discovery.py:listed_in_manifest _writer/written_shards.py:WrittenShards._write_lists
        storage/objects/upload.py:_now_beside storage/lock.py:FileLock._take
        storage/objects/blockcache.py:BlockCache.put storage/objects/blockcache.py:BlockCache._path
        storage/staging.py:Staging.discard storage/whole.py:create_whole
        compat/granular/v24/datasets.py:ShardedDatasetWriter._resume compat/granular/writer.py:Shards._begin
        compat/gulpio2/fileio.py:GulpDirectory.new_chunks compat/gulpio2/utils.py:temp_dir_for_bursting
        compat/gulpio2/utils.py:find_images_in_folder compat/gulpio2/utils.py:get_single_video_path
    """,
    "`read_spec` refuses a field with a slash": "containers/bag/container.py:_files",
    "the extension is one of a few": "compat/webdataset/autodecode.py:_by_file",
    "the original opens what its list names, and the caller asked for the original": """
        compat/gulpio2/adapters.py:_Listed.frames_of compat/gulpio2/adapters.py:_Videos.get_bursted_frames
        compat/gulpio2/file_adapters.py:ImageListAdapter.frames_of compat/mxnet/image/iterator.py:ImageIter.read_image
        compat/webdataset/shardlists.py:_source compat/webdataset/wids/index.py:urlmerge
    """,
    "numbers are divided": """
        compat/gulpio2/adapter_base.py:pick_like_ffmpeg.pick compat/mxnet/image/functions.py:random_size_crop
    """,
}
TRUSTED = {place for places in EXCEPTIONS.values() for place in places.split()}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "testing")  # its own names


@cache
def places() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in FILES:
        for scope, text in joined(path.read_text()):
            found.setdefault(f"{path.relative_to(SOURCE).as_posix()}:{scope}", []).append(text)
    return found


def test_every_joined_name_is_checked() -> None:
    unchecked = {place: texts for place, texts in places().items() if place not in TRUSTED}
    advice = "use bushel.storage.below, or inside to write there; or add the place to EXCEPTIONS with the reason"
    assert not unchecked, f"{advice}: {unchecked}"


def test_no_exception_is_left_over() -> None:
    assert places().keys() >= TRUSTED


@pytest.mark.parametrize(
    "text",
    [
        "def f(root, name):\n    return root / name",
        "def f(folder, name):\n    return folder / 'a' / name",
        "def f(self, names):\n    return self._root / names[0]",
        "def f(folder, name):\n    return os.path.join(folder, name)",
        "def f(path, name):\n    return path.with_name(f'{name}.json')",
        "def f(shard):\n    return shard.root / shard.name",
        "def f(text, name):\n    return Path(text) / name",
    ],
)
def test_a_new_place_is_found(text: str) -> None:
    assert [scope for scope, _ in joined(text)] == ["f"]


def test_constants_and_numbers_are_no_places() -> None:
    text = "def f(path, number):\n    return path / 'a' / NAME / f'{number:05d}.json', path / other.name, number / 3"
    assert not list(joined(text))
    assert isinstance(ROOT, Path)
