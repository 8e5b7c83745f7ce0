"""``blazar version``. Without options ``blazar_cli.main`` answers it before anything is imported."""

import importlib.metadata
import platform

import rich_click as click

from blazar_cli import VERSION
from blazar_cli.commands.options import json_option
from blazar_cli.output import show_json

_PACKAGES = ("cli", "gateway", "supervisor", "routing", "budget", "store", "gguf")


@click.command()
@json_option
def version(*, as_json: bool) -> None:
    """Show the version."""
    if not as_json:
        click.echo(f"blazar {VERSION}")
        return
    names = [f"blazar-{package}" for package in _PACKAGES]
    show_json(
        {
            "version": VERSION,
            "packages": {name: importlib.metadata.version(name) for name in names},
            "python": platform.python_version(),
        }
    )
