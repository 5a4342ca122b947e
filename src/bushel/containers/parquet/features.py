"""The metadata of columns in the footer of a Parquet file."""

from __future__ import annotations

import base64
from dataclasses import replace

from bushel.containers.features import Feature, features_in
from bushel.containers.parquet.footer import Footer
from bushel.errors import FormatError

_ARROW = "ARROW:schema"


def features_of(footer: Footer, path: str) -> dict[str, Feature]:
    """Return the features of the columns that have some, in the metadata of Hugging Face and of Arrow.

    Raises:
        FormatError: The metadata is malformed.
    """
    features = features_in(footer.metadata.get("huggingface"), path)
    if (encoded := footer.metadata.get(_ARROW)) is None:
        return features
    from bushel.containers.arrow.logical import tensor_of, time_codec
    from bushel.containers.arrow.messages import Type, columns_in

    try:
        columns = columns_in(base64.b64decode(encoded))
        for column in columns:
            time, tensor = None, tensor_of(column)
            if column.type == Type.DURATION:
                time = time_codec(column)
            if time is not None or tensor is not None:
                features[column.name] = replace(
                    features.get(column.name, Feature()), time=time, tensor=tensor
                )
    except ValueError as error:
        raise FormatError(f"the metadata {_ARROW!r} is malformed: {error}", file=path) from error
    return features
