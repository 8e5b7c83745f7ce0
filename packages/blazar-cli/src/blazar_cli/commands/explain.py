"""``blazar explain``: which engine would serve a model, how it would be started, and whether it fits."""

import asyncio
import shlex

import rich_click as click

from blazar_cli.address import AddressSource
from blazar_cli.catalogue import row_named
from blazar_cli.client import EXPLAIN, JsonObject
from blazar_cli.commands.options import complete_model, json_option
from blazar_cli.exit_codes import exit_for
from blazar_cli.local import connect, find_address, here
from blazar_cli.output import Column, human_bytes, show_facts, show_json, show_table
from blazar_cli.own_settings import own_settings
from blazar_routing.errors import ModelNotFound
from blazar_store.names import near_names
from blazar_store.store import Store

_PATIENCE_S = 120.0
"""An engine build that is asked for the first time what it can do may have to load a driver."""


@click.command()
@click.argument("model", metavar="MODEL", shell_complete=complete_model)
@json_option
def explain(*, model: str, as_json: bool) -> None:
    """Say which engine would serve a model, how, and why.

    Shows what the model's files are taken for, every engine with the reason for it or against it, the command that
    would be started, and the memory it needs. Nothing is started. With a daemon running it is the daemon's view, with
    what other programs use and what has failed before; without one it is this machine's.

    The exit status is 0 if the model would be served; else that of the error that a request would get: 6 for no such
    model, 7 for no engine, 8 if it does not fit, 9 for a setting that cannot be used, 12 for a file that is no model.
    """
    facts = _ask(model)
    if as_json:
        show_json(facts)
    else:
        _show(facts)
    error = facts.get("error")
    if isinstance(error, dict):
        if not as_json:
            click.echo(str(error.get("message")), err=True)
        raise SystemExit(exit_for(str(error.get("code"))))


def _ask(model: str) -> JsonObject:
    directories, _ = here()
    client = connect()
    named = find_address(directories).source in {AddressSource.BLAZAR_HOST, AddressSource.OLLAMA_HOST}
    if named or client.is_up():
        return client.post(EXPLAIN, {"model": model}, read_timeout_s=_PATIENCE_S)
    return _explain_here(model)


def _explain_here(model: str) -> JsonObject:
    # The supervisor, which a question to a daemon need not wait for.
    from blazar_budget.probe import probe_memory
    from blazar_supervisor.residency.explaining import explain_alone, explanation_facts
    from blazar_supervisor.residency.planner import ModelPlanner

    directories, layout = here()
    settings = own_settings(directories.config_file)
    with Store(layout) as store:
        row = row_named(store, settings, model)
        if row is None:
            raise ModelNotFound(model=model, near=near_names(model, [known.name for known in store.list_models()]))
        engines = store.list_engines()
        pins = {pin.model: pin for pin in store.list_lane_pins()}
    planner = ModelPlanner(
        models=lambda name: row if name == row.name else None,
        engines=lambda: engines,
        settings=lambda: settings,
        machine=probe_memory,
        pins=pins.get,
    )
    return explanation_facts(asyncio.run(explain_alone(planner, row.name)))


def _show(facts: JsonObject) -> None:
    architecture = f", architecture {facts.get('architecture')}" if facts.get("architecture") else ""
    show_facts(
        [
            ("model", str(facts.get("model"))),
            ("taken for", f"{facts.get('shape')}{architecture}: {facts.get('told_by')}"),
            *([("bound to", str(facts["bound_to"]))] if facts.get("bound_to") else []),
        ]
    )
    click.echo()
    lanes = facts.get("lanes")
    show_table(
        (Column("CHOICE"), Column("ENGINE"), Column("KIND"), Column("WHY")),
        [
            (str(lane.get("place") or "-"), str(lane.get("engine")), str(lane.get("kind")), str(lane.get("reason")))
            for lane in (lanes if isinstance(lanes, list) else [])
        ],
        empty="No engine is installed; `blazar engine add-local PATH` registers one.",
    )
    missing = facts.get("missing_kinds")
    if isinstance(missing, list) and missing:
        click.echo(f"Not installed, though they could serve it: {', '.join(map(str, missing))}.")
    plan = facts.get("plan")
    if isinstance(plan, dict):
        click.echo()
        _show_plan(plan)


def _show_plan(plan: JsonObject) -> None:
    argv = plan.get("argv")
    sleeps = plan.get("sleeps_after_s")
    device = _size(plan, "need_device_bytes")
    warnings = plan.get("warnings")
    show_facts(
        [
            ("engine", str(plan.get("engine"))),
            ("context", f"{plan.get('context_tokens')} tokens, {plan.get('slots')} at a time"),
            ("verdict", str(plan.get("verdict") or "unknown: the machine's memory could not be measured")),
            (
                "memory",
                f"{human_bytes(_size(plan, 'need_host_bytes'))} of the machine, {human_bytes(device)} of devices",
            ),
            ("prompt cache", f"at most {plan.get('prompt_cache_mb')} MiB"),
            ("sleeps", f"after {sleeps} s" if sleeps else "never"),
            *[("warning", str(text)) for text in (warnings if isinstance(warnings, list) else [])],
            ("command", shlex.join(map(str, argv)) if isinstance(argv, list) else ""),
            ("", "and the address and secret of each start"),
        ]
    )


def _size(plan: JsonObject, name: str) -> int:
    value = plan.get(name)
    return value if isinstance(value, int) else 0
