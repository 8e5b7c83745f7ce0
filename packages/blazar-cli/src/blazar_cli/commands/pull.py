"""``blazar pull``: fetch a model by name."""

import shlex

import rich_click as click

from blazar_cli.client import DaemonClient
from blazar_cli.commands.options import host_option, json_option
from blazar_cli.local import connect, here, local_daemon
from blazar_cli.output import Column, human_bytes, show_json, show_table

_COLUMNS = (
    Column("REFERENCE"),
    Column("MODEL"),
    Column("STATUS"),
    Column("DONE", right=True),
    Column("SIZE", right=True),
)


@click.command()
@click.argument("reference", required=False)
@click.option("--list", "listing", is_flag=True, help="List the daemon's pulls instead.")
@click.option("--cancel", is_flag=True, help="Stop the daemon's pull of REFERENCE; what has arrived is kept.")
@host_option
@json_option
def pull(*, reference: str | None, listing: bool, cancel: bool, host: str | None, as_json: bool) -> None:
    """Fetch a model by name.

    REFERENCE is owner/repository of the hub, perhaps with a variant (owner/repository:Q4_K_M), a short name
    (`blazar models search`), or the https address of a .gguf file. Without a variant the best quality that fits this
    machine is taken; `blazar fit owner/repository` lists them. A directory of safetensors is the variant
    `safetensors`. Running the command again goes on where it stopped.
    """
    client = _daemon(host)
    if listing:
        _list(client, as_json=as_json)
        return
    if not reference:
        raise click.UsageError("name what to pull: owner/repository, owner/repository:QUANT, or a short name.")
    from blazar_cli.pull_client import PULL, pull_here, pull_through

    if cancel:
        stopped = client is not None and bool(client.post(f"{PULL}/cancel", {"model": reference}).get("cancelled"))
        click.echo(f"Cancelled the pull of {reference}." if stopped else f"No pull of {reference} is in progress.")
        return
    name = pull_here(reference) if client is None else pull_through(client, reference)
    if as_json:
        show_json({"reference": reference, "model": name})
        return
    click.echo(f"Pulled '{name}'. {_next_step(name, client)}")


def _daemon(host: str | None) -> DaemonClient | None:
    """Return the daemon that was asked for, else the one of this data directory, or ``None`` when that is down."""
    named = connect(host)
    return named if named.address.names_a_daemon else local_daemon()


def _list(client: DaemonClient | None, *, as_json: bool) -> None:
    from blazar_cli.pull_client import PULL

    listed = [] if client is None else client.get(PULL).get("pulls")
    pulls = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if as_json:
        show_json(pulls)
        return
    cells = [
        (
            str(one.get("reference")),
            str(one.get("model") or "-"),
            str(one.get("status")),
            human_bytes(int(one.get("completed") or 0)),
            human_bytes(int(one.get("total") or 0)),
        )
        for one in pulls
    ]
    show_table(_COLUMNS, cells, empty="Nothing is being pulled. Begin with `blazar pull owner/repository`.")


def _next_step(name: str, client: DaemonClient | None) -> str:
    ask = f"`blazar run {shlex.quote(name)}`"
    if client is None or not client.address.names_a_daemon:
        from blazar_cli.engine_offer import NO_ENGINE, has_engine, offer_engine

        offer_engine()
        if not has_engine(here()[1]):
            return NO_ENGINE
    return (
        f"Ask it with {ask}." if client is not None else f"Start the daemon with `blazar serve`, then ask with {ask}."
    )
