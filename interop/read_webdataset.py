"""Read tar shards with WebDataset: ``read_webdataset.py (DIRECTORY | FILE | 'x-{000..003}.tar')… [--decode]``."""

from __future__ import annotations

import argparse

import lines
import webdataset
from webdataset.shardlists import expand_urls


def samples_of(urls: list[str]) -> webdataset.WebDataset:
    """Yield the samples of the shards ``urls`` in order. Empty shards are allowed."""
    return webdataset.WebDataset(urls, shardshuffle=False, empty_check=False)


def main() -> None:
    """Print one line for each sample, shard after shard."""
    parser = argparse.ArgumentParser()
    parser.add_argument("urls", nargs="+", help="shards; a directory stands for its *.tar by name")
    parser.add_argument("--decode", action="store_true", help="also decode every field with WebDataset's own decoders")
    options = parser.parse_args()
    urls = [shard for url in lines.existing(options.urls, "*.tar") for shard in expand_urls(url)]
    values = iter(samples_of(urls).decode()) if options.decode else None
    for sample in samples_of(urls):
        fields = {name: lines.stored(content) for name, content in sample.items() if not name.startswith("__")}
        if values is not None:
            value = next(values)
            for name, field in fields.items():
                field.update(lines.decoded(value[name]))
        lines.show(sample["__key__"], fields)


if __name__ == "__main__":
    main()
