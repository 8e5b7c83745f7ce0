"""``blazar ps``: what is loaded."""

import rich_click as click

from blazar_cli.client import JsonObject
from blazar_cli.commands.options import host_option, json_option
from blazar_cli.local import connect
from blazar_cli.output import Column, human_bytes, human_seconds, show_json, show_table

_COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("ENGINE"),
    Column("MEMORY", right=True),
    Column("PROCESSOR"),
    Column("CONTEXT", right=True),
    Column("BUSY", right=True),
    Column("CACHED", right=True),
    Column("UNTIL"),
)


_MEMORY_COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("ESTIMATED", right=True),
    Column("REPORTED", right=True),
    Column("ERROR", right=True),
    Column("ON DEVICES", right=True),
)
_EMPTY = "No model is loaded. A request loads one."


@click.command()
@click.option("--memory", is_flag=True, help="What each load was expected to take, beside what its engine reports.")
@host_option
@json_option
def ps(*, memory: bool, host: str | None, as_json: bool) -> None:
    """List the models that are loaded.

    Nothing is woken or kept loaded by looking. BUSY is requests in progress of those that can be, and how many wait;
    CACHED is how much of the prompts of the last minutes was known already, where the engine says so.
    """
    children = connect(host).residents()
    if as_json:
        show_json(children)
        return
    if memory:
        show_table(_MEMORY_COLUMNS, [_memory_row(child) for child in children], empty=_EMPTY)
    else:
        show_table(_COLUMNS, [_row(child) for child in children], empty=_EMPTY)
    for child in children:
        warnings = child.get("warnings")
        for warning in warnings if isinstance(warnings, list) else []:
            click.echo(f"{child.get('child')}: {warning}", err=True)


def _row(child: JsonObject) -> tuple[str, ...]:
    size, device = _whole(child.get("size")), _whole(child.get("size_vram"))
    waiting = _whole(child.get("waiting"))
    return (
        str(child.get("child")),
        _state(child),
        str(child.get("engine")),
        human_bytes(size) if size else "-",
        _processor(size, device),
        str(child.get("context_length") or "-"),
        f"{_whole(child.get('in_flight'))}/{child.get('slots') or '-'}" + (f" +{waiting}" if waiting else ""),
        _share(child.get("cache_hint")),
        human_seconds(_seconds(child.get("expires_in_s"))),
    )


def _memory_row(child: JsonObject) -> tuple[str, ...]:
    estimated, reported = _whole(child.get("size_estimated")), _whole(child.get("size"))
    known = bool(estimated and reported and child.get("state") in {"ready", "draining"})
    return (
        str(child.get("child")),
        _state(child),
        human_bytes(estimated) if estimated else "-",
        human_bytes(reported) if reported else "-",
        f"{100 * (estimated - reported) / reported:+.1f}%" if known else "-",
        human_bytes(_whole(child.get("size_vram"))),
    )


def _state(child: JsonObject) -> str:
    fraction = child.get("load_fraction")
    state = str(child.get("state"))
    return f"{state} {fraction:.0%}" if state == "starting" and isinstance(fraction, int | float) else state


def _processor(size: int, device: int) -> str:
    if not size:
        return "-"
    percent = round(100 * min(device, size) / size)
    return {0: "CPU", 100: "GPU"}.get(percent, f"{percent}% GPU, {100 - percent}% CPU")


def _share(value: object) -> str:
    return f"{value:.0%}" if isinstance(value, int | float) else "-"


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
