"""Which address: where ``serve`` listens and where every other command connects to.

One order for both: the ``--host`` flag, ``BLAZAR_HOST``, ``host`` and ``port`` of ``config.toml``, ``OLLAMA_HOST``,
and last 127.0.0.1:11435. A bare host means our port. A wildcard (``0.0.0.0``, ``::``) is an address to listen on;
it is dialled as loopback and does not count as the name of another machine.

Pure: the environment and the configuration come in as arguments.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from blazar_cli.errors import AddressInvalid

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 11435
_SCHEME_PORTS = {"http": 80, "https": 443}
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # recognised, not bound


class AddressSource(StrEnum):
    """Who named the address."""

    FLAG = "--host"
    BLAZAR_HOST = "BLAZAR_HOST"
    CONFIG = "config.toml"
    OLLAMA_HOST = "OLLAMA_HOST"
    DEFAULT = "the default"


@dataclass(frozen=True, slots=True)
class Address:
    """A place to listen on or to connect to.

    Attributes:
        host: A name or IP address, IPv6 without brackets.
        port: 0 to 65535; 0 only to listen on any free port.
        source: Who named it.
        scheme: ``http`` or ``https``.
        path: A prefix under which the server is reached, ``""`` or ``/prefix``.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    source: AddressSource = AddressSource.DEFAULT
    scheme: str = "http"
    path: str = ""

    @property
    def dial_host(self) -> str:
        """The host to connect to: loopback where the daemon listens on every interface."""
        return _WILDCARDS.get(self.host, self.host)

    @property
    def base_url(self) -> str:
        """The URL that clients put in front of ``/v1``, without a slash at the end."""
        host = f"[{self.dial_host}]" if ":" in self.dial_host else self.dial_host
        default_port = _SCHEME_PORTS[self.scheme] == self.port
        return f"{self.scheme}://{host}{'' if default_port else f':{self.port}'}{self.path}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it means every interface."""
        return self.host in _WILDCARDS

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def names_a_daemon(self) -> bool:
        """Whether somebody asked for the daemon at exactly this address.

        Then the control socket of the local data directory is not tried first: it may be another daemon's.
        """
        explicit = self.source in {AddressSource.FLAG, AddressSource.BLAZAR_HOST, AddressSource.OLLAMA_HOST}
        return explicit and not self.is_wildcard


def resolve_address(
    *,
    flag: str | None = None,
    port_flag: int | None = None,
    environ: Mapping[str, str],
    config_host: str | None = None,
    config_port: int | None = None,
    config_tls: bool = False,
) -> Address:
    """Return the address to use, by the order of this module.

    Args:
        flag: The value of ``--host``, or ``None``.
        port_flag: The value of ``--port``; it replaces the port of whichever address is chosen.
        environ: The process environment.
        config_host: ``host`` of the configuration file if it is written there, else ``None``.
        config_port: ``port`` likewise.
        config_tls: Whether the daemon of this configuration speaks https: then an address of this machine that is
            written without a scheme means https.

    Raises:
        AddressInvalid: The value that decides cannot be read as an address.
    """
    address = _chosen(flag, environ, config_host, config_port)
    if config_tls and (address.is_loopback or address.is_wildcard or address.source is AddressSource.CONFIG):
        written = {AddressSource.FLAG: flag, AddressSource.BLAZAR_HOST: environ.get("BLAZAR_HOST")}
        written[AddressSource.OLLAMA_HOST] = environ.get("OLLAMA_HOST")
        if "://" not in (written.get(address.source) or ""):
            address = replace(address, scheme="https")
    return address if port_flag is None else replace(address, port=port_flag)


def _chosen(flag: str | None, environ: Mapping[str, str], config_host: str | None, config_port: int | None) -> Address:
    if flag is not None:
        return _parse_local(flag, AddressSource.FLAG, config_port)
    if _unquoted(environ.get("BLAZAR_HOST", "")):
        return _parse_local(environ["BLAZAR_HOST"], AddressSource.BLAZAR_HOST, config_port)
    if config_host is not None or config_port is not None:
        address = parse_address(config_host or DEFAULT_HOST, source=AddressSource.CONFIG)
        return address if config_port is None else replace(address, port=config_port)
    if _unquoted(environ.get("OLLAMA_HOST", "")):
        return _parse_local(environ["OLLAMA_HOST"], AddressSource.OLLAMA_HOST, config_port)
    return Address()


def _parse_local(text: str, source: AddressSource, config_port: int | None) -> Address:
    """Read an address; a bare host of this machine means the port that is configured for it."""
    address = parse_address(text, source=source)
    if config_port is None or not (address.is_loopback or address.is_wildcard):
        return address
    return parse_address(text, source=source, our_port=config_port)


def parse_address(text: str, *, source: AddressSource, our_port: int = DEFAULT_PORT) -> Address:
    """Read ``host``, ``host:port``, ``:port``, ``[v6]:port``, a bare IPv6 address, or an http(s) URL.

    Without a scheme a missing port is ours; with one it is the scheme's, as in every URL.

    Args:
        text: What was written.
        source: Where.
        our_port: The port that a bare host means.

    Raises:
        AddressInvalid: It is none of these, or the port is not between 0 and 65535.
    """
    given = _unquoted(text)
    if not given.isprintable():
        raise AddressInvalid(given=given, source=source, reason="it holds invisible characters")
    scheme, separator, rest = given.rpartition("://")
    scheme = scheme.lower() if separator else "http"
    if scheme not in _SCHEME_PORTS:
        raise AddressInvalid(
            given=given, source=source, reason=f"it starts with {scheme}://, not with http:// or https://"
        )
    authority, _, path = rest.partition("/")
    default_port = _SCHEME_PORTS[scheme] if separator else our_port
    host, port = _host_and_port(authority, default_port, given=given, source=source)
    path = f"/{path}".rstrip("/")
    if not re.fullmatch(r"[!-~]*", path):
        raise AddressInvalid(given=given, source=source, reason="its path has characters that a URL writes as %XX")
    return Address(host=host, port=port, source=source, scheme=scheme, path=path)


def _host_and_port(authority: str, default_port: int, *, given: str, source: AddressSource) -> tuple[str, int]:
    if _is_ipv6(authority):
        return authority, default_port
    match = re.fullmatch(r"(?:\[(?P<v6>[^\[\]]*)\]|(?P<name>[^:\[\]\s@?#]*))(?::(?P<port>[^:]*))?", authority)
    if match is None:
        raise AddressInvalid(given=given, source=source, reason="it does not read as HOST, HOST:PORT or a URL")
    host = match["name"] if match["v6"] is None else match["v6"]
    if match["v6"] is not None and not _is_ipv6(host):
        raise AddressInvalid(given=given, source=source, reason=f"'{host}' is not an IPv6 address")
    if not _can_be_looked_up(host):
        raise AddressInvalid(given=given, source=source, reason=f"'{host}' cannot be the name of a machine")
    digits = match["port"]
    if not digits:
        return host or DEFAULT_HOST, default_port
    if not (re.fullmatch(r"0*[0-9]{1,5}", digits) and int(digits[-5:]) <= 65535):
        raise AddressInvalid(given=given, source=source, reason=f"'{digits}' is not a port between 0 and 65535")
    return host or DEFAULT_HOST, int(digits)


def _can_be_looked_up(host: str) -> bool:
    """Whether the resolver takes the name: it raises on parts that are empty or longer than 63 bytes (RFC 1035)."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'").strip()
