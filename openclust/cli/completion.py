"""`openclust completion`: the script by which a shell completes commands, options and their values."""

from __future__ import annotations

import click

from openclust.cli.exit_codes import DONE

VARIABLE = "_OPENCLUST_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    bash: add `eval "$(openclust completion bash)"` to ~/.bashrc.
    """
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None, "click knows these shells"
    root = context.find_root()
    click.echo(complete(root.command, {}, "openclust", VARIABLE).source())
    return DONE
