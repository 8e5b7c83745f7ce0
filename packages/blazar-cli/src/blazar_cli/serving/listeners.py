"""The sockets a daemon listens on, opened before anything is loaded so that a conflict is cheap and clear."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil

from blazar_cli.address import Address
from blazar_cli.errors import BindConflict, BindRefused

_BACKLOG = 1024


def open_tcp_sockets(address: Address) -> list[socket.socket]:
    """Return listening sockets for the address: one a family that its host resolves to.

    With port 0 every family gets the same free port.

    Raises:
        BindConflict: Another program listens there; the text says which, where the system tells.
        BindRefused: The host is not one of this machine, or the port may not be used.
    """
    opened: list[socket.socket] = []
    port = address.port
    try:
        for family, place in _places(address):
            listener = _listen(family, (place, port), address)
            opened.append(listener)
            port = listener.getsockname()[1]
    except BaseException:
        close_all(opened)
        raise
    return opened


def open_control_socket(path: Path) -> socket.socket:
    """Return the daemon's own listening socket, readable and writable by its owner only.

    The caller owns the data directory, so a socket that is there already is a dead daemon's and is removed.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The mode is right from the first moment: between bind and chmod anybody could connect.
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(mask)
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def close_all(listeners: list[socket.socket]) -> None:
    """Close the sockets; closing twice does nothing."""
    for listener in listeners:
        listener.close()


def _places(address: Address) -> Iterator[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BindRefused(address=_shown(address), reason=f"the name '{address.host}' is not known here") from error
    seen: set[tuple[socket.AddressFamily, str]] = set()
    for family, _, _, _, place in found:
        key = (family, str(place[0]))
        if key not in seen:
            seen.add(key)
            yield key


def _listen(family: socket.AddressFamily, place: tuple[str, int], address: Address) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A daemon that was just stopped leaves connections in TIME_WAIT; the next start must not wait for them.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # "::" means every interface, IPv4 too; any other address means itself.
            only = 0 if place[0] == "::" else 1
            with contextlib.suppress(OSError):
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
        listener.bind(place)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _explain(error, place[1], address) from error
    return listener


def _explain(error: OSError, port: int, address: Address) -> BindConflict | BindRefused:
    match error.errno:
        case errno.EADDRINUSE:
            return BindConflict(address=_shown(address), holder=_who_listens(port))
        case errno.EADDRNOTAVAIL:
            reason = f"{address.host} is not an address of this machine"
        case errno.EACCES | errno.EPERM:
            reason = f"port {port} is reserved for the administrator"
        case _:
            reason = error.strerror or str(error)
    return BindRefused(address=_shown(address), reason=reason)


def _who_listens(port: int) -> str:
    """Return a clause that says who holds the port, as far as this user may know."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr[1] == port
            if listens and connection.pid:
                process = psutil.Process(connection.pid)
                command = " ".join(process.cmdline()[:3]) or process.name()
                return f"process {connection.pid} (`{command}`) listens there already"
    return "another program listens there already"


def _shown(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
