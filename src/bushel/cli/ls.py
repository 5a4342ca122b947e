"""`bushel ls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict

from .command import Option
from .options import DatasetOptions, Json, Path, TrustOptions

if TYPE_CHECKING:
    from bushel._dataset.views.dataset import Dataset

_NOT_IN_JSON = (float("inf"), float("-inf"))


class ListOptions(Struct, frozen=True):
    """The samples to list, and their shown properties."""

    number: Annotated[
        int | None, Option("Number of samples to list. [default: all]", "-n", "--limit", min=0)
    ] = None
    start: Annotated[int, Option("Number of samples to skip before the first one.", min=0)] = 0
    fields: Annotated[bool, Option("Show the size in bytes of every field.")] = False
    where: Annotated[
        str | None,
        Option("List samples for which this is true, such as 'label == 3 and image.width > 256'."),
    ] = None
    columns: Annotated[str | None, Option("Show these columns, such as label,image.width.")] = None
    sort: Annotated[
        str | None,
        Option("Sort by this column; -image.width puts the largest values first."),
    ] = None
    as_csv: Annotated[bool, Option("Print CSV: position, key, and the columns.", "--csv")] = False

    @property
    def names(self) -> list[str]:
        """The names of the columns to show."""
        return [name.strip() for name in (self.columns or "").split(",") if name.strip()]


def command(
    path: Path,
    *,
    listed: ListOptions,
    chosen: DatasetOptions,
    trust: TrustOptions,
    as_json: Json = False,
) -> None:
    """List the keys of a dataset, in order.

    Only the index is read. Columns are values in the index: `bushel info --columns` shows them.

    Examples:
      bushel ls train/ -n 10 --fields
      bushel ls train/ --json | jq .key
      bushel ls train/ --where 'label == 3' --columns label,image.width --csv
    """
    from bushel._dataset.open.open import open_any
    from bushel._dataset.views.dataset import Dataset

    from .describe import listing
    from .output import print_csv, print_json, print_text

    dataset = open_any(
        chosen.files(path), container=chosen.container, **asdict(trust), on_damage="warn"
    )
    names, as_csv, start, number = listed.names, listed.as_csv, listed.start, listed.number
    places: Any = range(0)
    if listed.where or names or listed.sort or as_csv:
        if not isinstance(dataset, Dataset):
            raise ValueError(
                "a stream has no columns: write it as a dataset first, with `bushel convert`"
            )
        dataset, places = _chosen(dataset, listed)
        start, number = 0, None
    if isinstance(dataset, Dataset):
        values = {name: dataset.column(name).tolist() for name in names}
    else:
        values = {}
    if as_csv:
        print_csv(["position", "key", *names])
    for position, key, sizes in listing(
        dataset, start, number, sizes=(listed.fields or as_json) and not as_csv
    ):
        cells = {name: column[position] for name, column in values.items()}
        place = int(places[position]) if len(places) else position
        if as_csv:
            print_csv([place, key, *cells.values()])
        elif as_json:
            finite = {
                name: None if value in _NOT_IN_JSON or value != value else value
                for name, value in cells.items()
            }
            print_json(
                {"position": place, "key": key, "fields": sizes}
                | ({"columns": finite} if names else {})
            )
        else:
            shown = [f"{name}={'' if value is None else value}" for name, value in cells.items()]
            print_text(
                "  ".join([key, *shown, *(f"{name}={length}" for name, length in sizes.items())])
            )


def _chosen(dataset: Dataset, listed: ListOptions) -> tuple[Dataset, Any]:
    """Return the samples to list, and their positions in the dataset."""
    import numpy as np

    from bushel._index.columns import sorted_rows

    places = np.arange(len(dataset), dtype=np.int64)
    if listed.where is not None:
        places = dataset.positions_where(listed.where)
    if sort := listed.sort:
        values: Any = dataset[places].column(sort.removeprefix("-"))
        reverse, missing = sort.startswith("-"), np.ma.getmaskarray(values)
        places = places[sorted_rows(np.ma.getdata(values), missing, None, reverse=reverse)]
    places = places[listed.start : None if listed.number is None else listed.start + listed.number]
    return dataset[places], places
