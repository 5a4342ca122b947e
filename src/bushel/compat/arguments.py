"""Command lines of the drop-ins: an `argparse` parser that suggests the option that was probably meant."""

from __future__ import annotations

import argparse
import difflib
from typing import NoReturn


class SuggestingParser(argparse.ArgumentParser):
    """A parser whose error about an unknown option names the options that are spelled like it."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with 2."""
        kind, _, unknown = message.partition("unrecognized arguments: ")
        if unknown and not kind:
            options = [option for option in self._option_string_actions if option.startswith("--")]
            for word in unknown.split():
                name = word.partition("=")[0]
                near = [option for option in options if len(name) > 2 and option.startswith(name)]
                near = near or difflib.get_close_matches(name, options, n=2)
                if name.startswith("-") and near:
                    message += f". Did you mean {' or '.join(near)}?"
                    break
        super().error(message)
