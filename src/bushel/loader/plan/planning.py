"""Make the plan of a `Loader` from its options: the order of its samples, and their division into batches.

Orders by weights, balance and buckets, of packs and of chunks, take columns of the dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from msgspec.structs import replace

from bushel import kernels
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.mapped import Mapped
from bushel._runtime.arrays import I64, Array, check_count
from bushel._runtime.draws import balanced_order, weighted_order
from bushel._runtime.order import Exact, make_order
from bushel._runtime.scheduled import SampleOrder
from bushel.errors import UnsupportedError
from bushel.loader.order.bucketed import Bucketed, TooLongError, bucketed_order
from bushel.loader.order.chunks import Chunked, Chunks, Megatron, MegatronChunks
from bushel.loader.order.mixture import Mixture
from bushel.loader.order.packed import Longer, Packed, pieces_of, usual_window
from bushel.loader.read.costs import blocks_that_fit, bytes_to_find
from bushel.loader.read.loadable import Loadable

from .plan import Plan
from .row_units import Buckets, ChunkRows, PackedRows

if TYPE_CHECKING:
    from bushel.loader.options import LoaderOptions

LENGTH = ".length"
"""The end of the names of columns with the lengths of a field."""
_MOST_TOKENS = (1 << 31) - 1
_FOR_EACH = "give one for each, or the name of a column of the index, which grows with the data"
_SAMPLES_PER_READ = 64  # without a batch size
_MOST_UNREAD = 1 << 30
"""Bytes that an exact order may read before its first batch, to find where the samples of a remote dataset are."""


def _check_one_order(options: LoaderOptions) -> None:
    """Check that only one option says in which order samples come.

    Raises:
        ValueError: Two do.
    """
    shuffle, of_buckets = options.shuffle, options.bucket_by is not None
    orders = {
        "a mixture": isinstance(options.dataset, Mixture),
        "bucket_by=": of_buckets,
        "weights=": options.weights is not None,
        "balance=": options.balance is not None,
    }
    chosen = [name for name, is_given in orders.items() if is_given]
    # mixtures and buckets are shuffled in any case
    is_said = shuffle is True or (of_buckets and shuffle == "exact")
    if shuffle is not None and not (is_said and chosen[:1] in (["a mixture"], ["bucket_by="])):
        chosen.append(f"shuffle={shuffle!r}")
    if len(chosen) > 1:
        raise ValueError(f"{chosen[0]} has an order of its own: leave out {chosen[1]}")


def _order_of_buckets(options: LoaderOptions, dataset: Loadable) -> Bucketed:
    """Return the order for `bucket_by=` of a loader.

    Raises:
        ValueError: A length is missing, or a sample is too long for every batch.
        TypeError: A column is named, but the dataset has no index.
        KeyError: The column does not exist.
    """
    bucket_by: Any = options.bucket_by
    name, lengths = "length", bucket_by
    if isinstance(bucket_by, str):
        name, lengths = bucket_by, _column(dataset, bucket_by, "bucket_by")
    column = np.asanyarray(lengths)
    if column.ndim != 1 or column.dtype.kind not in "biuf":
        raise ValueError(
            "bucket_by= must be one number for each sample, "
            f"not {column.dtype} of shape {column.shape}"
        )
    if len(column) != len(dataset):
        raise ValueError(
            f"bucket_by= has {len(column)} lengths for {len(dataset)} samples: {_FOR_EACH}"
        )
    sizes = _of_all_samples(column, name, "bucket_by")
    if len(sizes) and not (np.isfinite(sizes).all() and (sizes >= 0).all()):
        raise ValueError(f"bucket_by={name!r}: lengths must be finite and 0 or more")
    try:
        return bucketed_order(
            sizes,
            options.batch_size,
            options.batch_tokens,
            drop_last=options.drop_last,
            seed=options.seed,
        )
    except TooLongError as error:
        raise ValueError(
            f"{error} ({name}; the longest is sample {dataset.keys[error.sample]!r}), "
            "which is more than a batch may have: leave them out with "
            f"ds.where('{name} <= {error.limit:g}'), or allow larger batches"
        ) from None


def _column(dataset: Any, name: str, argument: str) -> Array:
    indexed = dataset.dataset if isinstance(dataset, Mapped) else dataset
    if not isinstance(indexed, Dataset):
        raise TypeError(
            f"{argument}={name!r} names a column of an index, "
            f"which {type(dataset).__name__} does not have"
        )
    return indexed.column(name)


def _check_alone(options: LoaderOptions) -> None:
    """Check that `pack_by` and `chunk_by` come with their own options, and with no other option that makes batches.

    Raises:
        ValueError: They do not.
        TypeError: `collate` is a function.
    """
    packs, chunks = options.pack_by is not None, options.chunk_by is not None
    if packs and chunks:
        raise ValueError("pack_by= and chunk_by= are two ways to fill rows: give only one of them")
    if not packs and (options.pack_tokens is not None or options.pack_longer != "error"):
        raise ValueError(
            "pack_tokens= and pack_longer= need pack_by=, such as pack_by='tokens.length'"
        )
    if not chunks and (options.chunk_tokens is not None or options.overlap):
        raise ValueError(
            "chunk_tokens= and overlap= need chunk_by=, such as chunk_by='tokens.length'"
        )
    if not packs and not chunks:
        return
    by, size, given_tokens = "chunk_by=", "chunk_tokens", options.chunk_tokens
    if packs:
        by, size, given_tokens = "pack_by=", "pack_tokens", options.pack_tokens
    if given_tokens is None:
        raise ValueError(f"{by} needs {size}=, the number of tokens in a row, such as {size}=8192")
    tokens = check_count(size, given_tokens, least=1, most=_MOST_TOKENS)
    check_count("overlap", options.overlap, most=tokens - 1, instead=f", fewer than {size}")
    if options.pack_longer not in (choices := get_args(Longer)):
        raise ValueError(
            f"unknown pack_longer={options.pack_longer!r}: expected {', '.join(map(repr, choices))}"
        )
    if (
        options.bucket_by is not None
        or options.batch_tokens is not None
        or isinstance(options.batch_size, Mapping)
    ):
        raise ValueError(
            f"{by} makes rows of one length: leave out "
            "bucket_by=, batch_tokens= and sizes per bucket"
        )
    if options.batch_size is None:
        raise ValueError(
            f"{by} needs a batch size: the number of rows, such as 8 in Loader(ds, 8, {by}...)"
        )
    # a file of them is not read for this
    excludes = not isinstance(options.exclude, Sized) or len(options.exclude) > 0
    if chunks and (excludes or options.on_error != "raise"):
        raise ValueError(
            "chunk_by= joins all documents, so one that is left out would change every row after "
            "it: leave out on_error= and exclude=, and load a view without the bad documents"
        )
    if callable(options.collate):
        raise TypeError(
            f"{by} joins the fields itself: collate= must be a mapping of fields to rules"
        )
    if not options.decode:
        raise ValueError(f"{by} joins arrays, which are decoded: leave out decode=False")


def _order_of_packs(options: LoaderOptions, source: Loadable) -> Packed:
    """Return the order for `pack_by=` of a loader.

    Raises:
        ValueError: A length is missing, or a document is longer than a row.
        TypeError: The dataset has no index.
        KeyError: The column does not exist.
    """
    tokens, longer = options.pack_tokens or 0, options.pack_longer
    by = _costs(options.pack_by or {})
    lengths = np.zeros(len(source), np.int64)
    for name, weight in by.items():
        tokens_of_documents = lengths_of(source, name, "pack_by")
        if weight != 1:
            tokens_of_documents = np.ceil(tokens_of_documents * weight).astype(np.int64)
        lengths += tokens_of_documents
    if longer != "error" and len(by) > 1:
        raise ValueError(
            f"pack_longer={longer!r} shortens one field, "
            f"but pack_by= adds {len(by)}: give one column"
        )
    if longer == "error" and len(lengths) and int(lengths.max()) > tokens:
        place, count = int(lengths.argmax()), int((lengths > tokens).sum())
        condition = " + ".join(
            name if weight == 1 else f"{weight:g} * {name}" for name, weight in by.items()
        )
        raise ValueError(
            f"{count} documents have more than pack_tokens={tokens} tokens, the "
            f"longest {lengths[place]} (sample {source.keys[place]!r}): cut "
            "them with pack_longer='cut', divide them with pack_longer='split', "
            f"or leave them out with ds.where('{condition} <= {tokens}')"
        )
    if longer == "split" and isinstance(options.dataset, Mixture):
        raise ValueError(
            "pack_longer='split' makes several samples of one, which changes the shares "
            "of a mixture: give 'cut', or split the documents when they are packed"
        )
    pieces = pieces_of(lengths, tokens, longer)
    order, window = _order(options, source, len(pieces)), usual_window(pieces.costs, tokens)
    return Packed(order, pieces, tokens, window, kernels.crc32(pieces.costs.view(np.uint8)))


def _order_of_chunks(options: LoaderOptions, source: Loadable) -> Chunks:
    """Return the order for `chunk_by=` of a loader.

    Raises:
        ValueError: A length is missing, or options contradict each other.
        TypeError: `chunk_by` is not the name of a column, or the dataset has no index.
        KeyError: The column does not exist.
    """
    name, tokens = options.chunk_by, options.chunk_tokens or 0
    if not isinstance(name, str) or not name.endswith(LENGTH):
        raise TypeError(
            f"chunk_by={name!r}: expected the column with "
            "the lengths of a field, such as 'tokens.length'"
        )
    lengths = lengths_of(source, name, "chunk_by")
    if len(lengths) and int(lengths.max()) >= 1 << 32:
        raise ValueError(
            f"chunk_by={name!r}: a document has {lengths.max()} tokens; expected fewer than 2**32"
        )
    sizes = lengths.astype(np.uint32)
    parameters = sizes, tokens, options.overlap, kernels.crc32(sizes.view(np.uint8))
    if not isinstance(options.shuffle, Megatron):
        return Chunked(_order(options, source, len(sizes)), *parameters)
    check_count("seed", options.seed, most=(1 << 32) - 1, instead=" for the order of Megatron")
    return MegatronChunks(options.shuffle, *parameters, options.seed)


def lengths_of(source: Loadable, name: str, argument: str) -> I64:
    """Return the lengths of documents, a column of the index.

    Raises:
        ValueError: A length is missing, or is not a whole number from 0.
        TypeError: The dataset has no index.
        KeyError: The column does not exist.
    """
    try:
        column = _column(source, name, argument)
    except KeyError as error:
        how = str(error.args[0])
        if "bushel index" not in how:  # the field does not exist, either
            how = (
                f"{how}{'' if how.endswith('?') else '.'} "
                "`bushel index --columns FIELD.length` records them"
            )
        raise KeyError(
            f"{argument}= needs the length of every document before it is read: "
            f"{how}. If a transform makes the tokens, as a tokenizer does, store "
            "what it makes with `bushel convert --transform`, and load that"
        ) from None
    lengths = _of_all_samples(column, name, argument)
    if lengths.dtype.kind not in "biu":
        raise ValueError(f"{argument}={name!r}: expected whole numbers, not {lengths.dtype}")
    if len(lengths) and (int(lengths.min()) < 0 or int(lengths.max()) > 1 << 48):
        raise ValueError(f"{argument}={name!r}: lengths must be between 0 and 2**48")
    return lengths.astype(np.int64)


def _of_all_samples(column: Array, name: str, argument: str) -> Array:
    """Return the values of a column that all samples have.

    Raises:
        ValueError: A sample has none.
    """
    if (missing := int(np.ma.getmaskarray(column).sum())) > 0:
        raise ValueError(
            f"{argument}={name!r}: {missing} samples have no "
            f"value; ds.where('{name} is not None') has the others"
        )
    return np.ma.getdata(column)


def _costs(by: str | Mapping[str, float]) -> dict[str, float]:
    """Return the columns that `pack_by=` adds up, and their weights."""
    if isinstance(by, str):
        by = {by: 1}
    if not isinstance(by, Mapping) or not by:
        raise TypeError(
            f"pack_by={by!r}: expected a column of lengths, "
            "such as 'tokens.length', or columns and weights"
        )
    for name, weight in by.items():
        if not isinstance(name, str):
            raise TypeError(f"pack_by={by!r}: expected names of columns, not {name!r}")
        if (
            isinstance(weight, bool)
            or not isinstance(weight, int | float)
            or not 0 <= weight <= _MOST_TOKENS
        ):
            raise ValueError(f"pack_by={by!r}: expected weights from 0, not {weight!r}")
    first = next(iter(by))
    if not first.endswith(LENGTH) or by[first] != 1:
        raise ValueError(
            f"pack_by={by!r}: the first column must be the length of the "
            "field that is packed, with the weight 1, such as 'tokens.length'"
        )
    return dict(by)


def plan_of(options: LoaderOptions, source: Loadable) -> Plan:
    """Return the plan for some options.

    Raises:
        TypeError: An option has a wrong type.
        ValueError: An option is out of its range, or two of them contradict each other.
        KeyError: The column does not exist.
        UnsupportedError: An exact order of a large remote dataset whose samples have unknown
            places.
    """
    ends = options.rank or 0, options.world_size or 1, options.drop_last, options.pad
    if options.pad not in (None, "wrap"):
        raise ValueError(f'unknown pad={options.pad!r}: expected "wrap" or None')
    if options.drop_last and options.pad:
        raise ValueError(
            "drop_last leaves out the last batch and pad fills it: give only one of them"
        )
    _check_one_order(options)
    _check_alone(options)
    if options.pack_by is not None or options.chunk_by is not None:
        rows = check_count("batch_size", options.batch_size, least=1, instead=" of rows")
        if options.pack_by is not None:
            return Plan(_order_of_packs(options, source), rows, *ends, kind=PackedRows)
        return Plan(_order_of_chunks(options, source), rows, *ends, kind=ChunkRows)
    if options.bucket_by is not None:
        return Plan(_order_of_buckets(options, source), 1, *ends, kind=Buckets)
    if options.batch_tokens is not None or isinstance(options.batch_size, Mapping):
        raise ValueError(
            "batch_tokens= and a batch size per bucket need bucket_by=, such as 'tokens.length'"
        )
    size, steps_per_read = 1, _SAMPLES_PER_READ
    if options.batch_size is not None:
        size, steps_per_read = check_count("batch_size", options.batch_size, least=1), 1
    order = _order(options, source, len(source))
    unread = bytes_to_find(source, options.fields) if isinstance(order, Exact) else 0
    if unread > _MOST_UNREAD:
        raise UnsupportedError(
            f"an exact order would read {unread:,} bytes first, to find "
            "where the samples are: run `bushel index` once, with --index "
            'to keep the index in another place; or use shuffle="blocks"'
        )
    return Plan(order, size, *ends, steps_per_read)


def _order(options: LoaderOptions, source: Loadable, samples: int) -> SampleOrder:
    """Return the order of a number of samples for some options.

    Raises:
        ValueError: Seeds differ, or weights or classes are unusable.
        TypeError: A column is named, but the dataset has no index; or the order is one of chunks.
        KeyError: The column does not exist.
    """
    shuffle, seed, weights = options.shuffle, options.seed, options.weights
    if isinstance(options.dataset, Mixture):
        mixed = options.dataset.order
        if seed not in (0, mixed.seed):
            raise ValueError(f"the mixture has seed {mixed.seed}, but seed={seed}: leave out seed=")
        return mixed
    if options.balance is not None:
        column = _column(source, options.balance, "balance")
        return balanced_order(column, options.balance, seed)
    if isinstance(weights, str):
        return weighted_order(np.ma.filled(_column(source, weights, "weights"), 0), seed)
    if weights is not None:
        weights_of_samples = np.atleast_1d(np.asarray(weights))
        if len(weights_of_samples) != len(source):
            raise ValueError(
                f"weights= has {len(weights_of_samples)} weights for {len(source)} samples: {_FOR_EACH}"
            )
        return weighted_order(weights_of_samples, seed)
    if shuffle == "blocks":
        return replace(blocks_that_fit(source, seed, options.fields), samples=samples)
    if isinstance(shuffle, Megatron):
        raise TypeError(
            "Megatron is an order of chunks: give chunk_by=, such as chunk_by='tokens.length'"
        )
    return make_order(shuffle, samples, seed)
