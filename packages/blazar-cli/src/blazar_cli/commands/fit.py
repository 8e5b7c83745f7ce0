"""``blazar fit``: the memory verdict, by the very decision that a load goes through. Works with the daemon down."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import rich_click as click

from blazar_cli.commands.options import complete_model, json_option
from blazar_cli.local import here
from blazar_cli.output import human_bytes, human_count, show_facts, show_json
from blazar_cli.registration import describe_model
from blazar_routing.errors import ModelNotFound
from blazar_store.layout import Layout
from blazar_store.names import near_names
from blazar_store.settings import ModelSettings, Settings
from blazar_store.settings_files import load_settings
from blazar_store.store import Store
from blazar_store.types import EngineRow, ModelRow
from blazar_supervisor import EngineHost, Profile
from blazar_supervisor.pulls.short_names import find_known


@click.command()
@click.argument("model", metavar="MODEL|PATH", shell_complete=complete_model)
@click.option("--ctx", type=click.IntRange(256), help="For this context, in tokens, instead of the largest that fits.")
@json_option
def fit(*, model: str, ctx: int | None, as_json: bool) -> None:
    """Say whether a model fits into memory, before loading it.

    MODEL is a registered model, PATH a file that need not be; owner/repository shows a table of what the hub has.
    Nothing is loaded: headers, the engine's flags and this machine's memory are read. The exit status is 8 if it does
    not fit; the text then names the ways out.
    """
    if _names_repository(model):
        # Asynchronous HTTP, which a verdict on a file of this machine need not wait for.
        from blazar_cli.repository_fit import show_repository_fit

        show_repository_fit(model, as_json=as_json)
        return
    directories, layout = here()
    settings = load_settings(directories.config_file)
    with Store(layout) as store:
        row = _find(store, model)
        engines = store.list_engines()
    if ctx is not None:
        settings = _with_ctx(settings, row.name, ctx)
    profile = asyncio.run(_explain(layout, settings, row, engines))
    if as_json:
        show_json(_as_plain(row, profile))
        return
    device = f", {human_bytes(profile.need_device_bytes)} on accelerators" if profile.need_device_bytes else ""
    trained = f" (trained for {row.ctx_train})" if row.ctx_train is not None else ""
    show_facts(
        [
            ("model", f"{row.name} ({row.arch}, {human_count(row.params)} parameters, {row.quant or 'unknown'})"),
            ("context", f"{profile.ctx_tokens} tokens{trained}"),
            ("needs", f"{human_bytes(profile.need_host_bytes)} of main memory{device}"),
            ("verdict", profile.verdict or "it fits"),
        ]
    )
    for warning in profile.warnings:
        click.echo(warning, err=True)


def _names_repository(model: str) -> bool:
    """Return whether ``model`` is neither a row nor a file, and looks like a repository of the hub."""
    _, layout = here()
    if Path(model).exists() or ("/" not in model and find_known(model) is None) or model.startswith((".", "/", "~")):
        return False
    with Store(layout) as store:
        return store.find_model(model) is None


def _find(store: Store, model: str) -> ModelRow:
    row = store.find_model(model)
    if row is not None:
        return row
    if Path(model).exists():
        return describe_model(Path(model))
    raise ModelNotFound(model=model, near=near_names(model, [known.name for known in store.list_models()]))


def _with_ctx(settings: Settings, model: str, ctx: int) -> Settings:
    own = settings.models.get(model, ModelSettings()).model_copy(update={"ctx": ctx})
    return settings.model_copy(update={"models": {**settings.models, model: own}})


async def _explain(layout: Layout, settings: Settings, row: ModelRow, engines: Sequence[EngineRow]) -> Profile:
    # Never started: it collects no orphans and touches no running daemon's engines.
    host = EngineHost(layout=layout, settings=lambda: settings, models=lambda _: row, engines=lambda: engines)
    return await host.explain(row.name)


def _as_plain(row: ModelRow, profile: Profile) -> dict[str, object]:
    return {
        "model": row.name,
        "path": str(row.path),
        "engine": profile.engine,
        "ctx_tokens": profile.ctx_tokens,
        "slots": profile.slots,
        "need_host_bytes": profile.need_host_bytes,
        "need_device_bytes": profile.need_device_bytes,
        "verdict": profile.verdict,
        "warnings": list(profile.warnings),
    }
