"""Which network addresses are those of the open internet. Pure.

Whatever is fetched for somebody else (a model by name, an image by address) must not read this machine's own network.
"""

from ipaddress import IPv4Address, IPv6Address

_NAT64_PREFIX = int(IPv6Address("64:ff9b::")) >> 32
"""``64:ff9b::/96``, where IPv4 addresses are reached through a translator."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is one of the open internet, also when it is an IPv4 one dressed as IPv6."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return is_public(inner)
        if int(address) >> 32 == _NAT64_PREFIX:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address.is_global and not address.is_multicast
