"""``blazar migrate``: a configuration of an earlier version, brought up to date."""

import rich_click as click
import tomlkit

from blazar_cli.commands.options import json_option
from blazar_cli.local import here
from blazar_cli.output import show_json
from blazar_routing.errors import KeyMalformed
from blazar_store.config_file import ConfigFile
from blazar_store.key_entries import Migrated, migrate_keys


@click.command()
@json_option
def migrate(*, as_json: bool) -> None:
    """Bring the configuration of an earlier version up to date.

    `api_keys` becomes [[keys]], and secrets that stand in the file are replaced by their hashes. The former content is
    kept beside the file, with .bak at its end. Doing it again changes nothing.
    """
    directories, _ = here()
    file = ConfigFile(directories.config_file)
    found = Migrated()

    def change(document: tomlkit.TOMLDocument) -> None:
        nonlocal found
        try:
            found = migrate_keys(document)
        except ValueError as error:
            raise KeyMalformed(f"`api_keys` in {file.path} {error}; nothing was changed.") from error

    file.edit(change)
    changed = bool(found.moved or found.hashed)
    if as_json:
        backup = str(file.backup) if changed else None
        show_json({"moved": list(found.moved), "hashed": list(found.hashed), "backup": backup})
        return
    if not changed:
        click.echo("Nothing to do: the configuration is up to date.")
        return
    if found.moved:
        click.echo(f"Moved from api_keys to [[keys]]: {', '.join(found.moved)}.")
    if found.hashed:
        click.echo(f"Replaced by their hashes: the secrets of {', '.join(found.hashed)}.")
    click.echo(f"The former content is in {file.backup}, secrets included: delete it once all works.")
