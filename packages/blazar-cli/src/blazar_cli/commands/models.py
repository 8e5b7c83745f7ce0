"""``blazar models``: the files that can be served. Works with the daemon down; a running one notices by itself."""

import os
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import rich_click as click

from blazar_budget import OVERHEAD_BYTES
from blazar_cli.catalogue import check_no_alias, row_named
from blazar_cli.commands.options import complete_model, json_option
from blazar_cli.directory_rows import describe_directory, holds_safetensors
from blazar_cli.errors import ApiRefused, CliError
from blazar_cli.local import here, local_daemon, store_for_changes
from blazar_cli.output import Column, human_bytes, human_count, show_facts, show_json, show_table
from blazar_cli.overlay_words import overlay_facts, part_of
from blazar_cli.own_settings import settings_to_show_by
from blazar_cli.plain_rows import as_plain
from blazar_cli.registration import describe_model, find_doubt
from blazar_cli.scanning import find_model_files, is_registered, known_directories
from blazar_cli.served_templates import as_served
from blazar_cli.weights import delete_weights, files_of
from blazar_routing.errors import LaneError, ModelNotFound
from blazar_store.errors import StoreError
from blazar_store.names import near_names
from blazar_store.store import Store
from blazar_store.types import LanePin, ModelRow
from blazar_supervisor.pulls.short_names import search_known

_COLUMNS = (
    Column("NAME"),
    Column("ARCH"),
    Column("PARAMS", right=True),
    Column("QUANT"),
    Column("SIZE", right=True),
    Column("CONTEXT", right=True),
    Column("CAPABILITIES"),
)

_FOUND_COLUMNS = (
    Column("NAME"),
    Column("PARAMS", right=True),
    Column("AT 4 BIT", right=True),
    Column("REPOSITORY"),
    Column("ABOUT"),
)


@click.group()
def models() -> None:
    """Add, list, show and remove models."""


@models.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", help="The name to serve it under. Default: from the file's name.")
@click.option("--mmproj", type=click.Path(path_type=Path), help="The projector that lets it see or hear.")
@click.option("--force", is_flag=True, help="Add it although the engine is expected to refuse it.")
@json_option
def add(*, path: Path, name: str | None, mmproj: Path | None, force: bool, as_json: bool) -> None:
    """Register a model where it is.

    PATH is a .gguf file, any part of a split set, or a directory that holds exactly one model: a .gguf file, or
    safetensors with their configuration. Nothing is moved or
    copied.
    """
    directories, layout = here()
    if mmproj is None and holds_safetensors(path):
        row = describe_directory(path, name=name)
    else:
        row = describe_model(path, name=name, mmproj=mmproj, force=force)
    settings = settings_to_show_by(directories.config_file)
    with store_for_changes(layout) as store:
        known = _same_file(store, row, named=name is not None)
        if known is None:
            check_no_alias(settings, row.name)
            store.add_model(row)
        elif known.digest != row.digest or known.mmproj_path != row.mmproj_path:
            row = _renewed(row, known)
            store.replace_model(row)
        else:
            row = known
        has_engine = bool(store.list_engines())
    if as_json:
        show_json(as_plain(row))
        return
    what = "Added" if known is None else "Registered already:"
    click.echo(
        f"{what} model '{row.name}' ({row.arch}, {human_count(row.params)} parameters, {row.quant or 'unknown'})."
    )
    if (doubt := find_doubt(row)) is not None:
        click.echo(f"Not every engine build loads it: {doubt}.", err=True)
    click.echo(_next_step(row, has_engine=has_engine))


def _same_file(store: Store, row: ModelRow, *, named: bool) -> ModelRow | None:
    # Another name for the same file is wanted when it was given; without one, adding twice is no mistake.
    rows = [known for known in store.list_models() if known.path == row.path and not known.overlay.source]
    return next((known for known in rows if known.name == row.name), None if named or not rows else rows[0])


def _renewed(row: ModelRow, known: ModelRow) -> ModelRow:
    renewed = replace(row, name=known.name, engine=known.engine, pulled=known.pulled, added_at=known.added_at)
    return replace(renewed, overlay=known.overlay)


def _next_step(row: ModelRow, *, has_engine: bool) -> str:
    if not has_engine:
        return (
            "No engine is registered yet. Register a llama-server with `blazar engine add-local PATH`, "
            "or run `blazar demo` to see a tested one at work."
        )
    if local_daemon() is None:
        return f"Start the daemon with `blazar serve`, then ask with `blazar run {shlex.quote(row.name)}`."
    return f"Ask it with `blazar run {shlex.quote(row.name)}`."


@models.command("list", aliases=["ls"])
@json_option
def list_models(*, as_json: bool) -> None:
    """List the models, newest first."""
    directories, layout = here()
    settings = settings_to_show_by(directories.config_file)
    with Store(layout) as store:
        rows = [as_served(row, settings) for row in store.list_models()]
    if as_json:
        show_json([as_plain(row) for row in rows])
        return
    cells = [
        (
            row.name,
            row.arch,
            human_count(row.params),
            row.quant or "-",
            human_bytes(row.size_bytes),
            str(row.ctx_train) if row.ctx_train is not None else "-",
            ", ".join(row.capabilities),
        )
        for row in rows
    ]
    show_table(
        _COLUMNS,
        cells,
        empty="No model is registered yet. Add one with `blazar models add PATH`, or fetch one: `blazar pull NAME`.",
    )


@models.command()
@click.argument("name", shell_complete=complete_model)
@click.option("--modelfile", "part", flag_value="modelfile", help="Only the Modelfile it can be made from again.")
@click.option("--parameters", "part", flag_value="parameters", help="Only its parameters.")
@click.option("--template", "part", flag_value="template", help="Only its chat template.")
@click.option("--system", "part", flag_value="system", help="Only its system prompt.")
@click.option("--license", "part", flag_value="license", help="Only its licence.")
@json_option
def show(*, name: str, part: str | None, as_json: bool) -> None:
    """Show what is known of a model."""
    directories, layout = here()
    settings = settings_to_show_by(directories.config_file)
    with Store(layout) as store:
        row = as_served(row_named(store, settings, name) or _required(store, name), settings)
        moved = next((pin for pin in store.list_lane_pins() if pin.model == row.name), None)
    if as_json:
        show_json(as_plain(row) | ({} if moved is None else {"lane_pin": asdict(moved)}))
        return
    if part is not None:
        click.echo(part_of(row, part).rstrip("\n"))
        return
    files = "\n".join(str(path) for path in row.shards)
    show_facts(
        [
            ("name", row.name),
            ("file" if len(row.shards) == 1 else "files", files),
            *([("projector", str(row.mmproj_path))] if row.mmproj_path else []),
            ("architecture", row.arch),
            ("parameters", human_count(row.params)),
            ("quantisation", row.quant or "unknown"),
            ("size", human_bytes(row.size_bytes)),
            ("trained context", f"{row.ctx_train} tokens" if row.ctx_train is not None else "unknown"),
            ("capabilities", ", ".join(row.capabilities)),
            ("engine", row.engine or _lane(moved)),
            *overlay_facts(row),
            ("added", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.added_at))),
        ]
    )


@models.command()
@click.argument("name", shell_complete=complete_model)
@json_option
def unpin(*, name: str, as_json: bool) -> None:
    """Forget which engine build a model was moved to.

    A model whose architecture an engine does not know is moved to one that does, and stays there. Once the engine has
    learned it (after an update), this lets the next load try again from the first.
    """
    _, layout = here()
    with Store(layout) as store:
        row = _required(store, name)
        forgotten = store.forget_lane(row.name)
    if as_json:
        show_json({"model": row.name, "forgotten": forgotten})
        return
    if forgotten:
        click.echo(f"Forgot which engine serves '{row.name}': its next load tries them from the first.")
    else:
        click.echo(f"'{row.name}' was not moved to any engine: nothing to forget.")


@models.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_model)
@click.option("--weights", is_flag=True, help="Delete the files too, although Blazar did not fetch them.")
@json_option
def remove(*, names: tuple[str, ...], weights: bool, as_json: bool) -> None:
    """Forget models; delete the files that Blazar pulled.

    Other files stay where they are, and so do files that another model uses. A model that is loaded is unloaded
    first, after the answers in progress.
    """
    _, layout = here()
    removed: list[ModelRow] = []
    with store_for_changes(layout) as store:
        rows = [_required(store, name) for name in names]
        daemon = local_daemon()
        for row in rows:
            if daemon is not None:
                # A row that was added a moment ago is not known there yet, and then cannot be loaded either.
                with suppress(ApiRefused):
                    daemon.unload(row.name)
            removed.append(store.remove_model(row.name))
        left = store.list_models()
    deleted = {row.name for row in removed if (row.pulled or weights) and delete_weights(row, left)}
    if as_json:
        show_json([as_plain(row) for row in removed])
        return
    for row in removed:
        if row.name in deleted:
            click.echo(f"Removed model '{row.name}' and its files ({human_bytes(row.size_bytes)}).")
        else:
            click.echo(f"Forgot model '{row.name}'. {_what_stays(row, left)}")


def _lane(moved: LanePin | None) -> str:
    if moved is None:
        return "by routing"
    former = " and ".join(moved.refused_by)
    return f"{moved.engine}, since {former} did not know its architecture (`blazar models unpin` forgets it)"


def _what_stays(row: ModelRow, left: Sequence[ModelRow]) -> str:
    users = [other.name for other in left if set(files_of(row)) & set(files_of(other))]
    if users:
        return f"Its files stay, for {', '.join(users)}: {row.path}"
    return f"Its file stays: {row.path}"


@models.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--known", is_flag=True, help="Look where LM Studio and the Hugging Face libraries keep models.")
@json_option
def scan(*, directory: Path | None, known: bool, as_json: bool) -> None:
    """Register every model below a directory, where it is.

    A split set becomes one model, a projector goes with the model beside it. What is registered already stays as it
    is; what no engine could load is left out and said.
    """
    places = [directory.expanduser().absolute()] if directory is not None else []
    if known:
        places += known_directories(os.environ, Path.home())
    if not places:
        raise click.UsageError("name a directory, or look in the known ones with --known.")
    directories, layout = here()
    settings = settings_to_show_by(directories.config_file)
    added, left_out = [], []
    with store_for_changes(layout) as store:
        for path, mmproj in (found for place in places for found in find_model_files(place)):
            if is_registered(path, store.list_models()):
                continue
            try:
                row = describe_model(path, mmproj=mmproj)
                check_no_alias(settings, row.name)
                store.add_model(row)
            except (CliError, LaneError, StoreError) as error:
                left_out.append(str(error))
            else:
                added.append(row)
    if as_json:
        show_json({"added": [as_plain(row) for row in added], "left_out": left_out})
        return
    for row in added:
        click.echo(f"Added model '{row.name}': {row.path}")
    for text in left_out:
        click.echo(text, err=True)
    if not added:
        click.echo(f"Nothing new below {', '.join(map(str, places))}.", err=True)


@models.command()
@click.argument("words", nargs=-1)
@click.option("--fits", is_flag=True, help="Only those whose 4 bit file fits into this machine's memory.")
@json_option
def search(*, words: tuple[str, ...], fits: bool, as_json: bool) -> None:
    """Search the short names that `blazar pull` knows. Works offline.

    Any other model is pulled by its repository: `blazar pull owner/repository`.
    """
    found = search_known(" ".join(words))
    if fits:
        from blazar_cli.pulling import machine_memory

        memory = machine_memory()
        room = 0.85 * max(memory.ram_bytes, memory.device_bytes) - OVERHEAD_BYTES
        found = tuple(model for model in found if model.q4_bytes < room)
    if as_json:
        show_json([asdict(model) for model in found])
        return
    cells = [
        (model.name, human_count(model.parameters), f"~{human_bytes(model.q4_bytes)}", model.repository, model.about)
        for model in found
    ]
    show_table(
        _FOUND_COLUMNS,
        cells,
        empty="No short name matches. Name a repository of the hub instead: `blazar pull owner/repository`.",
    )


def _required(store: Store, name: str) -> ModelRow:
    row = store.find_model(name)
    if row is None:
        raise ModelNotFound(model=name, near=near_names(name, [known.name for known in store.list_models()]))
    return row
