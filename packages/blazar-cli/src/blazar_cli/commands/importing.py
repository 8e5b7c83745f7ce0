"""``blazar import``: what other programs of this kind keep on this machine becomes models here, at no cost in bytes."""

import os
from dataclasses import replace
from pathlib import Path

import rich_click as click

from blazar_cli.catalogue import check_no_alias
from blazar_cli.commands.options import json_option
from blazar_cli.errors import CliError, PathMissing
from blazar_cli.local import here, tell_daemon
from blazar_cli.ollama_store import StoredModel, overlay_of_stored, read_ollama_store
from blazar_cli.output import show_json
from blazar_cli.own_settings import settings_to_show_by
from blazar_cli.registration import describe_model
from blazar_routing.errors import LaneError
from blazar_store.errors import NameTaken
from blazar_store.layout import Layout, encode_name
from blazar_store.names import form_of_name
from blazar_store.settings import Settings
from blazar_store.store import Store


@click.group("import")
def import_group() -> None:
    """Take over what other programs keep on this machine."""


@import_group.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@json_option
def ollama(*, directory: Path | None, as_json: bool) -> None:
    """Take over the models of an Ollama store.

    DIRECTORY holds `manifests` and `blobs`; by default OLLAMA_MODELS, then ~/.ollama/models. The weights are linked,
    not copied; where that is not possible (another file system) they are used in place. Nothing there is changed.
    """
    store_dir = (directory or _default_store()).expanduser().absolute()
    if not (store_dir / "manifests").is_dir():
        raise PathMissing(path=store_dir / "manifests")
    directories, layout = here()
    layout.prepare()
    settings = settings_to_show_by(directories.config_file)
    done = [_take(model, layout, settings) for model in read_ollama_store(store_dir)]
    tell_daemon()
    if as_json:
        show_json(done)
        return
    for one in done:
        click.echo(f"{one['model']}: {one['outcome']}")
        if one["left_out"]:
            click.echo(f"  not taken over: {one['left_out']}")
    if not done:
        click.echo(f"{store_dir} holds no model whose weights are there.", err=True)


def _default_store() -> Path:
    configured = os.environ.get("OLLAMA_MODELS")
    return Path(configured) if configured else Path.home() / ".ollama" / "models"


def _take(model: StoredModel, layout: Layout, settings: Settings) -> dict[str, str]:
    overlay, left_out = overlay_of_stored(model)
    facts = {"model": model.name, "outcome": "", "left_out": ", ".join(left_out)}
    with Store(layout) as store:
        if any(form_of_name(row.name) == form_of_name(model.name) for row in store.list_models()):
            return facts | {"outcome": "there already"}
        try:
            check_no_alias(settings, model.name)
        except NameTaken as error:
            return facts | {"outcome": f"left out: {error}"}
        target = layout.models_dir / "ollama" / f"{encode_name(model.name)}.gguf"
        weights, linked = _link(model.weights, target)
        projector, beside = model.projector, target.with_suffix(".mmproj.gguf")
        if projector is not None and linked:
            projector, linked = _link(projector, beside)
        try:
            row = describe_model(weights, name=model.name, mmproj=projector)
        except (CliError, LaneError) as error:
            for link in {target, beside} - {model.weights}:
                link.unlink(missing_ok=True)
            return facts | {"outcome": f"left out: {error}"}
        # Links of ours may be deleted with their row: Ollama's own name for the bytes stays.
        row = replace(row, digest=model.sha256, pulled=linked, overlay=overlay)
        store.add_model(row)
    return facts | {"outcome": "linked" if linked else f"used in place: {weights}"}


def _link(source: Path, target: Path) -> tuple[Path, bool]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.hardlink_to(source)
    except OSError:
        return source, False
    return target, True
