"""Where a child listens."""

import contextlib
import socket
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a child.

    Attributes:
        base_url: Scheme, host and port, without a slash at the end.
        socket_path: The unix socket to connect to (the URL's host means nothing then), or ``None`` for TCP.
        port: The TCP port, or ``None``.
    """

    base_url: str
    socket_path: Path | None = None
    port: int | None = None


def tcp_endpoint(port: int) -> Endpoint:
    """Return the endpoint of a child that listens on the loopback interface."""
    return Endpoint(base_url=f"http://{LOOPBACK}:{port}", port=port)


def unix_endpoint(path: Path) -> Endpoint:
    """Return the endpoint of a child that listens on a unix socket."""
    return Endpoint(base_url="http://localhost", socket_path=path)


def find_free_port() -> int:
    """Return a loopback port that nobody listens on at this moment.

    Another process may take it before the child binds; the caller retries when the child says so.
    """
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
