"""``blazar fit``: the memory verdict, by the same decision that a load goes through. Works with the daemon down."""

from dataclasses import replace
from pathlib import Path

import rich_click as click

from blazar_cli.commands.options import json_option
from blazar_cli.exit_codes import ExitCode
from blazar_cli.local import here
from blazar_cli.output import human_bytes, human_count, show_facts, show_json
from blazar_cli.registration import describe_model
from blazar_gguf import GgufMeta
from blazar_routing.errors import ModelNotFound
from blazar_store.names import near_names
from blazar_store.settings_files import load_settings
from blazar_store.store import Store
from blazar_store.types import ModelRow
from blazar_supervisor.residency.machine import measure_memory
from blazar_supervisor.residency.memory_budget import Budgeted, budget_memory
from blazar_supervisor.residency.model_files import read_model
from blazar_supervisor.residency.planner import knobs_for
from blazar_supervisor.residency.pools import Bytes, Pools


@click.command()
@click.argument("model", metavar="MODEL|PATH")
@click.option("--ctx", type=click.IntRange(256), help="For this context, in tokens, instead of the largest that fits.")
@json_option
@click.pass_context
def fit(context: click.Context, *, model: str, ctx: int | None, as_json: bool) -> None:
    """Say whether a model fits into memory, before loading it.

    MODEL is a registered model, PATH a file that need not be. Nothing is loaded; the header and this machine's memory
    are read. The exit status is 8 if it does not fit.
    """
    directories, layout = here()
    settings = load_settings(directories.config_file)
    with Store(layout) as store:
        row = _find(store, model)
    meta = read_model(row)
    knobs = knobs_for(row, settings)
    if ctx is not None:
        knobs = replace(knobs, ctx=ctx)
    pools = measure_memory()
    budgeted = budget_memory(row, meta, knobs, pools.available)
    fits = not pools.known or pools.available.covers(budgeted.need)
    if as_json:
        show_json(_as_plain(row, budgeted, pools, fits=fits))
        context.exit(ExitCode.OK if fits else ExitCode.DOES_NOT_FIT)
    show_facts(
        [
            ("model", f"{row.name} ({row.arch}, {human_count(row.params)} parameters, {row.quant or 'unknown'})"),
            ("context", f"{budgeted.ctx_tokens} tokens{_trained(meta)}"),
            ("needs", _shown(budgeted.need)),
            ("available", _shown(pools.available)),
            ("verdict", budgeted.verdict or ("it fits" if fits else "it does not fit into what is available now")),
        ]
    )
    for warning in budgeted.warnings:
        click.echo(warning, err=True)
    if not fits:
        context.exit(ExitCode.DOES_NOT_FIT)


def _find(store: Store, model: str) -> ModelRow:
    row = store.find_model(model)
    if row is not None:
        return row
    if Path(model).exists():
        return describe_model(Path(model))
    raise ModelNotFound(model=model, near=near_names(model, [known.name for known in store.list_models()]))


def _trained(meta: GgufMeta) -> str:
    return f" of {meta.context_length} trained for" if meta.context_length else ""


def _shown(size: Bytes) -> str:
    device = f", {human_bytes(size.device)} on accelerators" if size.device else ""
    return f"{human_bytes(size.host)} of main memory{device}"


def _as_plain(row: ModelRow, budgeted: Budgeted, pools: Pools, *, fits: bool) -> dict[str, object]:
    return {
        "model": row.name,
        "path": str(row.path),
        "fits": fits,
        "ctx_tokens": budgeted.ctx_tokens,
        "need_host_bytes": budgeted.need.host,
        "need_device_bytes": budgeted.need.device,
        "available_host_bytes": pools.available.host,
        "available_device_bytes": pools.available.device,
        "verdict": budgeted.verdict,
        "warnings": list(budgeted.warnings),
    }
