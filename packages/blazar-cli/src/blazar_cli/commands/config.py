"""``blazar config``: what is configured, and how to write it."""

import json
from pathlib import Path

import rich_click as click

from blazar_cli.commands.options import json_option
from blazar_cli.local import here
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
    """Show every setting that holds, and whether it is yours or the default."""
    directories, _ = here()
    settings = load_settings(directories.config_file)
    if as_json:
        show_json(settings.model_dump(mode="json", exclude_none=True))
        return
    show_table(_COLUMNS, _rows(settings), empty="There are no settings.")


def _rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Return name, value and origin of every setting; tables are written out, one line a value."""
    written = settings.model_dump(mode="json", exclude_unset=True)
    rows: list[tuple[str, str, str]] = []

    def walk(prefix: str, values: dict[str, object], own: object) -> None:
        mine = own if isinstance(own, dict) else {}
        for name, value in values.items():
            if isinstance(value, dict):
                walk(f"{prefix}{name}.", value, mine.get(name))
            else:
                rows.append((prefix + name, json.dumps(value), "config.toml" if name in mine else "default"))

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
