"""Without an engine nothing answers: on a terminal the tested one is offered, before the daemon has to refuse."""

import sys
from collections.abc import Callable

import click

from blazar_cli.fetch_progress import fetch_progress
from blazar_cli.local import here, store_for_changes
from blazar_cli.own_settings import own_settings
from blazar_cli.parts import ensure_part
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_supervisor.builds import add_local

NO_ENGINE = (
    "No engine is registered yet. Register a llama-server with `blazar engine add-local PATH`, "
    "or run `blazar demo` to see a tested one at work."
)
_OFFER = "No engine is installed yet. Fetch the tested llama.cpp engine (about 70 MB) and use it?"


def has_engine(layout: Layout) -> bool:
    """Return whether any engine is registered."""
    if not layout.database.exists():
        return False
    with Store(layout) as store:
        return bool(store.list_engines())


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _confirm(question: str) -> bool:
    return click.confirm(question, default=True, err=True)


def offer_engine(ask: Callable[[str], bool] = _confirm, *, is_terminal: Callable[[], bool] = _is_terminal) -> None:
    """Offer the tested engine to a person at a terminal, where none is registered yet; else do nothing.

    Whoever declines, or sits at no terminal, is told by the refusal what to type.

    Args:
        ask: Asks a question and returns whether the answer was yes.
        is_terminal: Returns whether a person is there to be asked.

    Raises:
        PartUnavailable: It was wanted, and cannot be had here.
        NotAnEngine: What was fetched does not run here.
    """
    directories, layout = here()
    if has_engine(layout) or not is_terminal() or not ask(_OFFER):
        return
    index_url = own_settings(directories.config_file).sources.python_index
    with fetch_progress("the engine") as report:
        binary = ensure_part("engine", report, index_url=index_url)
    with store_for_changes(layout) as store:
        row = add_local(store, binary)
    click.echo(f"Registered engine '{row.tag}' ({row.kind} {row.version}): {row.server_path}", err=True)
