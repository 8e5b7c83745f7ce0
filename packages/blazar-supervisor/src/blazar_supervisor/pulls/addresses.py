"""Where a download may go. Pure.

A pull is a way in: a name or a redirect that points into the private network would let a stranger read it through
us. So, apart from hosts that the owner configured, every address that is connected to must be a public one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from blazar_routing.addresses import is_public


class ForbiddenAddress(Exception):
    """The download would go where it may not; ``str()`` says where and why."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which hosts are trusted.

    Attributes:
        trusted: Hosts (with port, ``127.0.0.1:8080``) of the base addresses that the owner configured: they may be
            private and plain http.
    """

    trusted: frozenset[str] = frozenset()

    @classmethod
    def of_sources(cls, base_urls: Collection[str]) -> "AddressPolicy":
        """Return the policy that trusts the hosts of these addresses."""
        return cls(frozenset(host_and_port(url) for url in base_urls if url))

    def trusts(self, url: str) -> bool:
        """Return whether the owner configured the host of ``url``."""
        return host_and_port(url) in self.trusted

    def check_url(self, url: str) -> None:
        """Do nothing if ``url`` may be asked, as far as its text tells.

        Raises:
            ForbiddenAddress: It is not https, has no host, carries a password, or names a private address.
        """
        parts = urlsplit(url)
        if parts.scheme.lower() not in {"http", "https"} or not parts.hostname:
            raise ForbiddenAddress(f"{url} is not an http address")
        if self.trusts(url):
            return
        if parts.scheme.lower() != "https":
            raise ForbiddenAddress(f"{url} is not https; add its base address to [sources] if you trust it")
        if parts.username is not None:
            raise ForbiddenAddress(f"{parts.hostname} was given with a user name, which is not sent")
        try:
            literal = ip_address(parts.hostname)
        except ValueError:
            # `2130706433` and `127.1` are no addresses here, but they are to the system's connect().
            if parts.hostname.replace(".", "").isdigit():
                raise ForbiddenAddress(f"{parts.hostname} is not a way to write an address") from None
            return
        self.check_address(url, literal)

    def check_address(self, url: str, address: IPv4Address | IPv6Address) -> None:
        """Do nothing if the address that ``url`` leads to may be connected to.

        Raises:
            ForbiddenAddress: It is not a public one and the host is not trusted.
        """
        if not self.trusts(url) and not is_public(address):
            host = urlsplit(url).hostname
            raise ForbiddenAddress(
                f"{host} is at {address}, which is not a public address; "
                "add its base address to [sources] if you trust it"
            )


def host_and_port(url: str) -> str:
    """Return ``host:port`` of an address, the default port filled in, in lower case."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
    return f"{(parts.hostname or '').lower()}:{port}"
