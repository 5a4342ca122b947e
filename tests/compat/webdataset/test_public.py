import inspect
from importlib import import_module

import pytest

import bushel.compat.webdataset as wds

MODULES = [
    "autodecode",
    "compat",
    "cache",
    "encoders",
    "extradatasets",
    "filters",
    "flow",
    "gopen",
    "handlers",
    "jl",
    "mix",
    "pipeline",
    "shardlists",
    "stages",
    "tariterators",
    "tenbin",
    "utils",
    "wids",
    "writer",
]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_documented(name: str) -> None:
    module = import_module(f"bushel.compat.webdataset.{name}")
    assert module.__doc__
    for public, value in vars(module).items():
        own = (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("bushel.")
        assert public.startswith("_") or not own or value.__doc__, f"{name}.{public}"


def test_the_names_of_the_julia_package_are_here_too() -> None:
    jl = import_module("bushel.compat.webdataset.jl")
    exported = [
        "Continue",
        "DatasetDescriptor",
        "Rename",
        "allsplitext",
        "braceexpand",
        "clsdecode",
        "dataloader",
        "debugloader",
        "default_decoders",
        "generic_open",
        "imdecode",
        "jsondecode",
        "loadproc",
        "map_by_rules",
        "samplebatching",
        "sampleiterator",
        "sampleshuffle",
        "sampletransforms",
        "tariterator",
        "transpose_batch",
    ]
    assert [name for name in exported if not hasattr(jl, name)] == []
    assert [name for name in exported if getattr(wds, name) is not getattr(jl, name)] == ["Continue"]
    assert isinstance(jl.num_exceptions, int)
    with pytest.raises(AttributeError, match="nothing"):
        jl.nothing  # noqa: B018
