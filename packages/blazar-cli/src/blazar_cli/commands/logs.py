"""``blazar logs``: the daemon's log or a model's.

On this machine it reads the files, so it works with the daemon down.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import rich_click as click

from blazar_cli.catalogue import row_named
from blazar_cli.client import LOGS
from blazar_cli.commands.options import complete_model, host_option
from blazar_cli.local import connect, here
from blazar_cli.own_settings import settings_to_show_by
from blazar_cli.serving.daemon_log import LogFollower, last_lines
from blazar_routing.errors import ModelNotFound
from blazar_routing.instances import parse_instance
from blazar_store.layout import Layout
from blazar_store.names import near_names
from blazar_store.store import Store

_FOLLOW_S = 0.25
"""Seconds between two looks at a file: without a daemon nobody tells when it grows."""


@click.command()
@click.argument("model", required=False, shell_complete=complete_model)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is added, until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(0), default=100, show_default=True, help="How many of the last.")
@host_option
def logs(*, model: str | None, follow: bool, lines: int, host: str | None) -> None:
    """Show the daemon's log, or a model's.

    MODEL may be one of a model's engines as `ps` lists them, such as m@embed or m#2.
    """
    client = connect(host)
    if client.address.names_a_daemon:
        query = {"lines": lines, "follow": int(follow)} | ({"model": model} if model is not None else {})
        for line in client.lines("GET", f"{LOGS}?{urlencode(query)}"):
            _write(line + b"\n")
        return
    directories, layout = here()
    path = layout.daemon_log if model is None else _model_log(layout, directories.config_file, model)
    follower = LogFollower(path)
    tail = last_lines(path, lines)
    _write(tail)
    if not tail and not follow:
        click.echo(f"{path} is empty or not there: nothing has run yet.", err=True)
    while follow:
        _write(follower.read())
        time.sleep(_FOLLOW_S)


def _model_log(layout: Layout, config_file: Path, model: str) -> Path:
    with Store(layout) as store:
        child = parse_instance(model)
        row = store.find_model(child.model) or row_named(store, settings_to_show_by(config_file), child.model)
        if row is None:
            raise ModelNotFound(model=model, near=near_names(model, [known.name for known in store.list_models()]))
    return layout.child_log(replace(child, model=row.name).key)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
