"""``blazar completion``: the script that a shell needs to complete commands and options."""

import rich_click as click
from click.shell_completion import get_completion_class

from blazar_cli.app import build_app

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(*, shell: str) -> None:
    """Print the completion script of your shell.

    bash: add `eval "$(blazar completion bash)"` to ~/.bashrc. zsh: add `eval "$(blazar completion zsh)"` to ~/.zshrc.
    fish: `blazar completion fish > ~/.config/fish/completions/blazar.fish`.
    """
    completer = get_completion_class(shell)
    assert completer is not None, "click ships all three"
    click.echo(completer(build_app(), {}, "blazar", "_BLAZAR_COMPLETE").source())
