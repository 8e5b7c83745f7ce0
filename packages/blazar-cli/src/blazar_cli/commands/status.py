"""``blazar status``: how the daemon does."""

import json

import rich_click as click

from blazar_cli.client import STATUS
from blazar_cli.commands.options import host_option, json_option
from blazar_cli.local import connect
from blazar_cli.output import human_bytes, human_seconds, show_facts, show_json


@click.command()
@host_option
@json_option
def status(*, host: str | None, as_json: bool) -> None:
    """Show how the daemon does."""
    facts = connect(host).get(STATUS)
    if as_json:
        show_json(facts)
        return
    lag = facts.get("loop_lag")
    shown = [
        ("state", f"{facts.get('state')}, version {facts.get('version')}, pid {facts.get('pid')}"),
        ("up for", human_seconds(_number(facts.get("uptime_s")))),
        ("address", f"{facts.get('address')}{_source(facts.get('address_source'))}"),
        *_environment(facts.get("environment")),
        ("data", str(facts.get("data_dir"))),
        ("configuration", str(facts.get("config_file"))),
        ("log", str(facts.get("log"))),
        ("models", f"{facts.get('models')} registered, {facts.get('loaded')} loaded (`blazar ps` lists them)"),
        ("engines", _engines(facts.get("engines"))),
        ("memory", f"{human_bytes(int(_number(facts.get('memory_bytes'))))} of its own"),
        ("loop lag", f"{lag.get('worst_ms')} ms at worst in the last minute" if isinstance(lag, dict) else "-"),
    ]
    shown += [("preload", line) for line in _preloads(facts.get("preload"))]
    for name, key in (("configuration error", "config_error"), ("store error", "store_error")):
        if facts.get(key):
            shown.append((name, str(facts[key])))
    conflicts = facts.get("alias_conflicts")
    shown += [("alias", str(sentence)) for sentence in conflicts] if isinstance(conflicts, list) else []
    show_facts(shown)


def _source(value: object) -> str:
    return "" if value in {None, "the default"} else f" (from {value})"


def _environment(value: object) -> list[tuple[str, str]]:
    """Return a line for each variable of Ollama's that the daemon was started with."""
    found = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    return [
        (
            "environment",
            f"{one.get('variable')}={one.get('text')}: {one.get('setting')} = {json.dumps(one.get('value'))}"
            f"{'' if one.get('holds') else ', but config.toml says otherwise'}",
        )
        for one in found
    ]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _preloads(value: object) -> list[str]:
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    return [f"{row.get('model')}: {row.get('error') or row.get('state')}" for row in rows]


def _engines(value: object) -> str:
    rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    names = [f"{row.get('tag')} ({row.get('kind')}{', active' if row.get('active') else ''})" for row in rows]
    return ", ".join(names) or "none; register one with `blazar engine add-local PATH`"
