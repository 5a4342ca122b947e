"""`bushel completion`."""

from __future__ import annotations

from typing import Annotated, Literal

import click

from .command import Argument


def command(shell: Annotated[Literal["bash", "zsh", "fish"], Argument("The shell.")]) -> None:
    """Print a script that completes commands and options of `bushel` in a shell.

    Examples:
      bushel completion bash > ~/.local/share/bash-completion/completions/bushel
      bushel completion fish > ~/.config/fish/completions/bushel.fish
      eval "$(bushel completion zsh)"
    """
    from click.shell_completion import get_completion_class

    from .output import print_text

    kind = get_completion_class(shell)
    if kind is None:
        raise click.BadParameter(f"click cannot complete in {shell}", param_hint="SHELL")
    completion = kind(
        click.get_current_context().find_root().command, {}, "bushel", "_BUSHEL_COMPLETE"
    )
    print_text(completion.source_template % completion.source_vars())
