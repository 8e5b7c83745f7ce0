"""``blazar cp``: a second name for a model."""

import rich_click as click

from blazar_cli.catalogue import check_no_alias
from blazar_cli.commands.options import complete_model, json_option
from blazar_cli.copying import copy_row
from blazar_cli.local import here, tell_daemon
from blazar_cli.output import show_json
from blazar_cli.own_settings import settings_to_show_by
from blazar_cli.plain_rows import as_plain


@click.command("cp")
@click.argument("source", shell_complete=complete_model)
@click.argument("destination")
@json_option
def copy(*, source: str, destination: str, as_json: bool) -> None:
    """Give a model a second name, at no cost in bytes.

    The files get a second name too (hard links), so that either model can be removed without the other. Where that is
    impossible, both use the same files, which stay until the last of them is removed. Settings in config.toml belong
    to a name and are not copied.
    """
    directories, layout = here()
    check_no_alias(settings_to_show_by(directories.config_file), destination)
    layout.prepare()
    copied = copy_row(layout, source, destination)
    tell_daemon()
    if as_json:
        show_json({**as_plain(copied.row), "linked": not copied.shared})
    elif copied.shared:
        click.echo(f"'{copied.row.name}' is a second name of '{source}', with the very same files: {copied.row.path}")
    else:
        click.echo(f"'{copied.row.name}' is a second name of '{source}', by hard links: no bytes were copied.")
    if copied.shared:
        click.echo(f"Its files could not be linked ({copied.shared}), so the two share them.", err=True)
