"""Messages about what `ds[...]` does not take, with the call that was probably meant. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["texts_as_positions", "unknown_key", "wrong_position"]

_SHOWN = 3


def unknown_key(key: str, samples: int, fields: Collection[str]) -> str:
    """Return the message about a key that no sample has.

    Args:
        key: The key.
        samples: Number of samples of the dataset.
        fields: Names of its fields: a user may have meant one of them, not a key.
    """
    message = f"no sample has the key {key!r}; the dataset has {samples} samples"
    if key not in fields:
        return message
    return (
        f"{message}. {key!r} is a field: ds[0][{key!r}] is its value in a sample, ds.fields([{key!r}]) is a view "
        f"with this field only, and ds.column({key!r}) is an array of its values in the index"
    )


def texts_as_positions(texts: Sequence[str], fields: Collection[str]) -> str:
    """Return the message about a list of texts where positions are expected.

    Args:
        texts: The texts.
        fields: Names of the fields of the dataset.
    """
    shown = str(list(texts[:_SHOWN]))[:-1] + (", …]" if len(texts) > _SHOWN else "]")
    by_key, by_name = f"ds.select({shown}) is a view of the samples with these keys", f"ds.fields({shown}) is a view"
    meant = f"{by_name} with these fields" if all(text in fields for text in texts) else by_key
    return f"positions are integers, not texts: {meant}"


def wrong_position(item: object) -> str:
    """Return the message about an object that is not a position."""
    message = f"a position must be an integer, not {item!r}"
    whole = isinstance(item, float) and item.is_integer()
    return f"{message}: use ds[{item:.0f}]" if whole else f"{message}; a key is a str, and a list gives a view"
