"""Public names, and the cost of importing them."""

import inspect
import subprocess
import sys

import bushel.compat.granular as granular
from bushel.compat.granular import bags, v24

NAMES = {"BagReader", "BagWriter", "DatasetReader", "DatasetWriter", "Loader", "decoders", "encoders"}
SHARDED = {"ShardedDatasetReader", "ShardedDatasetWriter"}
ARGUMENTS = {
    granular.BagWriter: "filepath version",
    granular.BagReader: "source cache_index cache_data index",
    granular.DatasetWriter: "directory spec encoders",
    granular.DatasetReader: "directory decoders cache_index cache_keys parallel pool_name",
    granular.ShardedDatasetWriter: "directory spec encoders shardlen shardstart shardstep",
    granular.ShardedDatasetReader: "directory decoders cache_index cache_keys parallel shardstart shardstep",
    granular.Loader: "source batch fns shuffle prefetch workers recycle_after shard_id num_shards mp seed",
    v24.BagWriter: "bag_path idx_path",
    v24.BagReader: "bag_source idx_source cache_index cache_data single_file",
    v24.DatasetWriter: "directory spec encoders",
    v24.ShardedDatasetWriter: "directory spec encoders shardlen shardstart shardstep",
    v24.Loader: "source batch prefetch workers recycle_after shard_id num_shards mp",
    granular.sources.Transform: "source fn seed",
    granular.sources.Sample: "source length seed",
    granular.sources.Epochs: "source length shuffle seed",
    granular.sources.Truncate: "source limit length",
    granular.sources.Interleave: "sources",
    granular.sources.Mix: "sources weights seed",
    bags.BagWriter: "fp",
    bags.BagReader: "fp cache_index",
    bags.DatasetWriter: "directory spec encoders",
    bags.DatasetReader: "directory decoders cache_index",
    bags.ShardedDatasetWriter: "directory spec encoders shard_size shard_length shard_start shard_step",
    bags.ShardedDatasetReader: "directory decoders cache_index shard_start shard_step",
}


def test_names() -> None:
    assert set(granular.__all__) == NAMES | SHARDED | {"bags", "sources", "v24"}
    assert set(v24.__all__) == NAMES | SHARDED | {"sources"}
    assert set(bags.__all__) == (NAMES | SHARDED) - {"Loader"}
    for module in (granular, v24, bags):
        assert all(hasattr(module, name) for name in module.__all__)
    assert (granular.__version__, bags.__version__) == ("0.20.3", "0.5.1")


def test_arguments_are_those_of_the_originals() -> None:
    for thing, names in ARGUMENTS.items():
        assert list(inspect.signature(thing).parameters) == names.split(), thing


def test_types() -> None:
    types = ["bytes", "utf8", "msgpack", "int", "i64", "u64", "array", "tree", "jpg", "png", "mp4", "webm"]
    for module in (granular, v24):
        assert list(module.encoders) == list(module.decoders) == types
    types = ["bytes", "utf8", "msgpack", "int", "array", "jpeg", "png", "mp4"]
    assert list(bags.encoders) == list(bags.decoders) == types


def test_importing_needs_no_extra() -> None:
    script = (
        "import sys, bushel.compat.granular\n"
        "print(sorted({'av', 'torch', 'jax', 'cv2', 'cloudpickle', 'elements', 'PIL.Image'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
