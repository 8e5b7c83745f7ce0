"""``blazar config``: what is configured, and how to write it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import rich_click as click

from blazar_cli.address import AddressSource
from blazar_cli.commands.options import json_option
from blazar_cli.local import find_address, here
from blazar_cli.ollama_env import as_settings, read_ollama_defaults
from blazar_cli.output import Column, show_json, show_table
from blazar_store.settings import Settings
from blazar_store.settings_files import load_settings
from blazar_store.settings_words import sample_config, settings_schema

_COLUMNS = (Column("SETTING"), Column("VALUE"), Column("FROM"))


@click.group()
def config() -> None:
    """Show, check and sample the configuration."""


@config.command()
@json_option
def show(*, as_json: bool) -> None:
    """Show every setting that holds, and where it comes from: config.toml, a variable or the default.

    A running daemon has the variables that it was started with: `blazar status` shows those.
    """
    directories, _ = here()
    file = directories.config_file
    defaults = read_ollama_defaults(os.environ)
    settings = load_settings(file, below=as_settings(defaults))
    address = find_address(directories)
    if address.source in {AddressSource.BLAZAR_HOST, AddressSource.OLLAMA_HOST}:
        settings = settings.model_copy(update={"host": address.host, "port": address.port})
    if as_json:
        show_json(settings.model_dump(mode="json", exclude_none=True))
        return
    written = load_settings(file).model_dump(mode="json", exclude_unset=True)
    variables = {default.dotted: default.variable for default in defaults if not _is_in(written, default.setting)}
    if address.source in {AddressSource.BLAZAR_HOST, AddressSource.OLLAMA_HOST}:
        variables |= {"host": str(address.source), "port": str(address.source)}
    show_table(_COLUMNS, _rows(settings, written, variables), empty="There are no settings.")


def _is_in(written: object, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(written, dict) or name not in written:
            return False
        written = written[name]
    return True


def _rows(settings: Settings, written: object, variables: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return name, value and origin of every setting; tables are written out, one line a value.

    Args:
        settings: What holds.
        written: What the file says.
        variables: The settings that come from a variable, and which.
    """
    rows: list[tuple[str, str, str]] = []

    def walk(prefix: str, values: dict[str, object], own: object) -> None:
        mine = own if isinstance(own, dict) else {}
        for name, value in values.items():
            if isinstance(value, dict):
                walk(f"{prefix}{name}.", value, mine.get(name))
            else:
                origin = variables.get(prefix + name) or ("config.toml" if name in mine else "default")
                rows.append((prefix + name, json.dumps(value), origin))

    walk("", settings.model_dump(mode="json", exclude_none=True), written)
    return rows


@config.command("path")
@json_option
def show_path(*, as_json: bool) -> None:
    """Print where config.toml is, whether it exists or not."""
    directories, layout = here()
    if as_json:
        show_json(
            {
                "config_file": str(directories.config_file),
                "exists": directories.config_file.is_file(),
                "data_dir": str(layout.data_dir),
                "cache_dir": str(directories.cache_dir),
            }
        )
        return
    click.echo(str(directories.config_file))


@config.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@json_option
def check(*, path: Path | None, as_json: bool) -> None:
    """Check a configuration file; without PATH, the one in use.

    A running daemon reads its file again by itself; one with a mistake changes nothing there.
    """
    directories, _ = here()
    file = path if path is not None else directories.config_file
    load_settings(file)
    if as_json:
        show_json({"config_file": str(file), "valid": True})
    elif file.is_file():
        click.echo(f"{file} is valid.")
    else:
        click.echo(f"{file} does not exist; the defaults hold. `blazar config sample > {file}` makes one.")


@config.command()
def sample() -> None:
    """Print a config.toml in which every setting is a comment with its default."""
    click.echo(sample_config(), nl=False)


@config.command()
def schema() -> None:
    """Print the JSON Schema of config.toml, for editors."""
    show_json(settings_schema())
