"""``blazar create``: a model made from another, as an overlay of configuration."""

import shlex
from dataclasses import replace
from pathlib import Path

import rich_click as click

from blazar_cli.catalogue import check_no_alias
from blazar_cli.commands.options import complete_model, json_option
from blazar_cli.creating import create_row
from blazar_cli.errors import ModelfileInvalid, PathMissing
from blazar_cli.local import here, local_daemon, tell_daemon
from blazar_cli.modelfile.parsing import BadModelfile, decode_modelfile, parse_modelfile
from blazar_cli.modelfile.recipe import Recipe, recipe_of
from blazar_cli.output import show_json
from blazar_cli.own_settings import settings_to_show_by
from blazar_cli.plain_rows import as_plain
from blazar_store.files import read_plain_file
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_supervisor.pulls.short_names import find_known

_USUAL = Path("Modelfile")


@click.command()
@click.argument("name")
@click.option(
    "--from", "source", metavar="MODEL", shell_complete=complete_model, help="A model or a .gguf file; beats FROM."
)
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), help="The Modelfile. Default, without --from: ./Modelfile."
)
@json_option
def create(*, name: str, source: str | None, file: Path | None, as_json: bool) -> None:
    """Make a model from another, with defaults of its own.

    The weights are not copied: NAME points at those of its source, and says which system prompt, turns, parameters,
    chat template and adapters it is asked with. A source that is not here and is a name of the hub or the catalogue is
    pulled first. What a request or config.toml says beats it. The Modelfile is
    Ollama's: FROM, PARAMETER, TEMPLATE, SYSTEM, ADAPTER, LICENSE, MESSAGE. A model of that name that was made in this
    way is made anew.
    """
    if file is None and source is None:
        if not _USUAL.exists():
            raise click.UsageError("name what it is made from with --from MODEL, or a Modelfile with -f FILE.")
        file = _USUAL
    recipe = _read(file) if file is not None else Recipe()
    base = file.expanduser().absolute().parent if file is not None else Path.cwd()
    if source is not None:
        # What is typed here is meant from here; the Modelfile's own paths are meant from where it is.
        recipe = replace(recipe, source=_from_here(source))
    directories, layout = here()
    layout.prepare()
    with Store(layout) as store:
        if store.find_model(name) is None:
            check_no_alias(settings_to_show_by(directories.config_file), name)
    recipe = _with_source_here(recipe, layout, base)
    created = create_row(layout, name, recipe, base_dir=base)
    tell_daemon()
    for note in created.notes:
        click.echo(f"{note[0].upper()}{note[1:]}.", err=True)
    if as_json:
        show_json({**as_plain(created.row), "replaced": created.replaced, "notes": list(created.notes)})
        return
    done = "Made model" if not created.replaced else "Made model anew:"
    click.echo(f"{done} '{created.row.name}' from {created.row.overlay.source}, without copying weights.")
    click.echo(f"Ask it with `blazar run {shlex.quote(created.row.name)}`.")


def _read(file: Path) -> Recipe:
    try:
        data = read_plain_file(file.expanduser())
    except FileNotFoundError:
        raise PathMissing(path=file) from None
    except OSError as error:
        raise ModelfileInvalid(path=file, line=1, reason=f"it cannot be read: {error.strerror or error}") from error
    try:
        return recipe_of(parse_modelfile(decode_modelfile(data)))
    except BadModelfile as error:
        raise ModelfileInvalid(path=file, line=error.line, reason=error.reason) from error


def _with_source_here(recipe: Recipe, layout: Layout, base: Path) -> Recipe:
    """Return a recipe whose source is on this machine: a name of the hub or the catalogue is pulled first."""
    source = recipe.source
    if source.startswith((".", "/", "~")) or (base / source).is_file():
        return recipe
    with Store(layout) as store:
        known = store.find_model(source) is not None
    if known or ("/" not in source and find_known(source) is None):
        return recipe
    from blazar_cli.pull_client import pull_here, pull_through

    daemon = local_daemon()
    return replace(recipe, source=pull_here(source) if daemon is None else pull_through(daemon, source))


def _from_here(source: str) -> str:
    return str(Path(source).absolute()) if source.startswith(("./", "../")) else source
