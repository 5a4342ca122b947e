"""Drop-in for the Python package `webdataset` (1.0.2), over Bushel's `tar` container; `docs/compat-webdataset.md`.

`import bushel.compat.webdataset as wds` takes the place of `import webdataset as wds`; its modules (`filters`,
`shardlists`, `tariterators`, …) are there too. `bushel.compat.webdataset.jl` is WebDataset.jl, whose names are here as
well, but for its `Continue`. `bushel.compat.webdataset.wids` is the package `wids`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bushel.compat.webdataset.autodecode import (
        Continue,
        Decoder,
        DecodingError,
        gzfilter,
        handle_extension,
        imagehandler,
        pytorch_weights_only,
        torch_audio,
        torch_loads,
        torch_video,
    )
    from bushel.compat.webdataset.cache import (
        LRUCleanup,
        pipe_cleaner,
    )
    from bushel.compat.webdataset.compat import (
        FluidInterface,
        FluidWrapper,
        WebDataset,
        WebLoader,
    )
    from bushel.compat.webdataset.extradatasets import (
        MockDataset,
        with_epoch,
        with_length,
    )
    from bushel.compat.webdataset.filters import (
        Cached,
        LMDBCached,
        associate,
        batched,
        decode,
        default_collation_fn,
        detshuffle,
        extract_keys,
        getfirst,
        info,
        log_keys,
        map,  # noqa: A004
        map_dict,
        map_tuple,
        pipelinefilter,
        rename,
        rename_keys,
        rsample,
        select,
        shuffle,
        slice,  # noqa: A004
        to_tuple,
        transform_with,
        unbatched,
        unlisted,
        xdecode,
    )
    from bushel.compat.webdataset.gopen import gopen, gopen_schemes
    from bushel.compat.webdataset.handlers import (
        ignore_and_continue,
        ignore_and_stop,
        reraise_exception,
        warn_and_continue,
        warn_and_stop,
    )
    from bushel.compat.webdataset.jl import (
        DatasetDescriptor,
        Rename,
        allsplitext,
        braceexpand,
        clsdecode,
        dataloader,
        debugloader,
        default_decoders,
        generic_open,
        imdecode,
        jsondecode,
        loadproc,
        map_by_rules,
        samplebatching,
        sampleiterator,
        sampleshuffle,
        sampletransforms,
        tariterator,
        transpose_batch,
    )
    from bushel.compat.webdataset.mix import (
        RandomMix,
        RoundRobin,
    )
    from bushel.compat.webdataset.pipeline import (
        DataPipeline,
    )
    from bushel.compat.webdataset.shardlists import (
        MultiShardSample,
        ResampledShards,
        SimpleShardList,
        non_empty,
        resampled,
        shardspec,
        single_node_only,
        split_by_node,
        split_by_worker,
    )
    from bushel.compat.webdataset.tariterators import (
        tarfile_samples,
        tarfile_to_samples,
    )
    from bushel.compat.webdataset.utils import (
        PipelineStage,
        repeatedly,
    )
    from bushel.compat.webdataset.writer import (
        ShardWriter,
        TarWriter,
        numpy_dumps,
        torch_dumps,
    )

__version__ = "1.0.2"
"""Of the package whose place this takes."""

_HOME = {
    "Cached": "filters",
    "Continue": "autodecode",
    "DataPipeline": "pipeline",
    "DatasetDescriptor": "jl",
    "Decoder": "autodecode",
    "DecodingError": "autodecode",
    "FluidInterface": "compat",
    "FluidWrapper": "compat",
    "LMDBCached": "filters",
    "LRUCleanup": "cache",
    "MockDataset": "extradatasets",
    "MultiShardSample": "shardlists",
    "PipelineStage": "utils",
    "RandomMix": "mix",
    "Rename": "jl",
    "ResampledShards": "shardlists",
    "RoundRobin": "mix",
    "ShardWriter": "writer",
    "SimpleShardList": "shardlists",
    "TarWriter": "writer",
    "WebDataset": "compat",
    "WebLoader": "compat",
    "allsplitext": "jl",
    "associate": "filters",
    "batched": "filters",
    "braceexpand": "jl",
    "clsdecode": "jl",
    "dataloader": "jl",
    "debugloader": "jl",
    "decode": "filters",
    "default_collation_fn": "filters",
    "default_decoders": "jl",
    "detshuffle": "filters",
    "extract_keys": "filters",
    "generic_open": "jl",
    "getfirst": "filters",
    "gopen_schemes": "gopen",
    "gzfilter": "autodecode",
    "handle_extension": "autodecode",
    "ignore_and_continue": "handlers",
    "ignore_and_stop": "handlers",
    "imagehandler": "autodecode",
    "imdecode": "jl",
    "info": "filters",
    "jsondecode": "jl",
    "loadproc": "jl",
    "log_keys": "filters",
    "map": "filters",
    "map_by_rules": "jl",
    "map_dict": "filters",
    "map_tuple": "filters",
    "non_empty": "shardlists",
    "numpy_dumps": "writer",
    "pipe_cleaner": "cache",
    "pipelinefilter": "filters",
    "pytorch_weights_only": "autodecode",
    "rename": "filters",
    "rename_keys": "filters",
    "repeatedly": "utils",
    "reraise_exception": "handlers",
    "resampled": "shardlists",
    "rsample": "filters",
    "samplebatching": "jl",
    "sampleiterator": "jl",
    "sampleshuffle": "jl",
    "sampletransforms": "jl",
    "select": "filters",
    "shardspec": "shardlists",
    "shuffle": "filters",
    "single_node_only": "shardlists",
    "slice": "filters",
    "split_by_node": "shardlists",
    "split_by_worker": "shardlists",
    "tarfile_samples": "tariterators",
    "tarfile_to_samples": "tariterators",
    "tariterator": "jl",
    "to_tuple": "filters",
    "torch_audio": "autodecode",
    "torch_dumps": "writer",
    "torch_loads": "autodecode",
    "torch_video": "autodecode",
    "transform_with": "filters",
    "transpose_batch": "jl",
    "unbatched": "filters",
    "unlisted": "filters",
    "warn_and_continue": "handlers",
    "warn_and_stop": "handlers",
    "with_epoch": "extradatasets",
    "with_length": "extradatasets",
    "xdecode": "filters",
}

_SUBMODULES = frozenset(("tenbin", "wids", *_HOME.values()))

__all__ = [
    "Cached",
    "Continue",
    "DataPipeline",
    "DatasetDescriptor",
    "Decoder",
    "DecodingError",
    "FluidInterface",
    "FluidWrapper",
    "LMDBCached",
    "LRUCleanup",
    "MockDataset",
    "MultiShardSample",
    "PipelineStage",
    "RandomMix",
    "Rename",
    "ResampledShards",
    "RoundRobin",
    "ShardWriter",
    "SimpleShardList",
    "TarWriter",
    "WebDataset",
    "WebLoader",
    "__version__",
    "allsplitext",
    "associate",
    "batched",
    "braceexpand",
    "clsdecode",
    "dataloader",
    "debugloader",
    "decode",
    "default_collation_fn",
    "default_decoders",
    "detshuffle",
    "extract_keys",
    "generic_open",
    "getfirst",
    "gopen",
    "gopen_schemes",
    "gzfilter",
    "handle_extension",
    "ignore_and_continue",
    "ignore_and_stop",
    "imagehandler",
    "imdecode",
    "info",
    "jsondecode",
    "loadproc",
    "log_keys",
    "map",
    "map_by_rules",
    "map_dict",
    "map_tuple",
    "non_empty",
    "numpy_dumps",
    "pipe_cleaner",
    "pipelinefilter",
    "pytorch_weights_only",
    "rename",
    "rename_keys",
    "repeatedly",
    "reraise_exception",
    "resampled",
    "rsample",
    "samplebatching",
    "sampleiterator",
    "sampleshuffle",
    "sampletransforms",
    "select",
    "shardspec",
    "shuffle",
    "single_node_only",
    "slice",
    "split_by_node",
    "split_by_worker",
    "tarfile_samples",
    "tarfile_to_samples",
    "tariterator",
    "to_tuple",
    "torch_audio",
    "torch_dumps",
    "torch_loads",
    "torch_video",
    "transform_with",
    "transpose_batch",
    "unbatched",
    "unlisted",
    "warn_and_continue",
    "warn_and_stop",
    "with_epoch",
    "with_length",
    "xdecode",
]


def __getattr__(name: str) -> Any:
    """Import what is used when it is first used: PyTorch, which some of it needs, takes seconds."""
    home = f"bushel.compat.webdataset.{_HOME.get(name, name)}"
    if name not in _HOME and name not in _SUBMODULES:
        raise AttributeError(f"module 'bushel.compat.webdataset' has no attribute {name!r}")
    module = import_module(home)
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
