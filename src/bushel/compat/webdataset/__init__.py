"""Drop-in for the Python package `webdataset` (1.0.2), over Bushel's `tar` container; see `docs/compat-webdataset.md`.

`import bushel.compat.webdataset as wds` replaces `import webdataset as wds`; its modules
(`filters`, `shardlists`, `tariterators`, …) are here too. `bushel.compat.webdataset.jl` is
WebDataset.jl, whose names are also here, except its `Continue`. `bushel.compat.webdataset.wids` is
the package `wids`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .autodecode import *  # noqa: F403
    from .cache import *  # noqa: F403
    from .compat import *  # noqa: F403
    from .extradatasets import MockDataset as MockDataset
    from .extradatasets import with_epoch as with_epoch
    from .extradatasets import with_length as with_length
    from .filters import *  # noqa: F403
    from .gopen import *  # noqa: F403
    from .handlers import *  # noqa: F403
    from .mix import *  # noqa: F403
    from .pipeline import *  # noqa: F403
    from .shardlists import *  # noqa: F403
    from .tariterators import *  # noqa: F403
    from .utils import *  # noqa: F403
    from .writer import *  # noqa: F403

__version__ = "1.0.2"  # the version of the original
_EXPORTS = {
    "autodecode": """
        Continue Decoder DecodingError gzfilter handle_extension imagehandler pytorch_weights_only torch_audio
        torch_loads torch_video
    """,
    "cache": "LRUCleanup pipe_cleaner",
    "compat": "FluidInterface FluidWrapper WebDataset WebLoader",
    "extradatasets": "MockDataset with_epoch with_length",
    "filters": """
        Cached LMDBCached associate batched decode default_collation_fn detshuffle extract_keys getfirst info log_keys
        map map_dict map_tuple pipelinefilter rename rename_keys rsample select shuffle slice to_tuple transform_with
        unbatched unlisted xdecode
    """,
    "gopen": "gopen gopen_schemes",
    "handlers": "ignore_and_continue ignore_and_stop "
    "reraise_exception warn_and_continue warn_and_stop",
    "jl": """
        DatasetDescriptor Rename allsplitext braceexpand clsdecode dataloader debugloader default_decoders generic_open
        imdecode jsondecode loadproc map_by_rules samplebatching sampleiterator sampleshuffle sampletransforms
        tariterator transpose_batch
    """,
    "mix": "RandomMix RoundRobin",
    "pipeline": "DataPipeline",
    "shardlists": """
        MultiShardSample ResampledShards SimpleShardList non_empty resampled shardspec single_node_only split_by_node
        split_by_worker
    """,
    "tariterators": "tarfile_samples tarfile_to_samples",
    "utils": "PipelineStage repeatedly",
    "writer": "ShardWriter TarWriter numpy_dumps torch_dumps",
}
_HOME = {
    name: module for module, names in _EXPORTS.items() for name in names.split() if name != module
}
_SUBMODULES = frozenset(("tenbin", "wids", *_EXPORTS))

__all__ = sorted(["__version__", "gopen", *_HOME])


def __getattr__(name: str) -> Any:
    """Import names when they are first used: PyTorch, which some of them need, takes seconds."""
    if name not in _HOME and name not in _SUBMODULES:
        raise AttributeError(f"module 'bushel.compat.webdataset' has no attribute {name!r}")
    module = import_module(f"bushel.compat.webdataset.{_HOME.get(name, name)}")
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
