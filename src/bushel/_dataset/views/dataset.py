"""Dataset: a sequence of samples with a description, and its views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Never, Self

import numpy as np

from bushel._dataset.read.selection import Mask, Sample
from bushel._dataset.read.shards import OpenShard
from bushel._runtime.arrays import chunks
from bushel._runtime.public import public
from bushel.containers import Shard, ShardIndex

from .samples import CHUNK
from .stored_values import StoredValues

if TYPE_CHECKING:
    from bushel._pictures.notebook import Gallery
    from bushel._runtime.order import Shuffle

    from .info import Info
    from .mapped import Mapped

_INSTEAD = {
    "bushel.Loader(ds, batch_size=n)": "batch batched dataloader loader",
    "bushel.Loader(ds, shuffle=True), or ds[numpy.random.default_rng(0).permutation(len(ds))]": (
        "shuffle sample"
    ),
    "bushel.Loader(ds, to='torch')": "with_format set_format to_torch to_tensor",
    "bushel.Loader(ds, transforms=…), or ds.map(function)": "with_transform set_transform",
    "bushel.Writer(path, mode='append')": "append add write extend",
    "bushel.concat([a, b])": "concatenate concat",
    "bushel.convert(ds, target, rename={old: new}, spec={field: type})": (
        "rename rename_column rename_columns cast cast_column"
    ),
    "bushel.pack(ds, target)": "save save_to_disk export to_parquet to_json to_csv",
    "bushel.to_hf(ds)": "to_iterable_dataset push_to_hub",
    "bushel.verify(path)": "verify check",
    "ds.position(key)": "index find",
    "bushel.remove(path, keys=keys, reason=text)": "delete remove",
    "ds.labels": "classes class_to_idx names",
    "ds.select_fields(names), which keeps these": "select_columns remove_columns drop",
    "ds.spec": "features schema types dtypes column_names",
    "ds.spec for their types, or ds.select_fields(names)": "fields",
    "ds.split(train=0.9, test=0.1)": "train_test_split random_split",
    "ds.to_arrow().to_pandas()": "to_pandas",
    "ds[0], whose values are decoded": "decode to_tuple",
    "ds[5] for a position, or ds['key']": "get",
    "ds[:5], or bushel.show(ds)": "head describe",
    "ds[:n]": "take",
    "ds[[5, 1, 1]] for positions, ds.select_keys(keys), "
    "ds.where(condition) or ds.filter(function)": "select query",
    "ds[n:]": "skip",
    "ds[numpy.argsort(ds.column(name))]": "sort sort_values",
    "for sample in ds": "iter iterrows items values samples",
    "numpy.unique(ds.column(name))": "unique value_counts",
    "len(ds)": "num_rows length count shape",
}
"""What to write instead of methods that datasets of other libraries have."""


@public(instead=_INSTEAD)
class Dataset(StoredValues):
    """A read-only sequence of samples, opened by `bushel.open` or made as a view of another dataset.

    Threads and forked processes may share it. A pickled copy opens its own files.

    Examples:
        >>> ds[3]["image"].shape, ds.keys[3]
        ((48, 64, 3), 'cat/3')
        >>> ds["dog/2", ["label"]]
        {'__key__': 'dog/2', 'label': 1}
        >>> [sample["label"] for sample in ds.read([0, 6, 1], ["label"])]
        [0, 1, 0]
        >>> len(ds[2:10]), len(ds.where("label == 1"))
        (8, 6)
    """

    @classmethod
    def from_tables(
        cls,
        container: str,
        tables: Iterable[tuple[Shard, ShardIndex]],
        *,
        verify: bool | None = None,
    ) -> Dataset:
        """Return a dataset of shards whose tables are given. Nothing is looked up or stored beside the files.

        Args:
            container: Name of the container.
            tables: Each shard with its table, such as
                `get_container(container).index(shard, options)` returns.
            verify: As for `open`.

        Examples:
            >>> shard = ds.shards[0]
            >>> bushel.Dataset.from_tables("tar", [(shard.shard, shard.index)]).keys[0]
            'cat/0'
        """
        return cls(
            [OpenShard.of(container, shard, table, stored=False) for shard, table in tables],
            verify=verify,
        )

    # Description

    def __repr__(self) -> str:
        from .info import described

        return described(self)

    def _repr_html_(self) -> str:
        from .info import dataset_html

        return dataset_html(self)

    def show(self, n: int = 12, columns: Sequence[str] | None = None) -> Gallery:
        """Return the first samples as a notebook shows them: pictures, keys and short values.

        Elsewhere, printing it shows keys and values. Choose others with a view: `ds[1000:].show()`,
        `ds.where("label == 3").show()`.

        Args:
            n: Number of samples.
            columns: Columns of the index to show below each; by default the fields of numbers and
                texts.

        Raises:
            TypeError: `n` is not a whole number.
            KeyError: The column does not exist; the message says what may be meant, or which
                command makes it.

        Examples:
            >>> print(ds.show(2))
            cat/0  label=0 cat
            cat/1  label=0 cat
        """
        from bushel._pictures.notebook import Gallery

        return Gallery(self, n, columns)

    @property
    def size(self) -> int:
        """Size of all files of the dataset in bytes.

        Examples:
            >>> ds.size == sum(path.stat().st_size for path in Path("train").glob("*.tar"))
            True
        """
        from bushel._dataset.read.remaining import file_sizes

        return int(file_sizes(self.reader.shards).sum())

    @property
    def remote(self) -> bool:
        """Whether any of its files is outside the file system of this machine."""
        return not self.reader.local

    @property
    def info(self) -> Info:
        """Container, counts and sizes of the whole dataset.

        Examples:
            >>> ds.info.container, ds.info.samples, ds.info.checksums
            ('tar', 12, True)
        """
        from .info import info_of

        return info_of(self.reader, self.spec)

    @property
    def shards(self) -> Sequence[OpenShard]:
        """The shards of the whole dataset, with their files and tables; a join has the shards of all datasets in turn.

        Examples:
            >>> len(ds.shards)
            1
        """
        return self.reader.shards

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify the data of this dataset or view, wherever it is.

        Keys, types, class names, and the lengths and checksums of values decide it; where no
        checksums are known (`info`), sizes and stamps of files take their place. Names, times
        and the order of fields do not matter. After shards were appended, `ds[:n]` of those
        that were there has the fingerprint that the dataset had. A dataset of the Hugging Face
        Hub is identified by its commit, too.
        """
        from bushel._dataset.read.remaining import fingerprint_of

        return fingerprint_of(self.reader, self.spec, self.selection.positions)

    # Views

    def __add__(self, other: object) -> Never:
        raise TypeError("datasets are not added: bushel.concat([a, b]) has the samples of both")

    def filter(self, keep: Callable[[Sample], bool], fields: Mask = None) -> Dataset:
        """Return a view of the samples for which `keep(sample)` is true.

        Args:
            keep: Called once with every sample, before `filter` returns.
            fields: The fields that `keep` needs. Fewer fields are read faster.

        Examples:
            >>> dogs = ds.filter(lambda sample: sample["label"] == 1, ["label"])
            >>> len(dogs)
            6
        """
        if not callable(keep):
            hint = ""
            if isinstance(keep, str):
                hint = f": ds.where({keep!r}) takes a condition on columns"
            raise TypeError(f"filter() takes a function of a sample, not {keep!r}{hint}")
        numbers: list[int] = []
        for some in chunks(range(len(self)), CHUNK):
            samples = zip(some, self.read(some, fields), strict=True)
            numbers += [number for number, sample in samples if keep(sample)]
        description = f"filter({getattr(keep, '__qualname__', keep)})"
        return self._view(self.selection.absolute(np.array(numbers, np.int64)), made=description)

    def map(
        self,
        function: Callable[[Sample], Sample],
        fields: Mask = None,
        *,
        spec: Mapping[str, str] | None = None,
        decode: bool = True,
    ) -> Mapped:
        """Return a lazy view whose samples pass through a function when they are read.

        Args:
            function: Takes a sample, a dict with `__key__`, and returns a dict, changed or not.
                None is an error. A `Loader` with `processes=` sends it to them by cloudpickle.
            fields: The fields that it needs. Fewer fields are read faster.
            spec: Types of fields that it adds or changes, for `transforms=` of a loader and for
                `pack`.
            decode: Whether it gets decoded values. False gives it stored bytes.

        Examples:
            >>> longer = ds.map(lambda sample: sample | {"twice": sample["label"] * 2}, ["label"])
            >>> longer[11]
            {'__key__': 'dog/5', 'label': 1, 'twice': 2}
        """
        from .mapped import Mapped

        if fields is not None and not isinstance(fields, Mapping):
            fields = list(self.selection.wanted(fields))
        return Mapped(self, function, fields, spec, decodes=decode)

    def split(
        self,
        shares: Mapping[str, float | None] | None = None,
        /,
        *,
        shuffle: Shuffle = True,
        seed: int = 0,
        stratify: str | None = None,
        **named: float | None,
    ) -> dict[str, Self]:
        """Divide the dataset into views, such as one for training and one for validation. Every sample is in one.

        `bushel.split` writes such parts as datasets of their own, and chooses the same samples for
        the same arguments.

        Args:
            shares: Name of each view to its share, or to its number of samples:
                `{"train": 0.9, "val": 0.1}`. None, for one of them, is the rest. Shares can be
                given as keyword arguments, too.
            shuffle: How samples are chosen: True at random, False in order, the first share first;
                or another value that `bushel.split` takes. Each view keeps the order of the
                dataset.
            seed: Seed of the random choice. The same seed chooses the same samples, on every
                machine and in every version.
            stratify: Name of a field of numbers or text, such as `label`: each view gets its share
                of every class. No data are read if it is a column of the index.
            named: Shares by name.

        Raises:
            ValueError: The shares do not add up to 1, or the numbers not to the number of samples.
            KeyError, SpecError: The field `stratify` does not exist, or its values are neither
                numbers nor text.

        Examples:
            >>> parts = ds.split(train=0.75, val=0.25, stratify="label")
            >>> len(parts["train"]), parts["val"].column("label")
            (10, array([0, 1]))
            >>> len(ds.split({"train": None, "val": 3})["val"])
            3
        """
        from bushel._dataset.read.splitting import divided

        chosen = divided(self, shares, named, shuffle=shuffle, seed=seed, stratify=stratify)
        by = f" by {stratify}" if stratify else ""
        return {
            name: self._view(
                self.selection.absolute(numbers), made=f"{name} of a split{by}, seed {seed}"
            )
            for name, numbers in chosen.items()
        }

    def save_view(self, name: str, *, overwrite: bool = False) -> None:
        """Save this view by a name beside the manifest, for `bushel.open(path, view=name)`.

        A view that `where` made is saved as its condition, others as the positions and keys of
        their samples (docs/views.md). `overwrite` replaces a view of this name.

        Raises:
            FileExistsError: There is a view of this name.
            ValueError: This cannot be a name: up to 100 letters, digits and `. _ -`.
            UnsupportedError: The dataset is joined, or is in several folders.

        Examples:
            >>> ds.where("label == 'dog'").save_view("dogs")
            >>> len(bushel.open("train/", view="dogs"))
            6
        """
        from .saved_views import save_view

        save_view(self, name, overwrite=overwrite)

    def windows(
        self,
        field: str,
        length: int | None = None,
        *,
        seconds: float | None = None,
        fps: float | None = None,
        hop: float | None = None,
        step: int = 1,
        also: Iterable[str] = (),
        times: float | Mapping[str, float | str] | None = None,
        take: str | Mapping[str, str] | None = None,
        pad: bool = False,
        delta: Mapping[str, Iterable[float]] | None = None,
    ) -> Dataset:
        """Return a view whose samples are windows: some elements of a sequence, frames of a clip, or rows of an array.

        The window of the sample `clip7` that starts at element 48 has the key `clip7@48`. It has
        the elements of `field`, and all other fields as the sample has them. Only the bytes of
        these elements are read, of a clip those from the keyframe before them; windows of the same
        clip that are read together are decoded together.

        With `seconds`, `fps` or `times`, windows are intervals of time. They have keys such as
        `clip7@2.5s`, counted from the first window, and their fields may have different numbers of
        elements: docs/loading-orders.md explains it.

        Args:
            field: A sequence field, or a field of clips, sounds or arrays.
            length: Number of elements in a window.
            seconds: Seconds that a window takes, instead of a length.
            fps: Elements in a second: `windows("video", 16, fps=8)` has the frames that a player
                shows at 0, 1/8, 2/8 … seconds after its start, at any rate of the clip itself.
            hop: Elements from the start of one window to the start of the next, or seconds with
                `seconds` or `fps`; None for windows that follow one another.
            step: Distance of its elements: 4 takes every fourth.
            also: Fields whose elements the window has at the same places, such as the actions at
                the frames.
            times: When the elements of fields are, in seconds: their rate in Hz, or the field that
                has their time stamps: `{"rgb": "rgb.time", "joints": 100.0}`. One number is the
                rate of all. Clips have times of their own. Fields that are named here are in the
                window, too.
            take: How elements are chosen by time: "shown" (the last one at or before each time of
                `field`; the default for clips), "nearest" (the default for others) or "all" (all
                that begin in the interval); for all fields, or by field.
            pad: Whether the last window of a sample may reach beyond its end, so that all elements
                are in a window. The last element then fills it up, and `frames_is_pad`, of
                bool[length], says where. Otherwise the elements that do not fill a window are left
                out.
            delta: Instead of a length, the elements of each field, counted from one element of
                `field`, which every `hop`-th one is in turn:
                `{"frames": [-1, 0], "action": [0, 1, 2]}`; with `times`, seconds from there. The
                first or last element takes the place of what would be outside, and
                `action_is_pad`, of bool[3], says where.

        Raises:
            KeyError: The field does not exist, or the index does not say how many elements samples
                have; the message names the command that records it.
            TypeError: A field has no elements, or an argument has another type.
            ValueError: An argument is out of its range, or fields have different numbers of
                elements in a sample.
            SpecError: Nothing says when the elements of a field are, the time stamps of a sample
                are missing or wrong, or its fields have no time in common.
            UnsupportedError: The samples are windows already.

        Examples:
            >>> with bushel.Writer("walks.tar", {"pose": "array(float32,-1,2)", "goal": "int"}) as writer:
            ...     for steps in (5, 9):
            ...         print(writer.append({"pose": np.zeros((steps, 2), "f4"), "goal": steps}, key=f"walk{steps}"))
            0
            1
            >>> walks = bushel.open("walks.tar")
            >>> windows = walks.windows("pose", 4, hop=2)
            >>> list(windows.keys), windows[1]["pose"].shape, windows[1]["goal"]
            (['walk5@0', 'walk9@0', 'walk9@2', 'walk9@4'], (4, 2), 9)
            >>> list(walks.windows("pose", seconds=2, hop=1, times=2.0).keys)
            ['walk5@0s', 'walk9@0s', 'walk9@1s', 'walk9@2s']
        """
        from .make_windows import Pick, WindowOptions, shape_of, windows_of

        pick = Pick(length, step, seconds, fps)
        options = WindowOptions(hop, also, times, take, pad, delta)
        return windows_of(self, shape_of(self.reader, field, pick, options))
