"""GulpIO chunks: JPEG frames and a table of metadata."""

from bushel.containers.gulp.container import CONTAINER

__all__ = ["CONTAINER"]
