"""``blazar serve``: the daemon, in the foreground."""

import sys

import rich_click as click

from blazar_cli.errors import check_platform
from blazar_cli.local import find_address, here


@click.command()
@click.option("--host", metavar="ADDRESS", help="Where to listen: HOST or HOST:PORT; 0.0.0.0 is every interface.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes any free one.")
@click.option("--tls-cert", metavar="FILE", help="Serve https with this certificate (PEM); needs --tls-key.")
@click.option("--tls-key", metavar="FILE", help="The certificate's private key (PEM, without a password).")
def serve(*, host: str | None, port: int | None, tls_cert: str | None, tls_key: str | None) -> None:
    """Start the daemon: one address for every model.

    Listens on 127.0.0.1:11435 unless told otherwise, by --host and --port, BLAZAR_HOST, the configuration or
    OLLAMA_HOST. With --tls-cert and --tls-key, or `tls_cert` and `tls_key` in the configuration, it speaks https. Runs
    until Ctrl-C or `blazar stop --daemon`; a second Ctrl-C does not wait for requests in flight.
    """
    check_platform(sys.platform)
    directories, layout = here()
    address = find_address(directories, flag=host, port_flag=port)
    # The daemon's code takes as long to import as most commands take to run.
    from blazar_cli.daemon import run_daemon

    run_daemon(directories, layout, address, tls_cert=tls_cert, tls_key=tls_key)
