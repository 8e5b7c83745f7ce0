"""What `blazar serve` says when it is up: where it listens, what it can serve, how to ask."""

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from blazar_cli import VERSION
from blazar_cli.address import Address
from blazar_store.types import EngineRow, ModelRow

_NAMES_SHOWN = 5


def banner(
    address: Address, *, models: Sequence[ModelRow], engines: Sequence[EngineRow], log: Path, control_socket: Path
) -> str:
    """Return the text, several lines.

    Args:
        address: As listened on, with the real port.
        models: The rows, newest first.
        engines: The builds, the active one of each kind first.
        log: The daemon's log file.
        control_socket: The daemon's own socket.
    """
    lines = [
        f"Blazar {VERSION} listens on {address.base_url} (pid {os.getpid()})",
        f"  models   {_models(models)}",
        f"  engine   {_engines(engines)}",
        f"  log      {log}",
        f"  control  {control_socket}",
    ]
    if models:
        body = {"model": models[0].name, "messages": [{"role": "user", "content": "Hello"}]}
        lines += [
            f"  ask      blazar run {shlex.quote(models[0].name)}",
            f"           curl {address.base_url}/v1/chat/completions -d {shlex.quote(json.dumps(body))}",
        ]
    return "\n".join(lines)


def open_door_warning(address: Address) -> str:
    """Return what to say when the daemon can be reached from outside and nothing guards it."""
    return (
        f"WARNING: {address.host}:{address.port} can be reached from other machines, and no key is asked for: "
        "whoever can connect can use every model. Make a key with `blazar keys add NAME`, which holds at once, "
        "or listen on 127.0.0.1 (`blazar serve --host 127.0.0.1`)."
    )


def _models(models: Sequence[ModelRow]) -> str:
    if not models:
        return "none yet; add one with `blazar models add PATH`"
    names = ", ".join(row.name for row in models[:_NAMES_SHOWN])
    more = len(models) - _NAMES_SHOWN
    return f"{names} and {more} more" if more > 0 else names


def _engines(engines: Sequence[EngineRow]) -> str:
    active = [row for row in engines if row.active]
    if not active:
        return "none yet; register a llama-server with `blazar engine add-local PATH`"
    return ", ".join(f"{row.tag} ({row.kind}, {row.version or 'unknown version'})" for row in active)
