"""``blazar stop``: unload a model, or stop the daemon."""

import time

import rich_click as click

from blazar_cli.client import HEALTH, SHUTDOWN, DaemonClient
from blazar_cli.commands.options import complete_model, host_option, json_option
from blazar_cli.errors import CliError
from blazar_cli.local import connect
from blazar_cli.output import show_json


@click.command()
@click.argument("model", required=False, shell_complete=complete_model)
@click.option("--daemon", is_flag=True, help="Stop the daemon itself, after the requests in flight.")
@host_option
@json_option
def stop(*, model: str | None, daemon: bool, host: str | None, as_json: bool) -> None:
    """Unload a model, or stop the daemon with --daemon.

    A model's answers in progress are finished first. It is loaded again by the next request.
    """
    if (model is None) == (not daemon):
        raise click.UsageError("name one thing to stop: `blazar stop MODEL`, or `blazar stop --daemon`.")
    client = connect(host)
    if model is None:
        _stop_daemon(client)
        if as_json:
            show_json({"daemon": True, "stopped": True})
        else:
            click.echo("The daemon has stopped.")
        return
    was_loaded = client.unload(model)
    if as_json:
        show_json({"model": model, "stopped": was_loaded})
    else:
        click.echo(f"Unloaded '{model}'." if was_loaded else f"'{model}' was not loaded.")


def _stop_daemon(client: DaemonClient) -> None:
    client.post(SHUTDOWN, {})
    # It answers before it stops; gone is when nobody answers any more. Its own limits bound the wait.
    while True:
        try:
            client.get(HEALTH)
        except CliError:
            return
        time.sleep(0.1)
