"""This machine as a command finds it: directories, store, and the daemon to talk to."""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blazar_cli.address import Address, resolve_address
from blazar_cli.client import DaemonClient
from blazar_cli.errors import CliError
from blazar_store.directories import Directories, find_directories
from blazar_store.files import read_plain_file
from blazar_store.layout import Layout

if TYPE_CHECKING:
    from blazar_store.store import Store


def here() -> tuple[Directories, Layout]:
    """Return the directories of this user, with a loud warning if the current one has to stand in."""
    directories = find_directories(os.environ, platform=sys.platform, cwd=Path.cwd())
    if directories.fallback is not None:
        click.echo(directories.fallback, err=True)
    return directories, Layout(directories.data_dir)


def find_address(directories: Directories, *, flag: str | None = None, port_flag: int | None = None) -> Address:
    """Return the address to listen on or to dial, by the order of ``blazar_cli.address``.

    Only ``host``, ``port`` and whether it speaks https are read from the configuration file, and leniently: a mistake
    elsewhere in it must not keep anybody from asking the running daemon what is wrong.
    """
    settings = _configured(directories.config_file)
    host, port = settings.get("host"), settings.get("port")
    return resolve_address(
        flag=flag,
        port_flag=port_flag,
        environ=os.environ,
        config_host=host if isinstance(host, str) else None,
        config_port=port if isinstance(port, int) else None,
        config_tls=_certificate(settings) is not None,
    )


def _configured(config_file: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(read_plain_file(config_file).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}


def _certificate(settings: Mapping[str, object]) -> Path | None:
    """Return the certificate that the daemon of this configuration shows, if it speaks https."""
    cert = settings.get("tls_cert")
    return Path(cert).expanduser() if isinstance(cert, str) and settings.get("tls_key") else None


def connect(flag: str | None = None) -> DaemonClient:
    """Return the daemon that a command is about; nothing is dialled yet."""
    directories, layout = here()
    address = find_address(directories, flag=flag)
    return DaemonClient(
        address,
        control_socket=layout.find_control_socket(),
        api_key=os.environ.get("BLAZAR_API_KEY") or None,
        own_certificate=_certificate(_configured(directories.config_file)),
    )


@contextmanager
def store_for_changes(layout: Layout) -> "Iterator[Store]":
    """Open the store; a running daemon knows of what was changed in it when the context has ended in order."""
    # Here: a command that only asks the daemon needs no database.
    from blazar_store.store import Store

    with Store(layout) as store:
        yield store
    tell_daemon()


def tell_daemon() -> None:
    """Have the daemon that runs on this user's data directory, if one does, look at what has just been changed."""
    daemon = local_daemon()
    if daemon is not None:
        # It looks by itself within a second, whatever keeps it from answering now.
        with suppress(CliError):
            daemon.refresh()


def local_daemon() -> DaemonClient | None:
    """Return the daemon that owns this user's data directory, or ``None`` when none runs on it."""
    _, layout = here()
    socket = layout.find_control_socket()
    client = None if socket is None else DaemonClient(Address(), control_socket=socket, api_key=None)
    return client if client is not None and client.is_up() else None
