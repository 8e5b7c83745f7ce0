"""``blazar keys``: who may use the gateway. Works on the configuration; a running daemon notices within a second."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import rich_click as click

from blazar_cli.commands.options import complete_model, json_option
from blazar_cli.keys import KeyFile
from blazar_cli.local import here, local_daemon
from blazar_cli.output import Column, show_json, show_table
from blazar_store.env_keys import VARIABLE, parse_env_keys
from blazar_store.settings_keys import KeyEntry
from blazar_store.store import Store

_LIST = (
    Column("NAME"),
    Column("MODELS"),
    Column("RPM", right=True),
    Column("TPM", right=True),
    Column("TOKENS/DAY", right=True),
    Column("AT ONCE", right=True),
    Column("WEIGHT", right=True),
    Column("CLASS"),
    Column("EXPIRES"),
)
_USAGE = (
    Column("DAY"),
    Column("KEY"),
    Column("MODEL"),
    Column("REQUESTS", right=True),
    Column("PROMPT", right=True),
    Column("COMPLETION", right=True),
)
_WHOLE = click.IntRange(min=0)


@click.group()
def keys() -> None:
    """Make, list, remove and rotate API keys; show their usage."""


@keys.command()
@click.argument("name")
@click.option(
    "--model", "models", multiple=True, shell_complete=complete_model, help="A model it may use; repeat for more."
)
@click.option("--rpm", type=_WHOLE, help="Requests per minute.")
@click.option("--tpm", type=_WHOLE, help="Tokens per minute.")
@click.option("--daily-tokens", type=_WHOLE, help="Tokens per UTC day.")
@click.option("--max-concurrent", type=_WHOLE, help="Requests at once.")
@click.option("--weight", type=click.IntRange(min=1), help="Its share when many wait. Default: 1.")
@click.option("--max-priority", type=click.Choice(["high", "normal", "low"]), help="The highest class it may ask for.")
@click.option("--expires", metavar="TIME", help="When it stops to work: 2027-01-31 or 2027-01-31T12:00:00Z.")
@json_option
def add(
    *,
    name: str,
    models: tuple[str, ...],
    rpm: int | None,
    tpm: int | None,
    daily_tokens: int | None,
    max_concurrent: int | None,
    weight: int | None,
    max_priority: str | None,
    expires: str | None,
    as_json: bool,
) -> None:
    """Make a key and show its secret, this once.

    Without --model it may use every model, and manage. The first key closes the gateway: from then on every request
    needs one.
    """
    file = _key_file()
    first = not file.entries()
    secret = file.add(
        {
            "name": name,
            "models": models or None,
            "rpm": rpm,
            "tpm": tpm,
            "daily_tokens": daily_tokens,
            "max_concurrent": max_concurrent,
            "weight": weight,
            "max_priority": max_priority,
            "expires": expires,
        }
    )
    _show_secret(name, secret, as_json=as_json)
    if first:
        click.echo("It is the first key: from now on every request needs one.", err=True)


@keys.command("list", aliases=["ls"])
@json_option
def list_keys(*, as_json: bool) -> None:
    """List the keys and their limits. Secrets are shown nowhere; only their hashes are kept."""
    entries = _key_file().entries()
    if as_json:
        show_json([_plain(entry) for entry in entries])
        return
    rows = [
        (
            entry.name,
            ", ".join(entry.models) or "all",
            *(_limit(value) for value in (entry.rpm, entry.tpm, entry.daily_tokens, entry.max_concurrent)),
            str(entry.weight),
            entry.max_priority,
            "never" if entry.expires is None else entry.expires.strftime("%Y-%m-%d %H:%M UTC"),
        )
        for entry in entries
    ]
    show_table(_LIST, rows, empty="There are no keys: whoever reaches the gateway may use it. `blazar keys add NAME`.")


@keys.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
def remove(*, names: tuple[str, ...], as_json: bool) -> None:
    """Remove keys. The last one stays: without it the gateway would be open to all."""
    file = _key_file()
    for name in names:
        file.remove(name)
        if not as_json:
            click.echo(f"Removed key '{name}'.")
    if as_json:
        show_json([{"name": name, "removed": True} for name in names])


@keys.command()
@click.argument("name")
@json_option
def rotate(*, name: str, as_json: bool) -> None:
    """Give a key another secret and show it, this once; the old one stops to work."""
    _show_secret(name, _key_file().rotate(name), as_json=as_json)


@keys.command()
@click.option("--days", type=click.IntRange(1, 366), default=1, show_default=True, help="How many UTC days back.")
@json_option
def usage(*, days: int, as_json: bool) -> None:
    """Show requests and tokens by day, key and model; days are UTC."""
    rows = _usage(days)
    if as_json:
        show_json(rows)
        return
    names = ("day", "key", "model", "requests", "prompt_tokens", "completion_tokens")
    cells = [tuple(str(row[name]) or "-" for name in names) for row in rows]
    show_table(_USAGE, cells, empty="Nothing was used in that time.")


def _usage(days: int) -> Sequence[dict[str, object]]:
    daemon = local_daemon()
    if daemon is not None:
        # It knows the last seconds too.
        return cast("list[dict[str, object]]", daemon.get(f"/api/usage?days={days}").get("usage"))
    _, layout = here()
    since = (datetime.fromtimestamp(time.time(), UTC) - timedelta(days=days - 1)).strftime("%Y-%m-%d")
    with Store(layout) as store:
        rows = store.usage_since(since)
    names = ("day", "key", "model", "requests", "prompt_tokens", "completion_tokens")
    return [{name: getattr(row, name) for name in names} for row in rows]


def _key_file() -> KeyFile:
    directories, _ = here()
    return KeyFile(directories.config_file, parse_env_keys(os.environ.get(VARIABLE, "")))


def _show_secret(name: str, secret: str, *, as_json: bool) -> None:
    if as_json:
        show_json({"name": name, "key": secret})
        return
    click.echo(secret)
    click.echo(f"This is the secret of key '{name}'. It is not shown again: only its hash is kept.", err=True)


def _plain(entry: KeyEntry) -> dict[str, object]:
    return entry.model_dump(mode="json", exclude={"key", "hash"})


def _limit(value: int | None) -> str:
    return "-" if value is None else str(value)
