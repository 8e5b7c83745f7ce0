"""``blazar engine``: the engine builds that can be used. Works with the daemon down."""

from pathlib import Path

import rich_click as click

from blazar_cli.commands.options import json_option
from blazar_cli.errors import EngineInUse, EngineOrphaned
from blazar_cli.local import here, local_daemon, store_for_changes
from blazar_cli.output import Column, show_json, show_table
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.types import EngineRow
from blazar_supervisor.builds import add_local as register_local
from blazar_supervisor.children.identity import start_mark
from blazar_supervisor.children.pidfile import read_pidfile

_COLUMNS = (Column("TAG"), Column("KIND"), Column("ACTIVE"), Column("VERSION"), Column("COMMIT"), Column("PATH"))


@click.group()
def engine() -> None:
    """Register, list, choose and remove engines."""


@engine.command("add-local")
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def add_local(*, path: Path, as_json: bool) -> None:
    """Register a llama-server binary of your own.

    PATH is asked for its version, flags and devices; what is not an engine is refused with the reason. The binary
    stays where it is.
    """
    _, layout = here()
    with store_for_changes(layout) as store:
        row = register_local(store, path)
        models = store.list_models()
    if as_json:
        show_json(as_plain(row))
        return
    version = row.version or "of unknown version"
    commit = f", commit {row.commit}" if row.commit else ""
    click.echo(f"Registered engine '{row.tag}' ({row.kind} {version}{commit}): {row.server_path}")
    if not row.active:
        click.echo(f"Another {row.kind} engine is active; `blazar engine use {row.tag}` makes new loads use this one.")
    elif not models:
        click.echo("Next: add a model with `blazar models add PATH`.")


@engine.command("list", aliases=["ls"])
@json_option
def list_engines(*, as_json: bool) -> None:
    """List the engines; the active one of a kind serves new loads."""
    _, layout = here()
    with Store(layout) as store:
        rows = store.list_engines()
    if as_json:
        show_json([as_plain(row) for row in rows])
        return
    cells = [
        (row.tag, row.kind, "yes" if row.active else "", row.version or "-", row.commit or "-", str(row.server_path))
        for row in rows
    ]
    show_table(
        _COLUMNS,
        cells,
        empty="No engine is registered yet. Register a llama-server with `blazar engine add-local PATH`, "
        "or run `blazar demo` to see a tested one at work.",
    )


@engine.command()
@click.argument("tag")
@json_option
def use(*, tag: str, as_json: bool) -> None:
    """Make an engine the active one of its kind.

    New loads use it; models that are loaded stay on theirs until they are unloaded.
    """
    _, layout = here()
    with store_for_changes(layout) as store:
        row = store.set_active_engine(tag)
    if as_json:
        show_json(as_plain(row))
        return
    click.echo(f"New loads use engine '{row.tag}' ({row.kind}).")


@engine.command("rm")
@click.argument("tag")
@json_option
def remove(*, tag: str, as_json: bool) -> None:
    """Forget an engine; a binary of your own stays where it is."""
    _, layout = here()
    daemon = local_daemon()
    with store_for_changes(layout) as store:
        if daemon is not None and (busy := daemon.models_on(tag)):
            raise EngineInUse(tag=tag, models=busy)
        if daemon is None and (orphans := _orphans(layout, tag)):
            raise EngineOrphaned(tag=tag, pids=orphans)
        row = store.remove_engine(tag)
        heir = store.active_engine(row.kind)
    if as_json:
        show_json(as_plain(row))
        return
    click.echo(f"Forgot engine '{row.tag}'. Its binary stays: {row.server_path}")
    if row.active and heir is not None:
        click.echo(f"New loads use engine '{heir.tag}' now.")


def _orphans(layout: Layout, tag: str) -> tuple[int, ...]:
    """Return the processes of this engine that a daemon left running when it was killed."""
    records = [record for path in layout.child_pidfiles() if (record := read_pidfile(path)) is not None]
    return tuple(
        record.pid for record in records if record.engine == tag and start_mark(record.pid) == record.start_mark
    )


def as_plain(row: EngineRow) -> dict[str, object]:
    """Return a row as JSON values."""
    return {
        "tag": row.tag,
        "kind": row.kind,
        "active": row.active,
        "local": row.local,
        "version": row.version,
        "commit": row.commit,
        "server_path": str(row.server_path),
        "installed_at": row.installed_at,
    }
