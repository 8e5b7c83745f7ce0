"""Who may call from a web page, and under which host names: pure decisions over header values.

Two attacks are refused. A page of a foreign origin that posts to the gateway of whoever looks at it: its browser
says so in ``Origin``. And DNS rebinding, where the page's own host name is made to point at this machine: then the
page counts as same-origin, but ``Host`` carries that foreign name.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

_LOOPBACK_NAMES = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})
"""Names that cannot be a web page's: the resolver of this machine, or of its containers, owns them."""


class OriginPolicy:
    """What is computed once from the settings, and asked at each request.

    Args:
        allowed_origins: Origins that may call besides this machine's, ``*`` standing for any text.
        allowed_hosts: Host names that are this server's besides its own.
        bind_host: The address listened on.
    """

    def __init__(self, *, allowed_origins: Sequence[str], allowed_hosts: Sequence[str], bind_host: str) -> None:
        self._any_origin = "*" in allowed_origins
        self._origins = tuple(_origin_pattern(origin) for origin in allowed_origins)
        self._any_host = "*" in allowed_hosts
        bound = bind_host.strip("[]").lower()
        names = {name.strip("[]").lower() for name in allowed_hosts} | {bound} | _LOOPBACK_NAMES
        self._any_address = _is_wildcard(bound)
        if self._any_address:
            # Reachable from the network, so also under the name that the network knows this machine by.
            own = socket.gethostname().lower()
            names |= {own, f"{own}.local", own.partition(".")[0]}
        self._names = frozenset(names)
        self._known_hosts: set[str] = set()

    def allows_host(self, host: str) -> bool:
        """Return whether ``host``, a ``Host`` header, means this server. An empty one does (HTTP/1.0)."""
        if host in self._known_hosts or self._any_host:
            return True
        allowed = self._decide_host(host)
        # What is refused is not kept: a stranger chooses it and could fill the memory with it.
        if allowed and len(self._known_hosts) < 64:
            self._known_hosts.add(host)
        return allowed

    def _decide_host(self, host: str) -> bool:
        if not host:
            return True
        name = host_name(host)
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # A page cannot have an address of ours as its own name; what remains is somebody's wrong URL.
        return address.is_loopback or self._any_address

    def allows_origin(self, origin: str, *, host: str) -> bool:
        """Return whether a page of ``origin`` may call; ``host`` is the (allowed) ``Host`` header of the call."""
        if self._any_origin or is_local_origin(origin):
            return True
        if any(pattern.fullmatch(origin) for pattern in self._origins):
            return True
        # A page that this server itself served, under whichever of its names.
        return bool(host) and origin.lower() in {f"http://{host.lower()}", f"https://{host.lower()}"}


@lru_cache(maxsize=256)
def is_local_origin(origin: str) -> bool:
    """Return whether ``origin`` is a page of this machine: http or https, a loopback name, any port."""
    try:
        parts = urlsplit(origin)
        name = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme not in {"http", "https"} or parts.path or parts.query or "@" in parts.netloc:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header: in lower case, without port, brackets and final dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    name, colon, port = host.rpartition(":")
    bare = name if colon and port.isdecimal() and ":" not in name else host
    return bare.lower().removesuffix(".")


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def _origin_pattern(origin: str) -> re.Pattern[str]:
    text = "[^/]*".join(re.escape(piece) for piece in origin.rstrip("/").split("*"))
    return re.compile(text, re.IGNORECASE)
