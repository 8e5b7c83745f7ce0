"""Options that many commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def host_option(command: _Command) -> _Command:
    """Add ``--host``: which daemon to talk to."""
    return click.option(
        "--host",
        "host",
        metavar="ADDRESS",
        help="The daemon to talk to, HOST, HOST:PORT or a URL. Default: BLAZAR_HOST, the configuration, OLLAMA_HOST, "
        "127.0.0.1:11435; the daemon of this data directory is reached through its own socket.",
    )(command)


def complete_model(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the registered models that begin with what is typed; for the shell's completion."""
    del context, parameter
    from blazar_cli.local import here
    from blazar_store.store import Store

    _, layout = here()
    if not layout.database.exists():
        return []
    with Store(layout) as store:
        return [row.name for row in store.list_models() if row.name.startswith(incomplete)]


def json_option(command: _Command) -> _Command:
    """Add ``--json``: the same facts for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON instead of a table.")(command)
