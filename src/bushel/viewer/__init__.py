"""The viewer: look at datasets in a browser (`bushel view`, `bushel.view`).

`serve` starts it, `app` has the routes, and `guard` checks requests. Pages are in `templates/`,
styles and scripts in `static/`; nothing is built, and nothing is loaded from elsewhere. Only
datasets that were named at the start are read, and nothing is written.
"""

from .serve import Viewer, view

__all__ = ["Viewer", "view"]
